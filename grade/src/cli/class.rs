//! `class`: grades every submission of a folder, and writes a table of their points.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;
use grade::grade::{SEED, Settings};
use grade::report::{Points, html, json};
use grade::tasks::Task;
use grade::verdict::Grade;

use super::grading::{peaks, seed};
use super::run::run as grade_tasks;
use super::submission::{claim, submitted};
use super::{print, selection, write};

/// The flags of `class`.
#[derive(Args)]
pub struct Arguments {
    /// A folder with a folder for each submission: a checkout, or the content of its folder exercises/.
    submissions: PathBuf,

    /// What to grade: a stage, as in 4, or a task, as in softmax or 3/flash; everything if not given.
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,

    /// Write grades.csv to this folder, and NAME.json and NAME.html for each submission.
    #[arg(long, value_name = "FOLDER")]
    reports: PathBuf,

    /// Seed of the random problems: a number, or `random`.
    #[arg(long, value_name = "N", default_value_t = SEED, value_parser = seed)]
    seed: u64,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Grades one submission after the other. One that cannot be graded has the reason in the table, and does not stop the others. The
/// table is written after each of them. The exit status tells whether all could be graded.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tasks = selection(&arguments.tasks)?;
    let submissions = submissions(&arguments.submissions)?;
    let reports = &arguments.reports;
    fs::create_dir_all(reports).with_context(|| reports.display().to_string())?;
    let file = reports.join("grades.csv");
    let mut table = header(&tasks);
    print(&table)?;
    let mut all_graded = true;
    for (i, submission) in submissions.iter().enumerate() {
        let name = submission.file_name().unwrap_or_default().to_string_lossy();
        eprintln!("{} of {}: {name}", i + 1, submissions.len());
        let row = match graded(submission, &tasks, arguments) {
            Ok(grade) => points(&name, &grade),
            Err(error) => {
                all_graded = false;
                not_graded(&name, tasks.len(), &format!("{error:#}"))
            }
        };
        print(&row)?;
        table += &row;
        write(&file, &table)?;
    }
    Ok(match all_graded {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What lies in the folder, by name, without hidden files.
fn submissions(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = || folder.display().to_string();
    let mut submissions = Vec::new();
    for entry in fs::read_dir(folder).with_context(shown)? {
        let entry = entry.with_context(shown)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            submissions.push(entry.path());
        }
    }
    ensure!(!submissions.is_empty(), "{} is empty", folder.display());
    submissions.sort();
    Ok(submissions)
}

/// Grades a submission, and writes its reports.
fn graded(
    submission: &Path,
    tasks: &[&'static Task],
    arguments: &Arguments,
) -> anyhow::Result<Grade> {
    ensure!(submission.is_dir(), "it is no folder: unpack it first");
    let places = submitted(submission)?;
    let _held = claim(&places)?;
    let settings = Settings {
        seed: arguments.seed,
        ..Settings::new(places)
    };
    let grade = grade_tasks(&settings, tasks, arguments.yes)?;
    let report = |ending: &str| {
        let mut name = submission.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        arguments.reports.join(name)
    };
    write(&report(".json"), &json::render(&grade))?;
    write(&report(".html"), &html::render(&grade, &peaks()?)?)?;
    Ok(grade)
}

fn header(tasks: &[&Task]) -> String {
    let tasks = tasks.iter().map(|task| task.name());
    let cells = ["submission".to_owned()].into_iter().chain(tasks);
    line(cells.chain(["total", "note"].map(str::to_owned)))
}

/// The row of a submission that was graded. A point is a point of the table that learners see.
fn points(name: &str, grade: &Grade) -> String {
    let tasks = grade
        .tasks
        .iter()
        .map(|task| Points::earned(task).to_string());
    let total = [Points::total(grade).to_string(), String::new()];
    line([name.to_owned()].into_iter().chain(tasks).chain(total))
}

/// The row of one that was not.
fn not_graded(name: &str, tasks: usize, why: &str) -> String {
    let empty = vec![String::new(); tasks + 1];
    line(
        [name.to_owned()]
            .into_iter()
            .chain(empty)
            .chain([why.to_owned()]),
    )
}

/// A line of a CSV file, as RFC 4180 has it.
fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_the_table_is_quoted_where_it_must_be() {
        let cells = ["Zoë", "a, b", "\"c\"", "d\ne", ""].map(str::to_owned);
        let expected = "Zoë,\"a, b\",\"\"\"c\"\"\",\"d\ne\",\n";
        assert_eq!(line(cells.into_iter()), expected);
    }
}
