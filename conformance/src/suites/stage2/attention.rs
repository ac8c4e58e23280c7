use ndarray::{Array3, Array4, Axis};
use stage1_reference::{Feature, Options, Output, Sizes};
use stage2_naive_cuda::{
    Additive, Attention, AttentionInputs, AttentionOutputs, AttentionShape, Call, Kernels, LACKS,
    LADDER_LACKS, Steps, Strides, Variant,
};

use super::{HUGE, buffers, schedules, strides, untouched};
use crate::device::Device;
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::UNWRITTEN;
use crate::problems::attention::{
    Problem, at_odd_places, in_pieces, many_matrices, others, problems, random, with_dropout,
};
use crate::report::{Claim, Part};
use crate::suites::host::bad_dropout;
use crate::{AnyError, Judge};

/// Attention of packed tensors. A problem that needs one of the [`LADDER_LACKS`] is an error,
/// because the step cannot express it.
pub fn attention(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    for &part in judge.parts() {
        match part {
            Part::Arguments => arguments(judge, device, own),
            Part::Strided | Part::Counted => {}
            Part::Table | Part::Random | Part::Schedules => {
                computed(judge, part, &LADDER_LACKS, |problem, _| {
                    solve(device, own, problem)
                });
            }
        }
    }
}

/// Attention of the library. A problem that needs one of the [`LACKS`] of this stage is an error.
pub fn library_attention(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    for &part in judge.parts() {
        match part {
            Part::Arguments => library_arguments(judge, device, own),
            Part::Counted => {}
            Part::Table | Part::Strided | Part::Random | Part::Schedules => {
                computed(judge, part, &LACKS, |problem, layouts| {
                    library_solve(device, own, problem, layouts)
                });
            }
        }
    }
}

/// Attention of the library with dropout.
pub fn library_dropout(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, with_dropout(), |problem, output| {
                *output = library_solve(device, own, problem, problem.layouts)?;
                Ok::<_, AnyError>(())
            }),
            Part::Arguments => {
                let [q, k, v, mut o] = buffers(device, [16; 4]);
                let sizes = Sizes {
                    batch: 1,
                    heads: 1,
                    kv_heads: 1,
                    nq: 2,
                    nk: 2,
                    head_dim: 8,
                };
                for (name, dropout, argument) in bad_dropout(judge.lacks()) {
                    let shape = AttentionShape {
                        dropout: Some(dropout),
                        ..AttentionShape::packed(sizes)
                    };
                    judge.refusal(name, argument, super::argument, || {
                        let inputs = AttentionInputs {
                            q: q.as_view(),
                            k: k.as_view(),
                            v: v.as_view(),
                            mask: None,
                        };
                        let outputs = AttentionOutputs {
                            o: o.as_view_mut(),
                            lse: None,
                        };
                        let result = own.attention(Variant::Tiled, inputs, outputs, &shape);
                        (result, untouched(device, &[&o]))
                    });
                }
            }
            Part::Schedules => schedules(judge, "seeds_dropout", || {
                let mut values = Vec::new();
                let possible =
                    |problem: &Problem| problem.options.refuse("attention", &LACKS).is_ok();
                for problem in with_dropout().into_iter().filter(possible).step_by(4) {
                    let output = library_solve(device, own, &problem, problem.layouts)?;
                    values.extend(output.o.into_iter().chain(output.lse));
                }
                Ok(values)
            }),
            Part::Strided | Part::Random | Part::Counted => {}
        }
    }
}

/// A part that is computed by `solve`, with these layouts of q, k, v and o.
fn computed(
    judge: &mut Judge<'_>,
    part: Part,
    lacks: &[Feature],
    solve: impl Fn(&Problem, [Layout; 4]) -> Result<Output, AnyError>,
) {
    let lacks = [judge.lacks(), lacks].concat();
    let fill = |problem: &Problem, layouts, output: &mut Output| {
        *output = solve(problem, layouts)?;
        Ok::<_, AnyError>(())
    };
    match part {
        Part::Table => {
            let many = many_matrices(1, 1, Options::default());
            let more = [many, in_pieces()].into_iter().chain(at_odd_places());
            let all = problems().into_iter().chain(others()).chain(more);
            judge.problems(part, all, |problem, output| {
                fill(problem, problem.layouts, output)
            });
        }
        Part::Strided => {
            let (q, cache) = (Layout::SequenceFirst, Layout::Cache);
            for o in [q, cache] {
                judge.problems(part, generator(), |problem, output| {
                    fill(problem, [q, cache, cache, o], output)
                });
            }
        }
        Part::Random => {
            for seed in judge.seeds(40) {
                let head_dim = 1 + (7 * seed as usize) % 80;
                let (problem, layouts) = random(seed << 8, head_dim, &lacks);
                judge.problems(part, [problem], |problem, output| {
                    fill(problem, layouts, output)
                });
            }
        }
        Part::Schedules => schedules(judge, "seeds_attention", || {
            let mut values = Vec::new();
            for (seed, head_dim) in [(1, 64), (2, 16), (3, 72)] {
                let (problem, layouts) = random(seed << 8, head_dim, &lacks);
                let output = solve(&problem, layouts)?;
                values.extend(output.o.into_iter().chain(output.lse));
            }
            Ok(values)
        }),
        Part::Arguments | Part::Counted => {}
    }
}

