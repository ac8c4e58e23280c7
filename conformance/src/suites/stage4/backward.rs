//! The backward pass in device memory.

use cudarc::driver::CudaSlice;
use gpu::arguments::Strides;
use gpu::profile::LaunchProfile;
use stage1_reference::{Feature, Options, Output, Sizes};
use stage3_flash_cpu::Gradients;
use stage4_flash_cuda::{
    Additive, BackwardInputs, BlockMask, Fused, FusedBackward, Gradients as GradientViews, Inputs,
    Shape,
};

use super::{BAD, HEAD_DIMS, Masks, Spoil, asked, needing, shape};
use crate::device::{Device, Launches, Tensor, launches};
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::attention::{self, random};
use crate::problems::gradients::Problem;
use crate::report::Part;
use crate::suites::stage2::{HUGE, OLD, under_seeds, untouched};
use crate::{AnyError, Dtype, Element, Judge};

/// Random problems.
const RANDOM: u64 = 60;

pub(super) const PACKED: [Layout; 4] = [Layout::Packed; 4];

/// Queries and keys of the problems whose products are counted.
const MASKED: usize = 512;

/// Schedules under which all results must be the same.
const SEEDS: u64 = 20;

/// The whole suite, on tensors of `T`. `forward` computes o and lse in f32. Problems of a head
/// dimension that the implementation cannot have are left out.
pub fn backward<T: Element>(
    judge: &mut Judge<'_>,
    device: &Device,
    forward: &impl Fused<T>,
    own: &impl FusedBackward<T>,
) {
    let lacks = judge.lacks();
    let possible = |problem: &Problem| own.has_head_dim(problem.forward.q.dim().3);
    let random = |seed: u64, head_dim| {
        let (problem, layouts) = random(seed << 8, head_dim, lacks);
        let layouts = match lacks.contains(&Feature::Strides) {
            true => PACKED,
            false => layouts,
        };
        (Problem::new(problem.stored_in(T::DTYPE)), layouts)
    };
    let table = || {
        let problems = attention::problems().into_iter();
        let problems = problems.map(|problem| Problem::new(problem.stored_in(T::DTYPE)));
        problems.filter(possible)
    };
    let with = |layouts| {
        move |problem: &Problem, gradients: &mut Gradients| {
            *gradients = solve_both(device, forward, own, problem, layouts)?;
            Ok::<_, AnyError>(())
        }
    };
    for &part in judge.parts() {
        match part {
            Part::Table => {
                judge.problems(part, table(), with(PACKED));
                judge.problems(
                    part,
                    others::<T>().filter(possible),
                    |problem, gradients| with(problem.forward.layouts)(problem, gradients),
                );
            }
            Part::Strided if lacks.contains(&Feature::Strides) => {}
            Part::Strided => {
                let (sequence, cache) = (Layout::SequenceFirst, Layout::Cache);
                let mixed = [sequence, cache, Layout::Sparse, sequence];
                let small = table().filter(|problem| problem.forward.q.len() <= 5_000);
                judge.problems(part, small.step_by(3), with(mixed));
            }
            Part::Random => {
                let head_dims = HEAD_DIMS.into_iter().filter(|&d| own.has_head_dim(d));
                for (seed, head_dim) in judge.seeds(RANDOM).zip(head_dims.cycle()) {
                    let (problem, layouts) = random(seed, head_dim);
                    judge.problems(part, [problem], with(layouts));
                }
            }
            Part::Arguments => arguments(judge, device, own),
            Part::Schedules => {
                let problems = [(2, 16), (1, 64), (4, 128), (5, 256)].into_iter();
                let problems = problems.zip(judge.seeds(RANDOM));
                let problems = problems.map(|((seed, head_dim), _)| random(seed, head_dim));
                let problems = Vec::from_iter(problems);
                under_seeds(judge, "seeds_backward", SEEDS, || {
                    let mut values = Vec::new();
                    for (problem, layouts) in problems.iter().filter(|(p, _)| possible(p)) {
                        let mut gradients = crate::problems::Problem::poisoned(problem);
                        with(*layouts)(problem, &mut gradients)?;
                        let Gradients { dq, dk, dv } = gradients;
                        values.extend(dq.into_iter().chain(dk).chain(dv));
                    }
                    Ok(values)
                });
            }
            Part::Counted => counted(judge, device, own),
        }
    }
}

