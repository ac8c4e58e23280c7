//! The interface of the stage: the steps of attention on packed f32 tensors in device memory.

use std::error;

use cudarc::driver::{CudaView, CudaViewMut};
use serde::{Deserialize, Serialize};

// ANCHOR: sizes
/// The place of `b` in a matrix product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Product {
    /// `c = a · b`: `b` is `[k, n]`.
    Nn,
    /// `c = a · bᵀ`: `b` is `[n, k]`.
    Nt,
}

/// The sizes of a softmax over the columns of `[rows, columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Softmax {
    /// Rows, each of which will sum to 1.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

/// The sizes of a batch of matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gemm {
    /// The place of `b`.
    pub product: Product,
    /// Products.
    pub batch: usize,
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `c`.
    pub n: usize,
    /// The reduced dimension.
    pub k: usize,
}
// ANCHOR_END: sizes

/// The sizes of `[batch, nq, nk]` scores, their scale and mask.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScaleAndMask {
    /// Matrices of scores.
    pub batch: usize,
    /// Queries: rows of scores.
    pub nq: usize,
    /// Keys: columns of scores.
    pub nk: usize,
    /// The factor of each score.
    pub scale: f32,
    /// Hides the keys `j > i + nk − nq` from query `i`.
    pub causal: bool,
}

/// The sizes of attention, its scale and mask.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Heads of all sequences, `B · H`: each is a problem of its own.
    pub batch: usize,
    /// Queries of a head.
    pub nq: usize,
    /// Keys of a head.
    pub nk: usize,
    /// Head dimension, `D`.
    pub head_dim: usize,
    /// The factor of each score, usually `1 / sqrt(D)`.
    pub scale: f32,
    /// Hides the keys `j > i + nk − nq` from query `i`.
    pub causal: bool,
}

/// A step of attention with its tensors, all packed f32: inputs `I`, and outputs `O`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Step<I, O> {
    /// Softmax of each row, in place. A row that is empty or all −inf becomes 0, with log-sum-exp
    /// −inf.
    Softmax {
        /// `[rows, columns]`.
        x: O,
        /// Receives the natural log of the sum of exponentials of each row, `[rows]`.
        lse: O,
        /// The sizes.
        shape: Softmax,
    },
    /// `c = a · b`, or `c = a · bᵀ`, for each matrix of the batch.
    Gemm {
        /// `[batch, m, k]`.
        a: I,
        /// `[batch, k, n]`, or `[batch, n, k]`.
        b: I,
        /// Receives the product, `[batch, m, n]`.
        c: O,
        /// The sizes.
        shape: Gemm,
    },
    /// `scores = scale · scores`, in place, and −inf where a key is hidden from a query.
    ScaleAndMask {
        /// `[batch, nq, nk]`.
        scores: O,
        /// The sizes.
        shape: ScaleAndMask,
    },
    /// `o = softmax(scale · q kᵀ + mask) v`. A row that sees no key gets `o = 0` and `lse = −inf`.
    Attention {
        /// Queries, `[batch, nq, D]`.
        q: I,
        /// Keys, `[batch, nk, D]`.
        k: I,
        /// Values, `[batch, nk, D]`.
        v: I,
        /// Receives the attended values, `[batch, nq, D]`.
        o: O,
        /// Receives the log-sum-exp of each row of scores, `[batch, nq]`.
        lse: O,
        /// The sizes.
        shape: Attention,
    },
}

/// A step with its tensors in device memory.
pub type Call<'a> = Step<CudaView<'a, f32>, CudaViewMut<'a, f32>>;

impl<I, O> Step<I, O> {
    /// The same step with other tensors, each made of one of these.
    ///
    /// # Errors
    ///
    /// Those of `input` and `output`.
    pub fn try_map<'a, J, P, E>(
        &'a mut self,
        mut input: impl FnMut(&'a I) -> Result<J, E>,
        mut output: impl FnMut(&'a mut O) -> Result<P, E>,
    ) -> Result<Step<J, P>, E> {
        Ok(match self {
            Self::Softmax { x, lse, shape } => Step::Softmax {
                x: output(x)?,
                lse: output(lse)?,
                shape: *shape,
            },
            Self::Gemm { a, b, c, shape } => Step::Gemm {
                a: input(a)?,
                b: input(b)?,
                c: output(c)?,
                shape: *shape,
            },
            Self::ScaleAndMask { scores, shape } => Step::ScaleAndMask {
                scores: output(scores)?,
                shape: *shape,
            },
            Self::Attention {
                q,
                k,
                v,
                o,
                lse,
                shape,
            } => Step::Attention {
                q: input(q)?,
                k: input(k)?,
                v: input(v)?,
                o: output(o)?,
                lse: output(lse)?,
                shape: *shape,
            },
        })
    }

    /// The tensors that it writes: one, and a second one if there is one.
    pub fn outputs(&mut self) -> (&mut O, Option<&mut O>) {
        match self {
            Self::Softmax { x: first, lse, .. } | Self::Attention { o: first, lse, .. } => {
                (first, Some(lse))
            }
            Self::Gemm { c: first, .. } | Self::ScaleAndMask { scores: first, .. } => (first, None),
        }
    }
}

/// An implementation of the steps. The suite of `conformance` judges anything that has it: this
/// crate's [`Ladder`](crate::Ladder), and an exercise's.
pub trait Steps {
    /// Why arguments were refused, or a launch failed.
    type Error: error::Error + 'static;

    /// Launches a step, and does not wait. Sizes of 0 are allowed.
    ///
    /// # Errors
    ///
    /// A view that is too short, a view on another device, a size beyond 2³⁰ or a grid that CUDA
    /// does not have: found before anything is launched. After it, only the driver can fail.
    fn run(&self, call: Call<'_>) -> Result<(), Self::Error>;

    /// The argument that an error names, such as `k`.
    fn argument_of(error: &Self::Error) -> Option<&str>
    where
        Self: Sized;
}
