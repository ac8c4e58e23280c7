//! The suite of stage 4 in half precision: q, k, v and o are packed tensors of f16, sums are f32.

use gpu::profile::LaunchProfile;
use half::f16;
use ndarray::{Array3, Array4};
use stage1_reference::{Options, Output, Sizes};
use stage4_flash_cuda::{FusedF16, Inputs, Outputs, Shape};

use super::stage2::{HUGE, OLD, under_seeds};
use crate::device::{Device, Launches, launches};
use crate::inputs::{normal, tensor};
use crate::problems::UNWRITTEN;
use crate::problems::attention::{Problem, problems, random};
use crate::report::Part;
use crate::{AnyError, Dtype, Judge};

/// Random problems.
const RANDOM: u64 = 60;

/// The head dimensions of random problems, in turn.
const HEAD_DIMS: [usize; 3] = [16, 64, 128];

/// Schedules under which all results must be the same.
const SEEDS: u64 = 20;

/// The bits of o before a call: a NaN.
const UNWRITTEN_F16: u16 = 0x7edd;

/// Elements of `o` beyond its end, which no kernel may write.
const GUARD: usize = 64;

/// The whole suite. Problems of a head dimension that the implementation cannot have are left out.
pub fn attention(judge: &mut Judge<'_>, device: &Device, own: &impl FusedF16) {
    let possible = |problem: &Problem| own.has_head_dim(problem.sizes().head_dim);
    let solve_into = |problem: &Problem, output: &mut Output| {
        *output = solve(device, own, problem)?;
        Ok::<_, AnyError>(())
    };
    let lacks = judge.lacks();
    let random = |(seed, head_dim): (u64, usize)| {
        let (problem, _) = random(seed << 8, head_dim, lacks);
        problem.stored_in(Dtype::F16)
    };
    for &part in judge.parts() {
        match part {
            Part::Table => {
                let table = problems().into_iter().filter(possible);
                let table = table.map(|problem| problem.stored_in(Dtype::F16));
                judge.problems(part, table, solve_into);
            }
            Part::Random => {
                let seeds = judge.seeds(RANDOM).zip(HEAD_DIMS.into_iter().cycle());
                judge.problems(part, seeds.map(random).filter(possible), solve_into);
            }
            Part::Arguments => arguments(judge, device, own),
            Part::Schedules => {
                let problems = [(1, 64), (2, 16), (4, 128)].map(random);
                under_seeds(judge, "seeds", SEEDS, || {
                    let mut values = Vec::new();
                    for problem in problems.iter().filter(|problem| possible(problem)) {
                        let output = solve(device, own, problem)?;
                        values.extend(output.o.into_iter().chain(output.lse));
                    }
                    Ok(values)
                });
            }
            Part::Counted => counted(judge, device, own),
            Part::Strided => {}
        }
    }
}

fn bits(array: &Array4<f32>) -> Vec<u16> {
    let bits = array.iter().map(|&x| f16::from_f32(x).to_bits());
    bits.collect()
}

/// Computes a problem in device memory.
///
/// # Errors
///
/// Those of the implementation and of the device, and a sentence if a value behind `o` was changed.
pub fn solve(device: &Device, own: &impl FusedF16, problem: &Problem) -> Result<Output, AnyError> {
    let (options, (batch, heads, nq, head_dim)) = (&problem.options, problem.q.dim());
    let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| device.upload(&bits(x)));
    let mut o = device.upload(&vec![UNWRITTEN_F16; problem.q.len() + GUARD]);
    let mut lse = Array3::from_elem((batch, heads, nq), UNWRITTEN);
    let mut device_lse = device.upload(&lse);
    let shape = Shape {
        scale: options.scale,
        causal: options.causal,
        ..Shape::packed(problem.sizes())
    };
    let inputs = Inputs::new(q.as_view(), k.as_view(), v.as_view());
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: Some(device_lse.as_view_mut()),
    };
    own.forward_f16(inputs, outputs, &shape)?;
    device.read_into(&device_lse, &mut lse)?;
    let values = device.read(&o)?;
    let (o, guard) = values.split_at(problem.q.len());
    if guard.iter().any(|&bits| bits != UNWRITTEN_F16) {
        return Err("values behind `o` were changed".into());
    }
    let values = o.iter().map(|&bits| f16::from_bits(bits).to_f32());
    Ok(Output {
        o: Array4::from_shape_vec((batch, heads, nq, head_dim), values.collect())?,
        lse,
    })
}

