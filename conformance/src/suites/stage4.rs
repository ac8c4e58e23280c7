//! The suites of stage 4: attention with every option, and its backward pass, in device memory;
//! dropout in both.
//! Both keep no scores there.

mod backward;
mod dropout;

use cudarc::driver::CudaSlice;
use gpu::arguments::{Strides, pack_bits};
use gpu::profile::LaunchProfile;
use ndarray::{Array4, Axis};
use stage1_reference::{Feature, Options, Output, Sizes, Window};
use stage4_flash_cuda::{Additive, BlockMask, Fused, Inputs, Outputs, Shape};

use super::stage2::{HUGE, OLD, strides, under_seeds, untouched};
use crate::device::{Device, Launches, Tensor, launches};
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::attention::{self, MANY, Problem, many_matrices};
use crate::report::Part;
use crate::{AnyError, Dtype, Element, Judge};

pub use backward::{attend, backward, solve as solve_backward};
pub use dropout::{backward as backward_dropout, forward as dropout};

/// Random problems.
const RANDOM: u64 = 120;

/// The head dimensions of random problems, in turn.
const HEAD_DIMS: [usize; 15] = [
    1, 3, 16, 32, 40, 48, 64, 72, 80, 96, 100, 128, 160, 192, 256,
];

/// Schedules under which all results must be the same.
const SEEDS: u64 = 20;

/// The whole suite: attention on tensors of `T`. Problems of 16 columns, which are most, have zeros
/// behind them for an implementation that starts at 64; others of a head dimension that it cannot
/// have are left out.
pub fn attention<T: Element>(judge: &mut Judge<'_>, device: &Device, own: &impl Fused<T>) {
    let lacks = judge.lacks();
    let small = [1, 16, 64].into_iter().find(|&d| own.has_head_dim(d));
    let fitted = |problem: Problem| match problem.sizes().head_dim {
        head_dim if own.has_head_dim(head_dim) => Some(problem),
        16 if own.has_head_dim(64) => Some(problem.in_columns(64)),
        _ => None,
    };
    let with = |layouts| {
        move |problem: &Problem, output: &mut Output| {
            *output = solve(device, own, problem, layouts)?;
            Ok::<_, AnyError>(())
        }
    };
    let stored = |problems: Vec<Problem>| {
        let fitting = problems.into_iter().filter_map(fitted);
        fitting.map(|problem| problem.stored_in(T::DTYPE))
    };
    let table = || stored(attention::problems());
    let random = |seed: u64, head_dim| {
        let (problem, layouts) = attention::random(seed << 8, head_dim, lacks);
        let layouts = match lacks.contains(&Feature::Strides) {
            true => [Layout::Packed; 4],
            false => layouts,
        };
        (problem.stored_in(T::DTYPE), layouts)
    };
    for &part in judge.parts() {
        match part {
            Part::Table => {
                let plain = |problem: &Problem| {
                    let Sizes { nq, nk, .. } = problem.sizes();
                    match (nq, nk) {
                        (17, _) | (_, 0) => problem.options == Options::default(),
                        // Whole tiles of queries see no key with 129 queries and one key.
                        (65, 65) | (129, 1) => problem.options == Options::default().causal(),
                        _ => false,
                    }
                };
                // Chosen before zeros are added, which needs a scale among the options.
                let plain = attention::problems().into_iter().filter(plain).collect();
                let without_lse = stored(plain).map(Problem::without_lse);
                let of_half = match T::DTYPE {
                    Dtype::F16 => {
                        let alone = [attention::equal_keys(), attention::below_half()];
                        alone
                            .into_iter()
                            .chain(attention::steps_of_half())
                            .collect()
                    }
                    Dtype::F32 | Dtype::Bf16 => Vec::new(),
                };
                let all = table().chain(without_lse).chain(stored(of_half));
                judge.problems(part, all, with([Layout::Packed; 4]));
            }
            Part::Strided if lacks.contains(&Feature::Strides) => {}
            Part::Strided => {
                let (sequence, cache) = (Layout::SequenceFirst, Layout::Cache);
                for layouts in [[sequence, cache, cache, sequence], [Layout::Sparse; 4]] {
                    let small = table().filter(|problem| problem.q.len() <= 10_000);
                    judge.problems(part, small, with(layouts));
                }
            }
            Part::Random => {
                // An implementation that starts at 64 has 2 of the 15: these alone take turns.
                let mut head_dims = HEAD_DIMS.to_vec();
                head_dims.retain(|&d| own.has_head_dim(16) || own.has_head_dim(d));
                for (seed, head_dim) in judge.seeds(RANDOM).zip(head_dims.into_iter().cycle()) {
                    let (problem, layouts) = random(seed, head_dim);
                    let possible = own.has_head_dim(head_dim).then_some(problem);
                    judge.problems(part, possible, with(layouts));
                }
                // The last sequence alone has a key, and none has where there are no key lengths.
                let mut lengths = vec![0; MANY];
                lengths[MANY - 1] = 1;
                let Some(head_dim) = small else { continue };
                let many = match lacks.contains(&Feature::KeyLengths) {
                    true => many_matrices(0, head_dim, Options::default()),
                    false => many_matrices(1, head_dim, Options::default().key_lengths(lengths)),
                };
                let many = many.stored_in(T::DTYPE);
                judge.problems(part, [many], with([Layout::Packed; 4]));
                // No part of the table, whose errors are compared with PyTorch's.
                let others = match T::DTYPE {
                    Dtype::F32 => attention::others(),
                    dtype => {
                        let longer = attention::in_longer_buffers(dtype).into_iter();
                        longer
                            .chain([attention::scale_0().stored_in(dtype)])
                            .collect()
                    }
                };
                let others = others.into_iter().filter_map(fitted);
                judge.problems(part, others, |problem, output| {
                    with(problem.layouts)(problem, output)
                });
            }
            Part::Arguments => arguments(judge, device, own),
            Part::Schedules => {
                let problems = [(1, 64), (2, 16), (3, 72), (4, 128)];
                let problems = problems.map(|(seed, head_dim)| random(seed, head_dim));
                under_seeds(judge, "seeds", SEEDS, || {
                    let mut values = Vec::new();
                    let has = |problem: &Problem| own.has_head_dim(problem.sizes().head_dim);
                    for (problem, layouts) in problems.iter().filter(|(problem, _)| has(problem)) {
                        let output = solve(device, own, problem, *layouts)?;
                        values.extend(output.o.into_iter().chain(output.lse));
                    }
                    Ok(values)
                });
            }
            Part::Counted => counted(judge, device, own),
        }
    }
}

