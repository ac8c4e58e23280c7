//! Modules, functions and launches, through cudarc. The kernels are those of
//! `cuda-sim/kernels/driver.cu`.

mod cooperative;
mod faults;
mod limits;
mod modules;
mod parameters;
mod repeated;

use std::sync::Arc;

use cudarc::{
    driver::{CudaContext, CudaModule, LaunchConfig},
    nvrtc::Ptx,
};

const PTX: &str = include_str!("../../ptx/driver.ptx");

fn module(context: &Arc<CudaContext>) -> Result<Arc<CudaModule>, Box<dyn std::error::Error>> {
    Ok(context.load_module(Ptx::from_src(PTX))?)
}

fn shape(grid: u32, block: u32, shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (grid, 1, 1),
        block_dim: (block, 1, 1),
        shared_mem_bytes,
    }
}
