//! Fast, of a task that chooses tiles: each against the best of all tiles, at the problem where it does worst.

use conformance::AnyError;

use super::fast::{Limits, Timed};
use crate::exams::Rig;
use crate::remote::Tuned;
use crate::tuning::{MOST, Measured, PROBLEMS, Problem};
use crate::verdict::{LaunchWork, Work};

/// The model does not tell apart what is closer than a tenth.
const LIMITS: Limits = Limits {
    full: 1.1,
    none: MOST,
};

/// The device whose best tiles are known.
const DEVICE: &str = "h100";

/// The tiles' times. An error says that the task is not solved.
pub(super) fn tuned(rig: &Rig<'_>) -> Result<Timed, AnyError> {
    let own = Tuned {
        remote: rig.remote,
        device: rig.device,
    };
    // All tiles first: what is measured here takes none of the time of the learner's program. A program that ends, or does not
    // answer, has chosen no tile.
    let tiles: Vec<_> = PROBLEMS
        .iter()
        .map(|problem| own.tile(&problem.sizes))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let mut launches = Vec::new();
    let mut worst: Option<(f64, &Problem, Measured, Measured)> = None;
    for (problem, tile) in PROBLEMS.iter().zip(tiles) {
        let yours = own.measure(&problem.sizes, tile)?;
        let best = own.measure(&problem.sizes, problem.best)?;
        if best.time.device != DEVICE {
            return Err(format!(
                "Tiles are judged on {DEVICE}, and CUDA_SIM_DEVICE names {}.",
                best.time.device
            )
            .into());
        }
        if yours.spills() > 0 {
            return Err(format!(
                "At {}, {tile} need more registers than a thread gets: it keeps {} bytes of them in memory, and the modelled time \
                 does not count that for each step. Take a tile without spills. `cargo grade tune` shows all.",
                problem.name,
                yours.spills()
            )
            .into());
        }
        launches.push(work_of(problem, &yours));
        // As it is shown.
        let ratio = (100.0 * yours.time.seconds / best.time.seconds).round() / 100.0;
        if worst.as_ref().is_none_or(|(other, ..)| ratio > *other) {
            worst = Some((ratio, problem, yours, best));
        }
    }
    let (ratio, problem, yours, best) = worst.ok_or("there is no problem")?;
    let why = why(problem, &yours);
    if ratio > MOST {
        return Err(format!(
            "At {}, {} take {:.1} µs, and the best tile {:.1} µs: {ratio:.2} times as long. The most is {}, at \
             every shape.{why}",
            problem.name,
            yours.tile,
            yours.micros(),
            best.micros(),
            MOST
        )
        .into());
    }
    Ok(Timed {
        work: Work {
            label: format!("modelled ({})", yours.time.device),
            case: problem.name.to_owned(),
            yours: yours.micros(),
            reference: best.micros(),
            unit: "µs".to_owned(),
            launches,
        },
        why: Some(why),
        lost: None,
        limits: LIMITS,
    })
}

/// What a tile waits for, as sentences.
fn why(problem: &Problem, it: &Measured) -> String {
    let (blocks, waves) = (it.blocks(), it.time.waves);
    let (resident, bound) = (it.time.blocks_per_multiprocessor, it.time.bound.name());
    format!(
        " They make {blocks} blocks, of which an SM has {resident} at a time: {waves:.2} waves, bound by {bound}. `cargo grade tune \
         --head-dim {}` shows all tiles.",
        problem.sizes.head_dim
    )
}

fn work_of(problem: &Problem, it: &Measured) -> LaunchWork {
    LaunchWork {
        kernel: problem.name.to_owned(),
        microseconds: it.micros(),
        flops: it.flops(),
        dram_bytes: it.dram_bytes(),
    }
}
