//! `ladder`: the rungs and the library's kernel side by side.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;
use gpu::profile::Class;
use stage4_flash_cuda::{Attention, Kernel, Mode, Variant, committed};

use super::case::Case;
use super::estimate::Estimator;
use super::problem::Problem;

/// Queries and keys of the problem that is counted: whole tiles.
const N: usize = 512;

/// Devices whose time is modelled.
const DEVICES: [&str; 4] = ["a100", "h100", "rtx4090", "t4"];

/// Compare the rungs and the library's kernel: counted work of one head, and modelled times of a large problem.
#[derive(Args)]
pub struct Arguments {
    /// Print the modelled milliseconds alone, of the device that CUDA_SIM_DEVICE names.
    #[arg(long, hide = true)]
    times: bool,
}

/// Prints the table as Markdown.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    gpu::simulate()?; // a GPU's counters are Nsight Compute's to read
    if arguments.times {
        for variant in committed::LADDER {
            println!("{}", modelled(variant)?);
        }
        return Ok(());
    }
    let times = DEVICES.map(times_on);
    println!(
        "| kernel | queries × keys, threads | instructions per score | FFMA | shared wavefronts per FFMA | \
         bytes loaded per score | ms, {} |",
        DEVICES.join(" | ms, ")
    );
    println!("|---|---|---|---|---|---|{}", "---|".repeat(DEVICES.len()));
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    for (line, variant) in committed::LADDER.into_iter().enumerate() {
        let Variant { tile, head_dim, .. } = variant;
        let attention = attention(variant)?;
        let launches = Problem::new(&stream, Case::full(1, 1, N, head_dim))?.profile(&attention)?;
        let total = &launches.first().context("a launch")?.total;
        let (scores, fma) = ((N * N) as f64, total.of(Class::Fma32) as f64);
        print!(
            "| [`{0}`](kernels/{0}) | {1} × {2}, {3} | {4:.2} | {5:.1}% | {6:.2} | {7:.2} |",
            variant.file(),
            tile.block_q,
            tile.block_kv,
            tile.threads,
            32.0 * total.warp_instructions as f64 / scores,
            100.0 * fma / total.warp_instructions as f64,
            total.shared().wavefronts as f64 / fma,
            32.0 * total.global_loads.sectors as f64 / scores,
        );
        for times in &times {
            let times = times
                .as_ref()
                .map_err(|error| anyhow::anyhow!("{error:#}"))?;
            print!(" {} |", times[line]);
        }
        println!();
    }
    Ok(())
}

/// The handle that runs a variant.
fn attention(variant: Variant) -> anyhow::Result<Attention> {
    let mode = match variant.kernel {
        Kernel::Rung(rung) => Mode::Rung(rung),
        Kernel::Library => Mode::Fused,
    };
    let attention = Attention::new(&gpu::context(0)?)?.with_mode(mode);
    Ok(attention.with_tile(variant.tile))
}

/// Modelled milliseconds of 4 sequences of 32 heads on this device; a dash if it cannot run the kernel.
fn modelled(variant: Variant) -> anyhow::Result<String> {
    let attention = attention(variant)?;
    match attention.variant(variant.head_dim) {
        Err(stage4_flash_cuda::Error::Load(gpu::Error::DeviceTooOld { .. })) => {
            return Ok("–".to_owned());
        }
        loaded => loaded?,
    };
    let stream = gpu::context(0)?.default_stream();
    let large = Case::full(4, 32, 4096, variant.head_dim);
    let estimate = Estimator::new(&stream).estimate(&attention, large, 1)?;
    Ok(format!("{:.2}", 1e3 * estimate.seconds))
}

/// The times on another simulated device, each line's. The device is chosen when a process starts, so it takes one of its own.
fn times_on(device: &str) -> anyhow::Result<Vec<String>> {
    let program = env::current_exe()?;
    let output = Command::new(program)
        .args(["ladder", "--times"])
        .env("CUDA_SIM_DEVICE", device)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{device}: {errors}");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}
