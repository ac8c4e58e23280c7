//! A block-sparse mask, and the work that it leaves:
//! `cargo run -p stage4-flash-cuda --example block_sparse`.

use std::error::Error;
use std::process::ExitCode;

use ndarray::Array4;
use stage4_flash_cuda::{Attention, Options};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", gpu::report(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let context = gpu::context(0)?;
    println!("on {}", gpu::device_label(&context)?);
    let stream = context.default_stream();
    let attention = Attention::new(&context)?;
    let tensor = |seed: usize| {
        Array4::from_shape_fn((1, 1, 512, 64), |(.., i, d)| {
            ((seed + 11 * i + 13 * d) as f32).sin() // any numbers do
        })
    };
    let (q, k, v) = (tensor(1), tensor(2), tensor(3));

    // ANCHOR: blocks
    // Each row of blocks sees the first block, its own, and the one before its own.
    let seen = Array4::from_shape_fn((1, 1, 8, 8), |(.., i, j)| j == 0 || j == i || j + 1 == i);
    let sparse = Options::default().blocks(seen);
    // ANCHOR_END: blocks
    for (name, options) in [("all keys", Options::default()), ("block mask", sparse)] {
        // Launches are counted on the simulated device; a GPU does not tell.
        let work = || attention.forward_host(&stream, q.view(), k.view(), v.view(), &options);
        let (output, launches) = match gpu::profile::profile(work) {
            Ok((output, launches)) => (output?, launches),
            Err(gpu::Error::NoProfile) => (work()?, Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let operations: u64 = launches.iter().map(|launch| launch.total.flops()).sum();
        println!(
            "{name}: lse[0] = {:.4}, {operations} operations",
            output.lse[[0, 0, 0]]
        );
    }
    Ok(())
}
