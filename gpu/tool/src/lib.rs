//! Kernel files of any folder: compiled, launched as their comments state, and what a workspace
//! keeps of them. The program `gpu` is made of these parts. No stage uses this package.
//!
//! The parts, each a file:
//!
//! - [`kernel_file`]: a `.cu` or `.ptx` file of any folder, compiled, with the sources of its
//!   lines. `confined`: the files that the compiler may read meanwhile; `host_code`: the part of a
//!   program that is not compiled; `advice`: errors of such a program.
//! - `device`: [`CudaDevice`], which runs a kernel file with the launch and the arguments that its
//!   comments state; `gpu_launch` reads these.
//! - [`variants`]: `kernels/variants.txt`, the list of committed PTX; [`workspace`]: packages with
//!   kernels.
//! - `error`: [`Error`]; [`ink`]: colours of what programs print.
//!
//! `cargo gpu --help` lists the commands of the program; `src/cli/` has a file for each, and
//! README.md shows them.

mod advice;
pub mod confined;
mod device;
mod error;
mod host_code;
pub mod ink;
pub mod kernel_file;
pub mod variants;
pub mod workspace;

pub use device::CudaDevice;
pub use error::Error;
pub use host_code::HostFunction;
