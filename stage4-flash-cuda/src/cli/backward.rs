//! `ladder --backward`: the kernels of the backward pass, after a rung of the forward pass.

use std::sync::Arc;

use anyhow::Context;
use cudarc::driver::CudaStream;
use gpu::profile::LaunchProfile;
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{
    Attention, Backward, BackwardInputs, BackwardKernel, Gradients, Inputs, Mode, Rung, Shape,
};

use super::case::Case;
use super::estimate::{Estimator, launch_seconds};
use super::ladder::{COLUMNS, counts, times_on};
use super::problem::Problem;

/// Queries and keys of the problem that is counted: whole tiles.
const N: usize = 512;

/// The forward pass beside it, which has the same steps.
const FORWARD: Rung = Rung::RegisterTiles;

const HEAD_DIMS: [usize; 2] = [64, 128];

/// Devices whose time is modelled. A block of a T4 has too little shared memory for the tiles.
const DEVICES: [&str; 3] = ["a100", "h100", "rtx4090"];

/// Prints the table as Markdown, or the times alone.
pub fn run(times: bool) -> anyhow::Result<()> {
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    if times {
        for head_dim in HEAD_DIMS {
            print_times(&stream, head_dim)?;
        }
        return Ok(());
    }
    let times = DEVICES.map(|device| times_on(device, Some("--backward")));
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
    println!("| D | kernel | queries × keys, threads | {COLUMNS} | ms, {devices} |");
    println!("|{}", "---|".repeat(7 + DEVICES.len()));
    for head_dim in HEAD_DIMS {
        let case = Case::full(1, 1, N, head_dim);
        let forward = Problem::new(&stream, case)?.profile(&attention()?)?;
        let forward = forward.into_iter().map(|launch| {
            let tile = Some(FORWARD.tile(head_dim));
            (FORWARD.file(), tile, launch)
        });
        let backward = profile(&stream, case)?;
        let backward = BackwardKernel::ALL.into_iter().zip(backward);
        let backward =
            backward.map(|(kernel, launch)| (kernel.file(), kernel.tile(head_dim), launch));
        for (file, tile, launch) in forward.chain(backward) {
            let tile = tile.map_or("–".to_owned(), of_tile);
            print!("| {head_dim} | [`{file}`](kernels/{file}) | {tile} |");
            print!(" {}", counts(&launch, N));
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

fn attention() -> anyhow::Result<Attention> {
    let attention = Attention::new(&gpu::context(0)?)?;
    Ok(attention.with_mode(Mode::Rung(FORWARD)))
}

/// Modelled milliseconds of each line, on the device that CUDA_SIM_DEVICE names.
fn print_times(stream: &Arc<CudaStream>, head_dim: usize) -> anyhow::Result<()> {
    let case = Case::full(4, 32, 4096, head_dim);
    let forward = Estimator::new(stream).estimate(&attention()?, case, 1)?;
    let backward = launch_seconds(stream, case, |case| profile(stream, case))?;
    println!("{:.2}", 1e3 * forward.seconds);
    for seconds in &backward {
        println!("{:.2}", 1e3 * seconds);
    }
    println!("{:.2}", backward.iter().sum::<f64>() / forward.seconds);
    Ok(())
}

/// The profiles of the launches for a case. Counts do not depend on values: all tensors are zeros.
fn profile(stream: &Arc<CudaStream>, case: Case) -> anyhow::Result<Vec<LaunchProfile>> {
    let shape = Shape::packed(case.sizes());
    let rows = case.batch * case.heads * case.n;
    let zeros = |count| stream.alloc_zeros::<f32>(count);
    let (tensor, lse) = (zeros(rows * case.head_dim)?, zeros(rows)?);
    let mut gradients = [tensor.clone(), tensor.clone(), tensor.clone()];
    let backward = Backward::new(stream.context())?;
    let (launched, launches) = gpu::profile::profile(|| {
        let view = || tensor.as_view();
        let inputs = BackwardInputs {
            forward: Inputs::new(view(), view(), view()),
            o: view(),
            lse: lse.as_view(),
            d_o: view(),
        };
        let [dq, dk, dv] = gradients.each_mut().map(|x| x.as_view_mut());
        backward.backward(stream, inputs, Gradients { dq, dk, dv }, &shape)?;
        Ok::<_, stage4_flash_cuda::Error>(stream.synchronize()?)
    })?;
    launched.context("the backward pass")?;
    Ok(launches)
}
