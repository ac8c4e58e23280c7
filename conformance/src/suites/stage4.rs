//! The suite of stage 4: attention with every option, in device memory, that keeps no scores there.

use cudarc::driver::CudaSlice;
use gpu::arguments::{Strides, pack_bits};
use ndarray::{Array3, Array4};
use stage1_reference::{Feature, Options, Output, Sizes, Window};
use stage4_flash_cuda::{Additive, BlockMask, Fused, Inputs, Outputs, Shape};

use super::stage2::{AnyError, HUGE, OLD, schedules, strides, untouched};
use crate::device::{Device, profiles};
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::attention::{Problem, problems, random};
use crate::report::{Part, Report};
use crate::{Implementation, Judge};

/// The head dimensions of the random problems: those of the table.
const HEAD_DIMS: [usize; 12] = [1, 3, 16, 40, 48, 64, 72, 80, 96, 128, 160, 256];

/// Random problems.
const RANDOM: u64 = 120;

/// The whole suite. Problems of a head dimension that the implementation cannot have are left out.
pub fn judge(
    who: &Implementation<'_>,
    parts: &[Part],
    device: &Device,
    own: &impl Fused,
) -> Report {
    let mut judge = Judge::new(who, parts);
    for &part in parts {
        let with = |layouts| {
            move |problem: &Problem, output: &mut Output| {
                *output = solve(device, own, problem, layouts)?;
                Ok::<_, AnyError>(())
            }
        };
        let possible = |problem: &Problem| own.has_head_dim(problem.sizes().head_dim);
        let strided = !judge.lacks().contains(&Feature::Strides);
        match part {
            Part::Table => {
                let table = problems().into_iter().filter(possible);
                judge.problems(part, table, with([Layout::Packed; 4]));
            }
            Part::Strided if strided => {
                let (sequence, cache) = (Layout::SequenceFirst, Layout::Cache);
                for layouts in [[sequence, cache, cache, sequence], [Layout::Sparse; 4]] {
                    let small = |problem: &Problem| possible(problem) && problem.q.len() <= 10_000;
                    judge.problems(part, problems().into_iter().filter(small), with(layouts));
                }
            }
            Part::Strided => {}
            Part::Random => {
                for (seed, head_dim) in (0..RANDOM).zip(HEAD_DIMS.into_iter().cycle()) {
                    let (problem, layouts) = random(seed << 8, head_dim, judge.lacks());
                    if possible(&problem) {
                        judge.problems(part, [problem], with(layouts_of(&judge, layouts)));
                    }
                }
            }
            Part::Arguments => arguments(&mut judge, device, own),
            Part::Schedules => {
                let problems = [(1, 64), (2, 16), (3, 72), (4, 128)]
                    .map(|(seed, head_dim)| random(seed << 8, head_dim, judge.lacks()));
                let problems = problems.map(|(problem, of)| (problem, layouts_of(&judge, of)));
                schedules(&mut judge, "seeds", || {
                    let mut values = Vec::new();
                    for (problem, layouts) in
                        problems.iter().filter(|(problem, _)| possible(problem))
                    {
                        let output = solve(device, own, problem, *layouts)?;
                        values.extend(output.o.into_iter().chain(output.lse));
                    }
                    Ok(values)
                });
            }
            Part::Counted => counted(&mut judge, device, own),
        }
    }
    judge.report()
}

fn layouts_of(judge: &Judge<'_>, layouts: [Layout; 4]) -> [Layout; 4] {
    match judge.lacks().contains(&Feature::Strides) {
        true => [Layout::Packed; 4],
        false => layouts,
    }
}

