//! The parameters of a decoder. They come from the files of a checkpoint (`weights/load.rs`) or
//! from a seed (`weights/random.rs`), and go one by one into the memory of the host or of a device.

mod load;
mod random;
mod tensors;

use std::fmt::Debug;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use stage5_decode::Dtype;

use crate::Error;
pub use tensors::{Bytes, TensorFile};

/// The parameters of a decoder, in the memory of the host or of a device.
///
/// Letters in shapes are those of [`Architecture`](crate::Architecture). Every matrix is row-major
/// and keeps the dtype of its file; vectors are f32.
#[derive(Debug)]
pub struct Weights<M: Memory> {
    /// Token embedding `[V, C]`.
    pub embedding: M::Matrix,
    /// Position embedding `[context, C]`, if positions are learned.
    pub positions: Option<M::Matrix>,
    /// The transformer blocks, first to last.
    pub blocks: Vec<Block<M>>,
    /// The last norm.
    pub norm: Norm<M>,
    /// The output matrix `[V, C]`; `None` if it is the token embedding.
    pub head: Option<M::Matrix>,
}

/// The parameters of one transformer block.
#[derive(Debug)]
pub struct Block<M: Memory> {
    /// Norm before attention.
    pub attention_norm: Norm<M>,
    /// Projection `[(H + 2 H_kv) D, C]`: the rows of the queries, then of the
    /// keys, then of the values.
    pub qkv: Linear<M>,
    /// Projection of the attention output, `[C, H D]`.
    pub out: Linear<M>,
    /// Norm before the feed-forward part.
    pub mlp_norm: Norm<M>,
    /// First layer of the feed-forward part: `[F, C]`, or with SwiGLU `[2F, C]`,
    /// the rows of the gate first.
    pub up: Linear<M>,
    /// Last layer of the feed-forward part, `[C, F]`.
    pub down: Linear<M>,
}

/// A linear layer: `y = x · weightᵀ + bias`.
#[derive(Debug)]
pub struct Linear<M: Memory> {
    /// `[out, in]`.
    pub weight: M::Matrix,
    /// `[out]`.
    pub bias: Option<M::Vector>,
}

/// A layer norm, or without a bias an RMS norm.
#[derive(Debug)]
pub struct Norm<M: Memory> {
    /// `[C]`.
    pub weight: M::Vector,
    /// `[C]`.
    pub bias: Option<M::Vector>,
}

/// A row-major matrix whose elements are `dtype`, little-endian.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix<B> {
    /// Type of an element.
    pub dtype: Dtype,
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// `rows * columns * dtype.bytes()` bytes.
    pub bytes: B,
}

/// Memory that parameters are put into.
pub trait Memory {
    /// A matrix there.
    type Matrix: Debug;
    /// An f32 vector there.
    type Vector: Debug;

    /// Puts a matrix there.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if there is not enough memory.
    fn matrix(&self, matrix: Matrix<Vec<u8>>) -> Result<Self::Matrix, Error>;

    /// Puts a vector there.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if there is not enough memory.
    fn vector(&self, vector: Vec<f32>) -> Result<Self::Vector, Error>;
}

/// The memory of this process.
#[derive(Debug, Clone, Copy)]
pub struct Host;

impl Memory for Host {
    type Matrix = Matrix<Vec<u8>>;
    type Vector = Vec<f32>;

    fn matrix(&self, matrix: Matrix<Vec<u8>>) -> Result<Self::Matrix, Error> {
        Ok(matrix)
    }

    fn vector(&self, vector: Vec<f32>) -> Result<Self::Vector, Error> {
        Ok(vector)
    }
}

/// The memory of the device of a stream.
#[derive(Debug, Clone)]
pub struct Device(pub Arc<CudaStream>);

impl Memory for Device {
    type Matrix = Matrix<CudaSlice<u8>>;
    type Vector = CudaSlice<f32>;

    fn matrix(&self, matrix: Matrix<Vec<u8>>) -> Result<Self::Matrix, Error> {
        let Matrix {
            dtype,
            rows,
            columns,
            bytes,
        } = matrix;
        Ok(Matrix {
            dtype,
            rows,
            columns,
            bytes: self.0.clone_htod(&bytes)?,
        })
    }

    fn vector(&self, vector: Vec<f32>) -> Result<Self::Vector, Error> {
        Ok(self.0.clone_htod(&vector)?)
    }
}
