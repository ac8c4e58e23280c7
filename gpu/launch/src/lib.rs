//! The launch language of kernel files: their comments state launches, arguments and results. And
//! what programs read of a launch: the JSON of a profile, the recording of a trace.
//!
//! Nothing here needs a driver or a compiler, so it builds for WebAssembly too. A launch goes
//! through [`Device`], which `gpu-tool` implements by cudarc.
//!
//! ```
//! use std::path::Path;
//!
//! let file = "// launch: grid=4 block=64\n// args: f32[256]=iota i32=256\n";
//! let stated = gpu_launch::Invocation::parse(file, Path::new(""))?;
//! assert_eq!(stated.launches[0].grid, Some([4, 1, 1]));
//! assert_eq!(stated.arguments[1].to_string(), "i32=256");
//! # Ok::<(), gpu_launch::InvocationError>(())
//! ```
//!
//! The parts, each a file:
//!
//! - `comments`: [`Invocation`], the comments of a kernel file, and their format; `misspelt`: those
//!   that would be ignored.
//! - `argument`: [`Argument`], an argument's notation; `fields`: that of structs, and [`Position`];
//!   `tensor_map`: [`TensorMap`]; `values`: [`Type`], [`Values`]; `npy`: their files.
//! - `expectation`: [`Expectation`], what a buffer must hold after the launch.
//! - `entry`: [`Entry`], the kernels of a PTX text; `names`: [`readable`], their names in C++;
//!   `fit`: the kernel of a launch, held against its arguments.
//! - `layout`: an argument's place among parameters; `content`: a buffer before the launch.
//! - `device`: [`Device`]; `launch`: [`Prepared`], buffers and kernels on a device.
//! - `error`: [`InvocationError`], and [`LaunchError`], which has a device's errors too.
//! - [`report`]: a profile for people and as JSON; [`numbers`]: numbers in it; `recorded`:
//!   [`recording`], a trace as `gpu-recording` writes it; `sources`: [`Sources`], for both.

mod argument;
mod comments;
mod content;
mod device;
mod entry;
mod error;
mod expectation;
mod fields;
mod fit;
mod launch;
mod layout;
mod misspelt;
mod names;
mod npy;
pub mod numbers;
mod recorded;
pub mod report;
mod sources;
mod tensor_map;
mod values;

pub use argument::{Argument, Init, MAX_PARAMETER};
pub use comments::{Invocation, Launch, constant, extent};
pub use device::{Config, Device};
pub use entry::{Entry, Parameter, entries};
pub use error::{InvocationError, LaunchError};
pub use expectation::{Expectation, Mismatch};
pub use fields::Position;
pub use launch::Prepared;
pub use names::{readable, readable_report};
pub use recorded::recording;
pub use sources::Sources;
pub use tensor_map::{Element, Fill, Interleave, Promotion, Swizzle, Tensor, TensorMap};
pub use values::{Type, Values};
