//! Whose code told a story, for the terminal.

use crate::story::{Story, tasks};
use crate::tasks::Task;
use crate::verdict::Subject;

/// A line for each task whose code ran, and what is left to be written.
pub fn render(story: &Story) -> String {
    let mut text = String::new();
    for task in tasks() {
        let name = without_step(task);
        let whose = match (story.subject, story.unwritten.contains(&task)) {
            (Subject::Learner, false) => "yours",
            _ => "the solution's",
        };
        text += &format!("{name:16}{whose:16}{}\n", ran(story, task));
    }
    let given = story
        .launches
        .iter()
        .filter(|(file, _)| !file.starts_with("exercises/"));
    let given: usize = given.map(|(_, launches)| launches).sum();
    text += &format!("{:16}{:16}{given} launches\n", "the rest", "given");
    text += &match story.differs {
        None => format!(
            "All {} tokens are those that the course's own decoder chooses.\n",
            story.tokens.len()
        ),
        Some(place) => format!(
            "From token {} on, the course's own decoder chooses other tokens. Two tokens may be almost as likely; more often a task is \
             wrong:\n  cargo grade 4/flash 5 6\n",
            place + 1
        ),
    };
    if !story.unwritten.is_empty() {
        text += "Not yet written:\n";
        for task in &story.unwritten {
            let name = without_step(task);
            text += &format!("  {name:16}cargo grade watch {name}\n");
        }
    }
    text
}

/// The kernels of a task and their launches, or its files on the host.
fn ran(story: &Story, task: &Task) -> String {
    let path = |file: &str| format!("exercises/{}/{file}", task.folder());
    match task.kernels().next() {
        Some(kernel) => {
            let launches = story.launches.get(&path(kernel)).unwrap_or(&0);
            format!("{launches} launches of {}", path(kernel))
        }
        None => path(task.files[0]),
    }
}

/// `4/flash` of its step `4/flash/causal`.
fn without_step(task: &Task) -> String {
    let id = task.id.split('/').next().unwrap_or(task.id);
    format!("{}/{id}", task.stage)
}
