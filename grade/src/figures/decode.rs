//! Stage 5's times to the first token and between tokens, over recomputing everything by stage 4 at each step.
//!
//! The case of the assignment, as `stage5-decode bench --tables assignment` has it: attention alone, without projections.

use conformance::Dtype;
use conformance::problems::decode::counted;
use stage4_flash_cuda::{Attention, Stage4};

use super::{learners, references};
use crate::exams::Rig;
use crate::exams::stage4::forward;
use crate::exams::stage5::{attend, learner, update};
use crate::report::figures::{Figure, Figures};

/// B = 16, hidden size 4096.
const HEADS: u64 = 16 * 32;
const HEAD_DIM: usize = 128;

/// Tokens of the prompt, and room of the cache.
const PROMPT: usize = 1024;
const ROOM: usize = 2048;

/// The steps that are counted, of 100; between two of them, time is taken as linear.
const COUNTED: [usize; 3] = [1, 50, 100];

pub(super) fn measure(rig: &Rig<'_>, splitting: bool, figures: &mut Figures) {
    let Ok(attention) = Attention::new(rig.device.stream.context()) else {
        return;
    };
    let stage4 = Stage4 {
        stream: rig.device.stream.clone(),
        attention,
    };
    let recomputed = |n| {
        references(HEADS, || {
            forward::<f32>(&stage4, rig.device, [1, n, n, HEAD_DIM], true, 0).map(drop)
        })
    };
    let own = learner(rig, splitting);
    let writing = |n| {
        let sizes = [1, 1, n, ROOM, HEAD_DIM];
        learners(rig.remote, HEADS, || {
            update(&own, rig.device, sizes, 0).map(drop)
        })
    };
    let prompt = recomputed(PROMPT);
    let step = |step| {
        let problem = counted(1, 1, HEAD_DIM, PROMPT + step, Dtype::F32);
        let work = || attend(&own, rig.device, &problem).map(drop);
        Some(writing(1)? + learners(rig.remote, HEADS, work)?)
    };
    let kernels = if splitting { "split" } else { "decode" };
    let figure = |label: &str, yours, reference| Figure {
        label: label.to_owned(),
        yours,
        reference,
        unit: "ms".to_owned(),
    };
    figures.decode = vec![
        figure(
            "TTFT: B = 16, prompt of 1024",
            prompt
                .zip(writing(PROMPT))
                .map(|(attend, write)| attend + write),
            prompt,
        ),
        figure(
            &format!("TBT: 100 steps, room for 2048, by `{kernels}`"),
            mean(step),
            mean(|step| recomputed(PROMPT + step)),
        ),
    ];
}

/// The mean over all steps from the first to the last of [`COUNTED`], by trapezoids.
fn mean(time: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let mut times = Vec::new();
    for step in COUNTED {
        times.push((step as f64, time(step)?));
    }
    let sum: f64 = times
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0)
        .sum();
    Some(sum / (COUNTED[2] - COUNTED[0]) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_line_is_its_middle() {
        assert_eq!(mean(|step| Some(3.0 + step as f64)), Some(53.5));
        assert_eq!(mean(|step| (step < 100).then_some(1.0)), None);
    }
}
