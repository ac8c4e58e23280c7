use ndarray::Array4;
use stage2_naive_cuda::{Additive, ScaleAndMask, Steps, Strides};

use super::{AnyError, buffers, schedules, untouched};
use crate::Judge;
use crate::device::Device;
use crate::problems::Problem as _;
use crate::problems::scale_and_mask::{Problem, problems};
use crate::report::Part;

/// Scale-and-mask.
pub fn scale_and_mask(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    for &part in judge.parts() {
        let solve =
            |problem: &Problem, output: &mut Array4<f32>| solve(device, own, problem, output);
        match part {
            Part::Table => judge.problems(part, problems(), solve),
            Part::Arguments => arguments(judge, device, own),
            Part::Schedules => {
                let mut some = problems();
                some.retain(|problem| judge.missing(problem).is_none());
                schedules(judge, "seeds_scale_and_mask", || {
                    let mut values = Vec::new();
                    for problem in some.iter().step_by(7) {
                        let mut output = problem.poisoned();
                        solve(problem, &mut output)?;
                        values.extend(output);
                    }
                    Ok(values)
                });
            }
            Part::Strided | Part::Random | Part::Counted => {}
        }
    }
}

fn solve(
    device: &Device,
    own: &impl Steps,
    problem: &Problem,
    output: &mut Array4<f32>,
) -> Result<(), AnyError> {
    let (batch, heads, nq, nk) = problem.scores.dim();
    let mut scores = device.upload(&problem.scores);
    let mask = problem
        .mask
        .as_ref()
        .map(|mask| (device.upload(mask), Strides::broadcast(mask.dim())));
    let mask = mask.as_ref().map(|(values, strides)| Additive {
        values: values.as_view(),
        strides: *strides,
    });
    let shape = ScaleAndMask {
        batch,
        heads,
        nq,
        nk,
        scale: problem.scale,
        causal: problem.causal,
    };
    own.scale_and_mask(scores.as_view_mut(), mask, &shape)?;
    Ok(device.read_into(&scores, output)?)
}

fn arguments<S: Steps>(judge: &mut Judge<'_>, device: &Device, own: &S) {
    let shape = ScaleAndMask {
        batch: 2,
        heads: 3,
        nq: 4,
        nk: 5,
        scale: 2.0,
        causal: false,
    };
    for (name, argument, lengths) in [
        ("scale_and_mask_short_scores", "scores", [119, 20]),
        ("scale_and_mask_short_mask", "mask", [120, 19]),
    ] {
        let [mut scores, mask] = buffers(device, lengths);
        judge.refusal(name, argument, S::argument_of, || {
            let mask = Additive {
                values: mask.as_view(),
                strides: Strides::broadcast((1, 1, 4, 5)),
            };
            let result = own.scale_and_mask(scores.as_view_mut(), Some(mask), &shape);
            (result, untouched(device, &[&scores]))
        });
    }
}
