//! Clean: no fault, no race, no leak, and the same right bits under every schedule.

use std::error::Error;

use conformance::AnyError;
use exercise_kit::message::{InUse, Outcome, Run};

use super::{Judged, agree, cause_of_error, criterion, finding, under_checks};
use crate::cause::Cause;
use crate::exams::{Exam, Input, Place, Rig, Whose};
use crate::remote::Remote;
use crate::verdict::{Finding, Kind};

/// Orders of blocks and warps; on the CPU, repetitions.
const SEEDS: u64 = 20;

/// Growth of host memory in a call that is no leak: what a thread or the allocator keeps.
const HOST_SLACK: u64 = 4096;

/// Growth of device memory in all calls that is no buffer of theirs: counters, and what else is kept once for each kernel.
const DEVICE_SLACK: u64 = 64 << 10;

/// Calls in which such memory grows although it does not depend on their tensors: workspaces of a constant size, which a later
/// call is the first to need.
const WORKSPACES: u64 = 3;

/// Repeats a few problems under 20 schedules, with all checks of the simulator.
///
/// The share is 0 unless all repetitions pass. None passes if memory leaks. A finding of [`Kind::Correct`] says that values are
/// wrong.
///
/// `fresh` starts the program anew, for [`Exam::steps`].
pub fn clean(exam: &dyn Exam, rig: &Rig<'_>, fresh: impl FnOnce() -> Option<Remote>) -> Judged {
    rig.remote.take_calls();
    let mut first: Option<Vec<u32>> = None;
    let mut findings = Vec::new();
    let mut memory = Vec::new();
    let mut passed = 0;
    for seed in 0..SEEDS {
        rig.remote.set_run(Run {
            seed: Some(seed),
            checks: true,
            ..Run::default()
        });
        let (values, compared) = match repeated(exam, rig) {
            Ok(values) => values,
            Err(error) => {
                let found = fault(seed, &*error);
                let raced = || {
                    let error = repeated(exam, rig).err()?;
                    Some((fault(seed, &*error), cause_of_error(&*error)?))
                };
                findings.push(match found.cause {
                    Some(Cause::UnwrittenTile) => {
                        under_checks(rig, raced).map_or(found, |(found, _)| found)
                    }
                    _ => found,
                });
                break;
            }
        };
        let case = format!("schedule {seed}");
        if first.is_none() {
            match exam.compute(rig, Whose::Reference, Input::Repeated) {
                Ok(expected) if agree(&values[..compared], &expected) => {}
                Ok(_) => {
                    let sentence = "The values are wrong where blocks and warps run in another order, or behind other calls.";
                    findings.push(finding(Kind::Correct, &case, sentence.to_owned()));
                    break;
                }
                Err(error) => {
                    findings.push(fault(seed, &*error));
                    break;
                }
            }
        }
        let bits: Vec<u32> = values.into_iter().map(f32::to_bits).collect();
        let same = first.get_or_insert_with(|| bits.clone()) == &bits;
        if !same {
            let sentence = format!(
                "The result depends on the order of blocks and warps: with schedule {seed} its bits are others than with \
                 schedule 0."
            );
            findings.push(finding(Kind::Clean, &case, sentence));
            break;
        }
        passed += 1;
        memory.extend(rig.remote.take_calls().last().map(|call| call.in_use));
    }
    if findings.is_empty() && exam.has_many() {
        findings.extend(in_turn(exam, rig));
    }
    let mut leaks = leaks(&memory, exam.place());
    if leaks.is_empty() {
        leaks.extend(kept(rig.remote.growth(), exam.place()));
    }
    if leaks.is_empty()
        && calls_are_alone(exam.place())
        && let Some(remote) = fresh()
    {
        leaks.extend(kept(growth_in_steps(exam, rig, &remote), exam.place()));
        leaks.extend(elsewhere(exam, rig, &remote));
        rig.remote.charge(remote.cost());
        remote.finish();
    }
    if !leaks.is_empty() {
        passed = 0;
    }
    findings.extend(leaks);
    let share = f64::from(u8::from(findings.is_empty()));
    let note = match exam.place() {
        Place::Host => format!("{passed} of {SEEDS} repetitions"),
        Place::Device { .. } => format!("{passed} of {SEEDS} schedules"),
    };
    (
        criterion(Kind::Clean, share, passed, SEEDS as usize, note),
        findings,
    )
}

/// A fault of blocks that take many problems in turn.
fn in_turn(exam: &dyn Exam, rig: &Rig<'_>) -> Option<Finding> {
    rig.remote.set_run(Run {
        seed: Some(0),
        checks: true,
        ..Run::default()
    });
    let error = exam.compute(rig, Whose::Learner, Input::Many).err()?;
    Some(Finding {
        case: "many blocks".to_owned(),
        ..fault(0, &*error)
    })
}

/// The values of one repetition, and how many of them are those of [`Input::Repeated`], which come first.
fn repeated(exam: &dyn Exam, rig: &Rig<'_>) -> Result<(Vec<f32>, usize), AnyError> {
    let mut values = exam.compute(rig, Whose::Learner, Input::Repeated)?;
    let compared = values.len();
    for &input in exam.also_repeated() {
        values.extend(exam.compute(rig, Whose::Learner, input)?);
    }
    Ok((values, compared))
}

/// The growth of device memory in a program whose calls are those of [`Exam::steps`] alone.
fn growth_in_steps(exam: &dyn Exam, rig: &Rig<'_>, remote: &Remote) -> (u64, u64) {
    let alone = Rig {
        remote,
        device: rig.device,
    };
    for step in 0..exam.steps() {
        // What a call gives is judged elsewhere.
        if exam
            .compute(&alone, Whose::Learner, Input::Step(step))
            .is_err()
        {
            break;
        }
    }
    remote.growth()
}