/// Computes a problem in device memory, with these layouts of q, k, v and o.
///
/// # Errors
///
/// Those of the implementation and of the device, and a sentence if a value beside `o` was changed.
pub fn solve<T: Element>(
    device: &Device,
    own: &impl Fused<T>,
    problem: &Problem,
    layouts: [Layout; 4],
) -> Result<Output, AnyError> {
    let (options, (batch, heads, nq, head_dim)) = (&problem.options, problem.q.dim());
    let q = device.input::<T>(&problem.q, layouts[0]);
    let k = device.input(&problem.k, layouts[1]);
    let v = device.input(&problem.v, layouts[2]);
    let mut o = device.output((batch, heads, nq, head_dim), layouts[3]);
    let mut lse = device.output((1, batch, heads, nq), layouts[3].of_rows());
    let masks = Masks::upload(device, options);
    let shape = shape(problem, [&q, &k, &v, &o].map(Tensor::strides));
    let outputs = Outputs {
        o: o.view_mut(),
        lse: problem.wants_lse.then(|| lse.view_mut()),
    };
    own.forward(masks.inputs(&q, &k, &v), outputs, &shape)?;
    Ok(Output {
        o: o.read(device)?,
        lse: lse.read(device)?.remove_axis(Axis(0)),
    })
}

/// Spoils a shape.
type Spoil = fn(&mut Shape);

