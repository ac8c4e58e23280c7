//! Opens a CUDA device and compiles kernels for it. On a machine without a GPU the device is
//! simulated.
//!
//! ```no_run
//! use cudarc::driver::{LaunchConfig, PushKernelArg};
//!
//! // Embeds this package's `kernels/` and `ptx/` folders.
//! static KERNELS: gpu::Bundle = gpu::bundle!();
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ctx = gpu::context(0)?; // where others write CudaContext::new(0)
//! let module = KERNELS.load(&ctx, "vector_add.cu", &[("BLOCK", "256")])?;
//! let kernel = module.load_function("vector_add")?; // from here on, plain cudarc
//! # Ok(())
//! # }
//! ```
//!
//! The parts, each a file:
//!
//! - `device`: [`context`], and the choice of the driver: NVIDIA's or the simulated one
//!   ([`backend`]).
//! - `bundle`: [`Bundle`] and [`bundle!`], a package's kernels and their committed PTX, and loading
//!   a kernel.
//! - [`mod@unit`]: one compilation: source, headers, constants, and the key over all of them;
//!   `includes`: the headers that a text asks for; [`library_headers`]: those of the C++ library;
//!   [`architecture`]: its compute capability.
//! - [`nvrtc`]: NVIDIA's run-time compiler, called directly; [`find_nvrtc`]: the search for it.
//! - [`ptx_file`]: the committed PTX file: its header, its resource report, its name.
//! - [`compile`]: the PTX of a unit: committed, cached, or compiled now;
//!   [`cache`]: the folder of compiled kernels that are not committed.
//! - [`checkout`]: workspaces around a folder.
//! - [`arguments`]: strides, the checks before a launch, copies from and to host memory.
//! - [`mod@profile`]: counters of launches, from the simulator; [`mod@trace`]: what the lanes of a
//!   warp do; `schedule`: the order in which it runs blocks, and its checks.
//! - `error`: [`Error`], and [`Refusal`], a driver's; `hint`: advice for kernels that do not
//!   compile; `report`: an error as a program shows it, with [`sources`].
//!
//! The program `gpu`, which runs, checks and profiles kernel files and refreshes committed PTX, is
//! the package `gpu-tool` in `tool/`. Environment: `GPU=cuda|sim` chooses the driver, `NVRTC_PATH`
//! names an NVRTC library or its folder, or `none`, `GPU_CACHE_DIR` the folder of compiled kernels.
//!
//! Left out on purpose: a device trait, a tensor type. Host code allocates, copies and launches by
//! cudarc.

pub mod architecture;
pub mod arguments;
mod bundle;
pub mod cache;
pub mod checkout;
pub mod compile;
mod device;
mod error;
pub mod find_nvrtc;
mod hint;
mod includes;
pub mod library_headers;
pub mod nvrtc;
pub mod profile;
pub mod ptx_file;
mod report;
mod schedule;
pub mod sources;
pub mod trace;
pub mod unit;

pub use bundle::Bundle;
pub use device::{Backend, backend, context, device_label, device_memory, explanation, simulate};
pub use error::{Error, Refusal};
pub use report::report;
pub use schedule::{set_checks, with_budget, with_seed};

#[doc(hidden)] // named by the expansion of `bundle!`
pub use gpu_embed as embed;

/// This crate's own kernels: `vector_add.cu`, the smallest launch, two that show accesses, and two
/// for tests.
pub static KERNELS: Bundle = bundle!();
