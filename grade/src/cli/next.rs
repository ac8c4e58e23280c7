//! `next`: the task to work at, of all or of some.

use clap::Args;
use gpu_tool::ink::Ink;
use grade::grade::Settings;
use grade::report::{Points, advice, terminal};
use grade::tasks::Task;

use super::run::{run_and_keep, usual};
use super::{in_order, print, selection, store};

/// The flags of `next`.
#[derive(Args)]
pub struct Arguments {
    /// Where to look: a stage, as in 4, or a task, as in softmax; everywhere if not given.
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Grades the tasks whose files changed, in order, until one has not full marks; prints its faults and what to do. Of a task in steps
/// it goes on until one lacks more than speed. Bonus tasks come last.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let selected = selection(&arguments.tasks)?;
    let selected = Vec::from_iter(in_order().filter(|task| selected.contains(task)));
    let settings = Settings {
        to_first_open: true,
        ..usual()
    };
    for steps in selected.chunk_by(|a, b| a.shares_files(b)) {
        let is_full = |task: &&&Task| store::kept(task).is_some_and(|it| Points::is_full(&it));
        let open = Vec::from_iter(steps.iter().skip_while(is_full).copied());
        if open.is_empty() {
            continue;
        }
        let grade = run_and_keep(&settings, &open, arguments.yes)?;
        if !grade.tasks.iter().all(Points::is_full) {
            let report = terminal::render(&grade, Ink::stdout());
            return print(&format!("{report}\n{}", advice(&grade)));
        }
    }
    if !arguments.tasks.is_empty() {
        return print("Full marks. `cargo grade next` finds the next task of all.\n");
    }
    print(
        "All tasks have full marks, the bonus tasks too. `cargo grade story` tells a story with your kernels, `cargo grade --results \
         Results.md` writes the figures of the assignment.\n",
    )
}
