//! `bench`: latency, throughput, traffic, memory and speed-up of the modes, over sequence lengths.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Serialize;
use stage2_naive_cuda::check::MAX_SIZE;
use stage4_flash_cuda::{Attention, Mode, Strategy};

use super::case::{Case, Masks};
use super::estimate::{Estimate, estimate};
use super::plot::{Chart, Line};
use super::problem::verify;
use super::roofline::Peaks;

/// Bench the modes: measured on a GPU, modelled without one.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo run -p stage4-flash-cuda -- bench --seq 512,1024,2048,4096 --dim 64 --causal
  cargo run -p stage4-flash-cuda -- bench --seq 4096 --modes tiled,fused --window 256 --kv-heads 8
  cargo run -p stage4-flash-cuda -- bench --assignment

No mode is timed before its result agrees with an f64 reference on a small problem of the same kind. Without a GPU, times are
modelled from counted work. Work beyond N = 768, or of more than one head of k and v, is extrapolated from smaller problems:
it is a polynomial in N. Both are labelled.")]
pub struct Arguments {
    /// Sequences in the batch.
    #[arg(long, default_value_t = 4)]
    batch: usize,

    /// Heads.
    #[arg(long, default_value_t = 32)]
    heads: usize,

    /// Heads of k and v, if not as many.
    #[arg(long)]
    kv_heads: Option<usize>,

    /// Sequence lengths.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "128,256,512,1024,2048,4096,8192,16384"
    )]
    seq: Vec<usize>,

    /// Head dimension.
    #[arg(long, default_value_t = 128)]
    dim: usize,

    /// With the causal mask.
    #[arg(long)]
    causal: bool,

    /// With the causal mask and a sliding window: a query sees itself and so many keys before it.
    #[arg(long, value_name = "KEYS")]
    window: Option<usize>,

    /// With a block mask: one block of 64 × 64 scores in so many is seen.
    #[arg(long, value_name = "BLOCKS", value_parser = at_least_one)]
    one_block_in: Option<usize>,

    /// Modes: naive, tiled, fused, or a strategy: padded, exact, split, register-tiled.
    #[arg(long, value_delimiter = ',', default_value = "naive,tiled,fused", value_parser = mode)]
    modes: Vec<Mode>,

    /// Timed runs on a GPU, of which the median counts.
    #[arg(long, default_value_t = 10)]
    runs: usize,

    /// The assignment's four cases instead: (B, N) = (4, 128) and (64, 4096), hidden 4096, 32 heads, with and without the
    /// causal mask.
    #[arg(long)]
    assignment: bool,

    /// Write all figures as JSON to this file.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,

    /// Write plots as SVG to this folder.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Row {
    mode: String,
    #[serde(flatten)]
    case: Case,
    #[serde(flatten)]
    estimate: Estimate,
    /// FLOPs of the products, per second, over 10¹².
    tflops: f64,
    /// The least time of a device, as a share of this one.
    roofline: f64,
    /// Bytes of q, k, v, o, lse, and of scores if they are kept.
    memory_bytes: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    measured_on_hardware: bool,
    peaks: Peaks,
    rows: Vec<Row>,
}

/// Benches and reports.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    let peaks = Peaks::of(&context)?;
    let mut rows = Vec::new();
    for case in arguments.cases() {
        case.sizes().check("bench")?;
        ensure!(
            case.bytes() > 0.0,
            "there is nothing to compute in {case:?}"
        );
        let largest = case.batch.max(case.heads).max(case.n);
        ensure!(
            largest <= MAX_SIZE,
            "{largest} is above the limit of {MAX_SIZE}"
        );
        for &mode in &arguments.modes {
            let attention = Attention::new(&context)?.with_mode(mode);
            let estimate = verify(&stream, &attention, case)
                .and_then(|()| estimate(&stream, &attention, case, arguments.runs))
                .with_context(|| format!("{mode} at {case:?}"))?;
            let scores = match mode {
                Mode::Naive | Mode::Tiled => case.score_bytes(),
                Mode::Fused | Mode::FusedBy(_) => 0.0,
            };
            rows.push(Row {
                mode: mode.to_string(),
                case,
                estimate,
                tflops: case.flops() / estimate.seconds / 1e12,
                roofline: peaks.seconds(&case) / estimate.seconds,
                memory_bytes: case.bytes() + scores,
            });
        }
    }
    let report = Report {
        device: gpu::device_label(&context)?,
        measured_on_hardware: gpu::backend()? == gpu::Backend::Cuda,
        peaks,
        rows,
    };
    report.print();
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    if let Some(folder) = &arguments.plots {
        report.plot(folder)?;
    }
    Ok(())
}

