//! `tune`: what each tile costs at the problems of task `4/tune`.

use std::collections::HashMap;

use anyhow::ensure;
use clap::Args;
use conformance::device::Device;
use gpu::profile::Class;
use gpu_tool::ink::Ink;
use grade::grade::chosen;
use grade::tuning::{HEAD_DIMS, Measured, PROBLEMS, Problem, candidates};
use indicatif::{ProgressBar, ProgressStyle};
use stage4_flash_cuda::library::Tile;

use super::compiler::offer_compiler;
use super::run::usual;
use super::{one, print};

/// Rows of a table, if not all are asked for.
const ROWS: usize = 12;

/// The flags of `tune`.
#[derive(Args)]
#[command(after_help = "\
The kernel is stage4-flash-cuda/kernels/library/attention.cu. The first time, all tiles are compiled: a minute or two for each head
dimension. A tile that spills is shown, and never the best: the modelled time counts a spilled register once, and not in each step.
Those that exercises/stage4/src/tune.rs chooses are marked `yours`.")]
pub struct Arguments {
    /// The problems with this head dimension; all if not given.
    #[arg(long, value_name = "D")]
    head_dim: Option<usize>,

    /// Show all tiles, not only the fastest.
    #[arg(long)]
    all: bool,

    /// Do not ask before the compiler is fetched.
    #[arg(long)]
    yes: bool,
}

/// Compiles each tile, counts it at each problem and prints the tables.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let asked = |problem: &&Problem| {
        let own = problem.sizes.head_dim;
        arguments.head_dim.is_none_or(|head_dim| head_dim == own)
    };
    let problems: Vec<&Problem> = PROBLEMS.iter().filter(asked).collect();
    ensure!(
        !problems.is_empty(),
        "the head dimensions of 4/tune are {HEAD_DIMS:?}"
    );
    offer_compiler(&["tiles of library/attention.cu".to_owned()], arguments.yes)?;
    gpu::simulate()?;
    let device = Device::open();
    let ink = Ink::stdout();
    let yours = yours()?;
    for problem in problems {
        let rows = measured(&device, problem)?;
        let yours = yours.get(problem.name).copied();
        print(&table(problem, &rows, yours, arguments.all, ink))?;
    }
    print(LEGEND)
}

/// The tiles that the learner has chosen, by the problem; none if the task is not begun or does not work: grading it says why.
fn yours() -> anyhow::Result<HashMap<&'static str, Tile>> {
    let task = one("4/tune")?;
    let tiles = chosen(&usual(), task).unwrap_or_default();
    let names = PROBLEMS.iter().map(|problem| problem.name);
    Ok(names.zip(tiles).collect())
}

const LEGEND: &str = "\
instr: instructions of a thread for each score; wavefr: wavefronts of shared memory for each f32 instruction of a warp;
spills: bytes of registers that a thread keeps in memory; per SM: blocks on a multiprocessor at a time; occup: its warps, of 64;
waves: blocks over what all multiprocessors have at a time. Modelled time; the device is an H100 unless CUDA_SIM_DEVICE names another.
";

/// All tiles at a problem, the fastest first. Tells how far it is.
fn measured(device: &Device, problem: &Problem) -> anyhow::Result<Vec<Measured>> {
    let tiles = candidates(device, problem.sizes.head_dim);
    let bar = ProgressBar::new(tiles.len() as u64);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg} ({elapsed})");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(format!("tiles at {}", problem.name));
    if bar.is_hidden() {
        eprintln!("{}: {} tiles", problem.name, tiles.len());
    }
    let rows = bar.wrap_iter(tiles.into_iter());
    let rows = rows.map(|tile| Measured::new(device, &problem.sizes, tile));
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    bar.finish_and_clear();
    rows.sort_by(|a, b| a.time.seconds.total_cmp(&b.time.seconds));
    Ok(rows)
}

fn table(problem: &Problem, rows: &[Measured], yours: Option<Tile>, all: bool, ink: Ink) -> String {
    let sizes = &problem.sizes;
    let best = rows.iter().find(|row| row.spills() == 0);
    let intensity = best.map_or(0.0, |best| best.flops() / best.dram_bytes());
    let mut text = format!(
        "{}: {} heads, {} queries, {} keys, D = {}, {intensity:.0} FLOP for each byte of DRAM traffic\n",
        ink.bold(problem.name),
        sizes.batch * sizes.heads,
        sizes.nq,
        sizes.nk,
        sizes.head_dim
    );
    text += "  queries × keys, threads  blocks  shared  registers  spills  per SM  occup  waves  instr  wavefr  TFLOP/s       µs  bound by\n";
    let mut left_out = 0;
    for (place, row) in rows.iter().enumerate() {
        let is_best = best.is_some_and(|best| best.tile == row.tile);
        let is_yours = yours == Some(row.tile);
        if place >= ROWS && !all && !is_yours {
            left_out += 1;
            continue;
        }
        let mut line = line(problem, row);
        let marks = [("  yours", is_yours), ("  best", is_best)];
        line.extend(marks.iter().filter(|mark| mark.1).map(|mark| mark.0));
        text += &if is_best || is_yours {
            ink.bold(&line)
        } else {
            line
        };
        text.push('\n');
    }
    if left_out > 0 {
        text += &format!("  and {left_out} slower tiles, which --all shows\n");
    }
    text + "\n"
}

fn line(problem: &Problem, row: &Measured) -> String {
    let Tile {
        block_q,
        block_kv,
        threads,
    } = row.tile;
    let total = &row.head.total;
    let scores = (problem.sizes.nq * problem.sizes.nk) as f64;
    format!(
        "  {block_q:>7} × {block_kv:>4}, {threads:>7}  {:>6}  {:>6}  {:>9}  {:>6}  {:>6}  {:>4.1}%  {:>5.2}  {:>5.1}  {:>6.2}  {:>7.1}  {:>7.1}  {}",
        row.blocks(),
        row.head.shared_bytes,
        row.registers(),
        row.spills(),
        row.time.blocks_per_multiprocessor,
        100.0 * row.time.occupancy,
        row.time.waves,
        32.0 * total.warp_instructions as f64 / scores,
        total.shared().wavefronts as f64 / total.of(Class::Fma32) as f64,
        1e-12 * row.flops() / row.time.seconds,
        row.micros(),
        row.time.bound.name(),
    )
}