/// Problems that are not in the table, and those without keys or without queries in longer buffers.
fn others<T: Element>() -> impl Iterator<Item = Problem> {
    let [without_keys, _] = attention::in_longer_buffers(T::DTYPE);
    let others = [attention::scale_0(), attention::low_key()].map(|it| it.stored_in(T::DTYPE));
    let others = others
        .into_iter()
        .chain([without_keys.clone(), without_keys.exchanged()]);
    others.map(Problem::new)
}

/// The gradients of a problem after a forward pass in f32, or with the right o in half precision:
/// the forward pass may be off by more than a unit in its last place.
pub(super) fn solve_both<T: Element>(
    device: &Device,
    forward: &impl Fused<T>,
    own: &impl FusedBackward<T>,
    problem: &Problem,
    layouts: [Layout; 4],
) -> Result<Gradients, AnyError> {
    let output = match T::DTYPE {
        Dtype::F32 => attend(device, forward, problem)?,
        dtype => rounded(problem, dtype),
    };
    solve(device, own, problem, &output, layouts)
}

/// The right o and lse of a problem, o rounded to a type.
fn rounded(problem: &Problem, dtype: Dtype) -> Output {
    let (o, lse) = crate::problems::Problem::answer(&problem.forward);
    Output {
        o: o.mapv(|x| dtype.round(x as f32)),
        lse: lse.mapv(|x| x as f32),
    }
}

/// o and lse of a problem.
///
/// # Errors
///
/// Those of [`super::solve`].
pub fn attend<T: Element>(
    device: &Device,
    forward: &impl Fused<T>,
    problem: &Problem,
) -> Result<Output, AnyError> {
    super::solve::<T>(device, forward, &problem.forward, PACKED)
}

/// Computes the gradients of a problem in device memory, with these layouts of q, k, v and o, which
/// their gradients have, too.
///
/// # Errors
///
/// Those of the implementation and of the device, and a sentence if a value beside a gradient was
/// changed.
pub fn solve<T: Element>(
    device: &Device,
    own: &impl FusedBackward<T>,
    problem: &Problem,
    output: &Output,
    layouts: [Layout; 4],
) -> Result<Gradients, AnyError> {
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let [of_q, of_k, of_v, of_o] = layouts;
    let inputs = [
        (q, of_q),
        (k, of_k),
        (v, of_v),
        (&output.o, of_o),
        (&problem.d_o, of_o),
    ];
    let [q_in, k_in, v_in, o, d_o] = inputs.map(|(x, layout)| device.input::<T>(x, layout));
    let gradients = [(q, of_q), (k, of_k), (v, of_v)];
    let gradients = gradients.map(|(x, layout)| device.output::<T>(x.dim(), layout));
    let [mut dq, mut dk, mut dv] = gradients;
    let lse = device.upload(&output.lse);
    let masks = Masks::upload(device, options);
    let shape = shape(
        &problem.forward,
        [&q_in, &k_in, &v_in, &o].map(Tensor::strides),
    );
    let inputs = BackwardInputs {
        forward: masks.inputs(&q_in, &k_in, &v_in),
        o: o.view(),
        lse: lse.as_view(),
        d_o: d_o.view(),
    };
    let gradients = GradientViews {
        dq: dq.view_mut(),
        dk: dk.view_mut(),
        dv: dv.view_mut(),
    };
    own.backward(inputs, gradients, &shape)?;
    Ok(Gradients {
        dq: dq.read(device)?,
        dk: dk.read(device)?,
        dv: dv.read(device)?,
    })
}

