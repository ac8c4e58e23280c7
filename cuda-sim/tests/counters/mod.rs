//! Counters of textbook kernels equal what follows from their source, and nothing but the kernel
//! decides them.
//!
//! Every expected value below is derived by hand, in the comment beside it or from the shape by the
//! formula that stands there; none is what the simulator once printed. Shapes are ragged: the last
//! warp is not full, and some warps are idle. Traces of the same kernels stand beside them. The
//! kernels are `kernels/traffic.cu`, `kernels/tiles.cu`, `kernels/tiled_gemm.cu`,
//! `kernels/row_softmax.cu`.

mod overlap;
mod repeatable;
mod rig;
mod tiles;
mod traces;
mod traffic;
