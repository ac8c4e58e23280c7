//! The suite of stage 5: updates of a cache, and attention on it, in device memory.

mod arguments;
mod cache;
mod counted;
mod update;

use ndarray::Axis;
use stage1_reference::{Feature, Output};
use stage5_decode::{Decoding, Inputs, Outputs, Shape};

use super::stage2::{strides, under_seeds};
use crate::device::Device;
use crate::layout::Layout;
use crate::problems::decode::{self, Problem, problems, random};
use crate::report::{Part, Report};
use crate::{AnyError, Implementation, Judge};

pub use cache::DeviceCache;
pub use update::update_cache;

/// Random problems.
const RANDOM: u64 = 40;

/// Orders of blocks and warps.
const SEEDS: u64 = 20;

/// Random problems among which are two that an implementation can have, if it has few caches.
const FEW_ARE_POSSIBLE: u64 = 300;

/// Both tasks.
pub fn judge(
    who: &Implementation<'_>,
    parts: &[Part],
    device: &Device,
    own: &impl Decoding,
) -> Report {
    let mut judge = Judge::new(who, parts);
    update_cache(&mut judge, device, own);
    decode(&mut judge, device, own);
    judge.report()
}

/// Attention on a cache. Problems whose cache the implementation cannot have are left out.
pub fn decode(judge: &mut Judge<'_>, device: &Device, own: &impl Decoding) {
    for &part in judge.parts() {
        let with = |layouts: [Layout; 2]| {
            move |problem: &Problem, output: &mut Output| {
                *output = solve(device, own, problem, layouts)?;
                Ok::<_, AnyError>(())
            }
        };
        let possible = |problem: &Problem| {
            let shape = DeviceCache::shape_of(&problem.k, problem.dtype);
            own.has_cache(&shape, problem.page_size.is_some())
        };
        match part {
            Part::Table => {
                let table = problems().into_iter().filter(possible);
                judge.problems(part, table, with([Layout::Packed; 2]));
                judge.problems(part, [decode::far_apart()], with([Layout::Packed; 2]));
                let longer = decode::in_longer_buffers();
                judge.problems(part, longer, with([Layout::Longer; 2]));
            }
            Part::Strided => {
                for layout in [Layout::SequenceFirst, Layout::Sparse] {
                    let some = problems().into_iter().step_by(6);
                    judge.problems(part, some.filter(possible), with([layout; 2]));
                }
            }
            Part::Random => {
                let packed = judge.lacks().contains(&Feature::Strides);
                for seed in judge.seeds(RANDOM) {
                    let layouts = match packed {
                        true => [Layout::Packed; 2],
                        false => [seed, seed / 3].map(|x| Layout::RANDOM[(x % 3) as usize]),
                    };
                    let problem = random(seed << 8);
                    judge.problems(part, [problem].into_iter().filter(possible), with(layouts));
                }
            }
            Part::Arguments => arguments::decode(judge, device, own),
            Part::Schedules => {
                let random = (1..FEW_ARE_POSSIBLE).map(|seed| random(seed << 8));
                let fits =
                    |problem: &Problem| possible(problem) && judge.missing(problem).is_none();
                let problems = Vec::from_iter(random.filter(fits).take(2));
                under_seeds(judge, "decode_seeds", SEEDS, || {
                    if problems.is_empty() {
                        return Err("no random problem has a cache that it takes".into());
                    }
                    let mut values = Vec::new();
                    for problem in &problems {
                        let output = solve(device, own, problem, [Layout::Packed; 2])?;
                        values.extend(output.o.into_iter().chain(output.lse));
                    }
                    Ok(values)
                });
            }
            Part::Counted => counted::decode(judge, device, own),
        }
    }
}

fn cache_of(device: &Device, problem: &Problem) -> DeviceCache {
    let Problem {
        k,
        v,
        dtype,
        page_size,
        lengths,
        offsets,
        ..
    } = problem;
    DeviceCache::new(device, [k, v], *dtype, *page_size, lengths).at(device, *offsets)
}

/// Computes a problem in device memory, with these layouts of q and o.
///
/// # Errors
///
/// Those of the implementation and of the device, and a sentence if a value beside `o` was changed.
pub fn solve(
    device: &Device,
    own: &impl Decoding,
    problem: &Problem,
    layouts: [Layout; 2],
) -> Result<Output, AnyError> {
    let (batch, heads, nq, _) = problem.q.dim();
    let cache = cache_of(device, problem);
    let q = device.input(&problem.q, layouts[0]);
    let mut o = device.output(problem.q.dim(), layouts[1]);
    let mut lse = device.output((1, batch, heads, nq), layouts[1].of_rows());
    let shape = Shape {
        heads,
        nq,
        scale: problem.scale,
        window: problem.window,
        q: strides(q.strides()),
        o: strides(o.strides()),
    };
    let inputs = Inputs {
        q: q.view(),
        cache: cache.view(),
    };
    let outputs = Outputs {
        o: o.view_mut(),
        lse: problem.wants_lse.then(|| lse.view_mut()),
    };
    own.decode(inputs, outputs, &shape)?;
    Ok(Output {
        o: o.read(device)?,
        lse: lse.read(device)?.remove_axis(Axis(0)),
    })
}
