//! How long a problem takes: measured on a GPU; without one modelled from counted work, on a sample where the whole would
//! take too long to simulate.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use gpu::profile::{LaunchProfile, Resource};
use serde::Serialize;
use stage4_flash_cuda::{Attention, Mode};

use super::problem::Problem;

/// Queries and keys of the samples. Work is a polynomial of degree 2 in N, so three of them tell all of it.
const SAMPLES: [usize; 3] = [256, 512, 768];

/// Scores of stage 2 that are kept at a time, in bytes; larger batches are computed in chunks of matrices.
const CHUNK: usize = 4 << 30;

/// Self-attention, `[B, H, N, D]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Case {
    /// Batch, `B`.
    pub batch: usize,
    /// Heads, `H`.
    pub heads: usize,
    /// Queries and keys, `N`.
    pub n: usize,
    /// Head dimension, `D`.
    pub head_dim: usize,
    /// Whether with the causal mask.
    pub causal: bool,
}

/// Where a time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// By the clock of a GPU.
    Measured,
    /// By the clock of a GPU, on a part of the matrices, one after the other.
    Chunked,
    /// From the counted work of the whole problem.
    Modelled,
    /// From the counted work of smaller problems.
    Extrapolated,
}

/// What a problem takes.
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

impl Case {
    /// Matrices of scores.
    pub fn matrices(&self) -> usize {
        self.batch * self.heads
    }

    /// The FLOPs of the two products, half of them under the causal mask.
    pub fn flops(&self) -> f64 {
        let full = 4.0 * (self.matrices() * self.n * self.n * self.head_dim) as f64;
        if self.causal { full / 2.0 } else { full }
    }

    /// Bytes of q, k, v, o and lse.
    pub fn bytes(&self) -> f64 {
        (4 * self.matrices() * self.n * (4 * self.head_dim + 1)) as f64
    }

    /// Bytes of the scores that stage 2 keeps.
    pub fn score_bytes(&self) -> f64 {
        (4 * self.matrices() * self.n * self.n) as f64
    }

    fn problem(&self, stream: &Arc<CudaStream>) -> anyhow::Result<Problem> {
        let Self {
            batch,
            heads,
            n,
            head_dim,
            causal,
        } = *self;
        Problem::new(stream, batch, heads, n, head_dim, causal)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Chunked => "measured in chunks",
            Self::Modelled => "modelled",
            Self::Extrapolated => "modelled, extrapolated",
        })
    }
}

/// Measures on a GPU, models on the simulator.
pub fn estimate(
    stream: &Arc<CudaStream>,
    attention: &Attention,
    case: Case,
    runs: usize,
) -> anyhow::Result<Estimate> {
    match gpu::backend()? {
        gpu::Backend::Cuda => measure(stream, attention, case, runs),
        gpu::Backend::Simulator => model(stream, attention, case),
    }
}

fn measure(
    stream: &Arc<CudaStream>,
    attention: &Attention,
    case: Case,
    runs: usize,
) -> anyhow::Result<Estimate> {
    let keeps_scores = matches!(attention.mode(), Mode::Naive | Mode::Tiled);
    let (how, part) = if keeps_scores && case.score_bytes() > CHUNK as f64 {
        let matrices = (CHUNK / (4 * case.n * case.n)).max(1);
        let part = Case {
            batch: 1,
            heads: matrices.min(case.matrices()),
            ..case
        };
        (How::Chunked, part)
    } else {
        (How::Measured, case)
    };
    let seconds = part.problem(stream)?.time(attention, runs)?;
    Ok(Estimate {
        how,
        seconds: seconds * case.matrices() as f64 / part.matrices() as f64,
        flops: None,
        dram_bytes: None,
    })
}

fn model(stream: &Arc<CudaStream>, attention: &Attention, case: Case) -> anyhow::Result<Estimate> {
    let one = Case {
        batch: 1,
        heads: 1,
        ..case
    };
    let work = |n| -> anyhow::Result<Vec<Work>> {
        let launches = Case { n, ..one }.problem(stream)?.profile(attention)?;
        Ok(launches.iter().map(Work::of).collect())
    };
    let whole = case.n <= SAMPLES[2];
    let works = if whole {
        work(case.n)?
    } else {
        let [a, b, c] = SAMPLES;
        let (of_a, of_b, of_c) = (work(a)?, work(b)?, work(c)?);
        let launches = of_a.iter().zip(&of_b).zip(&of_c);
        launches
            .map(|((x, y), z)| Work::at(case.n, [x, y, z]))
            .collect()
    };
    let multiprocessors = stream
        .context()
        .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let matrices = case.matrices() as f64;
    let sum = |f: &dyn Fn(&Work) -> f64| works.iter().map(f).sum::<f64>();
    Ok(Estimate {
        how: if whole && case.matrices() == 1 {
            How::Modelled
        } else {
            How::Extrapolated
        },
        seconds: sum(&|work| work.seconds(matrices, f64::from(multiprocessors))),
        flops: Some(matrices * sum(&|work| work.flops)),
        dram_bytes: Some(matrices * sum(&|work| work.dram_bytes)),
    })
}