/// Causal problems as a text generator has them: a prompt, one token, a second prompt.
fn generator() -> impl Iterator<Item = Problem> {
    let sizes = [
        ("prefill", 5, 5),
        ("decode", 1, 5),
        ("second_prompt", 3, 12),
    ];
    sizes.into_iter().map(|(name, nq, nk)| {
        let q = tensor((2, 4, nq, 24), 51, normal);
        let [k, v] = [52, 53].map(|seed| tensor((2, 2, nk, 24), seed, normal));
        Problem::new(name.to_owned(), q, k, v, Options::default().causal())
    })
}

/// Computes a problem in device memory, packed.
///
/// # Errors
///
/// Those of the implementation and of the device.
pub fn solve(device: &Device, own: &impl Steps, problem: &Problem) -> Result<Output, AnyError> {
    problem.options.refuse("attention", &LADDER_LACKS)?;
    let (sizes, (batch, heads, nq, head_dim)) = (problem.sizes(), problem.q.dim());
    if heads != sizes.kv_heads {
        return Err("packed attention has no grouped heads".into());
    }
    let [q_layout, k_layout, v_layout, o_layout] = problem.layouts;
    let q = device.input(&problem.q, q_layout);
    let k = device.input(&problem.k, k_layout);
    let v = device.input(&problem.v, v_layout);
    let mut o = device.output(problem.q.dim(), o_layout);
    let mut lse = device.output((1, batch, heads, nq), o_layout.of_rows());
    own.run(Call::Attention {
        q: q.view(),
        k: k.view(),
        v: v.view(),
        o: o.view_mut(),
        lse: lse.view_mut(),
        shape: Attention {
            batch: batch * heads,
            nq,
            nk: sizes.nk,
            head_dim,
            scale: problem.options.scale.unwrap_or(sizes.default_scale()),
            causal: problem.options.causal,
        },
    })?;
    Ok(Output {
        o: o.read(device)?,
        lse: lse.read(device)?.remove_axis(Axis(0)),
    })
}

/// Computes a problem with these layouts of q, k, v and o.
fn library_solve(
    device: &Device,
    own: &Kernels,
    problem: &Problem,
    layouts: [Layout; 4],
) -> Result<Output, AnyError> {
    problem.options.refuse("attention", &LACKS)?;
    let (batch, heads, nq, _) = problem.q.dim();
    let q = device.input(&problem.q, layouts[0]);
    let k = device.input(&problem.k, layouts[1]);
    let v = device.input(&problem.v, layouts[2]);
    let mut o = device.output(problem.q.dim(), layouts[3]);
    let mut lse = Array3::from_elem((batch, heads, nq), UNWRITTEN);
    let mut device_lse = device.upload(&lse);
    let mask = problem.options.mask.as_ref();
    let mask = mask.map(|mask| (device.upload(mask), Strides::broadcast(mask.dim())));
    let inputs = AttentionInputs {
        q: q.view(),
        k: k.view(),
        v: v.view(),
        mask: mask.as_ref().map(|(values, strides)| Additive {
            values: values.as_view(),
            strides: *strides,
        }),
    };
    let shape = AttentionShape {
        sizes: problem.sizes(),
        scale: problem.options.scale,
        causal: problem.options.causal,
        dropout: problem.options.dropout,
        q: strides(q.strides()),
        k: strides(k.strides()),
        v: strides(v.strides()),
        o: strides(o.strides()),
    };
    let outputs = AttentionOutputs {
        o: o.view_mut(),
        lse: Some(device_lse.as_view_mut()),
    };
    own.attention(Variant::Tiled, inputs, outputs, &shape)?;
    device.read_into(&device_lse, &mut lse)?;
    let o: Array4<f32> = o.read(device)?;
    Ok(Output { o, lse })
}

