//! Output of `bench`: a table, printed case by case; JSON; plots.

use std::path::Path;

use bench_kit::{Chart, Line, Peaks, memory_remark};
use cudarc::driver::CudaContext;
use serde::Serialize;
use stage4_flash_cuda::Mode;

use super::case::Case;
use super::estimate::{Estimate, keeps_scores};

/// Reads and writes of what is kept.
const PASSES: f64 = 6.0;

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
    /// The least time by the roofline, divided by the time; in f32 alone, as is the peak.
    roofline: Option<f64>,
    /// Bytes of q, k, v, o, lse, of their gradients if there are any, and of scores or sums that
    /// are kept.
    memory_bytes: f64,
    /// Bytes of DRAM traffic: counted; a lower bound if the time was measured.
    traffic_bytes: f64,
}

/// All figures of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    device: String,
    measured_on_hardware: bool,
    peaks: Peaks,
    /// Bytes of the device's memory.
    device_memory_bytes: u64,
    rows: Vec<Row>,
}

impl Report {
    pub fn new(context: &CudaContext) -> anyhow::Result<Self> {
        Ok(Self {
            device: gpu::device_label(context)?,
            measured_on_hardware: gpu::backend()? == gpu::Backend::Cuda,
            peaks: Peaks::of(context)?,
            device_memory_bytes: gpu::device_memory(context)?,
            rows: Vec::new(),
        })
    }

    pub fn add(&mut self, mode: Mode, case: Case, estimate: Estimate) {
        let kept = match mode {
            _ if keeps_scores(mode) => case.score_bytes(),
            Mode::Library => case.sum_bytes(),
            _ => 0.0,
        };
        self.rows.push(Row {
            mode: mode.to_string(),
            case,
            estimate,
            tflops: case.flops() / estimate.seconds / 1e12,
            roofline: (!case.f16)
                .then(|| self.peaks.seconds(case.flops(), case.bytes()) / estimate.seconds),
            memory_bytes: case.bytes() + kept,
            traffic_bytes: estimate.dram_bytes.unwrap_or(case.bytes() + PASSES * kept),
        });
    }

    pub fn print_head(&self) {
        let Self { device, peaks, .. } = self;
        println!(
            "{device}: peak {:.1} TFLOP/s f32, {:.0} GB/s",
            peaks.flops / 1e12,
            peaks.bytes / 1e9
        );
        println!(
            "mode              B     H      N    D        mask  latency ms  TFLOP/s  roofline DRAM GB/s speed-up \
             memory MiB  time is"
        );
    }

    /// Prints the lines of a case.
    pub fn print(&self, case: &Case) {
        for row in self.rows.iter().filter(|row| row.case == *case) {
            let (batch, n, head_dim) = (row.case.batch, row.case.n, row.case.head_dim);
            let mask = row.case.mask();
            let heads = match (row.case.heads, row.case.kv_heads) {
                (heads, kv_heads) if heads == kv_heads => heads.to_string(),
                (heads, kv_heads) => format!("{heads}/{kv_heads}"),
            };
            let bandwidth = row.estimate.dram_bytes.map_or("-".to_owned(), |bytes| {
                format!("{:.0}", bytes / row.estimate.seconds / 1e9)
            });
            let roofline = row
                .roofline
                .map_or("-".to_owned(), |share| format!("{:.1}%", 100.0 * share));
            let speed_up = self
                .speed_up(row)
                .map_or("-".to_owned(), |x| format!("{x:.2}"));
            println!(
                "{:15} {batch:>3} {heads:>5} {n:>6} {head_dim:>4} {mask:>11} {:>11.4} {:>8.2} {roofline:>9} {bandwidth:>9} {speed_up:>8} {:>10.1}  {}",
                row.mode,
                1e3 * row.estimate.seconds,
                row.tflops,
                row.memory_bytes / f64::from(1 << 20),
                row.estimate.how,
            );
        }
    }

