//! Stage 2: attention as separate CUDA kernels, one per step of the formula, launched with plain
//! [`cudarc`].
//!
//! `o = softmax(scale · q kᵀ + mask) v` takes four launches, and the whole score matrix `[B, H, nq,
//! nk]` travels to global memory and back between them. Getting rid of that traffic is what stages
//! 3 and 4 are about.
//!
//! The **ladder** is read from the bottom: packed tensors, one idea a file. [`Ladder`] launches it;
//! it implements [`Steps`], the interface of the stage, which an exercise implements too and the
//! suite in `conformance` judges.
//!
//! | step | call | kernel files |
//! |---|---|---|
//! | `s = q kᵀ` | [`Call::Gemm`] | `1_gemm_plain.cu`, `2_gemm_tiled.cu`, `3_gemm_register_tiled.cu` |
//! | `s = scale · s`, masked | [`Call::ScaleAndMask`] | `scale_and_mask.cu` |
//! | `s = softmax(s)` | [`Call::Softmax`] | `1_softmax_tree.cu`, `2_softmax_warp.cu` |
//! | `o = s v` | [`Call::Gemm`] | as the first step |
//! | all of it | [`Call::Attention`] | |
//!
//! The [`library`] is called: its [`Kernels`] take strides, grouped heads, additive masks, dropout
//! and softmax over any dimension.
//!
//! Everything is f32. A call takes device views and a struct of sizes; it checks them, then
//! launches on the stream that it was made for, and does not wait. Sizes of 0 are allowed
//! everywhere: an empty result launches nothing, and a reduction over nothing gives 0 (softmax:
//! log-sum-exp −inf).
//!
//! ```no_run
//! use stage2_naive_cuda::{GemmShape, Kernels};
//!
//! let stream = gpu::context(0)?.default_stream();
//! let kernels = Kernels::new(&stream)?;
//! let x = stream.clone_htod(&vec![1.0f32; 5 * 128])?; // [5, 128]
//! let w = stream.clone_htod(&vec![0.5f32; 128 * 384])?; // [128, 384]
//! let mut y = stream.alloc_zeros::<f32>(5 * 384)?; // [5, 384]
//! kernels.gemm(x.as_view(), w.as_view(), y.as_view_mut(), &GemmShape::nn(5, 384, 128))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod ladder;
pub mod library;
mod steps;

pub use error::Error;
pub use ladder::{GemmRung, Ladder, SoftmaxRung};
pub use library::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Axis, DropoutArgument,
    DropoutShape, GemmShape, Kernels, LACKS, LADDER_LACKS, ScaleAndMaskShape, SoftmaxShape,
    Variant, host,
};
pub use steps::{Attention, Call, Gemm, Product, ScaleAndMask, Softmax, Step, Steps};

pub use gpu::arguments::Strides;

/// The kernel files of this stage. Kernels of packages above may include its headers:
/// `gpu::bundle!` takes it.
pub static KERNELS: gpu::Bundle = gpu::bundle!();
