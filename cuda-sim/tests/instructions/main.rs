//! The instruction set, family by family: each instruction runs on nasty inputs, and every result is compared with one
//! computed here from the definition in the PTX ISA.

mod async_copy;
mod bits;
mod convert;
mod float;
mod half;
mod integer;
mod flops;
mod lanes;
mod matrix;
mod matrix_load;
mod memory;
mod mutation;
mod rig;
