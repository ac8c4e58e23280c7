//! `bench`: the ladder, decoding with a cache against recomputing, lengths
//! and batches, paged caches.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use bench_kit::{Peaks, memory_remark};
use clap::{Args, ValueEnum};
use serde::Serialize;
use stage5_decode::{Decode, Dtype};

use super::case::{Case, dim, dtype, heads, size};
use super::estimate::Estimator;
use super::{assignment, ladder, lengths, pages};

/// Bench decoding: measured on a GPU, modelled without one.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo run -p stage5-decode -- bench
  cargo run -p stage5-decode -- bench --tables lengths --kv-heads 8 --batch 1,8 --context 4096,32768
  cargo run -p stage5-decode -- bench --tables pages --dtype bf16 --json pages.json

Nothing is timed before its result agrees with stage 1's on a small problem of the same kind. Without a GPU, times are modelled
from counted work. The work of one sequence and head of keys is counted; all others do the same. The tables say which times
are modelled and which are extrapolated.")]
pub struct Arguments {
    /// The tables.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "ladder,assignment,lengths,pages"
    )]
    tables: Vec<Table>,

    /// Sequences, in the table of lengths.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64", value_parser = size)]
    batch: Vec<usize>,

    /// Tokens of each sequence, in the table of lengths.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "512,2048,8192,32768,65536",
        value_parser = size
    )]
    context: Vec<usize>,

    /// Page sizes, in the table of pages: 16 sequences of 8192 tokens.
    #[arg(long, value_delimiter = ',', default_value = "16,32,64,128,256")]
    page_sizes: Vec<usize>,

    /// Heads of queries, in the tables of lengths and pages.
    #[arg(long, default_value_t = 32, value_parser = heads)]
    heads: usize,

    /// Heads of keys and values, if not as many.
    #[arg(long, value_parser = heads)]
    kv_heads: Option<usize>,

    /// Head dimension.
    #[arg(long, default_value_t = 128, value_parser = dim)]
    dim: usize,

    /// Element type of the cache: f32, f16 or bf16.
    #[arg(long, default_value = "f16", value_parser = dtype)]
    dtype: Dtype,

    /// Timed runs on a GPU, of which the median counts.
    #[arg(long, default_value_t = 10)]
    runs: usize,

    /// Write all figures as JSON to this file.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,

    /// Write charts of the table of lengths as SVG to this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// A table of the bench.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Table {
    /// The rungs and the library on a long sequence with grouped heads.
    Ladder,
    /// Recomputing, stage 4, rungs and the library in the assignment's case.
    Assignment,
    /// The library in one split and in as many as the rule chooses, over batches and lengths.
    Lengths,
    /// Contiguous and paged caches.
    Pages,
}

/// All figures of a run.
#[derive(Debug, Serialize)]
struct Report {
    device: String,
    measured_on_hardware: bool,
    peaks: Peaks,
    /// Bytes of the device's memory.
    device_memory_bytes: u64,
    /// Bytes that the largest problem needs.
    largest_problem_bytes: f64,
    ladder: Option<ladder::Table>,
    assignment: Option<assignment::Table>,
    lengths: Option<lengths::Table>,
    pages: Option<pages::Table>,
}

/// Benches and reports.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let case = arguments.case()?;
    let context = gpu::context(0)?;
    let mut estimator = Estimator::new(&context.default_stream(), arguments.runs);
    let decode = || Ok(Decode::new(&context)?);
    let peaks = Peaks::of(&context)?;
    let mut report = Report {
        device: gpu::device_label(&context)?,
        measured_on_hardware: gpu::backend()? == gpu::Backend::Cuda,
        peaks,
        device_memory_bytes: gpu::device_memory(&context)?,
        largest_problem_bytes: 0.0,
        ladder: None,
        assignment: None,
        lengths: None,
        pages: None,
    };
    println!("{}: {:.0} GB/s", report.device, peaks.bytes / 1e9);
    for table in &arguments.tables {
        match table {
            Table::Ladder => {
                let capability = context.compute_capability()?;
                let table = ladder::Table::make(&mut estimator, decode, &peaks, capability)?;
                table.print();
                report.ladder = Some(table);
            }
            Table::Assignment => {
                let table = assignment::Table::make(&mut estimator, decode, &peaks)?;
                table.print();
                report.assignment = Some(table);
            }
            Table::Lengths => {
                let axes = [&arguments.batch[..], &arguments.context];
                let table = lengths::Table::make(&mut estimator, decode, &peaks, case, axes)?;
                table.print();
                report.lengths = Some(table);
            }
            Table::Pages => {
                let sizes = &arguments.page_sizes;
                let table = pages::Table::make(&mut estimator, decode, &peaks, case, sizes)?;
                table.print();
                report.pages = Some(table);
            }
        }
    }
    report.largest_problem_bytes = estimator.largest_bytes();
    let (needed, bytes) = (report.largest_problem_bytes, report.device_memory_bytes);
    if let Some(remark) = memory_remark(needed, &report.device, bytes) {
        println!("\n{remark}");
    }
    if !report.measured_on_hardware {
        println!("\nnothing here was measured on hardware");
    }
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    if let Some(folder) = &arguments.svg {
        let lengths = report.lengths.context("--svg needs the table of lengths")?;
        let how = match report.measured_on_hardware {
            true => "measured",
            false => "modelled",
        };
        lengths.plot(folder, &format!("{how}, {}", report.device))?;
    }
    Ok(())
}

impl Arguments {
    /// The case of the table of pages, after all sizes have been checked.
    fn case(&self) -> anyhow::Result<Case> {
        let (heads, kv_heads) = (self.heads, self.kv_heads.unwrap_or(self.heads));
        ensure!(
            heads.is_multiple_of(kv_heads),
            "{heads} heads are not a multiple of {kv_heads}"
        );
        for page_size in &self.page_sizes {
            let expected = stage5_decode::PAGE_SIZES;
            ensure!(
                expected.contains(page_size),
                "a page has {expected:?} tokens"
            );
        }
        ensure!(
            self.svg.is_none() || self.tables.contains(&Table::Lengths),
            "--svg needs the table of lengths"
        );
        Ok(Case {
            batch: 16,
            heads,
            kv_heads,
            keys: 8192,
            max_seq: 8192,
            head_dim: self.dim,
            dtype: self.dtype,
            page_size: None,
        })
    }
}
