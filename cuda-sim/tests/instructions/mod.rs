//! The instruction set, family by family: each instruction runs on nasty inputs, and every result
//! is compared with one computed here from the definition in the PTX ISA.

mod async_copy;
mod atomics;
mod b128;
mod bits;
mod byte_float;
mod card_facts;
mod cards;
mod clusters;
mod convert;
mod float;
mod flops;
mod fragments;
mod half;
mod half_convert;
mod integer;
mod lanes;
mod matrix;
mod matrix_doubles;
mod matrix_float8;
mod matrix_integers;
mod matrix_load;
mod matrix_quad_pairs;
mod matrix_rows;
mod mbarrier;
mod memory;
mod mutation;
mod register_counts;
mod rig;
mod tensor_core;
mod warpgroup;
mod wmma;
