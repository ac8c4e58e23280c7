//! `class`: grades every submission of a folder, and writes a table of their points.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;
use grade::grade::Settings;
use grade::report::{Points, html, json, plain};
use grade::tasks::Task;
use grade::verdict::Grade;

use super::compiler::require_compiler;
use super::grading::peaks;
use super::run::run as grade_tasks;
use super::seed::Seed;
use super::submission::{claim, submitted};
use super::{print, selection, write};

/// The flags of `class`.
#[derive(Args)]
pub struct Arguments {
    /// A folder with a folder for each submission: a checkout, or the content of its folder exercises/.
    submissions: PathBuf,

    /// What to grade: a stage, as in 4, or a task, as in softmax or 3/flash, or a step; everything if not given.
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,

    /// Write grades.csv to this folder, and NAME.json and NAME.html for each submission.
    #[arg(long, value_name = "FOLDER")]
    reports: PathBuf,

    #[command(flatten)]
    seed: Seed,

    /// Do not ask before the compiler of kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Grades one submission after the other. One that cannot be graded has the reason in the table, and does not stop the others. The
/// table is written after each of them, and takes the place of an earlier one at the end. The exit status tells whether all could
/// be graded.
///
/// # Errors
///
/// A folder that cannot be read or written; kernels among the tasks, and no compiler.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tasks = selection(&arguments.tasks)?;
    let seed = arguments.seed.chosen()?;
    let reports = &arguments.reports;
    fs::create_dir_all(reports).with_context(|| reports.display().to_string())?;
    let submissions = submissions(&arguments.submissions, reports)?;
    if tasks.iter().any(|task| task.has_kernels()) {
        require_compiler(arguments.yes)?;
    }
    let unfinished = reports.join("grades.csv.unfinished");
    let mut table = header(&tasks);
    print(&table)?;
    let mut all_graded = true;
    for (i, submission) in submissions.iter().enumerate() {
        let name = submission.file_name().unwrap_or_default();
        let shown = name.to_string_lossy();
        eprintln!("{} of {}: {}", i + 1, submissions.len(), plain(&shown));
        let row = match graded(submission, name, &tasks, arguments, seed) {
            Ok(grade) => {
                all_graded &= grade.tasks.iter().all(|task| task.not_graded.is_none());
                points(&shown, &grade)
            }
            Err(error) => {
                all_graded = false;
                not_graded(&shown, tasks.len(), &format!("{error:#}"))
            }
        };
        print(&plain(&row))?;
        table += &row;
        write(&unfinished, &table)?;
    }
    let finished = reports.join("grades.csv");
    fs::rename(&unfinished, &finished).with_context(|| finished.display().to_string())?;
    Ok(match all_graded {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Endings of files that may hold a submission.
const ARCHIVES: [&str; 8] = ["zip", "tar", "gz", "tgz", "bz2", "xz", "7z", "rar"];

/// The folders and archives of the folder, by name, without hidden ones and the folder of the reports. Other files are told.
fn submissions(folder: &Path, reports: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = || folder.display().to_string();
    let real = folder.canonicalize().with_context(shown)?;
    let reports = reports.canonicalize()?;
    ensure!(
        real != reports,
        "{} has the submissions: --reports needs another folder",
        folder.display()
    );
    let mut submissions = Vec::new();
    for entry in fs::read_dir(folder).with_context(shown)? {
        let entry = entry.with_context(shown)?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") || real.join(&name) == reports {
            continue;
        }
        let ending = Path::new(&name).extension().and_then(OsStr::to_str);
        if entry.path().is_file() && !ending.is_some_and(|ending| ARCHIVES.contains(&ending)) {
            eprintln!("{} is no submission", plain(&name.to_string_lossy()));
            continue;
        }
        submissions.push(entry.path());
    }
    ensure!(!submissions.is_empty(), "{} is empty", folder.display());
    submissions.sort();
    Ok(submissions)
}

/// Grades a submission, and writes its reports in place of earlier ones.
fn graded(
    submission: &Path,
    name: &OsStr,
    tasks: &[&'static Task],
    arguments: &Arguments,
    seed: (u64, bool),
) -> anyhow::Result<Grade> {
    let [in_json, in_html] = [".json", ".html"].map(|ending| {
        let mut name = name.to_owned();
        name.push(ending);
        arguments.reports.join(name)
    });
    for report in [&in_json, &in_html] {
        match fs::remove_file(report) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| report.display().to_string());
            }
            _ => {}
        }
    }
    ensure!(!submission.is_symlink(), "it is a link");
    ensure!(submission.is_dir(), "it is no folder: unpack it first");
    let places = submitted(submission)?;
    let _held = claim(&places)?;
    let settings = Settings {
        seed: seed.0,
        seed_is_secret: seed.1,
        ..Settings::new(places)
    };
    let grade = grade_tasks(&settings, tasks, arguments.yes)?;
    write(&in_json, &json::render(&grade))?;
    write(&in_html, &html::render(&grade, &peaks()?)?)?;
    Ok(grade)
}

fn header(tasks: &[&Task]) -> String {
    let tasks = tasks.iter().map(|task| task.name());
    let cells = ["submission".to_owned()].into_iter().chain(tasks);
    line(cells.chain(["total", "note"].map(str::to_owned)))
}

/// The row of a submission. A point is a point of the table that learners see. A task that could not be graded has none, and then
/// there is no total.
fn points(name: &str, grade: &Grade) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut cells = vec![name.to_owned()];
    for task in &grade.tasks {
        match &task.not_graded {
            None => cells.push(Points::earned(task).to_string()),
            Some(why) => {
                cells.push(String::new());
                if !reasons.contains(&&**why) {
                    reasons.push(why);
                }
            }
        }
    }
    cells.extend(match reasons[..] {
        [] => [Points::total(grade).to_string(), String::new()],
        _ => [String::new(), format!("not graded: {}", reasons.join("; "))],
    });
    line(cells.into_iter())
}

/// The row of one that could not be graded at all.
fn not_graded(name: &str, tasks: usize, why: &str) -> String {
    let empty = vec![String::new(); tasks + 1];
    line(
        [name.to_owned()]
            .into_iter()
            .chain(empty)
            .chain([format!("not graded: {why}")]),
    )
}

/// A line of a CSV file, as RFC 4180 has it. A cell that a spreadsheet would take for a formula has an apostrophe in front.
fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |mut cell: String| {
        if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
            cell.insert(0, '\'');
        }
        match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell,
        }
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

    #[test]
    fn a_cell_is_no_formula() {
        let cells = ["=1+1", "+1", "-1", "@a", "\ta", "\ra", "a=1"].map(str::to_owned);
        let expected = "'=1+1,'+1,'-1,'@a,'\ta,\"'\ra\",a=1\n";
        assert_eq!(line(cells.into_iter()), expected);
    }

    #[test]
    fn the_reports_are_no_submission() {
        let name = format!("grade-class-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let reports = folder.join("reports");
        fs::create_dir_all(&reports).unwrap();
        fs::create_dir_all(folder.join("ada")).unwrap();
        for file in ["README.md", "Thumbs.db", "bob.zip"] {
            fs::write(folder.join(file), "").unwrap();
        }
        let found = ["ada", "bob.zip"].map(|name| folder.join(name));
        assert_eq!(submissions(&folder, &reports).unwrap(), found);
        let error = submissions(&folder, &folder.join("reports/.."));
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("--reports needs another folder"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
