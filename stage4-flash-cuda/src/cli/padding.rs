//! `padding`: FLOPs that each strategy for the head dimension wastes.

use anyhow::Context;
use clap::Args;
use gpu::profile::{Class, Counters, LaunchProfile};
use stage4_flash_cuda::{Attention, Mode, Strategy};

use super::case::Case;
use super::problem::Problem;

/// The head dimensions of the table.
const HEAD_DIMS: [usize; 7] = [48, 64, 72, 80, 96, 128, 160];

/// Queries and keys: whole tiles, so that the columns are all that is padded.
const N: usize = 128;

/// Count what padding of the head dimension wastes, by strategy.
#[derive(Args)]
pub struct Arguments {}

/// Prints the table as Markdown.
pub fn run(_: &Arguments) -> anyhow::Result<()> {
    gpu::simulate()?; // a GPU's counters are Nsight Compute's to read
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    let strategies = &Strategy::ALL[1..]; // rung 1 cannot have all of these head dimensions
    let names = Vec::from_iter(strategies.iter().map(Strategy::to_string));
    println!("| D | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for head_dim in HEAD_DIMS {
        let mut row = format!("| {head_dim} |");
        for &strategy in strategies {
            let attention = Attention::new(&context)?.with_mode(Mode::FusedBy(strategy));
            let mut problem = Problem::new(&stream, Case::full(1, 1, N, head_dim))?;
            let launches = problem.profile(&attention)?;
            let (flops, slots) = products(launches.first().context("a launch")?);
            let needed = (4 * N * N * head_dim) as f64;
            let percent = |part: u64| 100.0 * (part as f64 / needed - 1.0);
            row += &format!(" {:.0}% ({:.0}%) |", percent(flops), percent(slots));
        }
        println!("{row}");
    }
    Ok(())
}

/// FLOPs of the two matrix products, and FLOPs that the same instructions would do with all 32 lanes active.
fn products(launch: &LaunchProfile) -> (u64, u64) {
    let fma = |counters: &Counters| counters.of(Class::Fma32);
    // The products are the source lines with nearly all multiply-adds.
    let lines = launch.lines.iter().map(|line| &line.counters);
    let lines = lines.filter(|counters| 20 * fma(counters) > fma(&launch.total));
    lines.fold((0, 0), |(flops, slots), counters| {
        (flops + counters.flops_f32, slots + 64 * fma(counters))
    })
}
