//! Profiles, asked for by a program.

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg};
use gpu::{KERNELS, profile};

use crate::child::in_child;

/// Adds two vectors of ones by one block.
fn add_ones(ctx: &Arc<CudaContext>, n: usize) -> Result<Vec<f32>, DriverError> {
    let module = KERNELS.load(ctx, "vector_add.cu", &[]).unwrap();
    let kernel = module.load_function("vector_add")?;
    let stream = ctx.default_stream();
    let ones = stream.clone_htod(&vec![1.0f32; n])?;
    let mut sum = stream.alloc_zeros::<f32>(n)?;
    let n = i32::try_from(n).unwrap();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&ones).arg(&ones).arg(&mut sum).arg(&n);
    let config = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (256, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the buffers hold n elements, and the kernel goes no further.
    unsafe { launch.launch(config) }?;
    stream.clone_dtoh(&sum)
}

#[test]
fn each_launch_within_is_profiled_in_order() {
    let name = "profile::each_launch_within_is_profiled_in_order";
    if !in_child(name, &[("GPU", "sim")]) {
        return;
    }
    let ctx = gpu::context(0).unwrap();
    add_ones(&ctx, 7).unwrap();
    let (result, launches) = profile::profile(|| {
        let first = add_ones(&ctx, 64).unwrap();
        add_ones(&ctx, 1).unwrap();
        first
    })
    .unwrap();
    assert_eq!(result, [2.0; 64]);
    let flops: Vec<u64> = launches
        .iter()
        .map(|launch| launch.total.flops_f32)
        .collect();
    assert_eq!(flops, [64, 1]);
    assert_eq!(
        (&*launches[0].kernel, launches[0].block),
        ("vector_add", [256, 1, 1])
    );
}