fn arguments<S: Steps>(judge: &mut Judge<'_>, device: &Device, own: &S) {
    /// Elements of q, k, v, o and lse for [8, 3, 8] and [8, 5, 8].
    const LENGTHS: [usize; 5] = [192, 320, 320, 192, 24];
    let fits = Attention {
        batch: 8,
        nq: 3,
        nk: 5,
        head_dim: 8,
        scale: 0.5,
        causal: false,
    };
    let mut refusal = |case: &str, argument: &str, lengths, shape: Attention| {
        let [q, k, v, mut o, mut lse] = buffers(device, lengths);
        let name = format!("attention_{case}");
        judge.refusal(&name, argument, S::argument_of, || {
            let result = own.run(Call::Attention {
                q: q.as_view(),
                k: k.as_view(),
                v: v.as_view(),
                o: o.as_view_mut(),
                lse: lse.as_view_mut(),
                shape,
            });
            (result, untouched(device, &[&o, &lse]))
        });
    };
    for (i, argument) in ["q", "k", "v", "o", "lse"].into_iter().enumerate() {
        let mut lengths = LENGTHS;
        lengths[i] -= 1;
        refusal(&format!("short_{argument}"), argument, lengths, fits);
    }
    refusal("another_nk", "k", LENGTHS, Attention { nk: 6, ..fits });
    refusal("huge_nk", "nk", LENGTHS, Attention { nk: HUGE, ..fits });
    let scale = f32::NAN;
    refusal("nan_scale", "scale", LENGTHS, Attention { scale, ..fits });
    refused_within(judge, device, own);
}

/// A call with one key more than 65,535 tiles of 16 columns have, the most in y of a grid. Either a
/// step refuses it, when memory for the scores has been taken, or the result is right. The call is
/// made five times: memory that an error leaves allocated adds up, and the grader counts it.
fn refused_within(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    const KEYS: usize = 65_535 * 16 + 1;
    let [q, k] = [1, KEYS].map(|length| device.filled::<f32>(0.0, length));
    let v = device.filled::<f32>(1.0, KEYS);
    let [mut o, mut lse] = buffers(device, [1, 1]);
    let mut run = || {
        own.run(Call::Attention {
            q: q.as_view(),
            k: k.as_view(),
            v: v.as_view(),
            o: o.as_view_mut(),
            lse: lse.as_view_mut(),
            shape: Attention {
                batch: 1,
                nq: 1,
                nk: KEYS,
                head_dim: 1,
                scale: 1.0,
                causal: false,
            },
        })
    };
    let results = [0; 5].map(|_| run());
    let mean = device.read(&o);
    let right = mean.is_ok_and(|o| (o[0] - 1.0).abs() < 1e-3);
    let claim = Claim {
        expected: "an error, or o = 1".to_owned(),
        holds: right || results.iter().all(Result::is_err),
        actual: "neither".to_owned(),
    };
    let name = "attention_of_more_keys_than_tiles".to_owned();
    judge.claim(Part::Arguments, name, claim);
}

fn library_arguments(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    /// Elements of q, k, v, o and lse for [2, 4, 3, 8] and [2, 2, 5, 8].
    const LENGTHS: [usize; 5] = [192, 160, 160, 192, 24];
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        nq: 3,
        nk: 5,
        head_dim: 8,
    };
    let mut refusal = |case: &str, argument: &str, lengths, shape: AttentionShape| {
        let [q, k, v, mut o, mut lse] = buffers(device, lengths);
        let name = format!("attention_{case}");
        judge.refusal(&name, argument, super::argument, || {
            let inputs = AttentionInputs {
                q: q.as_view(),
                k: k.as_view(),
                v: v.as_view(),
                mask: None,
            };
            let outputs = AttentionOutputs {
                o: o.as_view_mut(),
                lse: Some(lse.as_view_mut()),
            };
            let result = own.attention(Variant::Tiled, inputs, outputs, &shape);
            (result, untouched(device, &[&o, &lse]))
        });
    };
    for (i, argument) in ["q", "k", "v", "o", "lse"].into_iter().enumerate() {
        let mut lengths = LENGTHS;
        lengths[i] -= 1;
        let shape = AttentionShape::packed(sizes);
        refusal(&format!("short_{argument}"), argument, lengths, shape);
    }
    type Spoil = fn(&mut AttentionShape);
    let bad: [(&str, &str, Spoil); 7] = [
        ("overlapping_o", "o", |shape| shape.o.head = 23),
        ("more_keys_than_cached", "k", |shape| shape.sizes.nk = 6),
        ("group", "heads", |shape| shape.sizes.kv_heads = 3),
        ("no_heads_of_k", "heads", |shape| shape.sizes.kv_heads = 0),
        ("no_head_dimension", "q", |shape| shape.sizes.head_dim = 0),
        ("huge_nk", "nk", |shape| shape.sizes.nk = HUGE),
        ("nan_scale", "scale", |shape| shape.scale = Some(f32::NAN)),
    ];
    for (case, argument, spoil) in bad {
        let mut shape = AttentionShape::packed(sizes);
        spoil(&mut shape);
        refusal(case, argument, LENGTHS, shape);
    }
}
