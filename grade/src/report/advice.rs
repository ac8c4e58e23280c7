//! The next step of a learner.

use super::{Points, open_of};
use crate::tasks::{TASKS, Task};
use crate::verdict::{Grade, TaskGrade};

/// The task to work at, and the commands that help with it. Bonus tasks come last.
pub fn advice(grade: &Grade) -> String {
    let open = |bonus: bool| open_of(grade.tasks.iter().filter(|task| task.bonus == bonus));
    let task = open(false).or_else(|| open(true)).and_then(task_of);
    match task {
        Some(task) => next(task) + &slow(grade),
        None if grade.tasks.len() == TASKS.len() => {
            "All tasks have full marks. `cargo grade --results Results.md` writes the figures of the assignment.\n"
                .to_owned()
        }
        None => "Full marks. `cargo grade next` finds the next task.\n".to_owned(),
    }
}

/// The files to open, and the commands that help.
pub fn next(task: &Task) -> String {
    let name = task.name();
    let files: Vec<String> = task
        .files
        .iter()
        .map(|file| format!("exercises/{}/{file}", task.folder()))
        .collect();
    format!(
        "Next: {name}, {title}\n  write    {files}\n  then     cargo grade watch {name}   grades it at every save\n  \
         stuck?   cargo grade hint {name}\n",
        title = task.title,
        files = files.join("\n           "),
    )
}

/// The command that shows why the first task is slow that lacks nothing but speed; nothing if it runs no kernel of the learner's.
fn slow(grade: &Grade) -> String {
    let lacks_speed = |task: &&TaskGrade| Points::is_right(task) && !Points::is_full(task);
    let slow = grade.tasks.iter().filter(lacks_speed).filter_map(task_of);
    let mut of_kernels = slow.filter(|task| !task.tunes() && task.kernels().next().is_some());
    of_kernels.next().map_or(String::new(), |task| {
        let name = task.name();
        format!("  slow?    cargo grade profile {name}   shows the lines\n")
    })
}

fn task_of(graded: &TaskGrade) -> Option<&'static Task> {
    let mut tasks = TASKS.iter();
    tasks.find(|task| task.stage == graded.stage && task.id == graded.task)
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use crate::verdict::Kind;

    #[test]
    fn behind_a_step_comes_the_next() {
        let mut grade = example::grade();
        grade.tasks.truncate(2);
        for (task, step) in grade.tasks.iter_mut().zip(["flash/tile", "flash/online"]) {
            (task.stage, task.task) = (4, step.to_owned());
        }
        let said = advice(&grade);
        assert!(said.starts_with("Next: 4/flash/online, "), "{said}");
        assert!(said.contains("cargo grade watch 4/flash/online"), "{said}");
    }

    #[test]
    fn a_slow_step_does_not_keep_from_the_next() {
        let mut grade = example::grade();
        let slow = grade.tasks.iter().position(|task| task.task == "flash");
        let mut slow = grade.tasks.remove(slow.unwrap());
        for criterion in &mut slow.criteria {
            criterion.share = if criterion.kind == Kind::Fast {
                0.9
            } else {
                1.0
            };
        }
        let mut wrong = slow.clone();
        (slow.task, wrong.task) = ("flash/tile".to_owned(), "flash/online".to_owned());
        wrong.criteria[0].share = 0.0;
        grade.tasks = vec![slow, wrong];
        let said = advice(&grade);
        assert!(said.starts_with("Next: 4/flash/online, "), "{said}");
        let profile = "\n  slow?    cargo grade profile 4/flash/tile   shows the lines\n";
        assert!(said.ends_with(profile), "{said}");
        grade.tasks.truncate(1);
        assert!(advice(&grade).starts_with("Next: 4/flash/tile, "));
        grade.tasks[0].criteria[1].share = 0.0;
        assert!(!advice(&grade).contains("slow?"));
    }

    #[test]
    fn the_first_open_task_is_next_and_a_bonus_comes_last() {
        let mut grade = example::grade();
        assert!(advice(&grade).starts_with("Next: 2/softmax, "));
        assert!(advice(&grade).contains("exercises/stage2/kernels/softmax.cu"));
        for task in &mut grade.tasks {
            if !task.bonus {
                task.score = task.points;
            }
        }
        assert!(advice(&grade).starts_with("Next: 5/split, "));
        grade.tasks.retain(|task| !task.bonus);
        assert!(advice(&grade).starts_with("Full marks."));
    }
}