/// Sizes and scales that no implementation takes: a name, the argument that the refusal names, and
/// what is spoiled.
const BAD: [(&str, &str, Spoil); 8] = [
    ("heads", "heads", |shape| shape.sizes.kv_heads = 3),
    ("no_kv_heads", "heads", |shape| shape.sizes.kv_heads = 0),
    ("no_head_dim", "q", |shape| shape.sizes.head_dim = 0),
    ("large_head_dim", "q", |shape| shape.sizes.head_dim = 257),
    ("huge_batch", "batch", |shape| shape.sizes.batch = HUGE),
    ("huge_nq", "nq", |shape| shape.sizes.nq = HUGE),
    ("huge_nk", "nk", |shape| shape.sizes.nk = HUGE),
    ("nan_scale", "scale", |shape| shape.scale = Some(f32::NAN)),
];

/// The shape of a problem, with the strides of q, k, v and o.
fn shape(problem: &Problem, tensors: [[usize; 3]; 4]) -> Shape {
    let [q, k, v, o] = tensors.map(strides);
    Shape {
        scale: problem.options.scale,
        causal: problem.options.causal,
        window: problem.options.window,
        dropout: problem.options.dropout,
        q,
        k,
        v,
        o,
        ..Shape::packed(problem.sizes())
    }
}

/// The options that are tensors, in device memory.
struct Masks {
    mask: Option<(CudaSlice<f32>, Strides)>,
    lengths: Option<CudaSlice<i32>>,
    blocks: Option<(CudaSlice<u32>, Strides)>,
}

impl Masks {
    fn upload(device: &Device, options: &Options) -> Self {
        let mask = options.mask.as_ref();
        let mask = mask.map(|mask| (device.upload(mask), Strides::broadcast(mask.dim())));
        let lengths = options.key_lengths.as_ref().map(|lengths| {
            let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
            device.upload(&lengths)
        });
        let blocks = options.blocks.as_ref().map(|blocks| {
            let (batch, heads, rows, columns) = blocks.dim();
            let words = pack_bits(blocks.iter().copied(), columns);
            let strides = Strides::broadcast((batch, heads, rows, columns.div_ceil(32)));
            (device.upload(&words), strides)
        });
        Self {
            mask,
            lengths,
            blocks,
        }
    }

    /// What attention reads.
    fn inputs<'a, T: Element>(
        &'a self,
        q: &'a Tensor<T>,
        k: &'a Tensor<T>,
        v: &'a Tensor<T>,
    ) -> Inputs<'a, T> {
        Inputs {
            mask: self.mask.as_ref().map(|(values, strides)| Additive {
                values: values.as_view(),
                strides: *strides,
            }),
            key_lengths: self.lengths.as_ref().map(CudaSlice::as_view),
            blocks: self.blocks.as_ref().map(|(values, strides)| BlockMask {
                values: values.as_view(),
                strides: *strides,
            }),
            ..Inputs::new(q.view(), k.view(), v.view())
        }
    }
}

/// Elements of what a call gets.
#[derive(Clone, Copy)]
struct Lengths {
    q: usize,
    k: usize,
    v: usize,
    o: usize,
    lse: usize,
    mask: usize,
    key_lengths: usize,
    blocks: usize,
}

