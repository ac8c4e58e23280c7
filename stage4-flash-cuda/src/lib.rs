//! Stage 4: attention as one fused CUDA kernel, launched with plain [`cudarc`], in f32 and f16.
//!
//! `o = softmax(scale · q kᵀ + mask) v`, and no score leaves the chip: memory grows with N, not
//! with N². The kernels of `kernels/` are a ladder, one idea per rung:
//!
//! | rung | kernel file | idea |
//! |---|---|---|
//! | 1 | `1_flash.cu` | FlashAttention and nothing else: tiles in shared memory, softmax computed online |
//! | 2 | `2_register_tiles.cu` | each thread computes a rectangle of scores and of outputs in registers |
//! | 3 | `3_async_copy.cu` | the next tile is copied while this one is computed |
//! | 4 | `4_mma.cu` | tensor cores: f16, 2048 products in one instruction |
//! | 5 | `5_swizzle.cu` | `ldmatrix`, and tiles in which the rows that it reads share no banks |
//! | 6 | `6_pipeline.cu` | tiles travel during products; a softmax of few instructions |
//! | 7 | `7_reuse.cu` | each fragment of k and v serves twice as many products |
//! | 8 | `8_tma.cu` | whole tiles are copied by hardware |
//! | 9 | `9_wgmma.cu` | products of four warps, which read tiles where they lie |
//! | 10 | `10_ping_pong.cu` | softmax under products |
//!
//! The backward pass is three kernels of `kernels/backward/`: `row_dots.cu`, then in f32
//! `1_recompute_dk_dv.cu` and `1_recompute_dq.cu`, in f16 `2_mma_dk_dv.cu` and `2_mma_dq.cu`.
//!
//! The library is what one calls: `library/attention.cu`, in half precision `attention_mma.cu` and
//! on Hopper `attention_wgmma.cu`, for gradients `backward_*.cu`. The files of this crate:
//!
//! - [`Attention`]: compiled kernels, kept for reuse; [`Attention::forward`] launches on device
//!   memory, [`Attention::forward_half`] does in half precision, [`Attention::forward_host`] takes
//!   host arrays.
//! - [`Shape`], [`Inputs`], [`Outputs`]: one problem: sizes, strides, options,
//!   and where its tensors lie.
//! - [`Mode`]: which implementation runs: stage 2's, a rung, or the library's kernel.
//! - [`Backward`]: the gradients, by one [`BackwardMode`]. `backward/` is its host side.
//! - `ladder.rs`: the host side of the rungs. `library/`: that of the library's kernels, with their
//!   tiles. [`tensor_map`]: tensor maps of both. [`Half`]: `f16` and `bf16`.
//! - [`Variant`]: one compilation of a kernel; [`committed`]: those with committed
//!   PTX; [`KERNELS`]: the files.
//!
//! [`Fused`] and [`FusedBackward`] are what `conformance` judges; [`Stage4`] and
//! [`Stage4Backward`] have them. Nothing panics on bad input, and nothing is launched: [`Error`].
//!
//! ```no_run
//! use ndarray::Array4;
//! use stage4_flash_cuda::{Attention, Options};
//!
//! let stream = gpu::context(0)?.default_stream();
//! let attention = Attention::new(stream.context())?;
//! let x = Array4::<f32>::ones((1, 2, 100, 64)); // [B, H, N, D]
//! let options = Options::default().causal();
//! let output = attention.forward_host(&stream, x.view(), x.view(), x.view(), &options)?;
//! assert_eq!(output.o.dim(), (1, 2, 100, 64));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attention;
mod backward;
pub mod committed;
mod error;
mod half_type;
mod host;
mod interface;
mod ladder;
pub mod library;
mod mode;
mod shape;
pub mod tensor_map;
mod variant;

pub use attention::{Attention, KERNELS};
pub use backward::{Backward, BackwardInputs, BackwardKernel, BackwardMode, Gradients};
pub use error::Error;
pub use half_type::{Format, Half};
pub use interface::{Fused, FusedBackward, Stage4, Stage4Backward};
pub use ladder::Rung;
pub use mode::Mode;
pub use shape::{BlockMask, Inputs, Outputs, Shape};
pub use stage1_reference::{Dropout, Options, Output, Sizes, Window};
pub use stage2_naive_cuda::{Additive, Strides};
pub use variant::{Kernel, Variant};

/// The operation's name in errors.
const OPERATION: &str = "attention";
