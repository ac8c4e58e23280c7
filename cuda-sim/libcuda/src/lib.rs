//! cuda-sim-libcuda