fn arguments<T: Element, F: Fused<T>>(judge: &mut Judge<'_>, device: &Device, own: &F) {
    let lacks = judge.lacks();
    let has = |feature| !lacks.contains(&feature);
    let kv_heads = if has(Feature::GroupedHeads) { 2 } else { 4 };
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads,
        nq: 65,
        nk: 70,
        head_dim: 8,
    };
    let fitting = Lengths {
        q: 4160,
        k: 1120 * kv_heads,
        v: 1120 * kv_heads,
        o: 4160,
        lse: 520,
        mask: 4550,
        key_lengths: 2,
        blocks: 2,
    };
    type Shorten = fn(&mut Lengths);
    let short: [(&str, Option<Feature>, Shorten); 8] = [
        ("q", None, |lengths| lengths.q -= 1),
        ("k", None, |lengths| lengths.k -= 1),
        ("v", None, |lengths| lengths.v -= 1),
        ("o", None, |lengths| lengths.o -= 1),
        ("lse", None, |lengths| lengths.lse -= 1),
        ("mask", Some(Feature::AdditiveMask), |lengths| {
            lengths.mask -= 1
        }),
        ("key_lengths", Some(Feature::KeyLengths), |lengths| {
            lengths.key_lengths -= 1
        }),
        ("blocks", Some(Feature::BlockSparse), |lengths| {
            lengths.blocks -= 1
        }),
    ];
    let mut calls = Vec::new();
    for (argument, needs, shorten) in short {
        let mut lengths = fitting;
        shorten(&mut lengths);
        calls.push((
            format!("short_{argument}"),
            argument,
            needs,
            lengths,
            Shape::packed(sizes),
        ));
    }
    let strided = Some(Feature::Strides);
    let bad: [(&str, &str, Option<Feature>, Spoil); 6] = [
        ("q_rows", "q", strided, |shape| shape.q.row = 9),
        ("k_heads", "k", strided, |shape| shape.k.head += 1),
        ("v_batches", "v", strided, |shape| shape.v.batch = HUGE),
        ("o_rows_overlap", "o", strided, |shape| shape.o.row = 7),
        ("o_heads_overlap", "o", strided, |shape| shape.o.head = 519),
        ("more_keys_than_there_are", "k", strided, |shape| {
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
        (
            name,
            "options",
            Some(feature),
            fitting,
            needing(feature, sizes),
        )
    });
    for (name, argument, lacked, lengths, shape) in calls.chain(lacked) {
        let given = |feature| has(feature) || lacked == Some(feature);
        let tensors = [lengths.q, lengths.k, lengths.v, lengths.o];
        let [q, k, v, mut o] = tensors.map(|length| device.filled::<T>(OLD, length));
        let [mask, mut lse] = [lengths.mask, lengths.lse].map(|length| device.filled(OLD, length));
        let key_lengths = device.upload(&vec![7i32; lengths.key_lengths]);
        let bits = device.upload(&vec![7u32; lengths.blocks]);
        let row = |row| Strides {
            row,
            ..Strides::default()
        };
        let inputs = Inputs {
            q: q.as_view(),
            k: k.as_view(),
            v: v.as_view(),
            mask: given(Feature::AdditiveMask).then(|| Additive {
                values: mask.as_view(),
                strides: row(70),
            }),
            key_lengths: given(Feature::KeyLengths).then(|| key_lengths.as_view()),
            blocks: given(Feature::BlockSparse).then(|| BlockMask {
                values: bits.as_view(),
                strides: row(1),
            }),
        };
        judge.refusal(&name, argument, F::argument_of, || {
            let outputs = Outputs {
                o: o.as_view_mut(),
                lse: Some(lse.as_view_mut()),
            };
            let result = own.forward(inputs, outputs, &shape);
            let untouched = untouched(device, &[&o]) && untouched(device, &[&lse]);
            (result, untouched)
        });
    }
}

/// The features whose refusal is asked for: dropout has a suite of its own.
fn asked(lacks: &[Feature]) -> impl Iterator<Item = Feature> {
    let lacks = lacks.iter().copied();
    lacks.filter(|&feature| feature != Feature::Dropout)
}

/// A shape that needs a feature, if that is not a tensor beside it.
fn needing(feature: Feature, sizes: Sizes) -> Shape {
    let shape = Shape::packed(sizes);
    match feature {
        Feature::Scale => Shape {
            scale: Some(2.0),
            ..shape
        },
        Feature::Causal => Shape {
            causal: true,
            ..shape
        },
        Feature::Window => Shape {
            window: Some(Window { left: 1, right: 1 }),
            ..shape
        },
        Feature::GroupedHeads => Shape::packed(Sizes {
            kv_heads: 2,
            ..sizes
        }),
        Feature::Strides => Shape::sequence_first(sizes),
        _ => shape,
    }
}

