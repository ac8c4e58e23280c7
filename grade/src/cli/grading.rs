//! Grading, without a subcommand: prints the table and the faults, and writes the reports that are asked for.

use std::path::PathBuf;
use std::process::ExitCode;

use bench_kit::Peaks;
use clap::Args;
use gpu_tool::ink::Ink;
use grade::figures::figures;
use grade::grade::Settings;
use grade::places::Places;
use grade::report::{Points, advice, gradescope, html, json, markdown, terminal};
use grade::tasks::Task;
use grade::verdict::{Grade, Subject};

use super::run::{run as grade_tasks, run_and_keep};
use super::seed::Seed;
use super::submission::{claim, submitted};
use super::{print, root, selection, write};

/// The flags of grading.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// What to grade: a stage, as in 4, or a task, as in softmax or 3/flash, or a step; everything if not given.
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,

    /// Grade this task.
    #[arg(long = "task", value_name = "TASK")]
    more: Vec<String>,

    /// Grade the solution instead of the learner's code.
    #[arg(long)]
    solution: bool,

    /// Grade a submission: a checkout, or the content of its folder exercises/. Of it, the folders src and kernels of each stage
    /// are taken; all else is as it is here.
    #[arg(long, value_name = "FOLDER", conflicts_with = "solution")]
    submission: Option<PathBuf>,

    /// Let stages use the learner's own lower stages, not the solution's.
    #[arg(long)]
    own: bool,

    #[command(flatten)]
    seed: Seed,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,

    /// Write the grade as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the grade as one HTML page to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write Gradescope's results.json to this file.
    #[arg(long, value_name = "FILE")]
    gradescope: Option<PathBuf>,

    /// Write Results.md to this file: points, and the figures that the assignment asks for.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

/// Grades, prints and writes. The exit status tells whether all marks are full.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let words = [&arguments.tasks[..], &arguments.more].concat();
    let tasks = selection(&words)?;
    let settings = arguments.settings()?;
    let _held = match arguments.submission {
        Some(_) => Some(claim(&settings.places)?),
        None => None,
    };
    let grade = match arguments.is_usual() {
        true => run_and_keep(&settings, &tasks, arguments.yes)?,
        false => grade_tasks(&settings, &tasks, arguments.yes)?,
    };
    let mut text = terminal::render(&grade, Ink::stdout());
    if grade.subject == Subject::Learner {
        text += &format!("\n{}", advice(&grade));
    }
    print(&text)?;
    arguments.write(&grade, &settings)?;
    let counted = grade.tasks.iter().zip(&tasks);
    let mut counted = counted.filter(|(_, task)| counts(task, &tasks, &words));
    Ok(match counted.all(|(grade, _)| Points::is_full(grade)) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// True if a task that lacks points makes the exit status 1: a bonus does if it was named, or graded without other tasks.
fn counts(task: &Task, graded: &[&Task], words: &[String]) -> bool {
    let mut names = words.iter().filter(|word| word.parse::<u8>().is_err()); // no stages
    let mut named = || names.any(|word| task.is_called(word));
    !task.bonus || graded.iter().all(|task| task.bonus) || named()
}

impl Arguments {
    /// True if the learner's exercises are graded as `next` and `watch` do it.
    fn is_usual(&self) -> bool {
        !self.solution && self.submission.is_none() && !self.own && self.seed.is_usual()
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let places = match &self.submission {
            None if self.solution => Places::solution(root()),
            None => Places::learner(root()),
            Some(folder) => submitted(folder)?,
        };
        let (seed, seed_is_secret) = self.seed.chosen()?;
        Ok(Settings {
            own: self.own,
            seed,
            seed_is_secret,
            ..Settings::new(places)
        })
    }

    fn write(&self, grade: &Grade, settings: &Settings) -> anyhow::Result<()> {
        if let Some(path) = &self.json {
            write(path, &json::render(grade))?;
        }
        if let Some(path) = &self.html {
            write(path, &html::render(grade, &peaks()?)?)?;
        }
        if let Some(path) = &self.gradescope {
            write(path, &gradescope::render(grade))?;
        }
        if let Some(path) = &self.results {
            eprintln!("counting the shapes of the assignment: a minute or two");
            let figures = figures(settings, grade);
            write(path, &markdown::render(grade, &figures))?;
        }
        Ok(())
    }
}

/// The peaks of the device that kernels run on here.
pub fn peaks() -> anyhow::Result<Peaks> {
    Ok(Peaks::of(&*gpu::context(0)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bonus_counts_if_it_was_asked_for() {
        let counted = |words: &[&str]| {
            let words = Vec::from_iter(words.iter().map(|&word| word.to_owned()));
            let graded = selection(&words).unwrap();
            let counted = graded.iter().filter(|task| counts(task, &graded, &words));
            Vec::from_iter(counted.filter(|task| task.bonus).map(|task| task.name()))
        };
        assert_eq!(counted(&[]), [""; 0]);
        assert_eq!(counted(&["4"]), [""; 0]);
        assert_eq!(counted(&["mma"]), ["4/mma"]);
        assert_eq!(counted(&["mma", "4/flash"]), ["4/mma"]);
        assert_eq!(counted(&["4/mma", "4/swizzle"]), ["4/mma", "4/swizzle"]);
        assert_eq!(counted(&["4", "split"]), ["5/split"]);
    }
}
