//! cuda-sim
