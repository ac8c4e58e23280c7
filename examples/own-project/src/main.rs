//! Scales a vector on a GPU, or on the simulated one. `-- 300` says that it has 300 elements,
//! which the kernel believes.

use std::error::Error;
use std::process::ExitCode;

use cudarc::driver::{LaunchConfig, PushKernelArg};

static KERNELS: gpu::Bundle = gpu::bundle!();

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
    let numbers: Vec<f32> = (0..200).map(|number| number as f32).collect();
    let count: i32 = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 200,
    };
    let context = gpu::context(0)?; // where others write CudaContext::new(0)
    let scale = KERNELS
        .load(&context, "scale.cu", &[])?
        .load_function("scale")?;
    let stream = context.default_stream();
    let mut x = stream.clone_htod(&numbers)?;
    // ANCHOR: launch
    let by = 0.5f32;
    let mut launch = stream.launch_builder(&scale);
    launch.arg(&mut x).arg(&count).arg(&by);
    let config = LaunchConfig {
        grid_dim: ((count as u32).div_ceil(128), 1, 1),
        block_dim: (128, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel takes an address, an int and a float. It stays within x, if
    // `count` is the length of x.
    unsafe { launch.launch(config) }?;
    let x = stream.clone_dtoh(&x)?;
    // ANCHOR_END: launch
    println!(
        "{} of {}: {:?} …",
        gpu::device_label(&context)?,
        x.len(),
        &x[..8]
    );
    Ok(())
}
