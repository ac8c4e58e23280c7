use ndarray::Array4;
use stage2_naive_cuda::{Additive, Call, Kernels, ScaleAndMask, ScaleAndMaskShape, Steps, Strides};

use super::{HUGE, buffers, schedules, untouched};
use crate::device::Device;
use crate::problems::Problem as _;
use crate::problems::scale_and_mask::{Problem, problems};
use crate::report::Part;
use crate::{AnyError, Judge};

/// Scale and mask of packed scores, without an additive mask.
pub fn scale_and_mask(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    for &part in judge.parts() {
        match part {
            Part::Arguments => arguments(judge, device, own),
            _ => computed(judge, part, |problem, output| {
                solve(device, own, problem, output)
            }),
        }
    }
}

/// Scale and mask of the library.
pub fn library_scale_and_mask(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    for &part in judge.parts() {
        match part {
            Part::Arguments => library_arguments(judge, device, own),
            _ => computed(judge, part, |problem, output| {
                library_solve(device, own, problem, output)
            }),
        }
    }
}

/// A part that is computed by `solve`.
fn computed(
    judge: &mut Judge<'_>,
    part: Part,
    solve: impl Fn(&Problem, &mut Array4<f32>) -> Result<(), AnyError>,
) {
    match part {
        Part::Table => judge.problems(part, problems(), solve),
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
        Part::Strided | Part::Random | Part::Arguments | Part::Counted => {}
    }
}

fn solve(
    device: &Device,
    own: &impl Steps,
    problem: &Problem,
    output: &mut Array4<f32>,
) -> Result<(), AnyError> {
    if problem.mask.is_some() {
        return Err("the step has no additive mask".into());
    }
    let (batch, heads, nq, nk) = problem.scores.dim();
    let mut scores = device.in_place(&problem.scores, problem.layout);
    own.run(Call::ScaleAndMask {
        scores: scores.view_mut(),
        shape: ScaleAndMask {
            batch: batch * heads,
            nq,
            nk,
            scale: problem.scale,
            causal: problem.causal,
        },
    })?;
    *output = scores.read(device)?;
    Ok(())
}

fn library_solve(
    device: &Device,
    own: &Kernels,
    problem: &Problem,
    output: &mut Array4<f32>,
) -> Result<(), AnyError> {
    let (batch, heads, nq, nk) = problem.scores.dim();
    let mut scores = device.in_place(&problem.scores, problem.layout);
    let mask = problem
        .mask
        .as_ref()
        .map(|mask| (device.upload(mask), Strides::broadcast(mask.dim())));
    let mask = mask.as_ref().map(|(values, strides)| Additive {
        values: values.as_view(),
        strides: *strides,
    });
    let shape = ScaleAndMaskShape {
        batch,
        heads,
        nq,
        nk,
        scale: problem.scale,
        causal: problem.causal,
    };
    own.scale_and_mask(scores.view_mut(), mask, &shape)?;
    *output = scores.read(device)?;
    Ok(())
}

fn arguments<S: Steps>(judge: &mut Judge<'_>, device: &Device, own: &S) {
    for (name, argument, length, nq) in [
        ("scale_and_mask_short_scores", "scores", 119, 4),
        ("scale_and_mask_huge_nq", "nq", 120, HUGE),
    ] {
        let [mut scores] = buffers(device, [length]);
        judge.refusal(name, argument, S::argument_of, || {
            let result = own.run(Call::ScaleAndMask {
                scores: scores.as_view_mut(),
                shape: ScaleAndMask {
                    batch: 6,
                    nq,
                    nk: 5,
                    scale: 2.0,
                    causal: false,
                },
            });
            (result, untouched(device, &[&scores]))
        });
    }
}

fn library_arguments(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    let shape = ScaleAndMaskShape {
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
        judge.refusal(name, argument, super::argument, || {
            let mask = Additive {
                values: mask.as_view(),
                strides: Strides::broadcast((1, 1, 4, 5)),
            };
            let result = own.scale_and_mask(scores.as_view_mut(), Some(mask), &shape);
            (result, untouched(device, &[&scores]))
        });
    }
}