/// The tensors of a call, in the order of its arguments: those of `T`, the f32 ones, and the masks.
const TENSORS: [(&str, Option<Feature>); 12] = [
    ("q", None),
    ("k", None),
    ("v", None),
    ("o", None),
    ("d_o", None),
    ("dq", None),
    ("dk", None),
    ("dv", None),
    ("lse", None),
    ("mask", Some(Feature::AdditiveMask)),
    ("key_lengths", Some(Feature::KeyLengths)),
    ("blocks", Some(Feature::BlockSparse)),
];

fn arguments<T: Element, F: FusedBackward<T>>(judge: &mut Judge<'_>, device: &Device, own: &F) {
    let lacks = judge.lacks();
    let has = |feature| !lacks.contains(&feature);
    let kv_heads = if has(Feature::GroupedHeads) { 2 } else { 4 };
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads,
        nq: 65,
        nk: 70,
        head_dim: 16,
    };
    let (queries, keys, rows) = (8320, 2240 * kv_heads, 520);
    let fitting = [
        queries, keys, keys, queries, queries, queries, keys, keys, rows, 4550, 2, 2,
    ];
    let mut calls = Vec::new();
    for (i, (argument, needs)) in TENSORS.into_iter().enumerate() {
        let mut lengths = fitting;
        lengths[i] -= 1;
        let name = format!("short_{argument}");
        calls.push((name, argument, needs, lengths, Shape::packed(sizes)));
    }
    let strided = Some(Feature::Strides);
    let bad: [(&str, &str, Option<Feature>, Spoil); 5] = [
        ("k_heads", "k", strided, |shape| shape.k.head += 1),
        ("o_batches", "o", strided, |shape| shape.o.batch = HUGE),
        ("dq_rows_overlap", "dq", strided, |shape| shape.q.row = 15),
        ("dv_heads_overlap", "dv", strided, |shape| shape.v.head = 16),
        ("more_keys_than_there_are", "k", None, |shape| {
            shape.sizes.nk = 71
        }),
    ];
    let sizes_and_scales = BAD.map(|(name, argument, spoil)| (name, argument, None, spoil));
    for (name, argument, needs, spoil) in bad.into_iter().chain(sizes_and_scales) {
        let mut shape = Shape::packed(sizes);
        spoil(&mut shape);
        calls.push((name.to_owned(), argument, needs, fitting, shape));
    }
    calls.retain(|(_, _, needs, ..)| needs.is_none_or(has));
    // With all tensors that the implementation has.
    let calls = (calls.into_iter())
        .map(|(name, argument, _, lengths, shape)| (name, argument, None, lengths, shape));
    let lacked = asked(lacks).map(|feature| {
        let name = format!("lacked_{feature}").replace([' ', '-'], "_");
        let shape = needing(feature, sizes);
        (name, "options", Some(feature), fitting, shape)
    });
    for (name, argument, lacked, lengths, shape) in calls.chain(lacked) {
        let given = |feature| has(feature) || lacked == Some(feature);
        let tensors = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| device.filled::<T>(OLD, lengths[i]));
        let [q, k, v, o, d_o, mut dq, mut dk, mut dv] = tensors;
        let [lse, mask]: [CudaSlice<f32>; 2] = [8, 9].map(|i| device.filled(OLD, lengths[i]));
        let key_lengths = device.upload(&vec![7i32; lengths[10]]);
        let bits = device.upload(&vec![7u32; lengths[11]]);
        let row = |row| Strides {
            row,
            ..Strides::default()
        };
        let forward = Inputs {
            mask: given(Feature::AdditiveMask).then(|| Additive {
                values: mask.as_view(),
                strides: row(70),
            }),
            key_lengths: given(Feature::KeyLengths).then(|| key_lengths.as_view()),
            blocks: given(Feature::BlockSparse).then(|| BlockMask {
                values: bits.as_view(),
                strides: row(1),
            }),
            ..Inputs::new(q.as_view(), k.as_view(), v.as_view())
        };
        judge.refusal(&name, argument, F::argument_of, || {
            let inputs = BackwardInputs {
                forward,
                o: o.as_view(),
                lse: lse.as_view(),
                d_o: d_o.as_view(),
            };
            let gradients = GradientViews {
                dq: dq.as_view_mut(),
                dk: dk.as_view_mut(),
                dv: dv.as_view_mut(),
            };
            let result = own.backward(inputs, gradients, &shape);
            (result, untouched(device, &[&dq, &dk, &dv]))
        });
    }
}

