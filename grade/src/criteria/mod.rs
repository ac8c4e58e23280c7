//! The four criteria of a task. Each gives a share and findings.

mod clean;
mod fast;
mod judged;
mod means;
mod slow;
mod tuned;

use std::error::Error;

use exercise_kit::message::{FaultKind, Outcome, Run};

use crate::cause::{self, Cause};
use crate::exams::{Place, Rig};
use crate::remote::{self, Called, Remote};
use crate::tasks::Task;
use crate::verdict::{Criterion, Finding, Kind};

pub use clean::clean;
pub(crate) use fast::NO_SPEED;
pub use fast::fast;
pub use judged::{correct, explain, robust};
pub use means::Means;

/// A criterion, with what is wrong.
pub type Judged = (Criterion, Vec<Finding>);

/// A criterion that is met by so many checks.
fn criterion(kind: Kind, share: f64, passed: usize, run: usize, note: String) -> Criterion {
    Criterion {
        kind,
        weight: kind.weight(),
        share,
        passed,
        run,
        note,
    }
}

/// A criterion that was not judged.
pub fn not_judged(kind: Kind, why: &str) -> Criterion {
    criterion(kind, 0.0, 0, 0, why.to_owned())
}

fn finding(kind: Kind, case: &str, sentence: String) -> Finding {
    Finding {
        kind,
        case: case.to_owned(),
        sentence,
        cause: None,
        detail: String::new(),
    }
}

/// Work of the calls that is not that of the task's kernels, as a sentence: a launch of another one, or outputs that the host
/// can have computed.
fn dishonest(task: &Task, place: Place, calls: &[Called]) -> Option<String> {
    let Place::Device { lower, reads_back } = place else {
        return None;
    };
    foreign_launch(task, lower, calls).or_else(|| {
        let sum = |count: fn(&Called) -> u64| {
            (calls.iter()).fold(0u64, |sum, call| sum.saturating_add(count(call)))
        };
        let to_host = sum(|call| call.to_host);
        let outputs = sum(|call| call.output_bytes);
        (!reads_back && to_host > outputs / 2).then(|| {
            format!(
                "The calls copy {to_host} bytes from the device to the host, and their outputs have {outputs}: the device has to \
                 compute them."
            )
        })
    })
}

/// A launch that is of no kernel of the exercise or of a `lower` one, as a sentence.
fn foreign_launch(task: &Task, lower: &[&str], calls: &[Called]) -> Option<String> {
    let own = format!("exercises/{}/kernels/", task.folder());
    calls.iter().flat_map(|call| &call.launches).find_map(|launch| {
        let may = launch.files.iter().any(|file| {
            file.starts_with(&own) || lower.iter().any(|lower| file.starts_with(lower))
        });
        (!may).then(|| {
            let file = match launch.file() {
                "" => "unknown source",
                file => file,
            };
            format!(
                "The kernel `{}` that was launched is of {file}: a task is solved by kernels of exercises/{}.",
                launch.kernel,
                task.folder()
            )
        })
    })
}

/// The largest error of values that are compared with the reference's, as a share of its largest.
const TOLERANCE: f64 = 1e-3;

/// What the driver says of a kernel whose shared arrays do not fit.
const TOO_LARGE: &str = "bytes of static shared memory, at most";

/// True if values are the reference's, but for rounding.
fn agree(values: &[f32], expected: &[f32]) -> bool {
    let largest = expected.iter().fold(1.0, |max: f32, x| max.max(x.abs()));
    let close =
        |(x, y): (&f32, &f32)| x == y || f64::from((x - y).abs()) <= TOLERANCE * f64::from(largest);
    values.len() == expected.len() && values.iter().zip(expected).all(close)
}

/// The cause of an error of the learner's implementation, if it tells.
fn cause_of_error(error: &(dyn Error + 'static)) -> Option<Cause> {
    match error.downcast_ref()? {
        error if remote::Error::is_to_do(error) => Some(Cause::NotBegun),
        // The same is right where the cache is small.
        remote::Error::Far(Outcome::Fault(fault)) if fault.kind == FaultKind::OutOfBounds => {
            Some(Cause::NarrowIndex)
        }
        error if error.to_string().contains(TOO_LARGE) => Some(Cause::SharedTooLarge),
        error => error.fault().and_then(cause::fault_cause),
    }
}

/// The first fault that `work` finds under the simulator's checks and some schedules, with its cause; of shared memory that
/// nobody has written rather a race, which tells that its writer comes later.
fn under_checks<T>(rig: &Rig<'_>, work: impl Fn() -> Option<(T, Cause)>) -> Option<(T, Cause)> {
    let run = |seed| {
        rig.remote.set_run(Run {
            seed,
            checks: true,
            ..Run::default()
        });
        work()
    };
    let first = run(None)?;
    let race = |found: &(T, Cause)| found.1 == Cause::UnsynchronisedTile;
    match first.1 {
        Cause::UnwrittenTile => (0..8).filter_map(|seed| run(Some(seed))).find(race),
        _ => None,
    }
    .or(Some(first))
}

/// Why the program can make no more calls, as a finding.
fn stopped(kind: Kind, remote: &Remote) -> Option<Finding> {
    let reason = remote.stopped()?;
    Some(finding(
        kind,
        "",
        format!("The task was stopped: {reason}."),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_and_nan_do_not_agree() {
        assert!(agree(&[1.0, f32::NEG_INFINITY], &[1.0, f32::NEG_INFINITY]));
        assert!(agree(&[1.0005], &[1.0]));
        assert!(!agree(&[1.01], &[1.0]));
        assert!(!agree(&[f32::NAN], &[1.0]));
        assert!(!agree(&[], &[1.0]));
    }
}
