//! A CUDA driver for machines without a GPU.
//!
//! A program keeps speaking the CUDA driver API, usually through cudarc:
//!
//! ```
//! use cudarc::driver::CudaContext;
//!
//! cuda_sim::install()?; // before the first CUDA call
//! let stream = CudaContext::new(0)?.default_stream();
//! let device = stream.clone_htod(&[1.0f32, 2.0, 3.0])?;
//! assert_eq!(stream.clone_dtoh(&device)?, [1.0, 2.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Programs that cannot call [`install`] use `cuda-sim/libcuda`. Those that want no driver call
//! [`Simulator`], which is all there is on WebAssembly.
//!
//! # What is simulated
//!
//! One device that answers like an H100, or as `CUDA_SIM_DEVICE` says, with CUDA 12.8. Events
//! measure modelled time (`MODEL.md`). A kernel's mistake is a [`Fault`]: it comes back once, as
//! the error a GPU would give, and the next launch works. [`profile`] and [`record`] count.
//!
//! # Parts
//!
//! - `driver`: the driver API; `simulator`: the device without it; `launch`, `status`: for both
//! - `ptx`, `program`: PTX text to decoded operations, and their analyses
//! - `exec`: runs launches; a folder each for scheduling, operations, memory accesses and checks
//! - `memory`: device memory, what is known of each byte, undo log; `tensor_map`
//! - `settings`: `CUDA_SIM_…`; `device`, `model`: figures, modelled time; `profile`, `recorder`
//!
//! Not here: machine code, a second device, textures, external memory, IPC.

#![cfg_attr(target_arch = "wasm32", allow(dead_code, unused_imports))] // what the driver alone uses

#[cfg(not(any(
    all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"),
    target_arch = "wasm32"
)))]
compile_error!("cuda-sim needs Linux with glibc on x86-64 (WSL2 will do), or WebAssembly");

mod device;
#[cfg(not(target_arch = "wasm32"))]
mod driver;
mod exec;
mod fault;
mod install_error;
mod jitter;
mod launch;
mod memory;
mod model;
mod profile;
mod program;
mod ptx;
mod recorder;
mod settings;
mod simulator;
mod status;
mod sync;
mod tensor_map;
pub mod trace;

#[cfg(not(target_arch = "wasm32"))]
pub use driver::{Leaks, held, install, last_fault, last_launch, last_leaks, take_fault};
#[cfg(target_arch = "wasm32")]
pub use exec::take_output;
pub use exec::{MmaMode, set_budget, set_checks, set_mma, set_seed};
pub use fault::{
    Agent, BadAccess, BadCopy, BadTensor, Fault, FaultKind, MemoryKind, MissingThreads, Nearest,
    Page, ProductRegister, Race, RaceSide, RegisterInFlight, UnsetRead, WaitedBarrier,
};
pub use install_error::InstallError;
pub use jitter::set_jitter;
pub use model::{ModelledTime, Resource};
pub use profile::{Counters, LaunchProfile, LineProfile, Phase, Sectors, Wavefronts};
pub use program::{Remark, op::Class, ptxas_report::Resources, remarks};
pub use recorder::{MemoryOperations, Recording, Total, profile, record};
pub use settings::product_memory;
pub use simulator::{LaunchShape, LoadedModule, Simulator, SimulatorError};
pub use tensor_map::TensorDescription;