/// A launch on another stream than the given one, which a capture of that stream does not take.
fn elsewhere(exam: &dyn Exam, rig: &Rig<'_>, remote: &Remote) -> Option<Finding> {
    let captured = Rig {
        remote,
        device: rig.device,
    };
    remote.take_calls();
    remote.set_run(Run {
        captured: true,
        profile: true,
        ..Run::default()
    });
    // Nothing is computed, and a call that waits is refused, which [`Kind::Fast`] judges.
    let _ = exam.compute(&captured, Whose::Learner, Input::Repeated);
    let calls = remote.take_calls();
    let kernel = calls.iter().find_map(|call| match &call.outcome {
        Outcome::Fault(fault) => Some(&fault.kernel),
        _ => call.launches.first().map(|launch| &launch.kernel),
    })?;
    let sentence = format!(
        "The kernel `{kernel}` is launched on another stream than the given one: it does not wait for what comes before the call on \
         that stream, and what comes after it does not wait for the kernel."
    );
    Some(finding(Kind::Clean, "streams", sentence))
}

/// Memory that repetitions do not free, by what was in use after each of them.
fn leaks(memory: &[InUse], place: Place) -> Vec<Finding> {
    // The first call may take memory that is kept: compiled kernels, a pool of threads.
    let [_, _, early, .., late] = memory else {
        return Vec::new();
    };
    let calls = memory.len() as u64 - 3;
    let mut sentences = Vec::new();
    if late.device > early.device {
        let each = (late.device - early.device) / calls;
        sentences.push(format!(
            "Device memory leaks: {each} bytes in each repetition are not freed. A `CudaSlice` frees itself, unless it is \
             forgotten or kept."
        ));
    }
    let each = late.host.saturating_sub(early.host) / calls;
    if each > HOST_SLACK && place == Place::Host {
        sentences.push(format!(
            "Host memory leaks: {each} bytes in each repetition are not freed."
        ));
    }
    let findings = sentences.into_iter();
    findings
        .map(|sentence| finding(Kind::Clean, "memory", sentence))
        .collect()
}

/// True if a call leaves nothing behind but its outputs, and waits for nothing.
fn calls_are_alone(place: Place) -> bool {
    matches!(
        place,
        Place::Device {
            reads_back: false,
            ..
        }
    )
}

/// Device memory that grows with the tensors of the calls, but not in each repetition: in more calls than it would if it had a
/// constant size. A decoder keeps what it has read.
fn kept((growth, calls): (u64, u64), place: Place) -> Option<Finding> {
    (calls_are_alone(place) && growth > DEVICE_SLACK && calls > WORKSPACES).then(|| {
        let sentence = format!(
            "Device memory is kept between calls: {growth} bytes more are in use than after the first call that kept any. A buffer \
             whose size depends on the tensors is freed when its call is done."
        );
        finding(Kind::Clean, "memory", sentence)
    })
}

fn fault(seed: u64, error: &(dyn Error + 'static)) -> Finding {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default().to_owned();
    Finding {
        cause: cause_of_error(error),
        detail: text,
        ..finding(Kind::Clean, &format!("schedule {seed}"), first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Place = Place::Device {
        lower: &[],
        reads_back: false,
    };

    /// Findings on memory in use of so many bytes after each repetition.
    fn found(device: &[u64], host: &[u64], place: Place) -> Vec<String> {
        let memory = device.iter().zip(host);
        let memory = memory.map(|(&device, &host)| InUse {
            device,
            host,
            peak: 0,
        });
        let found = leaks(&memory.collect::<Vec<_>>(), place);
        found.into_iter().map(|finding| finding.sentence).collect()
    }

    #[test]
    fn memory_that_grows_in_each_repetition_is_a_leak() {
        let grows: Vec<u64> = (0..20).map(|call| 8192 * call).collect();
        let found_on_device = found(&grows, &grows, DEVICE);
        assert_eq!(found_on_device.len(), 1, "{found_on_device:?}");
        assert!(found_on_device[0].starts_with("Device memory leaks: 8192 bytes in each"));
        let found_on_host = found(&[0; 20], &grows, Place::Host);
        assert_eq!(found_on_host.len(), 1, "{found_on_host:?}");
        assert!(found_on_host[0].starts_with("Host memory leaks: 8192 bytes in each"));
    }

    #[test]
    fn a_buffer_that_grows_with_the_tensors_is_not_kept() {
        let grows = (1 << 20, WORKSPACES + 1);
        let found = kept(grows, DEVICE).unwrap();
        assert!(found.sentence.contains(": 1048576 bytes more are in use"));
        assert!(kept((DEVICE_SLACK, 20), DEVICE).is_none());
        assert!(kept((1 << 30, WORKSPACES), DEVICE).is_none());
        let decoder = Place::Device {
            lower: &[],
            reads_back: true,
        };
        for place in [decoder, Place::Host] {
            assert!(kept(grows, place).is_none());
        }
    }

    #[test]
    fn memory_that_is_kept_once_is_no_leak() {
        let kept = [0, 1 << 20, 1 << 20, 1 << 20, 1 << 20];
        let freed = [9, 9, 9, 9, 0];
        let slack = [0, 0, 0, HOST_SLACK, 2 * HOST_SLACK];
        for memory in [&kept, &freed, &slack] {
            assert_eq!(found(&[0; 5], memory, Place::Host), [""; 0], "{memory:?}");
        }
        assert_eq!(found(&kept, &[0; 5], DEVICE), [""; 0]);
        assert_eq!(
            found(&[0, 0, 8], &[0; 3], DEVICE),
            [""; 0],
            "one call may keep it"
        );
    }
}
