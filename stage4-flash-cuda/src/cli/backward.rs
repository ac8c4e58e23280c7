//! `ladder --backward`: the kernels of the backward pass, after a kernel of the forward pass.

use std::sync::Arc;

use anyhow::Context;
use cudarc::driver::{CudaStream, DeviceRepr, ValidAsZeroBits};
use gpu::profile::LaunchProfile;
use half::f16;
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{
    Attention, Backward, BackwardInputs, BackwardKernel, BackwardMode, Error, Format, Gradients,
    Inputs, Mode, Rung, Shape,
};

use super::case::Case;
use super::estimate::{Estimator, launch_seconds};
use super::ladder::{COLUMNS, counts, times_on};
use super::problem::{self, Problem};

/// Queries and keys of the problem that is counted: whole tiles.
const N: usize = 512;

/// A backward pass, and the forward pass beside it, which has the same steps.
pub struct Passes {
    forward: Mode,
    mode: BackwardMode,
    kernels: [BackwardKernel; 3],
}

/// A type of the tensors, and what it runs.
pub trait Element: DeviceRepr + ValidAsZeroBits {
    const F16: bool;
    const PASSES: &'static [Passes];
    /// The flags of `ladder`.
    const FLAGS: &'static [&'static str];
    /// The head of the column of kernels, and the columns of counts.
    const COLUMNS: [&'static str; 2];

    /// The columns of a launch.
    fn counts(launch: &LaunchProfile) -> String;

    fn backward(
        backward: &Backward,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_, Self>,
        gradients: Gradients<'_, Self>,
        shape: &Shape,
    ) -> Result<(), Error>
    where
        Self: Sized;
}

impl Element for f32 {
    const F16: bool = false;
    const PASSES: &'static [Passes] = &[
        Passes {
            forward: Mode::Rung(Rung::RegisterTiles),
            mode: BackwardMode::Recompute,
            kernels: BackwardKernel::RECOMPUTE,
        },
        Passes {
            forward: Mode::Library,
            mode: BackwardMode::Library,
            kernels: BackwardKernel::library(None),
        },
    ];
    const FLAGS: &'static [&'static str] = &["--backward"];
    const COLUMNS: [&'static str; 2] = ["kernel", COLUMNS];

    fn counts(launch: &LaunchProfile) -> String {
        counts(launch, N)
    }

    fn backward(
        backward: &Backward,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_>,
        gradients: Gradients<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        backward.backward(stream, inputs, gradients, shape)
    }
}

impl Element for f16 {
    const F16: bool = true;
    const PASSES: &'static [Passes] = &[
        Passes {
            forward: Mode::Rung(Rung::Reuse),
            mode: BackwardMode::Mma,
            kernels: BackwardKernel::MMA,
        },
        Passes {
            forward: Mode::Padded, // attention_mma.cu on every device
            mode: BackwardMode::Library,
            kernels: BackwardKernel::tensor_cores(Format::F16),
        },
    ];
    const FLAGS: &'static [&'static str] = &["--backward", "--f16"];
    const COLUMNS: [&'static str; 2] = [
        "kernel in f16",
        "instructions per score | instructions per mma | shared wavefronts per mma | bytes loaded per score",
    ];

    fn counts(launch: &LaunchProfile) -> String {
        let total = &launch.total;
        let (scores, mma) = ((N * N) as f64, total.flops_tensor as f64 / 4096.0);
        let products = match total.flops_tensor {
            0 => "– | –".to_owned(),
            _ => format!(
                "{:.2} | {:.2}",
                total.warp_instructions as f64 / mma,
                total.shared().wavefronts as f64 / mma
            ),
        };
        format!(
            "{:.2} | {products} | {:.2} |",
            32.0 * total.warp_instructions as f64 / scores,
            32.0 * total.global_loads.sectors as f64 / scores,
        )
    }

    fn backward(
        backward: &Backward,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_, f16>,
        gradients: Gradients<'_, f16>,
        shape: &Shape,
    ) -> Result<(), Error> {
        backward.backward_half(stream, inputs, gradients, shape)
    }
}

const HEAD_DIMS: [usize; 2] = [64, 128];

/// Devices whose time is modelled. A block of a T4 has too little shared memory for the tiles.
const DEVICES: [&str; 3] = ["a100", "h100", "rtx4090"];

