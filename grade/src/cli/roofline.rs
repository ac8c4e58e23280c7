//! `roofline`: the learner's kernels under the device's roof.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use grade::grade::Settings;
use grade::places::Places;
use grade::report::roofline::svg;

use super::grading::peaks;
use super::run::{run as grade_tasks, usual};
use super::{print, root, selection, shown, write};

/// The flags of `roofline`.
#[derive(Args)]
pub struct Arguments {
    /// The tasks whose kernels are drawn: a stage, as in 4, or a task, as in softmax; all if not given.
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,

    /// Draw the solution's kernels instead of the learner's.
    #[arg(long)]
    solution: bool,

    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = "roofline.svg")]
    svg: PathBuf,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Grades the tasks that have kernels, and draws what was counted for their speed.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut tasks = selection(&arguments.tasks)?;
    tasks.retain(|task| task.has_kernels());
    let settings = match arguments.solution {
        true => Settings::new(Places::solution(root())),
        false => usual(),
    };
    let grade = grade_tasks(&settings, &tasks, arguments.yes)?;
    let svg = svg(&grade, &peaks()?)?;
    let svg =
        svg.context("no kernel was counted: speed is counted once a task's values are right")?;
    write(&arguments.svg, &svg)?;
    print(&format!("wrote {}\n", shown(&arguments.svg)))
}
