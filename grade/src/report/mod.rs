//! Reports: a grade in the formats that people and programs read. Each is a pure function of a [`Grade`].
//!
//! - [`terminal`]: the table and the faults, at most 100 columns wide.
//! - [`markdown`]: `Results.md`, with the [`figures`] that the assignment asks for.
//! - [`json`]: all of it, for programs; `schema/grade.json` describes the form.
//! - [`html`]: one page, with the [`roofline`].
//! - [`gradescope`]: Gradescope's `results.json`.
//!
//! All of them count with [`Points`], so that their totals agree.

mod advice;
pub mod figures;
pub mod gradescope;
mod groups;
pub mod html;
pub mod json;
pub mod markdown;
mod order;
mod points;
pub mod roofline;
pub mod story;
pub mod terminal;
mod text;

pub use advice::advice;
pub use order::first_open;
pub use points::Points;
pub use text::plain;

use crate::cause::Cause;
use crate::verdict::{Criterion, Grade, Kind, Subject, TaskGrade};

/// The one of these tasks that is to be worked at.
fn open_of<'a>(tasks: impl IntoIterator<Item = &'a TaskGrade>) -> Option<&'a TaskGrade> {
    first_open(tasks, Points::is_full, Points::is_right, are_steps)
}

/// The unique name of a task, `2/softmax`.
pub fn name(task: &TaskGrade) -> String {
    format!("{}/{}", task.stage, task.task)
}

/// True if both are steps of one task.
fn are_steps(a: &TaskGrade, b: &TaskGrade) -> bool {
    let task = |it: &TaskGrade| Some((it.stage, it.task.split_once('/')?.0.to_owned()));
    task(a).is_some() && task(a) == task(b)
}

/// The name of a task in a table: `2 softmax`, with a mark if it is a bonus.
fn row_name(task: &TaskGrade) -> String {
    let bonus = if task.bonus { " (bonus)" } else { "" };
    format!("{} {}{bonus}", task.stage, task.task)
}

fn criterion(task: &TaskGrade, kind: Kind) -> Option<&Criterion> {
    let mut criteria = task.criteria.iter();
    criteria.find(|criterion| criterion.kind == kind && criterion.run > 0)
}

/// A criterion in a table: the checks that passed, or the time as a multiple of the solution's; `-` if it was not judged.
fn cell(task: &TaskGrade, kind: Kind) -> String {
    match (criterion(task, kind), &task.work) {
        (None, _) => "-".to_owned(),
        (Some(_), Some(work)) if kind == Kind::Fast && work.reference > 0.0 => {
            format!("{:.2} ×", work.yours / work.reference)
        }
        (Some(criterion), _) => format!("{}/{}", criterion.passed, criterion.run),
    }
}

/// The seed, if it may be shown.
fn seed(grade: &Grade) -> String {
    match grade.seed {
        Some(seed) => seed.to_string(),
        None => "secret".to_owned(),
    }
}

/// True if a task is more than the starter; if not, the headline says what to write, and the findings nothing more.
fn is_begun(task: &TaskGrade) -> bool {
    let first = task.findings.first();
    first.is_none_or(|finding| finding.cause != Some(Cause::NotBegun))
}

/// The points earned of those that can be, and the bonus beside them: `5.00 of 7`, `20.00 of 20 + 1.00 bonus`. Bonus tasks alone are
/// `1.00 bonus`.
fn total(grade: &Grade) -> String {
    let [counted, bonus] = Points::counted_and_bonus(grade);
    let of = format!("{counted} of {:#}", Points::full(grade));
    match (is_bonus_alone(grade), bonus > Points::new(0.0)) {
        (true, _) => format!("{bonus} bonus"),
        (false, true) => format!("{of} + {bonus} bonus"),
        (false, false) => of,
    }
}

fn is_bonus_alone(grade: &Grade) -> bool {
    grade.tasks.iter().all(|task| task.bonus)
}

/// Why checks that passed earn nothing, if a criterion of these tasks has such checks.
fn all_or_none(tasks: &[TaskGrade]) -> Option<&'static str> {
    let mut criteria = tasks.iter().flat_map(|task| &task.criteria);
    let earns_nothing = |criterion: &Criterion| criterion.share == 0.0 && criterion.passed > 0;
    criteria.any(earns_nothing).then_some(
        "One failed problem costs all of correct or robust; a fault, leak or differing result all of clean.",
    )
}

fn subject(grade: &Grade) -> &'static str {
    match grade.subject {
        Subject::Learner => "the learner's code",
        Subject::Solution => "the solution",
    }
}

#[cfg(test)]
mod example;
#[cfg(test)]
mod schemas;
