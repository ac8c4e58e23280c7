//! The runner: puts an implementation through problems.

use std::fmt;

use stage1_reference::Feature;

use crate::problems::Problem;
use crate::report::{Case, Outcome, Report};

/// Who is judged, for the report.
#[derive(Debug, Clone, Copy)]
pub struct Implementation<'a> {
    /// The implementation, such as `stage 2 attention, tiled`.
    pub name: &'a str,
    /// Where it runs, such as `NVIDIA H200` or `cuda-sim (h100)`.
    pub device: &'a str,
    /// What it cannot do. Problems that need one of these are not given to it; the report counts them by name.
    pub lacks: &'a [Feature],
}

/// Puts an implementation through all `problems` that need nothing it lacks, and prints a line that says who was judged,
/// where, and how it went.
///
/// `solve` gets a problem and its poisoned outputs; an error that it returns counts as a failure of that problem.
pub fn run<P: Problem, E: fmt::Display>(
    implementation: &Implementation<'_>,
    problems: impl IntoIterator<Item = P>,
    mut solve: impl FnMut(&P, &mut P::Output) -> Result<(), E>,
) -> Report {
    let cases = problems.into_iter().map(|problem| {
        let missing =
            (problem.needs().into_iter()).find(|feature| implementation.lacks.contains(feature));
        if let Some(feature) = missing {
            return Case {
                name: problem.name().to_owned(),
                outcome: Outcome::NotSupported(feature),
            };
        }
        let announce = NameOnPanic(problem.name());
        let mut output = problem.poisoned();
        let outcome = match solve(&problem, &mut output) {
            Err(error) => Outcome::Refused(error.to_string()),
            Ok(()) => match problem.judge(&output) {
                Err(sentence) => Outcome::Refused(sentence),
                Ok(comparisons) => Outcome::Compared(comparisons),
            },
        };
        drop(announce);
        Case {
            name: problem.name().to_owned(),
            outcome,
        }
    });
    let report = Report {
        implementation: implementation.name.to_owned(),
        device: implementation.device.to_owned(),
        cases: cases.collect(),
    };
    println!("{}", report.summary());
    report
}

/// Says which problem was being solved when the implementation panicked.
struct NameOnPanic<'a>(&'a str);

impl Drop for NameOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the panic came from problem {}", self.0);
        }
    }
}
