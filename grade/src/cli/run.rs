//! Grades tasks, with a progress bar.

use std::time::Duration;

use grade::grade::{Settings, Step, grade};
use grade::places::Places;
use grade::tasks::Task;
use grade::verdict::Grade;
use indicatif::{ProgressBar, ProgressStyle};

use super::{compiler, root, store};

/// The default settings for the learner's exercises.
pub fn usual() -> Settings {
    Settings::new(Places::learner(root()))
}

/// Grades the learner's exercises by settings like the usual ones, and keeps the results for `next` and `watch`.
///
/// # Errors
///
/// Those of [`run`]; a result cannot be written.
pub fn run_and_keep(
    settings: &Settings,
    tasks: &[&'static Task],
    yes: bool,
) -> anyhow::Result<Grade> {
    // A file that is saved while a task is graded makes its result stale.
    let before = tasks.iter().map(|task| store::fingerprint(task));
    let before: Vec<u64> = before.collect();
    let grade = run(settings, tasks, yes)?;
    for (fingerprint, result) in before.into_iter().zip(&grade.tasks) {
        store::keep(fingerprint, result)?;
    }
    Ok(grade)
}

/// Grades tasks.
///
/// # Errors
///
/// The grader itself cannot work. What is wrong with the learner's code is in the result.
pub fn run(settings: &Settings, tasks: &[&'static Task], yes: bool) -> anyhow::Result<Grade> {
    compiler::ensure_compiler(&settings.places, tasks, yes)?;
    let bar = Bar::new(tasks.len());
    Ok(grade(settings, tasks, |step| bar.show(step))?)
}

/// A bar on a terminal, a line for each task elsewhere; both on standard error.
struct Bar(ProgressBar);

impl Bar {
    fn new(tasks: usize) -> Self {
        let bar = ProgressBar::new(tasks as u64);
        let style =
            ProgressStyle::with_template("{spinner} {bar:20} {pos}/{len} {msg} ({elapsed})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    fn show(&self, step: Step<'_>) {
        match step {
            Step::Begun(task) if self.0.is_hidden() => {
                eprintln!("{}: {}", task.name(), task.title);
            }
            Step::Begun(task) => self.0.set_message(task.name()),
            Step::Building(task) => self.0.set_message(format!("{}: building", task.name())),
            Step::Judging(task, kind) => self.0.set_message(format!("{}: {kind}", task.name())),
            Step::Graded(_) => self.0.inc(1),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
