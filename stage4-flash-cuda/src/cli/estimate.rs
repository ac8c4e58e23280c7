//! Time of a problem: measured on a GPU; without one modelled from counted work, extrapolated from
//! smaller problems where the whole would take too long to simulate.

use std::collections::HashMap;
use std::sync::Arc;

use bench_kit::How;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use gpu::profile::{LaunchProfile, ModelledTime, Resource};
use serde::Serialize;
use stage4_flash_cuda::Mode;

use super::case::Case;
use super::problem::{Passes, Problem};

/// Queries and keys of the samples, multiples of every tile. There, work is a polynomial of degree
/// 2 in N, and three of them tell all of it. The latency of a block, a maximum of sums, comes close
/// to a line, that through the last two.
const SAMPLES: [usize; 3] = [256, 512, 768];

/// Scores of stage 2 that are kept at a time, in bytes; larger batches are computed in chunks.
const CHUNK: usize = 4 << 30;

/// Time and work of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Where the time comes from.
    pub how: How,
    /// Time in seconds.
    pub seconds: f64,
    /// f32 operations that were executed; `None` if measured.
    pub flops: Option<f64>,
    /// Bytes that had to come from DRAM or go there; `None` if measured.
    pub dram_bytes: Option<f64>,
}

/// Estimates cases on one device. Keeps what it counts, because the same
/// samples serve many lengths.
pub struct Estimator {
    stream: Arc<CudaStream>,
    counted: HashMap<(Mode, Case), Vec<Work>>,
}

impl Estimator {
    pub fn new(stream: &Arc<CudaStream>) -> Self {
        Self {
            stream: stream.clone(),
            counted: HashMap::new(),
        }
    }

    /// Measures on a GPU, the median of `runs`; models on the simulator. All calls with one
    /// mode must use the same tile.
    pub fn estimate(
        &mut self,
        passes: &Passes,
        case: Case,
        runs: usize,
    ) -> anyhow::Result<Estimate> {
        match gpu::backend()? {
            gpu::Backend::Cuda => self.measure(passes, case, runs),
            gpu::Backend::Simulator => self.model(passes, case),
        }
    }

    fn measure(&self, passes: &Passes, case: Case, runs: usize) -> anyhow::Result<Estimate> {
        let (how, part) = if keeps_scores(passes.mode()) && case.score_bytes() > CHUNK as f64 {
            let one = case.one_group();
            let groups = (CHUNK as f64 / one.score_bytes()) as usize;
            let groups = groups.clamp(1, case.groups());
            let part = Case {
                heads: one.heads * groups,
                kv_heads: groups,
                ..one
            };
            (How::Chunked, part)
        } else {
            (How::Measured, case)
        };
        let seconds = Problem::new(&self.stream, part)?.time(passes, runs)?;
        Ok(Estimate {
            how,
            seconds: seconds * case.groups() as f64 / part.groups() as f64,
            flops: None,
            dram_bytes: None,
        })
    }

    fn model(&mut self, passes: &Passes, case: Case) -> anyhow::Result<Estimate> {
        let works = works(case, |case| self.count(passes, case))?;
        let multiprocessors = multiprocessors(&self.stream)?;
        let groups = case.groups() as f64;
        let sum = |f: &dyn Fn(&Work) -> f64| works.iter().map(f).sum::<f64>();
        Ok(Estimate {
            how: if is_sample(case) && case.groups() == 1 {
                How::Modelled
            } else {
                How::Extrapolated
            },
            seconds: sum(&|work| work.seconds(groups, multiprocessors)),
            flops: Some(groups * sum(&|work| work.flops)),
            dram_bytes: Some(groups * sum(&|work| work.dram_bytes)),
        })
    }

    /// The work of each launch, for the whole of a case.
    fn count(&mut self, passes: &Passes, case: Case) -> anyhow::Result<Vec<Work>> {
        let key = (passes.mode(), case);
        if let Some(works) = self.counted.get(&key) {
            return Ok(works.clone());
        }
        let launches = Problem::new(&self.stream, case)?.profile(passes)?;
        let mut works: Vec<Work> = launches.iter().map(Work::of).collect();
        if keeps_scores(passes.mode()) {
            // The row kernels' loops over N are unrolled by four, so that the samples, too short
            // for that, have longer chains of instructions for each element than the whole.
            for work in &mut works {
                work.parts.retain(|part| part.0 != Resource::Latency);
            }
        }
        self.counted.insert(key, works.clone());
        Ok(works)
    }
}

/// Modelled seconds of each launch for a case. `profile` counts those for one group of its
/// matrices.
pub fn launch_seconds(
    stream: &CudaStream,
    case: Case,
    mut profile: impl FnMut(Case) -> anyhow::Result<Vec<LaunchProfile>>,
) -> anyhow::Result<Vec<f64>> {
    let works = works(case, |case| {
        Ok(profile(case)?.iter().map(Work::of).collect())
    })?;
    let (groups, multiprocessors) = (case.groups() as f64, multiprocessors(stream)?);
    let seconds = |work: &Work| work.seconds(groups, multiprocessors);
    Ok(works.iter().map(seconds).collect())
}

/// The work of each launch for one group of a case's matrices: counted, or by the samples.
fn works(
    case: Case,
    mut count: impl FnMut(Case) -> anyhow::Result<Vec<Work>>,
) -> anyhow::Result<Vec<Work>> {
    let one = case.one_group();
    if is_sample(case) {
        return count(one);
    }
    let [a, b, c] = SAMPLES.map(|n| count(Case { n, ..one }));
    let (a, b, c) = (a?, b?, c?);
    let launches = a.iter().zip(&b).zip(&c);
    let works = launches.map(|((x, y), z)| Work::at(case.n, [x, y, z]));
    Ok(works.collect())
}