/// The launches of self-attention of 1 sequence.
fn count<T: Element>(
    device: &Device,
    own: &impl Fused<T>,
    (heads, n, head_dim): (usize, usize, usize),
    options: Options,
) -> Launches {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, heads, n, head_dim), seed, normal));
    let problem = Problem::new("counted".to_owned(), q, k, v, options);
    launches(|| solve(device, own, &problem, [Layout::Packed; 4]))
}

/// The operations of products: those of tensor cores in half precision.
fn products<T: Element>(launch: &LaunchProfile) -> u64 {
    match T::DTYPE {
        Dtype::F32 => launch.total.flops_f32,
        Dtype::F16 | Dtype::Bf16 => launch.total.flops_tensor,
    }
}

/// q is loaded once, k and v once for each 32 queries, or 64 in half precision; no score goes to
/// memory; tensor cores compute no more scores than whole tiles have; masked tiles are skipped.
fn counted<T: Element>(judge: &mut Judge<'_>, device: &Device, own: &impl Fused<T>) {
    let half = T::DTYPE != Dtype::F32;
    let mut sizes = vec![(200, 64), (256, 72)];
    sizes.extend(half.then_some((256, 128)));
    for (n, head_dim) in sizes {
        if !own.has_head_dim(head_dim) {
            continue;
        }
        let launches = count(device, own, (2, n, head_dim), Options::default());
        let tensor = (2 * n * head_dim * size_of::<T>()) as u64; // bytes of q, k, v or o
        let rows = 2 * n as u64 * 4; // bytes of lse
        let queries = if half { 64 } else { 32 };
        let loads = (1 + 2 * n.div_ceil(queries) as u64) * tensor * 105 / 100 / 32;
        // The lse of a row has a sector of its own at worst.
        let stores = (tensor + 8 * rows) / 32;
        let written = (tensor + rows) * 105 / 100 + 64;
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
            let name = format!("{what}_n{n}_d{head_dim}");
            judge.counted(&name, unit, &launches, counter, limit);
        }
        // Others are padded where there is no compiler.
        if half && head_dim.is_power_of_two() {
            let scores = n.next_multiple_of(64).pow(2) * head_dim;
            let name = format!("products_n{n}_d{head_dim}");
            let limit = 8 * scores as u64 * 102 / 100;
            judge.counted(&name, "FLOPs", &launches, products::<T>, limit);
        }
    }
    if let Some(head_dim) = [16, 64].into_iter().find(|&d| own.has_head_dim(d)) {
        masked_products(judge, device, own, head_dim);
    }
}

fn masked_products<T: Element>(
    judge: &mut Judge<'_>,
    device: &Device,
    own: &impl Fused<T>,
    head_dim: usize,
) {
    // Many tiles on each side, which are larger in half precision.
    let n = if T::DTYPE == Dtype::F32 { 1024 } else { 2048 };
    let squares = (1, 1, n / 64, n / 64);
    let blocks = Array4::from_shape_fn(squares, |(_, _, i, j)| (i + j) % 4 == 0);
    let masks = [
        (Feature::Causal, "causal", Options::default().causal(), 560),
        (
            Feature::BlockSparse,
            "a_quarter_of_the_blocks",
            Options::default().blocks(blocks),
            300,
        ),
        (
            Feature::Window,
            "window_of_64",
            Options::default().window(63, 0),
            184,
        ),
    ];
    let unmasked = count(device, own, (1, n, head_dim), Options::default());
    for (feature, name, options, permille) in masks {
        if judge.lacks().contains(&feature) {
            continue;
        }
        let name = format!("{name}_n{n}");
        let Some(Ok(all)) = &unmasked else {
            // Not counted here, or failed: there is nothing to compare with.
            judge.counted(&name, "FLOPs", &unmasked, products::<T>, 0);
            continue;
        };
        let limit = all.iter().map(products::<T>).sum::<u64>() * permille / 1000;
        let masked = count(device, own, (1, n, head_dim), options);
        judge.counted(&name, "FLOPs", &masked, products::<T>, limit);
    }
}