/// Computes a problem in device memory, with these layouts of q, k, v and o.
///
/// # Errors
///
/// Those of the implementation and of the device, and a sentence if a value beside `o` was changed.
pub fn solve(
    device: &Device,
    own: &impl Fused,
    problem: &Problem,
    layouts: [Layout; 4],
) -> Result<Output, AnyError> {
    let sizes = problem.sizes();
    let (options, (batch, heads, nq, head_dim)) = (&problem.options, problem.q.dim());
    let q = device.input(&problem.q, layouts[0]);
    let k = device.input(&problem.k, layouts[1]);
    let v = device.input(&problem.v, layouts[2]);
    let mut o = device.output((batch, heads, nq, head_dim), layouts[3]);
    let mut lse = Array3::from_elem((batch, heads, nq), f32::NAN);
    let mut device_lse = device.upload(&lse);
    let mask = (options.mask.as_ref()).map(|mask| (device.upload(mask), mask.dim()));
    let lengths = options.key_lengths.as_ref().map(|lengths| {
        let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
        device.upload(&lengths)
    });
    let blocks = options.blocks.as_ref().map(|blocks| {
        let words = pack_bits(blocks.iter().copied(), blocks.dim().3);
        (device.upload(&words), blocks.dim())
    });
    let inputs = Inputs {
        q: q.view(),
        k: k.view(),
        v: v.view(),
        mask: mask.as_ref().map(|(values, shape)| Additive {
            values: values.as_view(),
            strides: Strides::broadcast(*shape),
        }),
        key_lengths: lengths.as_ref().map(CudaSlice::as_view),
        blocks: blocks
            .as_ref()
            .map(|(words, (b, h, rows, columns))| BlockMask {
                values: words.as_view(),
                strides: Strides::broadcast((*b, *h, *rows, columns.div_ceil(32))),
            }),
    };
    let shape = Shape {
        scale: options.scale,
        causal: options.causal,
        window: options.window,
        q: strides(q.strides()),
        k: strides(k.strides()),
        v: strides(v.strides()),
        o: strides(o.strides()),
        ..Shape::packed(sizes)
    };
    let outputs = Outputs {
        o: o.view_mut(),
        lse: Some(device_lse.as_view_mut()),
    };
    own.forward(inputs, outputs, &shape)?;
    device.read_into(&device_lse, &mut lse)?;
    Ok(Output {
        o: o.read(device)?,
        lse,
    })
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

fn arguments<F: Fused>(judge: &mut Judge<'_>, device: &Device, own: &F) {
    let lacks = |feature| judge.lacks().contains(&feature);
    let kv_heads = if lacks(Feature::GroupedHeads) { 4 } else { 2 };
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
    type Spoil = fn(&mut Shape);
    let strided = Some(Feature::Strides);
    let bad: [(&str, &str, Option<Feature>, Spoil); 14] = [
        ("q_rows", "q", strided, |shape| shape.q.row = 9),
        ("k_heads", "k", strided, |shape| shape.k.head += 1),
        ("v_batches", "v", strided, |shape| shape.v.batch = HUGE),
        ("o_rows_overlap", "o", strided, |shape| shape.o.row = 7),
        ("o_heads_overlap", "o", strided, |shape| shape.o.head = 519),
        ("more_keys_than_there_are", "k", strided, |shape| {
            shape.sizes.nk = 71
        }),
        ("heads", "heads", None, |shape| shape.sizes.kv_heads = 3),
        ("no_kv_heads", "heads", None, |shape| {
            shape.sizes.kv_heads = 0
        }),
        ("no_head_dim", "q", None, |shape| shape.sizes.head_dim = 0),
        ("large_head_dim", "q", None, |shape| {
            shape.sizes.head_dim = 257
        }),
        ("huge_batch", "batch", None, |shape| {
            shape.sizes.batch = HUGE
        }),
        ("huge_nq", "nq", None, |shape| shape.sizes.nq = HUGE),
        ("huge_nk", "nk", None, |shape| shape.sizes.nk = HUGE),
        ("nan_scale", "scale", None, |shape| {
            shape.scale = Some(f32::NAN)
        }),
    ];
    for (name, argument, needs, spoil) in bad {
        let mut shape = Shape::packed(sizes);
        spoil(&mut shape);
        calls.push((name.to_owned(), argument, needs, fitting, shape));
    }
    if lacks(Feature::Window) {
        let window = Some(Window { left: 1, right: 1 });
        let shape = Shape {
            window,
            ..Shape::packed(sizes)
        };
        calls.push(("lacked_window".to_owned(), "options", None, fitting, shape));
    }
    let has = |feature| !judge.lacks().contains(&feature);
    let [with_mask, with_lengths, with_blocks] = [
        Feature::AdditiveMask,
        Feature::KeyLengths,
        Feature::BlockSparse,
    ]
    .map(has);
    calls.retain(|(_, _, needs, ..)| needs.is_none_or(has));
    for (name, argument, _, lengths, shape) in calls {
        let floats = |length| device.upload(&vec![OLD; length]);
        let [q, k, v, mask] = [lengths.q, lengths.k, lengths.v, lengths.mask].map(floats);
        let [mut o, mut lse] = [lengths.o, lengths.lse].map(floats);
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
            mask: with_mask.then(|| Additive {
                values: mask.as_view(),
                strides: row(70),
            }),
            key_lengths: with_lengths.then(|| key_lengths.as_view()),
            blocks: with_blocks.then(|| BlockMask {
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
            (result, untouched(device, &[&o, &lse]))
        });
    }
}

/// What a launch moves and computes.
struct Work {
    load_sectors: u64,
    store_sectors: u64,
    written_bytes: u64,
    flops: u64,
}

/// Counts self-attention of 1 sequence; `None` on a GPU, and if it fails, which other parts tell.
fn count(
    device: &Device,
    own: &impl Fused,
    (heads, n, head_dim): (usize, usize, usize),
    options: Options,
) -> Option<Work> {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, heads, n, head_dim), seed, normal));
    let problem = Problem::new("counted".to_owned(), q, k, v, options);
    let work = || solve(device, own, &problem, [Layout::Packed; 4]);
    let (_, launches) = profiles(work)?.ok()?;
    let sum = |of: fn(&gpu::profile::LaunchProfile) -> u64| launches.iter().map(of).sum();
    Some(Work {
        load_sectors: sum(|launch| launch.total.global_loads.sectors),
        store_sectors: sum(|launch| launch.total.global_stores.sectors),
        written_bytes: sum(|launch| launch.compulsory_write_bytes),
        flops: sum(|launch| launch.total.flops_f32),
    })
}

