//! Stage 2: attention as separate CUDA kernels, one per step of the formula, launched with plain [`cudarc`].
//!
//! `o = softmax(scale · q kᵀ + mask) v` takes four launches, and the whole score matrix `[B, H, nq, nk]` travels to
//! global memory and back between them. Getting rid of that traffic is what stages 3 and 4 are about.
//!
//! | step | method | kernel files |
//! |---|---|---|
//! | `s = q kᵀ` | [`Kernels::gemm_nt`] | `gemm_nt_naive.cu`, `gemm_nt_tiled.cu` |
//! | `s = scale · s + mask` | [`Kernels::scale_and_mask`] | `scale_and_mask.cu` |
//! | `s = softmax(s)` | [`Kernels::softmax`] | `softmax.cu` |
//! | `o = s v` | [`Kernels::gemm_nn`] | `gemm_nn_naive.cu`, `gemm_nn_tiled.cu` |
//! | all of it | [`Kernels::attention`], [`Kernels::attention_host`] | |
//!
//! [`Steps`] is the interface of the stage: what an exercise implements, and what the suite in `conformance` judges.
//!
//! Everything is f32. A method takes device views and a struct of sizes and strides; it checks them, then
//! launches on the stream that the [`Kernels`] were made for, and does not wait. Sizes of 0 are allowed everywhere:
//! an empty result launches nothing, and a reduction over nothing gives 0 (softmax: log-sum-exp −inf).
//!
//! ```no_run
//! use stage2_naive_cuda::{Gemm, Kernels, Variant};
//!
//! let stream = gpu::context(0)?.default_stream();
//! let kernels = Kernels::new(&stream)?;
//! let x = stream.clone_htod(&vec![1.0f32; 5 * 128])?; // [5, 128]
//! let w = stream.clone_htod(&vec![0.5f32; 128 * 384])?; // [128, 384]
//! let mut y = stream.alloc_zeros::<f32>(5 * 384)?; // [5, 384]
//! let shape = Gemm::nn(5, 384, 128);
//! kernels.gemm_nn(Variant::Tiled, x.as_view(), w.as_view(), y.as_view_mut(), &shape)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attention;
mod error;
mod gemm;
pub mod host;
mod interface;
mod kernels;
mod scale_and_mask;
mod softmax;

pub use attention::{AttentionInputs, AttentionOutputs, AttentionShape, LACKS};
pub use error::Error;
pub use gemm::{Gemm, Variant};
pub use interface::{Stage2, Steps};
pub use kernels::{KERNELS, Kernels};
pub use scale_and_mask::{Additive, ScaleAndMask};
pub use softmax::{Axis, Softmax};

pub use gpu::arguments::Strides;
