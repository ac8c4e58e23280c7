//! PTX syntax to a program that a warp can run.
//!
//! [`Module::load`] parses a PTX module, gives each kernel a flat list of decoded operations
//! (device functions inlined, names resolved, registers packed) and lists the variables that the
//! driver must place in device memory. An instruction that is not known does not fail the module:
//! it becomes an operation that faults when a thread reaches it.
//!
//! - `module`, `variables`, `ptxas_report`: a module and what it holds beside kernels;
//!   `needed_target`: whether its `.target` has its instructions
//! - `kernel`, `instruction`, `op`: a kernel, its instructions, the instruction set
//! - `lower`: a kernel's statements to operations; `decode`: one PTX instruction to one operation
//! - `remarks`: what is likely a mistake in the code
//! - `analysis`: what is known of the operations; `register_allocation`: virtual registers to
//!   planes

pub(crate) mod analysis;
pub(crate) mod instruction;
pub(crate) mod kernel;
pub(crate) mod op;
pub(crate) mod ptxas_report;

mod decode;
mod lower;
mod module;
mod needed_target;
mod register_allocation;
mod remarks;
mod variables;

pub(crate) use instruction::{Constant, Instruction};
pub use kernel::Kernel;
pub(crate) use kernel::Source;
pub use module::Module;
pub use remarks::{Remark, remarks};