/// q is loaded once, k and v once for each 32 queries; no score goes to memory; masked tiles are skipped.
fn counted(judge: &mut Judge<'_>, device: &Device, own: &impl Fused) {
    for (n, head_dim) in [(200, 64), (256, 72)] {
        if !own.has_head_dim(head_dim) {
            continue;
        }
        let Some(work) = count(device, own, (2, n, head_dim), Options::default()) else {
            return;
        };
        let (tensor, rows) = (2 * n as u64 * head_dim as u64 * 4, 2 * n as u64 * 4);
        let loads = (1 + 2 * n.div_ceil(32) as u64) * tensor * 105 / 100 / 32;
        // The lse of a row has a sector of its own at worst.
        let stores = (tensor + 8 * rows) / 32;
        let name = |what: &str| format!("{what}_n{n}_d{head_dim}");
        judge.at_most(&name("loads"), "sectors", work.load_sectors, loads);
        judge.at_most(&name("stores"), "sectors", work.store_sectors, stores);
        let written = (tensor + rows) * 105 / 100 + 64;
        judge.at_most(&name("written"), "bytes", work.written_bytes, written);
    }
    const N: usize = 4096;
    let blocks = Array4::from_shape_fn((1, 1, N / 64, N / 64), |(_, _, i, j)| (i + j) % 4 == 0);
    let flops = |options| Some(count(device, own, (1, N, 16), options)?.flops);
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
            46,
        ),
    ];
    let Some(full) = flops(Options::default()).filter(|_| own.has_head_dim(16)) else {
        return;
    };
    for (feature, name, options, permille) in masks {
        if !judge.lacks().contains(&feature) {
            // What fails computes nothing.
            let part = flops(options).unwrap_or(full);
            judge.at_most(
                &format!("{name}_n{N}"),
                "FLOPs",
                part,
                full * permille / 1000,
            );
        }
    }
}
