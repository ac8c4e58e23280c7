//! The backward pass in device memory.

use cudarc::driver::CudaSlice;
use gpu::profile::LaunchProfile;
use stage1_reference::{Feature, Options, Output, Sizes};
use stage3_flash_cpu::Gradients;
use stage4_flash_cuda::{
    BackwardInputs, Fused, FusedBackward, Gradients as GradientViews, Inputs, Shape,
};

use super::needing;
use crate::device::{Device, launches};
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::attention::{self, random};
use crate::problems::gradients::Problem;
use crate::report::Part;
use crate::suites::stage2::{HUGE, OLD, under_seeds, untouched};
use crate::{AnyError, Dtype, Element, Judge};

/// Random problems.
const RANDOM: u64 = 60;

/// The head dimensions of random problems, in turn.
const HEAD_DIMS: [usize; 3] = [16, 64, 128];

/// Schedules under which all results must be the same.
const SEEDS: u64 = 20;

/// The whole suite, on packed tensors of `T`. `forward` computes o and lse. Problems of a head
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
        Problem::new(random(seed << 8, head_dim, lacks).0.stored_in(T::DTYPE))
    };
    let solve = |problem: &Problem, gradients: &mut Gradients| {
        let output = match T::DTYPE {
            Dtype::F32 => attend(device, forward, problem)?,
            // The forward pass may be off by more than a unit in the last place of o.
            dtype => rounded(problem, dtype),
        };
        *gradients = solve(device, own, problem, &output)?;
        Ok::<_, AnyError>(())
    };
    for &part in judge.parts() {
        match part {
            Part::Table => {
                let problems = attention::problems().into_iter();
                let problems = problems.map(|problem| Problem::new(problem.stored_in(T::DTYPE)));
                judge.problems(part, problems.filter(possible), solve);
            }
            Part::Random => {
                for (seed, head_dim) in judge.seeds(RANDOM).zip(HEAD_DIMS.into_iter().cycle()) {
                    let problem = Some(random(seed, head_dim)).filter(possible);
                    judge.problems(part, problem, solve);
                }
            }
            Part::Arguments => arguments(judge, device, own),
            Part::Schedules => {
                let problems = [(1, 64), (2, 16), (4, 128)];
                let problems = problems.map(|(seed, head_dim)| random(seed, head_dim));
                under_seeds(judge, "seeds_backward", SEEDS, || {
                    let mut values = Vec::new();
                    for problem in problems.iter().filter(|problem| possible(problem)) {
                        let mut gradients = crate::problems::Problem::poisoned(problem);
                        solve(problem, &mut gradients)?;
                        let Gradients { dq, dk, dv } = gradients;
                        values.extend(dq.into_iter().chain(dk).chain(dv));
                    }
                    Ok(values)
                });
            }
            Part::Counted => counted(judge, device, forward, own),
            Part::Strided => {}
        }
    }
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
    super::solve::<T>(device, forward, &problem.forward, [Layout::Packed; 4])
}

