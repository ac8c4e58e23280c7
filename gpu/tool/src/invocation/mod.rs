//! Runs a kernel file by itself, with the launch and the arguments that its comments or a command
//! line state.
//!
//! ```text
//! // launch: grid=4 block=64 shared=0 kernel=scale
//! // args: f32[256]=iota f32[256]=uninit i32=256 f32=0.5
//! // define: TILE=16
//! // expect 1: f32 0 0.5 1 1.5 …
//! // bug: out of bounds
//! ```
//!
//! - `launch`: grid and block are `x`, `x,y` or `x,y,z`; `shared` is dynamic shared memory in
//!   bytes, 0 if left out; `kernel` may be left out if the file has one kernel. Further `launch`
//!   lines launch further kernels, one after the other, on the same arguments and `__device__`
//!   variables: `pass=0,2` passes arguments 0 and 2, in this order, in place of all, and `pass=`
//!   none. A file states 64 launches at most. `cooperative=yes` is for kernels that call
//!   `grid.sync()`.
//! - `args`: one word for each parameter of the kernel, in the format of [`Argument`]. Blanks
//!   within braces do not separate words. Further `args` lines continue the list, also within
//!   braces; the end of a line counts as a blank. A tensor map, `tensormap{0,64x64,box=64x64}`, is
//!   an argument beside the buffer that it describes: `pass=` leaves out what the kernel does not
//!   take.
//! - `define`: constants for the compiler. Further lines add constants.
//! - `expect N`: the whole content of buffer argument N (counted over all arguments from 0) after
//!   the launch, with the type of its elements; `N.M` is field M of a struct. Further lines for the
//!   same argument continue it. `expect N ulp 2`, `expect N abs 1e-6` and `expect N rel 1e-3` give
//!   a tolerance.
//! - `bug`: for a kernel that is wrong on purpose, the class of its fault; `none` for a correct
//!   kernel. The lines where the fault may be reported end in `// BUG`.
//!
//! A file may be a stranger's: its `.npy` files lie in its own folder or below, and its buffers
//! have 64 MiB together at most. Arguments of a command line have no such limits.
//!
//! Such a comment begins its line. One that looks misspelt is an error. What `// arch:` says is
//! read by [`Architecture::declared_by`](gpu::architecture::Architecture::declared_by).

mod argument;
mod buffer;
mod comments;
mod entry;
mod error;
mod expectation;
mod fields;
mod launch;
mod layout;
mod misspelt;
mod names;
mod npy;
mod tensor_map;
mod values;

pub use argument::{Argument, Init};
pub use comments::{Invocation, Launch, constant, extent};
pub use entry::{Entry, Parameter, entries};
pub use error::InvocationError;
pub use expectation::{Expectation, Mismatch};
pub use fields::Position;
pub use launch::Prepared;
pub use names::readable;
pub use tensor_map::TensorMap;
pub use values::{Type, Values};
