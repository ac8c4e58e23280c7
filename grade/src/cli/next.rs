//! `next`: the first task without full marks.

use clap::Args;
use grade::report::ink::Ink;
use grade::report::{Points, advice, terminal};

use super::run::run_and_keep;
use super::{in_order, print, store};

/// The flags of `next`.
#[derive(Args)]
pub struct Arguments {
    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Grades the tasks whose files changed, in order, until one has not full marks; prints its faults and what to do. Bonus tasks
/// come last.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for task in in_order() {
        if store::kept(task).is_some_and(|result| Points::is_full(&result)) {
            continue;
        }
        let grade = run_and_keep(&[task], arguments.yes)?;
        if !grade.tasks.iter().all(Points::is_full) {
            let report = terminal::render(&grade, Ink::of_stdout());
            return print(&format!("{report}\n{}", advice(&grade)));
        }
    }
    print(
        "All tasks have full marks, the bonus too. `cargo grade --results Results.md` writes the figures of the assignment.\n",
    )
}
