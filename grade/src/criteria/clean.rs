//! Clean: no fault, no race, no leak, and the same right bits under every schedule.

use exercise_kit::message::Run;

use super::{Judged, agree, criterion, finding};
use crate::cause;
use crate::exams::{Exam, Place, Rig, Whose};
use crate::verdict::{Finding, Kind};

/// Orders of blocks and warps; on the CPU, repetitions.
const SEEDS: u64 = 20;

/// Growth of host memory in a call that is no leak: what a thread or the allocator keeps.
const HOST_SLACK: u64 = 4096;

/// Repeats a few problems under 20 schedules, with all checks of the simulator.
///
/// Three checks: the share is 0 unless all pass.
pub fn clean(exam: &dyn Exam, rig: &Rig<'_>) -> Judged {
    rig.remote.take_calls();
    let mut first: Option<Vec<u32>> = None;
    let mut findings = Vec::new();
    let mut memory = Vec::new();
    let mut repeated = 0;
    for seed in 0..SEEDS {
        rig.remote.set_run(Run {
            seed: Some(seed),
            checks: true,
            ..Run::default()
        });
        let values = match exam.repeated(rig, Whose::Learner) {
            Ok(values) => values,
            Err(text) => {
                findings.push(fault(seed, &text));
                break;
            }
        };
        let case = format!("schedule {seed}");
        if first.is_none() {
            match exam.repeated(rig, Whose::Reference) {
                Ok(expected) if agree(&values, &expected) => {}
                Ok(_) => {
                    let sentence =
                        "The values are wrong where blocks and warps run in another order.";
                    findings.push(finding(Kind::Clean, &case, sentence.to_owned()));
                    break;
                }
                Err(text) => {
                    findings.push(fault(seed, &text));
                    break;
                }
            }
        }
        repeated += 1;
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
        memory.extend(rig.remote.take_calls().last().map(|call| call.in_use));
    }
    // The first call may take memory that is kept: compiled kernels, a pool of threads.
    if let (Some(early), Some(late)) = (memory.get(2), memory.last())
        && memory.len() > 3
    {
        let calls = memory.len() as u64 - 3;
        if late.device > early.device {
            let each = (late.device - early.device) / calls;
            let sentence = format!(
                "Device memory leaks: {each} bytes in each repetition are not freed. A `CudaSlice` frees itself, unless it \
                 is forgotten or kept."
            );
            findings.push(finding(Kind::Clean, "memory", sentence));
        }
        if late.host.saturating_sub(early.host) / calls > HOST_SLACK && exam.place() == Place::Host
        {
            let each = (late.host - early.host) / calls;
            let sentence =
                format!("Host memory leaks: {each} bytes in each repetition are not freed.");
            findings.push(finding(Kind::Clean, "memory", sentence));
        }
    }
    let clean = findings.is_empty();
    let share = f64::from(u8::from(clean));
    let passed = if clean { SEEDS as usize } else { repeated };
    let note = match exam.place() {
        Place::Host => format!("{repeated} of {SEEDS} repetitions"),
        Place::Device { .. } => format!("{repeated} of {SEEDS} schedules"),
    };
    (
        criterion(Kind::Clean, share, passed, SEEDS as usize, note),
        findings,
    )
}

fn fault(seed: u64, text: &str) -> Finding {
    let first = text.lines().next().unwrap_or_default().to_owned();
    Finding {
        cause: cause::of_fault(text),
        detail: text.to_owned(),
        ..finding(Kind::Clean, &format!("schedule {seed}"), first)
    }
}
