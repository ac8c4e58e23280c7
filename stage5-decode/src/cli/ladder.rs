//! The rungs of the ladder and the library on one problem: a line for each, with the
//! counters that explain its time.

use bench_kit::Peaks;
use gpu::profile::LaunchProfile;
use serde::Serialize;
use stage5_decode::{Decode, Dtype, Mode};

use super::case::{Case, Operation};
use super::estimate::{Estimate, Estimator};

/// A long sequence, whose heads of keys have groups of four heads of q. A row has its own type.
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
    /// Element type of keys and values.
    dtype: &'static str,
    /// Parts of the sequence.
    splits: usize,
    /// `None` on a GPU.
    counters: Option<Counters>,
    time: Option<Estimate>,
    /// Least bytes of a step over its time, as a share of the device's bandwidth.
    bandwidth: Option<f64>,
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
    /// Estimates every mode that a device of this compute capability runs: a rung with its element
    /// type, the library with those of the rungs.
    pub fn make(
        estimator: &mut Estimator,
        decode: impl Fn() -> anyhow::Result<Decode>,
        peaks: &Peaks,
        capability: (i32, i32),
    ) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        let dtypes = |mode| match mode {
            Mode::Rung(rung) if rung.capability() > capability => vec![],
            Mode::Rung(rung) => vec![rung.dtype()],
            Mode::Library => vec![Dtype::F32, Dtype::F16],
        };
        for mode in Mode::ALL {
            for dtype in dtypes(mode) {
                eprintln!("ladder: {mode}, {dtype}");
                let case = Case { dtype, ..CASE };
                let operation = case.decode(decode()?, mode);
                let splits = match operation {
                    Operation::Decode { splits, .. } => splits,
                    _ => 1,
                };
                let time = estimator.estimate(operation, case)?;
                let launches = estimator.launches(operation, case);
                rows.push(Row {
                    kernel: mode.to_string(),
                    dtype: dtype.name(),
                    splits,
                    counters: launches.and_then(|launches| counters(&case, launches)),
                    time,
                    bandwidth: time.map(|time| case.bytes() / time.seconds / peaks.bytes),
                });
            }
        }
        Ok(Self { rows })
    }

    /// Prints the table.
    pub fn print(&self) {
        let Case {
            batch,
            heads,
            kv_heads,
            keys,
            head_dim,
            ..
        } = CASE;
        println!(
            "\nladder: B = {batch}, H = {heads}, H_kv = {kv_heads}, {keys} tokens, D = {head_dim}"
        );
        println!(
            "kernel  k and v splits blocks  loads of k, v  warp instructions    bound by       µs bandwidth  time is"
        );
        for row in &self.rows {
            let Some(time) = row.time else {
                println!(
                    "{:8} {:>6} {:>6}  not enough device memory",
                    row.kernel, row.dtype, row.splits
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
            let share = row.bandwidth.map(|share| format!("{:.1}%", 100.0 * share));
            println!(
                "{:8} {:>6} {:>6} {counted} {seconds:>8.1} {:>9}  {how}",
                row.kernel,
                row.dtype,
                row.splits,
                share.unwrap_or_default(),
            );
        }
        println!("loads of k, v: sectors that the kernel loads, over those of keys and values");
        println!(
            "time: of all launches of a step; with more than one split, combine is one of them"
        );
        println!(
            "bandwidth: the bytes of a step at least (k, v, q, o once) over its time, of the device's"
        );
    }
}

/// Counters of the first launch, of a part of the case that is repeated so many times.
fn counters(case: &Case, (launches, times): (&[LaunchProfile], u64)) -> Option<Counters> {
    let launch = launches.first()?;
    let sectors = 2 * case.cache().bytes() / SECTOR;
    let blocks: u64 = launch.grid.iter().map(|&size| u64::from(size)).product();
    Some(Counters {
        blocks: times * blocks,
        loads: (times * launch.total.global_loads.sectors) as f64 / sectors as f64,
        instructions: times * launch.total.warp_instructions,
        bound: launch.repeated(times).bound.name().to_owned(),
    })
}
