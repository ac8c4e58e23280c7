//! `next`: the first task without full marks, of all or of some.

use clap::Args;
use gpu_tool::ink::Ink;
use grade::report::{Points, advice, terminal};

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

/// Grades the tasks whose files changed, in order, until one has not full marks; prints its faults and what to do. Bonus tasks
/// come last.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let selected = selection(&arguments.tasks)?;
    for task in in_order().filter(|task| selected.contains(task)) {
        if store::kept(task).is_some_and(|result| Points::is_full(&result)) {
            continue;
        }
        let grade = run_and_keep(&usual(), &[task], arguments.yes)?;
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
