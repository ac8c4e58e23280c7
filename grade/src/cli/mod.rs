//! The commands: a file for each, and what they share.

pub mod class;
pub mod clinic;
mod compiler;
pub mod grading;
pub mod hint;
pub mod next;
pub mod profile;
pub mod reset;
pub mod roofline;
mod run;
mod seed;
mod starters;
mod store;
pub mod story;
mod submission;
pub mod tune;
pub mod warm_up;
pub mod watch;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use grade::report::{self, Points};
use grade::tasks::{TASKS, Task, select};
use grade::verdict::TaskGrade;

/// The root of the checkout that this program was built in.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The folder of the exercises.
pub fn exercises() -> PathBuf {
    root().join("exercises")
}

/// The files that a learner writes for a task.
pub fn files_of(task: &Task) -> Vec<PathBuf> {
    let folder = exercises().join(task.folder());
    task.files.iter().map(|file| folder.join(file)).collect()
}

/// A path as it is shown: from the root of the checkout.
pub fn shown(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.display().to_string()
}

/// The tasks that words name: a stage, as in `4`, a task, as in `softmax` or `3/flash`, or a step. All, if there are no words.
///
/// # Errors
///
/// A word that names none.
pub fn selection(words: &[String]) -> anyhow::Result<Vec<&'static Task>> {
    if words.is_empty() {
        return Ok(TASKS.iter().collect());
    }
    let mut names = Vec::new();
    for word in words {
        let selected = match word.parse() {
            Ok(stage) => select(Some(stage), None)?,
            Err(_) => select(None, Some(word))?,
        };
        names.extend(selected.into_iter().map(Task::name));
    }
    let selected = |task: &&Task| names.contains(&task.name());
    Ok(TASKS.iter().filter(selected).collect())
}

/// The one task that a word names, in its steps.
///
/// # Errors
///
/// A word that names none, or several.
pub fn steps(word: &str) -> anyhow::Result<Vec<&'static Task>> {
    let tasks = selection(&[word.to_owned()])?;
    if tasks.iter().all(|task| task.shares_files(tasks[0])) {
        return Ok(tasks);
    }
    let names: Vec<String> = tasks.into_iter().map(Task::name).collect();
    anyhow::bail!("`{word}` is several tasks: {}", names.join(", "))
}

/// The one task that a word names; of several steps the one that is to be worked at.
///
/// # Errors
///
/// Those of [`steps`].
pub fn one(word: &str) -> anyhow::Result<&'static Task> {
    Ok(first_open(&steps(word)?))
}

/// The task to work at, of some, by what they had when they were last graded; if all had full marks, the last. A file that was saved
/// since does not lead back to the first step.
pub fn first_open(tasks: &[&'static Task]) -> &'static Task {
    let had = |task, what: fn(&TaskGrade) -> bool| store::last(task).is_some_and(|it| what(&it));
    let open = report::first_open(
        tasks.iter().copied(),
        |task| had(task, Points::is_full),
        |task| had(task, Points::is_right),
        Task::shares_files,
    );
    open.or(tasks.last().copied())
        .expect("a selection has a task")
}

/// The tasks in the order in which they are done: bonus tasks last.
pub fn in_order() -> impl Iterator<Item = &'static Task> {
    let tasks = |bonus| TASKS.iter().filter(move |task| task.bonus == bonus);
    tasks(false).chain(tasks(true))
}

/// Writes to standard output. A reader that has gone away, as in `… | head`, is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let written = io::stdout().write_all(text.as_bytes());
    match written.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Writes a report to a file.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Asks a question on the terminal. `None`: nobody is there to answer.
pub fn ask(question: &str) -> anyhow::Result<Option<bool>> {
    if !console::user_attended() || !console::user_attended_stderr() {
        return Ok(None);
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim(), "y" | "Y" | "yes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> anyhow::Result<Vec<String>> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Ok(selection(&words)?.into_iter().map(Task::name).collect())
    }

    #[test]
    fn words_are_stages_and_tasks() {
        assert_eq!(names(&[]).unwrap().len(), TASKS.len());
        assert_eq!(
            names(&["3/flash/ragged", "2/softmax", "1", "mha"]).unwrap(),
            ["1/mha", "2/softmax", "3/flash/ragged"]
        );
        assert_eq!(names(&["4/flash"]).unwrap().len(), 4);
        assert!(names(&["7"]).unwrap_err().to_string().contains("1 to 6"));
        assert!(
            names(&["sofmax"])
                .unwrap_err()
                .to_string()
                .contains("2/softmax")
        );
        let error = one("flash").unwrap_err().to_string();
        assert!(error.starts_with("`flash` is several tasks: 3/flash/online, "));
        assert!(one("4/flash").unwrap().is_called("4/flash"));
    }
}