/// Prints the table as Markdown, or the times alone.
pub fn run<T: Element>(times: bool) -> anyhow::Result<()> {
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    if times {
        for head_dim in HEAD_DIMS {
            for passes in T::PASSES {
                print_times::<T>(&stream, head_dim, passes)?;
            }
        }
        return Ok(());
    }
    let times = DEVICES.map(|device| times_on(device, T::FLAGS));
    let [a100, h100, rtx4090] = times;
    let times = [a100?, h100?, rtx4090?];
    let mut line = 0;
    let mut finish = || {
        for times in &times {
            print!(" {} |", times[line]);
        }
        println!();
        line += 1;
    };
    let devices = DEVICES.join(" | ms, ");
    let [kernel, columns] = T::COLUMNS;
    println!("| D | {kernel} | queries × keys, threads | {columns} | ms, {devices} |");
    println!("|{}", "---|".repeat(7 + DEVICES.len()));
    let lines = HEAD_DIMS.into_iter();
    for (head_dim, passes) in lines.flat_map(|d| T::PASSES.iter().map(move |p| (d, p))) {
        let case = case::<T>(1, 1, N, head_dim);
        let attention = attention(passes.forward)?;
        let variant = match T::F16 {
            false => attention.variant(head_dim)?,
            true => attention.half_variant(Format::F16, &Shape::packed(case.sizes()))?,
        };
        let forward = Problem::new(&stream, case)?.profile(&problem::Passes::forward(attention))?;
        let forward = forward
            .into_iter()
            .map(|launch| (variant.file(), Some(variant.tile), launch));
        let backward = profile::<T>(&stream, case, passes.mode)?;
        let backward = passes.kernels.into_iter().zip(backward);
        let backward =
            backward.map(|(kernel, launch)| (kernel.file(), kernel.tile(head_dim), launch));
        for (file, tile, launch) in forward.chain(backward) {
            let tile = tile.map_or("–".to_owned(), of_tile);
            print!("| {head_dim} | [`{file}`](kernels/{file}) | {tile} |");
            print!(" {}", T::counts(&launch));
            finish();
        }
        print!("| {head_dim} | backward ÷ forward | – | – | – | – | – |");
        finish();
    }
    Ok(())
}

fn of_tile(tile: Tile) -> String {
    format!("{} × {}, {}", tile.block_q, tile.block_kv, tile.threads)
}

/// A case in the type of the tensors.
fn case<T: Element>(batch: usize, heads: usize, n: usize, head_dim: usize) -> Case {
    Case {
        f16: T::F16,
        ..Case::full(batch, heads, n, head_dim)
    }
}

fn attention(mode: Mode) -> anyhow::Result<Attention> {
    Ok(Attention::new(&gpu::context(0)?)?.with_mode(mode))
}

/// Modelled milliseconds of each line, on the device that CUDA_SIM_DEVICE names.
fn print_times<T: Element>(
    stream: &Arc<CudaStream>,
    head_dim: usize,
    passes: &Passes,
) -> anyhow::Result<()> {
    let case = case::<T>(4, 32, 4096, head_dim);
    let forward = problem::Passes::forward(attention(passes.forward)?);
    let forward = Estimator::new(stream).estimate(&forward, case, 1)?;
    let backward = launch_seconds(stream, case, |case| profile::<T>(stream, case, passes.mode))?;
    println!("{:.2}", 1e3 * forward.seconds);
    for seconds in &backward {
        println!("{:.2}", 1e3 * seconds);
    }
    println!("{:.2}", backward.iter().sum::<f64>() / forward.seconds);
    Ok(())
}

/// The profiles of the launches for a case. Counts do not depend on values: all tensors are zeros.
fn profile<T: Element>(
    stream: &Arc<CudaStream>,
    case: Case,
    mode: BackwardMode,
) -> anyhow::Result<Vec<LaunchProfile>> {
    let shape = Shape::packed(case.sizes());
    let rows = case.batch * case.heads * case.n;
    let tensor = stream.alloc_zeros::<T>(rows * case.head_dim)?;
    let lse = stream.alloc_zeros::<f32>(rows)?;
    let mut gradients = [tensor.clone(), tensor.clone(), tensor.clone()];
    let backward = Backward::new(stream.context())?.with_mode(mode);
    let (launched, launches) = gpu::profile::profile(|| {
        let view = || tensor.as_view();
        let inputs = BackwardInputs {
            forward: Inputs::new(view(), view(), view()),
            o: view(),
            lse: lse.as_view(),
            d_o: view(),
        };
        let [dq, dk, dv] = gradients.each_mut().map(|x| x.as_view_mut());
        T::backward(&backward, stream, inputs, Gradients { dq, dk, dv }, &shape)?;
        Ok::<_, Error>(stream.synchronize()?)
    })?;
    launched.context("the backward pass")?;
    Ok(launches)
}