/// Computes the gradients of a problem in device memory.
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
) -> Result<Gradients, AnyError> {
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let inputs = [q, k, v, &output.o, &problem.d_o];
    let [q_in, k_in, v_in, o, d_o] = inputs.map(|x| device.input::<T>(x, Layout::Packed));
    let gradients = [q, k, v].map(|x| device.output::<T>(x.dim(), Layout::Packed));
    let [mut dq, mut dk, mut dv] = gradients;
    let lse = device.upload(&output.lse);
    let shape = Shape {
        scale: options.scale,
        causal: options.causal,
        window: options.window,
        ..Shape::packed(problem.forward.sizes())
    };
    let inputs = BackwardInputs {
        forward: Inputs::new(q_in.view(), k_in.view(), v_in.view()),
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

/// The tensors of a call, in the order of its arguments.
const TENSORS: [&str; 9] = ["q", "k", "v", "o", "d_o", "lse", "dq", "dk", "dv"];

fn arguments<T: Element, F: FusedBackward<T>>(judge: &mut Judge<'_>, device: &Device, own: &F) {
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 4,
        nq: 65,
        nk: 70,
        head_dim: 16,
    };
    let (queries, keys, rows) = (8320, 8960, 520);
    let fitting = [
        queries, keys, keys, queries, queries, rows, queries, keys, keys,
    ];
    let mut calls = Vec::new();
    for (i, argument) in TENSORS.into_iter().enumerate() {
        let mut lengths = fitting;
        lengths[i] -= 1;
        let shape = Shape::packed(sizes);
        calls.push((format!("short_{argument}"), argument, lengths, shape));
    }
    type Spoil = fn(&mut Shape);
    let bad: [(&str, &str, Spoil); 9] = [
        ("more_keys_than_there_are", "k", |shape| shape.sizes.nk = 71),
        ("heads", "heads", |shape| shape.sizes.kv_heads = 3),
        ("no_kv_heads", "heads", |shape| shape.sizes.kv_heads = 0),
        ("no_head_dim", "q", |shape| shape.sizes.head_dim = 0),
        ("large_head_dim", "q", |shape| shape.sizes.head_dim = 257),
        ("huge_batch", "batch", |shape| shape.sizes.batch = HUGE),
        ("huge_nq", "nq", |shape| shape.sizes.nq = HUGE),
        ("huge_nk", "nk", |shape| shape.sizes.nk = HUGE),
        ("nan_scale", "scale", |shape| shape.scale = Some(f32::NAN)),
    ];
    for (name, argument, spoil) in bad {
        let mut shape = Shape::packed(sizes);
        spoil(&mut shape);
        calls.push((name.to_owned(), argument, fitting, shape));
    }
    // Those that are tensors are refused as they are in the forward pass.
    for feature in [Feature::Window, Feature::GroupedHeads, Feature::Strides] {
        if judge.lacks().contains(&feature) {
            let name = format!("lacked_{feature}").replace([' ', '-'], "_");
            calls.push((name, "options", fitting, needing(feature, sizes)));
        }
    }
    for (name, argument, lengths, shape) in calls {
        let buffers: [CudaSlice<T>; 9] = lengths.map(|length| device.filled(OLD, length));
        let [q, k, v, o, d_o, _, mut dq, mut dk, mut dv] = buffers;
        let lse: CudaSlice<f32> = device.filled(OLD, lengths[5]);
        judge.refusal(&name, argument, F::argument_of, || {
            let inputs = BackwardInputs {
                forward: Inputs::new(q.as_view(), k.as_view(), v.as_view()),
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

/// Each tensor is loaded at most once for each 32 rows of the other side, and o and dO once more
/// for their dot products; no score goes to memory.
fn counted<T: Element>(
    judge: &mut Judge<'_>,
    device: &Device,
    forward: &impl Fused<T>,
    own: &impl FusedBackward<T>,
) {
    for (n, head_dim) in [(200, 64), (256, 128)] {
        if !own.has_head_dim(head_dim) {
            continue;
        }
        let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, n, head_dim), seed, normal));
        let name = format!("n{n}_d{head_dim}");
        let problem = attention::Problem::new(name.clone(), q, k, v, Options::default());
        let problem = Problem::new(problem.stored_in(T::DTYPE));
        let launches = match attend(device, forward, &problem) {
            Ok(output) => launches(|| solve(device, own, &problem, &output)),
            Err(error) => Some(Err(error.to_string())),
        };
        let tensor = (2 * n * head_dim * size_of::<T>()) as u64; // bytes of q, k or v
        let rows = 2 * n as u64 * 4; // bytes of lse
        let tiles = n.div_ceil(32) as u64;
        let loads = (2 + 2 * (2 + 2 * tiles)) * tensor * 105 / 100 / 32;
        // A number for each row may have a sector of its own.
        let stores = (3 * tensor + 8 * rows) / 32;
        let written = (3 * tensor + rows) * 105 / 100 + 64;
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
}