/// True if a case is short enough to be counted as a whole.
fn is_sample(case: Case) -> bool {
    case.n <= SAMPLES[2]
}

fn multiprocessors(stream: &CudaStream) -> anyhow::Result<f64> {
    let count = Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    Ok(f64::from(stream.context().attribute(count)?))
}

/// True if a mode writes its scores to memory.
pub fn keeps_scores(mode: Mode) -> bool {
    matches!(mode, Mode::Naive | Mode::Tiled)
}

/// The work of one launch for one group of matrices.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    blocks: f64,
    /// Blocks that fit on a multiprocessor.
    resident: f64,
    /// Seconds that each resource would take if the work were shared out evenly; of latency, those
    /// of one round. Of the L2 cache these are the multiprocessors' ports; that all of them
    /// together ask for more than it gives is left out.
    parts: Vec<(Resource, f64)>,
    flops: f64,
    dram_bytes: f64,
}

impl Work {
    fn of(launch: &LaunchProfile) -> Self {
        let time = &launch.time;
        let product = |extent: [u32; 3]| extent.into_iter().map(f64::from).product::<f64>();
        let fair = |&(resource, seconds): &(Resource, f64)| match resource {
            Resource::Launch | Resource::Dram => (resource, seconds),
            Resource::Latency => (resource, seconds / time.rounds as f64),
            _ => (resource, seconds / time.imbalance),
        };
        Self {
            blocks: product(launch.grid),
            resident: f64::from(time.blocks_per_multiprocessor),
            parts: time.parts.iter().map(fair).collect(),
            flops: launch.total.flops_f32 as f64,
            dram_bytes: (launch.compulsory_read_bytes + launch.compulsory_write_bytes) as f64,
        }
    }

    /// The work at N = `n`: by the parabola through the samples, or the line for latency.
    fn at(n: usize, [a, b, c]: [&Self; 3]) -> Self {
        let [x, y, z] = SAMPLES.map(|sample| sample as f64);
        let n = n as f64;
        let fit = |f: &dyn Fn(&Self) -> f64| {
            f(a) * (n - y) * (n - z) / ((x - y) * (x - z))
                + f(b) * (n - x) * (n - z) / ((y - x) * (y - z))
                + f(c) * (n - x) * (n - y) / ((z - x) * (z - y))
        };
        let line = |f: &dyn Fn(&Self) -> f64| (f(b) * (z - n) + f(c) * (n - y)) / (z - y);
        let part = |(i, &(resource, _)): (usize, &(Resource, f64))| {
            let seconds = |work: &Self| work.parts[i].1;
            match resource {
                Resource::Latency => (resource, line(&seconds)),
                _ => (resource, fit(&seconds)),
            }
        };
        Self {
            blocks: fit(&|work| work.blocks),
            parts: a.parts.iter().enumerate().map(part).collect(),
            flops: fit(&|work| work.flops),
            dram_bytes: fit(&|work| work.dram_bytes),
            ..*a
        }
    }

    /// Time of the launch for as many groups, in seconds: the model's formula, with
    /// the imbalance of this grid.
    fn seconds(&self, groups: f64, multiprocessors: f64) -> f64 {
        let blocks = self.blocks * groups;
        let (imbalance, rounds) =
            ModelledTime::distribution(blocks, multiprocessors, self.resident);
        let part = |&(resource, seconds): &(Resource, f64)| match resource {
            Resource::Launch => (resource, seconds),
            Resource::Dram => (resource, groups * seconds),
            Resource::Latency => (resource, rounds * seconds),
            _ => (resource, groups * seconds * imbalance),
        };
        let parts: Vec<_> = self.parts.iter().map(part).collect();
        ModelledTime::seconds_of(&parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage4_flash_cuda::{Attention, Rung};

    fn close(found: f64, expected: f64, share: f64, what: &str) {
        let off = (found / expected - 1.0).abs();
        assert!(off < share, "{what}: {found}, not {expected}");
    }

    /// The samples give what counting all of it gives.
    #[test]
    fn samples_tell_the_whole() {
        if gpu::backend().unwrap() == gpu::Backend::Cuda {
            return; // there the whole is measured
        }
        let context = gpu::context(0).unwrap();
        let stream = context.default_stream();
        let ping_pong = Mode::Rung(Rung::PingPong);
        for (mode, causal, n, head_dim) in [
            (Mode::Tiled, false, 1280, 16),
            (Mode::Library, false, 1280, 16),
            (Mode::Library, true, 1280, 16),
            (ping_pong, false, 4096, 64),
            (ping_pong, true, 4096, 64),
        ] {
            let passes = Passes::forward(Attention::new(&context).unwrap().with_mode(mode));
            let case = Case {
                causal,
                f16: mode == ping_pong,
                ..Case::full(1, 1, n, head_dim)
            };
            let estimate = Estimator::new(&stream).model(&passes, case).unwrap();
            let mut whole = Problem::new(&stream, case).unwrap();
            let launches = whole.profile(&passes).unwrap();
            let sum = |f: &dyn Fn(&LaunchProfile) -> f64| launches.iter().map(f).sum::<f64>();
            assert_eq!(estimate.how, How::Extrapolated);
            let flops = sum(&|launch| launch.total.flops_f32 as f64);
            close(estimate.flops.unwrap(), flops, 1e-3, "FLOPs");
            let bytes = sum(&|launch| {
                (launch.compulsory_read_bytes + launch.compulsory_write_bytes) as f64
            });
            close(estimate.dram_bytes.unwrap(), bytes, 1e-3, "bytes");
            let seconds = sum(&|launch| launch.time.seconds);
            close(estimate.seconds, seconds, 0.05, "seconds");
        }
    }
}