/// Views that are one element too short, and sizes that cannot be.
fn arguments<F: FusedF16>(judge: &mut Judge<'_>, device: &Device, own: &F) {
    let sizes = Sizes {
        batch: 2,
        heads: 2,
        kv_heads: 2,
        nq: 65,
        nk: 70,
        head_dim: 16,
    };
    let fitting = [4160, 4480, 4480, 4160, 260]; // elements of q, k, v, o, lse
    let short = ["q", "k", "v", "o", "lse"].into_iter().enumerate();
    let short = short.map(|(i, argument)| {
        let mut lengths = fitting;
        lengths[i] -= 1;
        (
            format!("short_{argument}"),
            argument,
            lengths,
            Shape::packed(sizes),
        )
    });
    type Spoil = fn(&mut Shape);
    let bad: [(&str, &str, Spoil); 6] = [
        ("heads", "heads", |shape| shape.sizes.kv_heads = 3),
        ("no_head_dim", "q", |shape| shape.sizes.head_dim = 0),
        ("huge_batch", "batch", |shape| shape.sizes.batch = HUGE),
        ("huge_nq", "nq", |shape| shape.sizes.nq = HUGE),
        ("huge_nk", "nk", |shape| shape.sizes.nk = HUGE),
        ("nan_scale", "scale", |shape| shape.scale = Some(f32::NAN)),
    ];
    let bad = bad.map(|(name, argument, spoil)| {
        let mut shape = Shape::packed(sizes);
        spoil(&mut shape);
        (name.to_owned(), argument, fitting, shape)
    });
    for (name, argument, lengths, shape) in short.chain(bad) {
        let halves = |length| device.upload(&vec![UNWRITTEN_F16; length]);
        let [q, k, v, mut o] = [0, 1, 2, 3].map(|i| halves(lengths[i]));
        let mut lse = device.upload(&vec![OLD; lengths[4]]);
        judge.refusal(&name, argument, F::argument_of, || {
            let inputs = Inputs::new(q.as_view(), k.as_view(), v.as_view());
            let outputs = Outputs {
                o: o.as_view_mut(),
                lse: Some(lse.as_view_mut()),
            };
            let result = own.forward_f16(inputs, outputs, &shape);
            let untouched = device
                .download(&o)
                .iter()
                .all(|&bits| bits == UNWRITTEN_F16)
                && device.download(&lse).iter().all(|&x| x == OLD);
            (result, untouched)
        });
    }
}

/// The launches of self-attention of 2 heads.
fn count(
    device: &Device,
    own: &impl FusedF16,
    (n, head_dim): (usize, usize),
    options: Options,
) -> Launches {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, n, head_dim), seed, normal));
    let problem = Problem::new("counted".to_owned(), q, k, v, options);
    launches(|| solve(device, own, &problem))
}

/// The products are tensor cores', and no more than there are scores; q is loaded once,
/// k and v once for each 64 queries; o and lse are stored once, in whole sectors; a
/// causal mask halves the work.
fn counted(judge: &mut Judge<'_>, device: &Device, own: &impl FusedF16) {
    for (n, head_dim) in [(256, 64), (256, 128)] {
        if !own.has_head_dim(head_dim) {
            continue;
        }
        let launches = count(device, own, (n, head_dim), Options::default());
        let (tensor, rows) = (4 * (n * head_dim) as u64, 2 * n as u64); // bytes of q, k, v or o
        type Counter = fn(&LaunchProfile) -> u64;
        let limits: [(&str, &str, Counter, u64); 3] = [
            (
                "products",
                "FLOPs",
                |launch| launch.total.flops_tensor,
                8 * (n * n * head_dim) as u64 * 102 / 100,
            ),
            (
                "loads",
                "sectors",
                |launch| launch.total.global_loads.sectors,
                (1 + 2 * n.div_ceil(64) as u64) * tensor * 105 / 100 / 32,
            ),
            (
                "stores",
                "sectors",
                |launch| launch.total.global_stores.sectors,
                (tensor + 32 * rows) / 32,
            ),
        ];
        for (what, unit, counter, limit) in limits {
            let name = format!("{what}_n{n}_d{head_dim}");
            judge.counted(&name, unit, &launches, counter, limit);
        }
    }
    if own.has_head_dim(16) {
        const N: usize = 2048;
        let causal = count(device, own, (N, 16), Options::default().causal());
        let products = |launch: &LaunchProfile| launch.total.flops_tensor;
        let limit = 8 * (N * N * 16) as u64 * 55 / 100;
        judge.counted("causal_n2048", "FLOPs", &causal, products, limit);
    }
}
