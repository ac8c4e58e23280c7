//! Fast: the work of one problem, compared with that of the stage's own implementation.

use std::error::Error;
use std::slice;

use conformance::AnyError;
use exercise_kit::message::{FaultKind, Launch, Outcome, Run};
use gpu::profile::LaunchProfile;

use super::slow::why_slow;
use super::tuned::tuned;
use super::{Judged, Means, agree, criterion, dishonest, finding};
use crate::child::memory_is_told;
use crate::clock::Stopwatch;
use crate::exams::{Exam, Input, Place, Rig, Whose};
use crate::remote;
use crate::tasks::Task;
use crate::verdict::{Kind, LaunchWork, Work};

/// Ratios to the reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Up to this one, all points.
    pub full: f64,
    /// From this one on, none.
    pub none: f64,
}

/// The usual ones.
const LIMITS: Limits = Limits {
    full: FULL,
    none: NO_SPEED,
};

const FULL: f64 = 1.2;
/// From so many times the solution's time on, there are no points.
pub(crate) const NO_SPEED: f64 = 10.0;

/// Pairs of timings of a task on the CPU, for the ratio that the fastest of them give. Another load on the machine may be why a share
/// is neither full nor 0; on a core that two programs share, all takes up to twice as long, for seconds.
fn pairs_for(ratio: f64) -> usize {
    match ratio {
        FULL..2.0 => 27,
        2.0..NO_SPEED => 9,
        _ => 3,
    }
}

/// A share of the reference's work below which the device cannot have computed the result, or not by the means that the task asks for.
pub(super) const LEAST: f64 = 0.25;

/// Bytes that kernels store for each byte of the outputs, where they are written once: besides these, a number for each row.
const MOST_STORED: f64 = 1.01;

/// Bytes by which a program's resident memory may grow in the call of [`Input::Large`]. Tiles need one eighth, with the message and
/// what the system's allocator keeps; all scores need twice as many.
const MOST_RESIDENT: u64 = 8 << 20;

/// The sentence on a timed result that is not the reference's.
const WRONG: &str = "The values are wrong where the time is taken.";

/// Modelled time on the device, or the ratio of measured times on the CPU. A finding of [`Kind::Correct`] says that the timed
/// problem is not solved.
pub fn fast(exam: &dyn Exam, task: &Task, rig: &Rig<'_>, seed: u64) -> (Judged, Option<Work>) {
    match timed(exam, task, rig, seed) {
        Ok(Timed {
            work,
            why,
            lost,
            limits,
        }) => {
            // As it is shown: what reads as 1.20 has all points.
            let ratio = (100.0 * work.yours / work.reference).round() / 100.0;
            let mut share = share(ratio, limits);
            let note = format!("{ratio:.2} × the solution's {}", work.label);
            let mut findings = Vec::new();
            if let Some(sentence) = lost.or_else(|| memory(exam, rig)) {
                share = 0.0;
                findings.push(finding(Kind::Fast, &work.case, sentence));
            } else if share < 1.0 {
                let sentence = format!(
                    "It takes {:.3} {unit}, the solution {:.3} {unit}: {ratio:.2} times as long. Full points are up to {} \
                     times.{}",
                    work.yours,
                    work.reference,
                    limits.full,
                    why.unwrap_or_default(),
                    unit = work.unit
                );
                findings.push(finding(Kind::Fast, &work.case, sentence));
            }
            let judged = criterion(Kind::Fast, share, usize::from(share == 1.0), 1, note);
            ((judged, findings), Some(work))
        }
        Err(error) => {
            let note = "the timed problem failed".to_owned();
            // A task that asks for means is not solved where nobody has seen them, however the call ended.
            let kind = match exam.means().is_empty() {
                true => kind_of(&*error),
                false => Kind::Correct,
            };
            let finding = finding(kind, exam.timed_case(), error.to_string());
            (
                (criterion(Kind::Fast, 0.0, 0, 1, note), vec![finding]),
                None,
            )
        }
    }
}

