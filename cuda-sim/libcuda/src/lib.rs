//! A real `libcuda.so`: the simulated driver for programs that look the library up on disk.
//!
//! `cargo run --release -p cuda-sim-libcuda -- run ./program` builds it, makes the dynamic loader
//! find it, and runs a program on it. All functions are `cuda-sim`'s.

use cuda_sim as _;
