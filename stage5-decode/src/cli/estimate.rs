//! Time of an operation: measured on a GPU; without one modelled from counted
//! work of a part of the batch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bench_kit::How;
use cudarc::driver::CudaStream;
use gpu::profile::LaunchProfile;
use serde::Serialize;

use super::case::{Case, Operation};
use super::problem::{Problem, verify};

/// The time of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Where it comes from.
    pub how: How,
    /// In seconds.
    pub seconds: f64,
}

/// Estimates on one device. Operations are verified once for each kind of case, and
/// launches are counted once.
pub struct Estimator {
    stream: Arc<CudaStream>,
    runs: usize,
    verified: HashSet<(Operation, Case)>,
    counted: HashMap<(Operation, Case), Vec<LaunchProfile>>,
    largest_bytes: f64,
}

impl Estimator {
    /// On a GPU a time is the median of `runs`.
    pub fn new(stream: &Arc<CudaStream>, runs: usize) -> Self {
        Self {
            stream: stream.clone(),
            runs,
            verified: HashSet::new(),
            counted: HashMap::new(),
            largest_bytes: 0.0,
        }
    }

    /// Bytes of device memory that the largest problem so far needs.
    pub fn largest_bytes(&self) -> f64 {
        self.largest_bytes
    }

    /// The time of operations one after the other; `None` if a GPU has not enough memory for
    /// one of them, and of none.
    pub fn sum(&mut self, operations: &[(Operation, Case)]) -> anyhow::Result<Option<Estimate>> {
        let mut sum: Option<Estimate> = None;
        for &(operation, case) in operations {
            let Some(one) = self.estimate(operation, case)? else {
                return Ok(None);
            };
            sum = Some(sum.map_or(one, |sum| Estimate {
                how: sum.how.max(one.how),
                seconds: sum.seconds + one.seconds,
            }));
        }
        Ok(sum)
    }

    /// The time of an operation; `None` if a GPU has not enough memory for it.
    pub fn estimate(
        &mut self,
        operation: Operation,
        case: Case,
    ) -> anyhow::Result<Option<Estimate>> {
        let kind = Case {
            batch: 0,
            keys: 0,
            max_seq: 0,
            ..case
        };
        let small = match operation {
            Operation::Stage4 { nq } => Operation::Stage4 { nq: nq.min(2) },
            _ => operation,
        };
        if self.verified.insert((small, kind)) {
            verify(&self.stream, &case, operation)?;
        }
        self.largest_bytes = self.largest_bytes.max(operation.bytes(&case));
        match gpu::backend()? {
            gpu::Backend::Cuda => self.measure(operation, case),
            gpu::Backend::Simulator => self.model(operation, case).map(Some),
        }
    }

    /// Launches of an operation that was estimated, of a part of the case that is repeated so
    /// many times; `None` on a GPU.
    pub fn launches(&self, operation: Operation, case: Case) -> Option<(&[LaunchProfile], u64)> {
        let (part, times) = case.sample(operation);
        let launches = self.counted.get(&(operation, part))?;
        Some((launches, times))
    }

    fn measure(&self, operation: Operation, case: Case) -> anyhow::Result<Option<Estimate>> {
        let (free, _) = self.stream.context().mem_get_info()?;
        if operation.bytes(&case) > 0.95 * free as f64 {
            return Ok(None);
        }
        let seconds = Problem::new(&self.stream, case, operation)?.time(self.runs)?;
        Ok(Some(Estimate {
            how: How::Measured,
            seconds,
        }))
    }

    fn model(&mut self, operation: Operation, case: Case) -> anyhow::Result<Estimate> {
        let (part, times) = case.sample(operation);
        let launches = match self.counted.get(&(operation, part)) {
            Some(launches) => launches,
            None => {
                let launches = Problem::new(&self.stream, part, operation)?.profile()?;
                self.counted.entry((operation, part)).or_insert(launches)
            }
        };
        let seconds = launches.iter().map(|launch| launch.repeated(times).seconds);
        Ok(Estimate {
            how: match times {
                1 => How::Modelled,
                _ => How::Extrapolated,
            },
            seconds: seconds.sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use stage5_decode::{Dtype, Mode, Rung};

    use super::*;

    /// A part of the batch tells what counting all of it gives. Blocks that share a cache line of
    /// `lengths` are the difference.
    #[test]
    fn a_part_tells_the_whole() {
        if gpu::backend().unwrap() == gpu::Backend::Cuda {
            return; // there the whole is measured
        }
        let stream = gpu::context(0).unwrap().default_stream();
        let case = Case {
            batch: 3,
            heads: 8,
            kv_heads: 4,
            keys: 300,
            max_seq: 320,
            head_dim: 64,
            dtype: Dtype::F32,
            page_size: None,
        };
        let decode = |mode, splits| Operation::Decode { mode, splits };
        for (operation, dtype, page_size) in [
            (decode(Mode::Rung(Rung::Decode), 1), Dtype::F32, None),
            (decode(Mode::Rung(Rung::Split), 3), Dtype::F32, None),
            (decode(Mode::Rung(Rung::Grouped), 3), Dtype::F32, None),
            (decode(Mode::Rung(Rung::Mma), 3), Dtype::F16, None),
            (decode(Mode::Library, 3), Dtype::F32, Some(17)),
            (Operation::Update { n: 1 }, Dtype::F32, Some(17)),
            (Operation::Update { n: 300 }, Dtype::F32, None),
            (Operation::Stage4 { nq: 1 }, Dtype::F32, None),
            (Operation::Stage4 { nq: 300 }, Dtype::F32, None),
        ] {
            let case = Case {
                dtype,
                page_size,
                ..case
            };
            let estimate = Estimator::new(&stream, 1).model(operation, case).unwrap();
            assert_eq!(estimate.how, How::Extrapolated);
            let launches = Problem::new(&stream, case, operation).unwrap().profile();
            let whole: f64 = launches.unwrap().iter().map(|l| l.time.seconds).sum();
            let off = (estimate.seconds / whole - 1.0).abs();
            assert!(
                off < 1e-3,
                "{operation:?}: {} s, not {whole} s",
                estimate.seconds
            );
        }
    }

    /// On any device: without a GPU nothing else would ever run the clock.
    #[test]
    fn the_clock_runs() {
        let stream = gpu::context(0).unwrap().default_stream();
        let case = Case {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            keys: 100,
            max_seq: 100,
            head_dim: 16,
            dtype: Dtype::F16,
            page_size: None,
        };
        let operation = Operation::Update { n: 1 };
        let seconds = Problem::new(&stream, case, operation).unwrap().time(3);
        let seconds = seconds.unwrap();
        assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
    }
}