/// The launches for one sequence.
fn count<T: Element>(
    device: &Device,
    own: &impl FusedBackward<T>,
    (heads, n, head_dim): (usize, usize, usize),
    options: Options,
) -> Launches {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, heads, n, head_dim), seed, normal));
    let problem = attention::Problem::new("counted".to_owned(), q, k, v, options);
    let problem = Problem::new(problem.stored_in(T::DTYPE));
    let output = rounded(&problem, T::DTYPE);
    launches(|| solve(device, own, &problem, &output, PACKED))
}

/// Each tensor is loaded at most once for each 32 rows of the other side, and o and dO once more
/// for their dot products; no score goes to memory. One gradient may have sums in f32 besides.
fn counted<T: Element>(judge: &mut Judge<'_>, device: &Device, own: &impl FusedBackward<T>) {
    for (n, head_dim) in [(200, 64), (256, 128)] {
        if !own.has_head_dim(head_dim) {
            continue;
        }
        let name = format!("n{n}_d{head_dim}");
        let launches = count(device, own, (2, n, head_dim), Options::default());
        let tensor = (2 * n * head_dim * size_of::<T>()) as u64; // bytes of q, k or v
        let rows = 2 * n as u64 * 4; // bytes of lse
        let tiles = n.div_ceil(32) as u64;
        let loads = (2 + 2 * (2 + 2 * tiles)) * tensor * 105 / 100 / 32;
        let sums = 2 * n as u64 * (head_dim as u64 + 8) * 4;
        // A number for each row, or for each tile, may have a sector of its own.
        let stores = (3 * tensor + 8 * rows) / 32 + 2 * tiles * tiles;
        let written = (3 * tensor + rows + sums) * 105 / 100 + 64;
        type Counter = fn(&LaunchProfile) -> u64;
        let limits: [(&str, &str, Counter, u64); 3] = [
            (
                "loads",
                "sectors",
                |launch| launch.total.global_loads.sectors,
                loads,
            ),
            (
                "stores",
                "sectors",
                |launch| launch.total.global_stores.sectors,
                stores,
            ),
            (
                "written",
                "bytes",
                |launch| launch.compulsory_write_bytes,
                written,
            ),
        ];
        for (what, unit, counter, limit) in limits {
            let name = format!("{what}_backward_{name}");
            judge.counted(&name, unit, &launches, counter, limit);
        }
    }
    // A tile is skipped where no query sees a key: the rest is the share of the scores that are
    // seen, and tiles at the edge.
    let unmasked = count(device, own, (1, MASKED, 16), Options::default());
    for (feature, name, options, permille) in [
        (Feature::Causal, "causal", Options::default().causal(), 640),
        (
            Feature::Window,
            "window_of_64",
            Options::default().window(63, 0),
            250,
        ),
        (
            Feature::KeyLengths,
            "half_of_the_keys",
            Options::default().key_lengths([MASKED / 2]),
            510,
        ),
    ] {
        if judge.lacks().contains(&feature) {
            continue;
        }
        let products = |launch: &LaunchProfile| launch.total.flops_f32 + launch.total.flops_tensor;
        let flops = |launches: &Launches| match launches {
            Some(Ok(all)) => all.iter().map(products).sum::<u64>(),
            // Not counted here, or failed.
            _ => 0,
        };
        let limit = flops(&unmasked) * permille / 1000;
        let masked = count(device, own, (1, MASKED, 16), options);
        let name = format!("{name}_backward_n{MASKED}");
        judge.counted(&name, "FLOPs", &masked, products, limit);
    }
}
