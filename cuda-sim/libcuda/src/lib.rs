//! A real `libcuda.so`: the simulated driver for programs that look the library up on disk.
//!
//! `cargo build --release -p cuda-sim-libcuda` makes `target/release/libcuda.so`;
//! `LD_LIBRARY_PATH=target/release ./program` runs a program on it. All functions are `cuda-sim`'s.

use cuda_sim as _;