    /// Prints the notes below the table.
    pub fn print_foot(&self, assignment: bool) {
        if self.rows.iter().any(|row| self.speed_up(row).is_some()) {
            println!("speed-up is over {}, stage 2", self.baseline());
        }
        let largest = self.rows.iter().map(|row| row.memory_bytes);
        let largest = largest.fold(0.0, f64::max);
        if let Some(remark) = memory_remark(largest, &self.device, self.device_memory_bytes) {
            println!("{remark}");
        }
        if !self.measured_on_hardware {
            println!("nothing here was measured on hardware");
        }
        if assignment {
            println!("against torch's MultiheadAttention: stage4-flash-cuda/bench/compare.py");
        }
    }

    /// The mode of stage 2 that others are compared with: it has all passes.
    fn baseline(&self) -> Mode {
        match self.rows.iter().any(|row| row.case.backward) {
            true => Mode::Naive,
            false => Mode::Tiled,
        }
    }

    /// Time of stage 2's kernels on the same case, divided by the row's.
    fn speed_up(&self, row: &Row) -> Option<f64> {
        let mode = self.baseline().to_string();
        let other =
            (self.rows.iter()).find(|other| other.mode == mode && other.case == row.case)?;
        Some(other.estimate.seconds / row.estimate.seconds)
    }

    /// Writes the plots to a folder.
    pub fn plot(&self, folder: &Path) -> anyhow::Result<()> {
        let how = match self.measured_on_hardware {
            true => "measured",
            false => "modelled",
        };
        let title = |name: &str| format!("{name}, {how}, {}", self.device);
        type Value<'a> = &'a dyn Fn(&Row) -> Option<f64>;
        let over = format!("× stage 2, {}", self.baseline());
        let charts: [(&str, &str, Value<'_>); 4] = [
            ("latency", "ms", &|row| Some(1e3 * row.estimate.seconds)),
            ("throughput", "TFLOP/s", &|row| Some(row.tflops)),
            ("speed-up", &over, &|row| self.speed_up(row)),
            ("memory", "MiB", &|row| {
                Some(row.memory_bytes / f64::from(1 << 20))
            }),
        ];
        for (name, unit, value) in charts {
            let chart = Chart {
                title: &title(name),
                x_label: "N",
                x_base: 2.0,
                y_label: unit,
                lines: self.lines(|row| Some((row.case.n as f64, value(row)?))),
            };
            if chart.lines.iter().all(|line| line.points.is_empty()) {
                continue; // no speed-up without the mode that it is over
            }
            chart.write(folder, name)?;
        }
        if self.rows.iter().any(|row| row.roofline.is_none()) {
            return Ok(());
        }

        let intensity = |row: &Row| row.tflops * 1e12 * row.estimate.seconds / row.traffic_bytes;
        let mut lines = self.lines(|row| Some((intensity(row), row.tflops)));
        let roof = |intensity: f64| (intensity, self.peaks.at(intensity) / 1e12);
        let ridge = self.peaks.flops / self.peaks.bytes;
        let intensities = || self.rows.iter().map(intensity);
        let least = intensities().fold(1.0, f64::min).log10().floor() as i32;
        let most = intensities().fold(ridge, f64::max).log10().ceil() as i32;
        let ends = [10f64.powi(least), ridge, 10f64.powi(most)];
        lines.push(Line {
            name: "the device's roof".to_owned(),
            points: ends.map(roof).to_vec(),
        });
        let chart = Chart {
            title: &title("roofline"),
            x_label: "FLOP for each byte of DRAM traffic",
            x_base: 10.0,
            y_label: "TFLOP/s",
            lines,
        };
        chart.write(folder, "roofline")
    }

    /// A line for each mode, in the order of the table.
    fn lines(&self, point: impl Fn(&Row) -> Option<(f64, f64)>) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for row in &self.rows {
            let known = lines.iter().position(|line| line.name == row.mode);
            let line = known.unwrap_or_else(|| {
                lines.push(Line {
                    name: row.mode.clone(),
                    points: Vec::new(),
                });
                lines.len() - 1
            });
            lines[line].points.extend(point(row));
        }
        lines
    }
}