/// The criterion that an error where the time is taken belongs to: what works too long is slow, and all else is wrong.
fn kind_of(error: &(dyn Error + 'static)) -> Kind {
    match error.downcast_ref() {
        Some(remote::Error::Ended(Outcome::Fault(fault))) => match fault.kind {
            FaultKind::EndlessLoop | FaultKind::LongLaunch => Kind::Fast,
            _ => Kind::Correct,
        },
        Some(remote::Error::Ended(_)) => Kind::Correct,
        Some(_) => Kind::Fast,
        None => Kind::Correct,
    }
}

/// What is wrong with the memory of [`Input::Large`], if that is judged.
fn memory(exam: &dyn Exam, rig: &Rig<'_>) -> Option<String> {
    let (keys, most) = exam.most_memory()?;
    rig.remote.take_calls();
    let mut resident = None;
    let mut peaks = [0; 2];
    for (input, peak) in [Input::Large, Input::Quarter].into_iter().zip(&mut peaks) {
        let call = || exam.compute(rig, Whose::Learner, input);
        let (computed, grown) = rig.remote.growing(call);
        if let Err(error) = computed {
            return Some(error.to_string());
        }
        if input == Input::Large {
            resident = grown;
        }
        let calls = rig.remote.take_calls();
        *peak = calls.iter().map(|call| call.in_use.peak).max()?;
    }
    let [counted, quarter] = peaks;
    too_much(keys, counted, most, resident, memory_is_told())
        .or_else(|| grows(keys, quarter, counted))
}

/// What is wrong with calls that take so many bytes for a quarter of the keys and for all of them. What is kept for each tile of
/// keys, be it one number for each of 64 queries, is more than a byte for each key.
fn grows(keys: usize, quarter: u64, all: u64) -> Option<String> {
    let more = all.saturating_sub(quarter);
    let keys_more = keys - keys / 4;
    (more > keys_more as u64).then(|| {
        format!(
            "64 queries take {all} bytes of memory with {keys} keys, and {quarter} with a quarter of them: memory grows with the keys. \
             A row needs its maximum, its sum and its output, however many tiles it has seen."
        )
    })
}

/// What is wrong with a call that takes so many bytes by the allocator that counts, where `most` are enough, and makes the program's
/// resident memory grow by so many, because memory may be taken past that allocator. `told` is true if the system tells of
/// resident memory.
fn too_much(
    keys: usize,
    counted: u64,
    most: u64,
    resident: Option<u64>,
    told: bool,
) -> Option<String> {
    if told && resident.is_none() {
        return Some(
            "The system does not tell the grader how much memory the program takes.".to_owned(),
        );
    }
    let resident = resident.filter(|&bytes| bytes > MOST_RESIDENT);
    let peak = Some(counted).filter(|&bytes| bytes > most).or(resident);
    peak.map(|peak| {
        format!(
            "64 queries and {keys} keys take {peak} bytes of memory, of which {most} would be enough for many tiles: the scores \
             of a tile are all that is needed at a time, however many keys there are."
        )
    })
}

/// 1 up to the first limit, 0 from the second on, logarithmic between.
fn share(ratio: f64, Limits { full, none }: Limits) -> f64 {
    if ratio.is_nan() {
        return 0.0;
    }
    (1.0 - (ratio / full).ln() / (none / full).ln()).clamp(0.0, 1.0)
}

/// What was timed.
pub(super) struct Timed {
    pub work: Work,
    /// What makes it slow on a device, as sentences with a space before them.
    pub why: Option<String>,
    /// Why there are no points whatever the time, as a sentence.
    pub lost: Option<String>,
    pub limits: Limits,
}

fn timed(exam: &dyn Exam, task: &Task, rig: &Rig<'_>, seed: u64) -> Result<Timed, AnyError> {
    match exam.place() {
        _ if task.tunes() => tuned(rig),
        Place::Host => Ok(Timed {
            work: on_host(exam, rig, seed)?,
            why: None,
            lost: None,
            limits: LIMITS,
        }),
        Place::Device { .. } => on_device(exam, task, rig, seed),
    }
}

fn on_host(exam: &dyn Exam, rig: &Rig<'_>, seed: u64) -> Result<Work, AnyError> {
    rig.remote.set_run(Run::default());
    let (mut yours, mut reference) = (f64::INFINITY, f64::INFINITY);
    for pair in 0.. {
        if pair >= pairs_for(yours / reference) {
            break;
        }
        rig.remote.take_calls();
        let input = Input::Timed(seed + pair as u64);
        let values = exam.compute(rig, Whose::Learner, input)?;
        let calls = rig.remote.take_calls();
        yours = yours.min(calls.iter().map(|call| call.seconds).sum());
        let stopwatch = Stopwatch::thread();
        let expected = exam.compute(rig, Whose::Reference, input)?;
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

fn on_device(exam: &dyn Exam, task: &Task, rig: &Rig<'_>, seed: u64) -> Result<Timed, AnyError> {
    let (calls, profiles) = profiled(exam, task, rig, Input::Timed(seed))?;
    let launches = launches_of(&calls);
    for Counter {
        what,
        yours,
        solutions,
        most,
    } in COUNTERS
    {
        let needed: u64 = profiles.iter().map(solutions).sum();
        let least = LEAST * needed.min(most(&calls)) as f64;
        let counted = sum_of(&launches, yours);
        if (counted as f64) < least {
            return Err(format!(
                "The kernels {what} {counted}. At least {least:.0} are expected: the device has to compute the result."
            )
            .into());
        }
    }
    let means = exam.means().iter();
    let mut lacking = means.filter_map(|means| {
        let sentence = means.lacking(&launches, &profiles, &launches)?;
        Some(match means {
            Means::NoConflicts => {
                let task = task.name();
                format!("{sentence} `cargo grade profile {task}` shows the lines.")
            }
            _ => sentence,
        })
    });
    if let Some(sentence) = lacking.next() {
        return Err(sentence.into());
    }
    let mut lost =
        waiting(exam.place(), rig.remote.waits()).or_else(|| stored(exam, &calls, &launches));
    for (place, (case, means)) in exam.counted().into_iter().enumerate() {
        let (calls, profiles) = profiled(exam, task, rig, Input::Counted(place))?;
        let counted = launches_of(&calls);
        let (masked, all) = match (means, &calls[..]) {
            (Means::SkippedTilesOfBoth, [masked, all]) => (
                launches_of(slice::from_ref(masked)),
                launches_of(slice::from_ref(all)),
            ),
            _ => (launches.clone(), counted.clone()),
        };
        if let Some(sentence) = means.lacking(&all, &profiles, &masked) {
            return Err(format!("In {case}: {sentence}").into());
        }
        let in_case = |sentence| format!("In {case}: {sentence}");
        lost = lost.or_else(|| stored(exam, &calls, &counted).map(in_case));
    }
    let seconds: f64 = profiles.iter().map(|launch| launch.time.seconds).sum();
    let device = profiles.first().map_or("", |launch| launch.time.device);
    let why = why_slow(&launches, &profiles);
    let work = Work {
        label: format!("modelled ({device})"),
        case: exam.timed_case().to_owned(),
        yours: 1e6 * launches.iter().map(|launch| launch.seconds).sum::<f64>(),
        reference: 1e6 * seconds,
        unit: "µs".to_owned(),
        launches: launches.into_iter().map(work_of).collect(),
    };
    Ok(Timed {
        work,
        why,
        lost,
        limits: LIMITS,
    })
}

/// What is wrong with calls that wait for the device.
fn waiting(place: Place, waits: u64) -> Option<String> {
    let Place::Device {
        reads_back: false, ..
    } = place
    else {
        return None;
    };
    (waits > 0).then(|| {
        format!(
            "Calls wait for the device, {waits} times in all: they should launch and return, so that the host prepares what follows \
             while the device computes. Frees and copies on the stream come after its kernels anyway."
        )
    })
}

/// What is wrong with bytes that the kernels store besides the outputs.
fn stored(exam: &dyn Exam, calls: &[remote::Called], launches: &[&Launch]) -> Option<String> {
    let outputs = calls
        .iter()
        .fold(0u64, |sum, call| sum.saturating_add(call.output_bytes));
    let stored = sum_of(launches, |launch| launch.means.stored);
    (exam.writes_once() && stored as f64 > MOST_STORED * outputs as f64).then(|| {
        format!(
            "The kernels write {stored} bytes to global memory, and the outputs have {outputs}: each element is to be written \
             once, and what a block needs meanwhile to stay in registers and shared memory."
        )
    })
}

/// The calls of a problem, and the launches of the solution for it. Its values are right.
fn profiled(
    exam: &dyn Exam,
    task: &Task,
    rig: &Rig<'_>,
    input: Input,
) -> Result<(Vec<remote::Called>, Vec<LaunchProfile>), AnyError> {
    rig.remote.set_run(Run {
        profile: true,
        lines: true,
        ..Run::default()
    });
    rig.remote.take_calls();
    let values = exam.compute(rig, Whose::Learner, input)?;
    let calls = rig.remote.take_calls();
    if let Some(sentence) = dishonest(task, exam.place(), &calls) {
        return Err(sentence.into());
    }
    let profiled = gpu::profile::profile(|| exam.compute(rig, Whose::Reference, input));
    let (expected, profiles) = profiled?;
    if !agree(&values, &expected?) {
        return Err(WRONG.into());
    }
    Ok((calls, profiles))
}

fn launches_of(calls: &[remote::Called]) -> Vec<&Launch> {
    calls.iter().flat_map(|call| &call.launches).collect()
}

/// Work that no launch can do without.
struct Counter {
    /// Before the number.
    what: &'static str,
    yours: fn(&Launch) -> u64,
    solutions: fn(&LaunchProfile) -> u64,
    /// The most that the calls can need, if the solution has more.
    most: fn(&[remote::Called]) -> u64,
}

const COUNTERS: [Counter; 3] = [
    Counter {
        what: "do floating-point operations:",
        yours: |launch| launch.flops,
        solutions: |launch| launch.total.flops(),
        most: |_| u64::MAX,
    },
    Counter {
        what: "read bytes of memory:",
        yours: |launch| launch.read_bytes,
        solutions: |launch| launch.compulsory_read_bytes,
        most: |_| u64::MAX,
    },
    Counter {
        what: "write bytes of memory:",
        yours: |launch| launch.write_bytes,
        solutions: |launch| launch.compulsory_write_bytes,
        // The solution may keep more parts of its result in memory than others.
        most: |calls| calls.iter().map(|call| call.output_bytes).sum(),
    },
];

/// The sum of counts that a learner's program sends: any.
pub(super) fn sum_of(launches: &[&Launch], count: fn(&Launch) -> u64) -> u64 {
    (launches.iter()).fold(0, |sum, launch| sum.saturating_add(count(launch)))
}

fn work_of(launch: &Launch) -> LaunchWork {
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
    use exercise_kit::message::Means;

    #[test]
    fn the_share_falls_with_the_logarithm_of_the_ratio() {
        assert_eq!(share(0.5, LIMITS), 1.0);
        assert_eq!(share(1.2, LIMITS), 1.0);
        assert!((share(12f64.sqrt(), LIMITS) - 0.5).abs() < 1e-12);
        assert_eq!(share(10.0, LIMITS), 0.0);
        assert_eq!(share(f64::INFINITY, LIMITS), 0.0);
        assert_eq!(share(f64::NAN, LIMITS), 0.0);
    }

    #[test]
    fn a_ratio_near_full_points_is_timed_more_often() {
        let pairs = [0.5, 1.19, 1.2, 1.9, 2.0, 9.9, 10.0, f64::NAN].map(pairs_for);
        assert_eq!(pairs, [3, 3, 27, 27, 9, 9, 3, 3]);
    }

    #[test]
    fn memory_counts_by_the_allocator_and_past_it() {
        let fits = Some(MOST_RESIDENT);
        assert_eq!(too_much(100, 10, 10, fits, true), None);
        let says = |counted, resident, told| too_much(100, counted, 10, resident, told).unwrap();
        assert!(says(11, fits, true).contains("take 11 bytes"));
        let past = MOST_RESIDENT + 1;
        assert!(says(10, Some(past), true).contains(&format!("take {past} bytes")));
        // A program that the system does not tell of, and a system that tells of none.
        assert!(says(10, None, true).contains("does not tell"));
        assert_eq!(too_much(100, 10, 10, None, false), None);
        assert!(says(11, None, false).contains("take 11 bytes"));
    }

    #[test]
    fn memory_for_each_tile_grows_with_the_keys() {
        assert_eq!(grows(400, 1000, 1300), None);
        assert_eq!(grows(400, 1000, 900), None);
        let says = grows(400, 1000, 1301).unwrap();
        assert!(
            says.contains("1301 bytes of memory with 400 keys"),
            "{says}"
        );
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
            bound: String::new(),
            parts: Vec::new(),
            means: Means::default(),
            detail: None,
        };
        let sum = sum_of(&[&forged, &forged], |launch| launch.flops);
        assert_eq!(sum, u64::MAX);
        assert_eq!(work_of(&forged).dram_bytes, u64::MAX as f64);
    }
}