/// What one launch did for one matrix.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    blocks: f64,
    warps: f64,
    /// Blocks that fit on a multiprocessor.
    resident: f64,
    /// Seconds that each resource would take if the work were shared out evenly. Of the L2 cache these are the
    /// multiprocessors' ports; that all of them together ask for more than it gives is left out.
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
            _ => (resource, seconds / time.imbalance),
        };
        Self {
            blocks: product(launch.grid),
            warps: (product(launch.block) / 32.0).ceil(),
            resident: f64::from(time.blocks_per_multiprocessor),
            parts: time.parts.iter().map(fair).collect(),
            flops: launch.total.flops_f32 as f64,
            dram_bytes: (launch.compulsory_read_bytes + launch.compulsory_write_bytes) as f64,
        }
    }

    /// The work at N = `n`, by the parabola through the samples.
    fn at(n: usize, [a, b, c]: [&Self; 3]) -> Self {
        let [x, y, z] = SAMPLES.map(|sample| sample as f64);
        let n = n as f64;
        let fit = |f: &dyn Fn(&Self) -> f64| {
            f(a) * (n - y) * (n - z) / ((x - y) * (x - z))
                + f(b) * (n - x) * (n - z) / ((y - x) * (y - z))
                + f(c) * (n - x) * (n - y) / ((z - x) * (z - y))
        };
        let part = |(i, &(resource, _)): (usize, &(Resource, f64))| {
            (resource, fit(&|work| work.parts[i].1))
        };
        Self {
            blocks: fit(&|work| work.blocks),
            parts: a.parts.iter().enumerate().map(part).collect(),
            flops: fit(&|work| work.flops),
            dram_bytes: fit(&|work| work.dram_bytes),
            ..*a
        }
    }

    /// Time of the launch for as many matrices: the formula of cuda-sim's `MODEL.md`, with the imbalance of this grid.
    fn seconds(&self, matrices: f64, multiprocessors: f64) -> f64 {
        let blocks = self.blocks * matrices;
        let most = (blocks / multiprocessors).ceil();
        let hiding = 16.0 / self.warps;
        let (rounds, rest) = ((most / self.resident).floor(), most % self.resident);
        let last = if rest > 0.0 { rest.max(hiding) } else { 0.0 };
        let imbalance = (rounds * self.resident.max(hiding) + last) * multiprocessors / blocks;
        let (mut launch, mut longest) = (0.0, 0.0f64);
        for &(resource, seconds) in &self.parts {
            match resource {
                Resource::Launch => launch = seconds,
                Resource::Dram => longest = longest.max(matrices * seconds),
                _ => longest = longest.max(matrices * seconds * imbalance),
            }
        }
        launch + longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, share: f64, what: &str) {
        let off = (found / expected - 1.0).abs();
        assert!(off < share, "{what}: {found}, not {expected}");
    }

    /// N = 1024 by the samples is what counting all of it gives.
    #[test]
    fn samples_tell_the_whole() {
        if gpu::backend().unwrap() == gpu::Backend::Cuda {
            return; // there the whole is measured
        }
        let context = gpu::context(0).unwrap();
        let stream = context.default_stream();
        for (mode, causal) in [
            (Mode::Tiled, false),
            (Mode::Fused, false),
            (Mode::Fused, true),
        ] {
            let attention = Attention::new(&context).unwrap().with_mode(mode);
            let case = Case {
                batch: 1,
                heads: 1,
                n: 1024,
                head_dim: 16,
                causal,
            };
            let estimate = model(&stream, &attention, case).unwrap();
            let launches = case.problem(&stream).unwrap().profile(&attention).unwrap();
            let sum = |f: &dyn Fn(&LaunchProfile) -> f64| launches.iter().map(f).sum::<f64>();
            assert_eq!(estimate.how, How::Extrapolated);
            let flops = sum(&|launch| launch.total.flops_f32 as f64);
            close(estimate.flops.unwrap(), flops, 1e-3, "FLOPs");
            let bytes = sum(&|launch| {
                (launch.compulsory_read_bytes + launch.compulsory_write_bytes) as f64
            });
            close(estimate.dram_bytes.unwrap(), bytes, 1e-3, "bytes");
            close(
                estimate.seconds,
                sum(&|launch| launch.time.seconds),
                0.05,
                "seconds",
            );
        }
    }

    #[test]
    fn a_causal_case_has_half_the_flops() {
        let case = Case {
            batch: 2,
            heads: 3,
            n: 10,
            head_dim: 8,
            causal: false,
        };
        assert_eq!(case.flops(), 19200.0);
        assert_eq!(
            Case {
                causal: true,
                ..case
            }
            .flops(),
            9600.0
        );
        assert_eq!(case.bytes(), 4.0 * 6.0 * 10.0 * 33.0);
        assert_eq!(case.score_bytes(), 2400.0);
    }
}