impl Arguments {
    fn cases(&self) -> Vec<Case> {
        if self.assignment {
            let both = [false, true];
            let cases = [(4, 128), (64, 4096)].into_iter();
            let cases = cases.flat_map(|(batch, n)| both.map(|causal| (batch, n, causal)));
            return Vec::from_iter(cases.map(|(batch, n, causal)| Case {
                masks: Masks {
                    causal,
                    ..Masks::default()
                },
                ..Case::full(batch, 32, n, 4096 / 32)
            }));
        }
        let case = |&n| Case {
            kv_heads: self.kv_heads.unwrap_or(self.heads),
            masks: Masks {
                causal: self.causal || self.window.is_some(),
                window: self.window,
                one_block_in: self.one_block_in,
            },
            ..Case::full(self.batch, self.heads, n, self.dim)
        };
        self.seq.iter().map(case).collect()
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it is 0".to_owned()),
        number => number.map_err(|error| format!("{error}")),
    }
}

/// The mode of that name.
fn mode(name: &str) -> Result<Mode, String> {
    let modes = [Mode::Naive, Mode::Tiled, Mode::Fused].into_iter();
    let mut modes = modes.chain(Strategy::ALL.map(Mode::FusedBy));
    modes.find(|mode| mode.to_string() == name).ok_or_else(|| {
        "it is none of naive, tiled, fused, padded, exact, split, register-tiled".to_owned()
    })
}

impl Report {
    fn print(&self) {
        let Self { device, peaks, .. } = self;
        println!(
            "{device}: peak {:.1} TFLOP/s f32, {:.0} GB/s",
            peaks.flops / 1e12,
            peaks.bytes / 1e9
        );
        println!(
            "{:15} {:>3} {:>5} {:>6} {:>4} {:>11} {:>11} {:>8} {:>9} {:>9} {:>8} {:>10}  time is",
            "mode",
            "B",
            "H",
            "N",
            "D",
            "mask",
            "latency ms",
            "TFLOP/s",
            "roofline",
            "DRAM GB/s",
            "speed-up",
            "memory MiB"
        );
        for row in &self.rows {
            let Case {
                batch,
                heads,
                kv_heads,
                n,
                head_dim,
                masks,
            } = row.case;
            let heads = match kv_heads == heads {
                true => heads.to_string(),
                false => format!("{heads}/{kv_heads}"),
            };
            let bandwidth = row.estimate.dram_bytes.map_or("-".to_owned(), |bytes| {
                format!("{:.0}", bytes / row.estimate.seconds / 1e9)
            });
            let speed_up = self
                .speed_up(row)
                .map_or("-".to_owned(), |x| format!("{x:.2}"));
            println!(
                "{:15} {batch:>3} {heads:>5} {n:>6} {head_dim:>4} {masks:>11} {:>11.4} {:>8.2} {:>8.1}% {bandwidth:>9} {speed_up:>8} {:>10.1}  {}",
                row.mode,
                1e3 * row.estimate.seconds,
                row.tflops,
                100.0 * row.roofline,
                row.memory_bytes / f64::from(1 << 20),
                row.estimate.how,
            );
        }
        println!("speed-up is over tiled, stage 2");
        if !self.measured_on_hardware {
            println!("nothing here was measured on hardware");
        }
    }

    /// How much faster a row is than stage 2's tiled kernels on the same case.
    fn speed_up(&self, row: &Row) -> Option<f64> {
        let tiled = Mode::Tiled.to_string();
        let other =
            (self.rows.iter()).find(|other| other.mode == tiled && other.case == row.case)?;
        Some(other.estimate.seconds / row.estimate.seconds)
    }

    fn plot(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        if self.rows.is_empty() {
            bail!("there is nothing to plot");
        }
        type Value<'a> = &'a dyn Fn(&Row) -> Option<f64>;
        let charts: [(&str, &str, Value<'_>); 5] = [
            ("latency", "ms", &|row| Some(1e3 * row.estimate.seconds)),
            ("throughput", "TFLOP/s", &|row| Some(row.tflops)),
            ("speed-up", "× stage 2, tiled", &|row| self.speed_up(row)),
            ("memory", "MiB", &|row| {
                Some(row.memory_bytes / f64::from(1 << 20))
            }),
            ("roofline", "% of the device's best", &|row| {
                Some(100.0 * row.roofline)
            }),
        ];
        let mut modes: Vec<&str> = self.rows.iter().map(|row| &*row.mode).collect();
        modes.dedup();
        modes.sort_unstable();
        modes.dedup();
        for (name, unit, value) in charts {
            let line = |mode: &&str| Line {
                name: (*mode).to_owned(),
                points: (self.rows.iter())
                    .filter(|row| row.mode == *mode)
                    .filter_map(|row| Some((row.case.n as f64, value(row)?)))
                    .collect(),
            };
            let how = self.rows[0].estimate.how;
            let chart = Chart {
                title: &format!("{name}, {how}, {}", self.device),
                x_label: "N",
                y_label: unit,
                lines: modes.iter().map(line).collect(),
            };
            if chart.lines.iter().all(|line| line.points.is_empty()) {
                continue; // no speed-up without the mode that it is over
            }
            let path = folder.join(format!("{name}.svg"));
            fs::write(&path, chart.svg()).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}
