//! Stage 4's times beside those of stage 2's tiled kernels.
//!
//! At N = 4096 they are extrapolated: there are so many blocks that the time is a polynomial of degree 2 in N, which three
//! samples tell.

use stage4_flash_cuda::{Attention, Mode, Stage4};

use super::{learners, references};
use crate::exams::Rig;
use crate::exams::stage4::forward;
use crate::report::figures::{Figure, Figures};

/// Hidden size 4096.
const HEADS: u64 = 32;
const HEAD_DIM: usize = 128;

/// Queries and keys of the samples.
const SAMPLES: [usize; 3] = [256, 512, 768];

pub(super) fn measure(rig: &Rig<'_>, figures: &mut Figures) {
    let Ok(attention) = Attention::new(rig.device.stream.context()) else {
        return;
    };
    let tiled = Stage4 {
        stream: rig.device.stream.clone(),
        attention: attention.with_mode(Mode::Tiled),
    };
    figures.flash.clear();
    for (batch, n) in [(4, 128), (64, 4096)] {
        for causal in [false, true] {
            let heads = batch * HEADS;
            let sizes = |n| [1, n, n, HEAD_DIM];
            let yours = |n| {
                let work = || forward::<f32>(rig.remote, rig.device, sizes(n), causal, 0).map(drop);
                learners(rig.remote, heads, work)
            };
            let reference = |n| {
                references(heads, || {
                    forward::<f32>(&tiled, rig.device, sizes(n), causal, 0).map(drop)
                })
            };
            let mask = if causal { "causal" } else { "not causal" };
            let extrapolated = if n > SAMPLES[2] { ", extrapolated" } else { "" };
            figures.flash.push(Figure {
                label: format!("B = {batch}, N = {n}, {mask}{extrapolated}"),
                yours: at(n, yours),
                reference: at(n, reference),
                unit: "ms".to_owned(),
            });
        }
    }
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
