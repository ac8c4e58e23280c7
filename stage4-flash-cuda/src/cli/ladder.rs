//! `ladder`: the rungs and the library's kernel side by side.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;
use gpu::profile::{Class, LaunchProfile};
use half::f16;
use stage4_flash_cuda::{Attention, Kernel, Mode, Rung, Variant, committed};

use super::backward;
use super::case::Case;
use super::estimate::Estimator;
use super::problem::{Passes, Problem};

/// Queries and keys of the problem that is counted: whole tiles.
const N: usize = 512;

/// Those of the rungs in f16, whose steps are fewer.
const N_F16: usize = 2048;

/// The columns of [`counts`].
pub const COLUMNS: &str =
    "instructions per score | FFMA | shared wavefronts per FFMA | bytes loaded per score";

/// Devices whose time is modelled.
const DEVICES: [&str; 4] = ["a100", "h100", "rtx4090", "t4"];

/// Compare the rungs and the library's kernel: counted work of one head, and modelled
/// times of a large problem.
#[derive(Args)]
pub struct Arguments {
    /// Those in f16 after the last in f32, at D = 128.
    #[arg(long)]
    f16: bool,
    /// The kernels of the backward pass, after a rung of the forward pass, at D = 64 and 128; in
    /// f16 with --f16.
    #[arg(long)]
    backward: bool,
    /// Print the modelled milliseconds alone, of the device that CUDA_SIM_DEVICE names.
    #[arg(long, hide = true)]
    times: bool,
}

/// Prints the table as Markdown.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    gpu::simulate()?; // a GPU's counters are Nsight Compute's to read
    if arguments.backward {
        return match arguments.f16 {
            false => backward::run::<f32>(arguments.times),
            true => backward::run::<f16>(arguments.times),
        };
    }
    let (variants, n, large) = match arguments.f16 {
        false => (&committed::LADDER[..], N, Case::full(4, 32, 4096, 64)),
        true => (
            &committed::LADDER_F16[..],
            N_F16,
            Case::full(1, 8, 4096, 128),
        ),
    };
    if arguments.times {
        for &variant in variants {
            println!("{}", modelled(variant, large)?);
        }
        return Ok(());
    }
    let columns = match arguments.f16 {
        false => COLUMNS,
        true => {
            "FLOPs of products over 4 N² D | instructions per mma | shared wavefronts per mma | wavefronts per shared load | registers | occupancy"
        }
    };
    let count = 2 + columns.split(" | ").count() + DEVICES.len();
    let flags: &[&str] = if arguments.f16 { &["--f16"] } else { &[] };
    let times = DEVICES.map(|device| times_on(device, flags));
    let devices = DEVICES.join(" | ms, ");
    println!("| kernel | queries × keys, threads | {columns} | ms, {devices} |");
    println!("|{}", "---|".repeat(count));
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    for (line, &variant) in variants.iter().enumerate() {
        let Variant { tile, head_dim, .. } = variant;
        let passes = Passes::forward(attention(variant)?);
        let case = of_its_type(Case::full(1, 1, n, head_dim), variant);
        let mut problem = Problem::new(&stream, case)?;
        let launches = problem.profile(&passes)?;
        let launch = launches.first().context("a launch")?;
        print!(
            "| [`{0}`](kernels/{0}) | {1} × {2}, {3} |",
            variant.file(),
            tile.block_q,
            tile.block_kv,
            tile.threads
        );
        match arguments.f16 {
            false => print!(" {}", counts(launch, N)),
            true => print!(" {}", tensor_core_counts(launch, head_dim)),
        }
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

/// The columns of a kernel in f32, for `n` queries and keys.
pub fn counts(launch: &LaunchProfile, n: usize) -> String {
    let total = &launch.total;
    let (scores, fma) = ((n * n) as f64, total.of(Class::Fma32) as f64);
    let products = match total.shared().requests {
        0 => "– | –".to_owned(), // it multiplies no tiles
        _ => format!(
            "{:.1}% | {:.2}",
            100.0 * fma / total.warp_instructions as f64,
            total.shared().wavefronts as f64 / fma
        ),
    };
    format!(
        "{:.2} | {products} | {:.2} |",
        32.0 * total.warp_instructions as f64 / scores,
        32.0 * total.global_loads.sectors as f64 / scores,
    )
}

fn tensor_core_counts(launch: &LaunchProfile, head_dim: usize) -> String {
    let report = launch.resources.as_ref();
    let registers = report.map_or("–".to_owned(), |report| report.registers.to_string());
    let total = &launch.total;
    let products = match total.flops_tensor {
        0 => "– | – | –".to_owned(), // in f32
        flops => {
            let mma = flops as f64 / 4096.0;
            format!(
                "{:.2} | {:.2} | {:.2}",
                flops as f64 / (4 * N_F16 * N_F16 * head_dim) as f64,
                total.warp_instructions as f64 / mma,
                total.shared().wavefronts as f64 / mma,
            )
        }
    };
    format!(
        "{products} | {:.2} | {registers} | {:.1}% |",
        total.shared_loads.wavefronts as f64 / total.shared_loads.requests as f64,
        100.0 * launch.time.occupancy,
    )
}

/// A case in the type of a variant's tensors.
fn of_its_type(case: Case, variant: Variant) -> Case {
    let f16 = match variant.kernel {
        Kernel::Rung(rung) => Rung::F16.contains(&rung),
        Kernel::TensorCores(_) | Kernel::Warpgroups(_) | Kernel::Converting(_) => true,
        Kernel::Library => false,
    };
    Case { f16, ..case }
}

/// The handle that runs a variant.
fn attention(variant: Variant) -> anyhow::Result<Attention> {
    let mode = match variant.kernel {
        Kernel::Rung(rung) => Mode::Rung(rung),
        Kernel::Library
        | Kernel::TensorCores(_)
        | Kernel::Warpgroups(_)
        | Kernel::Converting(_) => Mode::Library,
    };
    let attention = Attention::new(&gpu::context(0)?)?.with_mode(mode);
    Ok(attention.with_tile(variant.tile))
}

/// Modelled milliseconds of a case on this device; a dash if it cannot run the kernel.
fn modelled(variant: Variant, large: Case) -> anyhow::Result<String> {
    let capability = gpu::context(0)?.compute_capability()?;
    let runs = match variant.kernel {
        Kernel::TensorCores(_) => capability >= (8, 0), // the library runs another kernel there
        Kernel::Warpgroups(_) => capability == (9, 0),
        Kernel::Rung(rung) => rung.runs_on(capability),
        Kernel::Library | Kernel::Converting(_) => true,
    };
    if !runs {
        return Ok("–".to_owned());
    }
    let attention = attention(variant)?;
    let stream = gpu::context(0)?.default_stream();
    let case = of_its_type(large, variant);
    let estimate = Estimator::new(&stream).estimate(&Passes::forward(attention), case, 1)?;
    let digits = if estimate.seconds < 5e-3 { 3 } else { 2 };
    Ok(format!("{:.digits$}", 1e3 * estimate.seconds))
}

/// The times on another simulated device, each line's. The device is chosen when a process starts,
/// so it takes one of its own.
pub fn times_on(device: &str, flags: &[&str]) -> anyhow::Result<Vec<String>> {
    let program = env::current_exe()?;
    let output = Command::new(program)
        .args(["ladder", "--times"])
        .args(flags)
        .env("CUDA_SIM_DEVICE", device)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{device}: {errors}");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}
