//! `ladder`: the rungs side by side, each also with the tile of the next.

use anyhow::Context;
use clap::Args;
use gpu::profile::Class;
use stage4_flash_cuda::{Attention, committed};

use super::case::Case;
use super::estimate::Estimator;
use super::problem::Problem;

/// Queries and keys of the problem that is counted: whole tiles.
const N: usize = 512;

/// Compare the rungs: counted work of one head, and modelled time of a large problem.
#[derive(Args)]
pub struct Arguments {}

/// Prints the table as Markdown.
pub fn run(_: &Arguments) -> anyhow::Result<()> {
    gpu::simulate()?; // a GPU's counters are Nsight Compute's to read
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    println!(
        "| file | strategy | queries × keys, threads | instructions per score | FFMA | shared wavefronts per FFMA | \
         bytes loaded per score | modelled ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for variant in committed::LADDER {
        let (strategy, tile, head_dim) = (variant.strategy, variant.tile, variant.head_dim);
        let attention = Attention::new(&context)?.with_tile(strategy, tile);
        let launches = Problem::new(&stream, Case::full(1, 1, N, head_dim))?.profile(&attention)?;
        let total = &launches.first().context("a launch")?.total;
        let large = Case::full(4, 32, 4096, head_dim);
        let estimate = Estimator::new(&stream).estimate(&attention, large, 1)?;
        let (scores, fma) = ((N * N) as f64, total.of(Class::Fma32) as f64);
        println!(
            "| [`{0}`](kernels/{0}) | {strategy} | {1} × {2}, {3} | {4:.2} | {5:.1}% | {6:.2} | {7:.2} | {8:.2} |",
            variant.file(),
            tile.block_q,
            tile.block_kv,
            tile.threads,
            32.0 * total.warp_instructions as f64 / scores,
            100.0 * fma / total.warp_instructions as f64,
            total.shared().wavefronts as f64 / fma,
            32.0 * total.global_loads.sectors as f64 / scores,
            1e3 * estimate.seconds,
        );
    }
    Ok(())
}
