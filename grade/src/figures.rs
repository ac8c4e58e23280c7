//! The figures that the assignment asks for, of the learner's kernels, as far as they can be counted.
//!
//! Stage 4: one head is counted, and the model's time is that of all heads of the batch. At N = 4096 it is extrapolated: there are
//! so many blocks that the time is a polynomial of degree 2 in N, which three samples tell.

use conformance::device::Device;
use exercise_kit::message::{Outcome, Run};
use stage4_flash_cuda::{Attention, Mode, Stage4};

use crate::child::{Child, build};
use crate::exams::stage4::forward;
use crate::grade::Settings;
use crate::remote::Remote;
use crate::report::figures::{Figure, Figures};
use crate::tasks::TASKS;
use crate::verdict::{Grade, Kind};

/// Hidden size 4096.
const HEADS: u64 = 32;
const HEAD_DIM: usize = 128;

/// Queries and keys of the samples.
const SAMPLES: [usize; 3] = [256, 512, 768];

/// The figures of a learner whose grade this is. What is not right is not measured.
pub fn figures(settings: &Settings, grade: &Grade) -> Figures {
    let mut figures = Figures::default();
    let right = grade.tasks.iter().any(|task| {
        let mut criteria = task.criteria.iter();
        let right = criteria.any(|of| of.kind == Kind::Correct && of.share == 1.0);
        (task.stage, &*task.task) == (4, "flash") && right
    });
    if right && let Some(flash) = flash(settings) {
        figures.label = "modelled (h100), and extrapolated at N = 4096".to_owned();
        figures.flash = flash;
    }
    figures
}

/// Stage 4's times beside those of stage 2's tiled kernels; `None` if the program cannot be run.
fn flash(settings: &Settings) -> Option<Vec<Figure>> {
    let task = TASKS.iter().find(|task| task.name() == "4/flash")?;
    let program = build(&settings.places, task).ok()?;
    let child = Child::start(&program, &settings.limits, settings.own).ok()?;
    let device = Device::open();
    let remote = Remote::new(child, &settings.limits, Some(device.stream.clone()));
    let attention = Attention::new(device.stream.context()).ok()?;
    let tiled = Stage4 {
        stream: device.stream.clone(),
        attention: attention.with_mode(Mode::Tiled),
    };
    let mut figures = Vec::new();
    for (batch, n) in [(4, 128), (64, 4096)] {
        for causal in [false, true] {
            let yours = |n| learners(&remote, &device, n, causal, batch * HEADS);
            let reference = |n| stage2s(&tiled, &device, n, causal, batch * HEADS);
            let mask = if causal { "causal" } else { "not causal" };
            figures.push(Figure {
                label: format!("B = {batch}, N = {n}, {mask}"),
                yours: at(n, yours),
                reference: at(n, reference),
                unit: "ms".to_owned(),
            });
        }
    }
    Some(figures)
}

/// Milliseconds of the learner's launches, for as many heads.
fn learners(remote: &Remote, device: &Device, n: usize, causal: bool, heads: u64) -> Option<f64> {
    remote.set_run(Run {
        profile: true,
        more: heads - 1,
        ..Run::default()
    });
    remote.take_calls();
    forward(remote, device, [1, n, n, HEAD_DIM], causal).ok()?;
    let calls = remote.take_calls();
    let done = calls.iter().all(|call| call.outcome == Outcome::Done);
    let launches = calls.iter().flat_map(|call| &call.launches);
    done.then(|| 1e3 * launches.map(|launch| launch.seconds).sum::<f64>())
}

/// The same of stage 2's.
fn stage2s(tiled: &Stage4, device: &Device, n: usize, causal: bool, heads: u64) -> Option<f64> {
    let run = || forward(tiled, device, [1, n, n, HEAD_DIM], causal);
    let (done, launches) = gpu::profile::profile(run).ok()?;
    done.ok()?;
    let seconds = launches.iter().map(|launch| launch.repeated(heads).seconds);
    Some(1e3 * seconds.sum::<f64>())
}

/// The time at N = `n`: counted, or from the parabola through the samples.
fn at(n: usize, time: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    if n <= SAMPLES[2] {
        return time(n);
    }
    let [a, b, c] = [time(SAMPLES[0])?, time(SAMPLES[1])?, time(SAMPLES[2])?];
    let [x, y, z] = SAMPLES.map(|sample| sample as f64);
    let n = n as f64;
    Some(
        a * (n - y) * (n - z) / ((x - y) * (x - z))
            + b * (n - x) * (n - z) / ((y - x) * (y - z))
            + c * (n - x) * (n - y) / ((z - x) * (z - y)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_is_told_by_its_samples() {
        let time = |n: usize| Some(1.0 + 2.0 * n as f64 + 3.0 * (n * n) as f64);
        assert_eq!(at(128, time), time(128));
        let (found, expected) = (at(4096, time).unwrap(), time(4096).unwrap());
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{found}, not {expected}"
        );
        assert_eq!(
            at(4096, |n| (n < 700).then_some(1.0)),
            None,
            "a sample is missing"
        );
    }
}
