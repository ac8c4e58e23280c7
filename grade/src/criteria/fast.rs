//! Fast: the work of one problem, compared with that of the stage's own implementation.

use conformance::AnyError;
use exercise_kit::message::{Launch, Run};
use gpu::profile::LaunchProfile;

use super::{Judged, agree, criterion, finding, foreign_launch};
use crate::clock::Stopwatch;
use crate::exams::{Exam, Input, Place, Rig, Whose};
use crate::tasks::Task;
use crate::verdict::{Kind, LaunchWork, Work};

/// Up to this ratio to the reference, all points.
const FULL: f64 = 1.2;

/// From this ratio on, none.
const NONE: f64 = 10.0;

/// Pairs of timings of a task on the CPU; more while the share is not full, because another load on the machine may be why.
const PAIRS: usize = 3;
const MOST_PAIRS: usize = 9;

/// A share of the reference's FLOPs below which the device cannot have computed the result.
const LEAST_FLOPS: f64 = 0.25;

/// The sentence on a timed result that is not the reference's.
const WRONG: &str = "The values are wrong where the time is taken.";

/// Modelled time on the device, or the ratio of measured times on the CPU.
pub fn fast(exam: &dyn Exam, task: &Task, rig: &Rig<'_>) -> (Judged, Option<Work>) {
    match timed(exam, task, rig) {
        Ok(work) => {
            let ratio = work.yours / work.reference;
            let share = share(ratio);
            let note = format!("{ratio:.2} × the solution's {}", work.label);
            let mut findings = Vec::new();
            if share < 1.0 {
                let sentence = format!(
                    "It takes {:.3} {unit}, the solution {:.3} {unit}: {ratio:.2} times as long. Full points are up to {FULL} \
                     times.",
                    work.yours,
                    work.reference,
                    unit = work.unit
                );
                findings.push(finding(Kind::Fast, &work.case, sentence));
            }
            let judged = criterion(Kind::Fast, share, usize::from(share == 1.0), 1, note);
            ((judged, findings), Some(work))
        }
        Err(error) => {
            let note = "the timed problem failed".to_owned();
            let finding = finding(Kind::Fast, exam.timed_case(), error.to_string());
            (
                (criterion(Kind::Fast, 0.0, 0, 1, note), vec![finding]),
                None,
            )
        }
    }
}

/// 1 up to [`FULL`], 0 from [`NONE`] on, logarithmic between.
fn share(ratio: f64) -> f64 {
    if ratio.is_nan() {
        return 0.0;
    }
    (1.0 - (ratio / FULL).ln() / (NONE / FULL).ln()).clamp(0.0, 1.0)
}

fn timed(exam: &dyn Exam, task: &Task, rig: &Rig<'_>) -> Result<Work, AnyError> {
    match exam.place() {
        Place::Host => on_host(exam, rig),
        Place::Device { .. } => on_device(exam, task, rig),
    }
}

fn on_host(exam: &dyn Exam, rig: &Rig<'_>) -> Result<Work, AnyError> {
    rig.remote.set_run(Run::default());
    let (mut yours, mut reference) = (f64::INFINITY, f64::INFINITY);
    for pair in 0..MOST_PAIRS {
        if pair >= PAIRS && yours / reference <= FULL {
            break;
        }
        rig.remote.take_calls();
        let values = exam.compute(rig, Whose::Learner, Input::Timed)?;
        let calls = rig.remote.take_calls();
        yours = yours.min(calls.iter().map(|call| call.seconds).sum());
        let stopwatch = Stopwatch::thread();
        let expected = exam.compute(rig, Whose::Reference, Input::Timed)?;
        reference = reference.min(stopwatch.time().as_secs_f64());
        if !agree(&values, &expected) {
            return Err(WRONG.into());
        }
    }
    Ok(Work {
        label: "time on the CPU".to_owned(),
        case: exam.timed_case().to_owned(),
        yours: 1e6 * yours,
        reference: 1e6 * reference,
        unit: "µs".to_owned(),
        launches: Vec::new(),
    })
}

fn on_device(exam: &dyn Exam, task: &Task, rig: &Rig<'_>) -> Result<Work, AnyError> {
    rig.remote.set_run(Run {
        profile: true,
        ..Run::default()
    });
    rig.remote.take_calls();
    let values = exam.compute(rig, Whose::Learner, Input::Timed)?;
    let calls = rig.remote.take_calls();
    if let Some(sentence) = foreign_launch(task, exam.place(), &calls) {
        return Err(sentence.into());
    }
    let profiled = gpu::profile::profile(|| exam.compute(rig, Whose::Reference, Input::Timed));
    let (expected, profiles) = profiled?;
    if !agree(&values, &expected?) {
        return Err(WRONG.into());
    }
    let launches: Vec<&Launch> = calls.iter().flat_map(|call| &call.launches).collect();
    let flops = |launch: &LaunchProfile| launch.total.flops();
    let needed: u64 = profiles.iter().map(flops).sum();
    let counted = flops_of(&launches);
    if (counted as f64) < LEAST_FLOPS * needed as f64 {
        return Err(format!(
            "The kernels do {counted} floating-point operations, the solution's {needed}: the device has to compute the \
             result."
        )
        .into());
    }
    let seconds: f64 = profiles.iter().map(|launch| launch.time.seconds).sum();
    let device = profiles.first().map_or("", |launch| launch.time.device);
    Ok(Work {
        label: format!("modelled ({device})"),
        case: exam.timed_case().to_owned(),
        yours: 1e6 * launches.iter().map(|launch| launch.seconds).sum::<f64>(),
        reference: 1e6 * seconds,
        unit: "µs".to_owned(),
        launches: launches.into_iter().map(work).collect(),
    })
}

/// The sum of counts that a learner's program sends: any.
fn flops_of(launches: &[&Launch]) -> u64 {
    (launches.iter()).fold(0, |sum, launch| sum.saturating_add(launch.flops))
}

fn work(launch: &Launch) -> LaunchWork {
    LaunchWork {
        kernel: launch.kernel.clone(),
        microseconds: 1e6 * launch.seconds,
        flops: launch.flops as f64,
        dram_bytes: launch.read_bytes.saturating_add(launch.write_bytes) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_falls_with_the_logarithm_of_the_ratio() {
        assert_eq!(share(0.5), 1.0);
        assert_eq!(share(1.2), 1.0);
        assert!((share(12f64.sqrt()) - 0.5).abs() < 1e-12);
        assert_eq!(share(10.0), 0.0);
        assert_eq!(share(f64::INFINITY), 0.0);
        assert_eq!(share(f64::NAN), 0.0);
    }

    #[test]
    fn forged_counts_do_not_overflow() {
        let forged = Launch {
            kernel: String::new(),
            files: Vec::new(),
            seconds: 0.0,
            flops: u64::MAX,
            read_bytes: u64::MAX,
            write_bytes: 1,
        };
        assert_eq!(flops_of(&[&forged, &forged]), u64::MAX);
        assert_eq!(work(&forged).dram_bytes, u64::MAX as f64);
    }
}
