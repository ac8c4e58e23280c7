//! The rungs of the ladder and the library on one problem: a line for each, with the
//! counters that explain its time.

use gpu::profile::LaunchProfile;
use serde::Serialize;
use stage5_decode::{Decode, Dtype, Mode};

use super::case::{Case, Operation};
use super::estimate::{Estimate, Estimator};

/// A long sequence, whose heads of keys have groups of four heads of q.
const CASE: Case = Case {
    batch: 1,
    heads: 32,
    kv_heads: 8,
    keys: 8192,
    max_seq: 8192,
    head_dim: 128,
    dtype: Dtype::F32,
    page_size: None,
};

/// Bytes of a sector, the unit in which device memory is read.
const SECTOR: usize = 32;

/// A line of the table.
#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    /// Parts of the sequence.
    splits: usize,
    /// `None` on a GPU.
    counters: Option<Counters>,
    time: Option<Estimate>,
}

/// Counters of the kernel that attends.
#[derive(Debug, Serialize)]
struct Counters {
    blocks: u64,
    /// Sectors that were loaded, over those of k and v.
    loads: f64,
    /// Of warps.
    instructions: u64,
    /// The resource that takes longest.
    bound: String,
}

/// All rungs, and the library.
#[derive(Debug, Serialize)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Estimates every mode.
    pub fn make(
        estimator: &mut Estimator,
        decode: impl Fn() -> anyhow::Result<Decode>,
    ) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        for mode in Mode::ALL {
            eprintln!("ladder: {mode}");
            let operation = CASE.decode(decode()?, mode);
            let splits = match operation {
                Operation::Decode { splits, .. } => splits,
                _ => 1,
            };
            rows.push(Row {
                kernel: mode.to_string(),
                splits,
                time: estimator.estimate(operation, CASE)?,
                counters: estimator.launches(operation, CASE).and_then(counters),
            });
        }
        Ok(Self { rows })
    }

    /// Prints the table.
    pub fn print(&self) {
        println!("\nladder: {CASE}, D = {}", CASE.head_dim);
        println!(
            "kernel  splits blocks  loads of k, v  warp instructions    bound by       µs  time is"
        );
        for row in &self.rows {
            let Some(time) = row.time else {
                println!(
                    "{:8} {:>5}  not enough device memory",
                    row.kernel, row.splits
                );
                continue;
            };
            let counted = match &row.counters {
                None => format!("{:>6} {:>14} {:>18} {:>11}", "-", "-", "-", "-"),
                Some(counters) => format!(
                    "{:>6} {:>14.2} {:>18} {:>11}",
                    counters.blocks, counters.loads, counters.instructions, counters.bound
                ),
            };
            let (seconds, how) = (1e6 * time.seconds, time.how);
            println!(
                "{:8} {:>5} {counted} {seconds:>8.1}  {how}",
                row.kernel, row.splits
            );
        }
        println!("loads of k, v: sectors that the kernel loads, over those of keys and values");
        println!(
            "time: of all launches of a step; with more than one split, combine is one of them"
        );
    }
}

/// Counters of the first launch, of a part of the case that is repeated so many times.
fn counters((launches, times): (&[LaunchProfile], u64)) -> Option<Counters> {
    let launch = launches.first()?;
    let sectors = 2 * CASE.cache().bytes() / SECTOR;
    let blocks: u64 = launch.grid.iter().map(|&size| u64::from(size)).product();
    Some(Counters {
        blocks: times * blocks,
        loads: (times * launch.total.global_loads.sectors) as f64 / sectors as f64,
        instructions: times * launch.total.warp_instructions,
        bound: launch.repeated(times).bound.name().to_owned(),
    })
}
