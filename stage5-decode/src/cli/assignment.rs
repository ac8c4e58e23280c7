//! The assignment's case: a prompt, then 100 tokens one by one; with a cache, and recomputing
//! everything at each step.

use std::fmt;

use anyhow::Context;
use bench_kit::Peaks;
use serde::Serialize;
use stage5_decode::{Decode, Dtype, Mode, Rung};

use super::case::{Case, Operation};
use super::estimate::{Estimate, Estimator};

/// Tokens of the prompt.
const PROMPT: usize = 1024;

/// The steps that are timed, of 100; between two of them, time is taken as linear.
const TIMED: [usize; 3] = [1, 50, 100];

/// Ways to decode tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// Stage 4 on all tokens, at each step; no cache.
    Recompute,
    /// Stage 4 with one query of each head, on the cache.
    Stage4,
    /// Kernels of this stage, on the cache.
    Cache(Mode),
}

/// A line of the table.
#[derive(Debug, Serialize)]
struct Row {
    way: String,
    /// Element type of keys and values.
    dtype: &'static str,
    /// Time to first token.
    ttft: Estimate,
    /// Mean time between tokens.
    tbt: Estimate,
    /// Least bytes of a step at the mean length over TBT, as a share of the device's
    /// bandwidth; `None` without a cache.
    bandwidth: Option<f64>,
}

/// All ways.
#[derive(Debug, Serialize)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Estimates all ways.
    pub fn make(
        estimator: &mut Estimator,
        decode: impl Fn() -> anyhow::Result<Decode>,
        peaks: &Peaks,
    ) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        for (way, dtype) in [
            (Way::Recompute, Dtype::F32),
            (Way::Stage4, Dtype::F32),
            (Way::Cache(Mode::Rung(Rung::Decode)), Dtype::F32),
            (Way::Cache(Mode::Rung(Rung::Split)), Dtype::F32),
            (Way::Cache(Mode::Library), Dtype::F32),
            (Way::Cache(Mode::Library), Dtype::F16),
        ] {
            eprintln!("assignment: {way}, {dtype}");
            let mut estimate = |operations: &[(Operation, Case)]| {
                let estimate = estimator.sum(operations)?;
                estimate.context("the assignment's case does not fit in device memory")
            };
            let ttft = estimate(&way.prefill(dtype))?;
            let mut steps = Vec::new();
            for step in TIMED {
                steps.push(estimate(&way.step(case(PROMPT + step, dtype), &decode)?)?);
            }
            let tbt = Estimate {
                seconds: mean(&steps),
                ..steps[0]
            };
            let bytes = case(PROMPT + TIMED[1], dtype).bytes();
            rows.push(Row {
                way: way.to_string(),
                dtype: dtype.name(),
                ttft,
                tbt,
                bandwidth: (way != Way::Recompute).then(|| bytes / tbt.seconds / peaks.bytes),
            });
        }
        Ok(Self { rows })
    }

    /// Prints the table.
    pub fn print(&self) {
        println!(
            "\nassignment: B = 16, H = 32, D = 128, {PROMPT} tokens of prompt, 100 steps, room for 2048"
        );
        println!(
            "way              k and v   TTFT ms   TBT ms  TTFT speed-up  TBT speed-up  bandwidth  time is"
        );
        let [recompute, ..] = &self.rows[..] else {
            return;
        };
        for row in &self.rows {
            let percent = |share| format!("{:.1}%", 100.0 * share);
            println!(
                "{:16} {:>7} {:>9.4} {:>8.4} {:>14.2} {:>13.2} {:>10}  {}",
                row.way,
                row.dtype,
                1e3 * row.ttft.seconds,
                1e3 * row.tbt.seconds,
                recompute.ttft.seconds / row.ttft.seconds,
                recompute.tbt.seconds / row.tbt.seconds,
                row.bandwidth.map_or("-".to_owned(), percent),
                row.tbt.how.max(row.ttft.how),
            );
        }
        println!(
            "TTFT: attention of the prompt by stage 4, and writing its keys and values into the cache"
        );
        println!(
            "TBT: mean of 100 steps of writing a token and attending, from steps 1, 50 and 100"
        );
        println!("attention alone, no projections; speed-ups are over recomputing");
        println!(
            "bandwidth: the bytes of a step at least (k, v, q, o once) over TBT, of the device's"
        );
    }
}

impl Way {
    fn prefill(self, dtype: Dtype) -> Vec<(Operation, Case)> {
        let attend = Operation::Stage4 { nq: PROMPT };
        let write = Operation::Update { n: PROMPT };
        // Attention of the prompt reads its keys and values before they are rounded.
        let mut operations = vec![(attend, case(PROMPT, Dtype::F32))];
        if self != Self::Recompute {
            operations.push((write, case(PROMPT, dtype)));
        }
        operations
    }

    fn step(
        self,
        case: Case,
        decode: impl Fn() -> anyhow::Result<Decode>,
    ) -> anyhow::Result<Vec<(Operation, Case)>> {
        let write = (Operation::Update { n: 1 }, case);
        Ok(match self {
            Self::Recompute => vec![(Operation::Stage4 { nq: case.keys }, case)],
            Self::Stage4 => vec![write, (Operation::Stage4 { nq: 1 }, case)],
            Self::Cache(mode) => vec![write, (case.decode(decode()?, mode), case)],
        })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recompute => f.write_str("recompute"),
            Self::Stage4 => f.write_str("stage 4, nq = 1"),
            Self::Cache(mode) => mode.fmt(f),
        }
    }
}

/// Hidden size 4096, 32 heads, and room for 2048 tokens.
fn case(keys: usize, dtype: Dtype) -> Case {
    Case {
        batch: 16,
        heads: 32,
        kv_heads: 32,
        keys,
        max_seq: 2048,
        head_dim: 4096 / 32,
        dtype,
        page_size: None,
    }
}

/// The mean over all steps from the first to the last of [`TIMED`], by trapezoids.
fn mean(timed: &[Estimate]) -> f64 {
    let (mut sum, mut steps) = (0.0, 0.0);
    for (at, pair) in TIMED.windows(2).zip(timed.windows(2)) {
        let between = (at[1] - at[0]) as f64;
        sum += between * (pair[0].seconds + pair[1].seconds) / 2.0;
        steps += between;
    }
    sum / steps
}
