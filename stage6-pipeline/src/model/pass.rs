//! One pass of tokens through the network: the launches.

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use gpu::arguments::Strides;
use stage1_reference::{Sizes, Window};
use stage2_naive_cuda::{Gemm, Variant};
use stage5_decode::paged::PagedCache;
use stage5_decode::{Dtype, NewTokens, Workspace};
use {stage4_flash_cuda as stage4, stage5_decode as stage5};

use super::Model;
use super::buffers::Buffers;
use crate::weights::{Block, Device, Linear, Matrix, Norm};
use crate::{Architecture, Error};

/// What the tokens of a pass attend to.
#[derive(Debug)]
pub(super) enum Phase<'w> {
    /// To each other: they are the first ones of one sequence. Stage 4 has a kernel for many queries.
    Prefill,
    /// To the cache: they are the last ones, as many of each sequence. Stage 5 has kernels for a few queries.
    Decode(&'w mut Workspace),
}

/// A pass of `n` tokens of each of `batch` sequences, whose embeddings are in `buffers.x`. The cache counts them already.
/// Either number is 1.
pub(super) struct Pass<'a> {
    pub model: &'a Model,
    pub cache: &'a mut PagedCache,
    pub buffers: &'a mut Buffers,
    pub batch: usize,
    pub n: usize,
}

impl Pass<'_> {
    /// The logits of the token that follows the last one of each sequence, `[batch, V]`.
    // ANCHOR: run
    pub fn run(&mut self, mut phase: Phase<'_>, logits: CudaViewMut<'_, f32>) -> Result<(), Error> {
        let model = self.model;
        for (layer, block) in model.weights.blocks.iter().enumerate() {
            self.attend(layer, block, &mut phase)?;
            self.feed_forward(block)?;
        }
        self.head(logits)
    }
    // ANCHOR_END: run

    fn rows(&self) -> usize {
        self.batch * self.n
    }

    /// `x += attention(norm(x))`. Keys and values go into the cache.
    // ANCHOR: attend
    fn attend(
        &mut self,
        layer: usize,
        block: &Block<Device>,
        phase: &mut Phase<'_>,
    ) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let b = &mut *self.buffers;
        model.norm(
            b.normed.first_mut(rows),
            b.x.first(rows),
            &block.attention_norm,
        )?;
        model.project(b.qkv.first_mut(rows), b.normed.first(rows), &block.qkv)?;
        self.append(layer)?;
        match phase {
            Phase::Prefill => self.attend_to_each_other(layer)?,
            Phase::Decode(workspace) => self.attend_to_cache(layer, workspace)?,
        }
        let b = &mut *self.buffers;
        model.product(
            b.update.first_mut(rows),
            b.attended.first(rows),
            &block.out.weight,
        )?;
        model.add(b.x.first_mut(rows), b.update.first(rows), &block.out)
    }
    // ANCHOR_END: attend

    /// Writes the new keys and values, which lie in the rows of `qkv`, into the cache.
    fn append(&mut self, layer: usize) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let parts = Parts::of(&model.architecture, self.n);
        let (cache, counts) = self.cache.layer_mut(layer);
        let qkv = &self.buffers.qkv;
        let new = NewTokens {
            k: qkv.first(rows).slice(parts.k..),
            v: qkv.first(rows).slice(parts.v..),
            n: self.n,
            k_strides: parts.strides,
            v_strides: parts.strides,
        };
        Ok(model
            .decode
            .update_cache(&model.stream, cache, counts, new)?)
    }

    fn attend_to_each_other(&mut self, layer: usize) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let a = &model.architecture;
        let parts = Parts::of(a, self.n);
        let b = &mut *self.buffers;
        let qkv = b.qkv.first(rows);
        let inputs = stage4::Inputs {
            q: qkv.slice(..),
            k: qkv.slice(parts.k..),
            v: qkv.slice(parts.v..),
            mask: None,
            key_lengths: None,
            blocks: None,
        };
        let outputs = stage4::Outputs {
            o: b.attended.first_mut(rows),
            lse: None,
        };
        let sizes = Sizes {
            batch: self.batch,
            heads: a.heads,
            kv_heads: a.kv_heads,
            nq: self.n,
            nk: self.n,
            head_dim: a.head_dim,
        };
        let shape = stage4::Shape {
            causal: true,
            window: window(a, layer).map(|left| Window { left, right: 0 }),
            q: parts.strides,
            k: parts.strides,
            v: parts.strides,
            ..stage4::Shape::sequence_first(sizes)
        };
        Ok(model
            .prefill
            .forward(&model.stream, inputs, outputs, &shape)?)
    }

    fn attend_to_cache(&mut self, layer: usize, workspace: &mut Workspace) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let b = &mut *self.buffers;
        let inputs = stage5::Inputs {
            q: b.qkv.first(rows),
            cache: self.cache.layer(layer),
        };
        let outputs = stage5::Outputs {
            o: b.attended.first_mut(rows),
            lse: None,
        };
        let shape = stage5::Shape {
            window: window(&model.architecture, layer),
            ..model.queries(self.n)
        };
        let decode = &model.decode;
        Ok(decode.forward_in(&model.stream, inputs, outputs, &shape, workspace)?)
    }

    /// `x += linear(activation(linear(norm(x))))`.
    // ANCHOR: feed_forward
    fn feed_forward(&mut self, block: &Block<Device>) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let b = &mut *self.buffers;
        model.norm(b.normed.first_mut(rows), b.x.first(rows), &block.mlp_norm)?;
        model.project(b.hidden.first_mut(rows), b.normed.first(rows), &block.up)?;
        model.kernels.gelu_tanh(b.hidden.first_mut(rows))?;
        model.product(
            b.update.first_mut(rows),
            b.hidden.first(rows),
            &block.down.weight,
        )?;
        model.add(b.x.first_mut(rows), b.update.first(rows), &block.down)
    }
    // ANCHOR_END: feed_forward

    /// The norm of the last row of each sequence, times the output matrix.
    fn head(&mut self, logits: CudaViewMut<'_, f32>) -> Result<(), Error> {
        let (model, batch) = (self.model, self.batch);
        let b = &mut *self.buffers;
        // Either there is one row of each sequence, or one sequence.
        let last = b.x.range(self.n - 1, batch);
        model.norm(b.normed.first_mut(batch), last, &model.weights.norm)?;
        let weights = &model.weights;
        let matrix = weights.head.as_ref().unwrap_or(&weights.embedding);
        model.product(logits, b.normed.first(batch), matrix)
    }
}

/// Where the parts of a row of `qkv` are.
struct Parts {
    /// Elements before the keys.
    k: usize,
    /// Elements before the values.
    v: usize,
    /// Of queries, keys or values: heads lie side by side in a row.
    strides: Strides,
}

impl Parts {
    /// For `n` tokens of each sequence.
    fn of(a: &Architecture, n: usize) -> Self {
        Self {
            k: a.heads * a.head_dim,
            v: (a.heads + a.kv_heads) * a.head_dim,
            strides: Strides::sequence_first(a.heads + 2 * a.kv_heads, n, a.head_dim),
        }
    }
}

/// Keys before its own that a query sees in a layer, if not all.
fn window(a: &Architecture, layer: usize) -> Option<usize> {
    a.windows
        .get(layer)
        .copied()
        .flatten()
        .map(|keys| keys.saturating_sub(1))
}

impl Model {
    /// The embeddings of the next tokens of one sequence, the first of which is its token `position`.
    pub(super) fn embed(
        &self,
        x: CudaViewMut<'_, f32>,
        tokens: &[u32],
        position: usize,
    ) -> Result<(), Error> {
        let tokens_table = values(&self.weights.embedding)?;
        let positions = values(self.weights.positions.as_ref().ok_or(ONLY_GPT2)?)?;
        self.kernels
            .embedding(x, tokens, &tokens_table, &positions, position)
    }

    /// `n` queries of each sequence, in the rows of `qkv`.
    pub(super) fn queries(&self, n: usize) -> stage5::Shape {
        let a = &self.architecture;
        stage5::Shape {
            q: Parts::of(a, n).strides,
            ..stage5::Shape::sequence_first(a.heads, n, a.head_dim)
        }
    }

    fn norm(
        &self,
        y: CudaViewMut<'_, f32>,
        x: CudaView<'_, f32>,
        norm: &Norm<Device>,
    ) -> Result<(), Error> {
        let epsilon = self.architecture.norm_epsilon;
        self.kernels
            .layernorm(y, x, &norm.weight, bias(&norm.bias)?, epsilon)
    }

    /// `y = x · weightᵀ + bias`. `x` is `[n, in]`, `y` is `[n, out]`.
    fn project(
        &self,
        mut y: CudaViewMut<'_, f32>,
        x: CudaView<'_, f32>,
        layer: &Linear<Device>,
    ) -> Result<(), Error> {
        self.product(y.slice_mut(..), x, &layer.weight)?;
        self.kernels.bias_add(y, bias(&layer.bias)?)
    }

    /// `x += y + bias`.
    fn add(
        &self,
        x: CudaViewMut<'_, f32>,
        y: CudaView<'_, f32>,
        layer: &Linear<Device>,
    ) -> Result<(), Error> {
        self.kernels.residual_add(x, y, bias(&layer.bias)?)
    }

    /// `y = x · weightᵀ`. `x` is `[n, in]`, `y` is `[n, out]`.
    fn product(
        &self,
        y: CudaViewMut<'_, f32>,
        x: CudaView<'_, f32>,
        weight: &Matrix<CudaSlice<u8>>,
    ) -> Result<(), Error> {
        let Matrix { rows, columns, .. } = *weight;
        let n = x.len() / columns;
        // A tile has 16 rows, and with fewer rows of x the rest of it is empty and computed all the same.
        let variant = if n < 16 {
            Variant::Naive
        } else {
            Variant::Tiled
        };
        let shape = Gemm::nt(n, rows, columns);
        Ok(self
            .products
            .gemm_nt(variant, x, values(weight)?, y, &shape)?)
    }
}

/// Of the decoders that can be described, this forward pass computes those of GPT-2 in f32.
const ONLY_GPT2: Error = Error::Unsupported {
    expected: "a GPT-2 in f32",
};

/// The elements of a matrix in f32.
fn values(matrix: &Matrix<CudaSlice<u8>>) -> Result<CudaView<'_, f32>, Error> {
    if matrix.dtype != Dtype::F32 {
        return Err(ONLY_GPT2);
    }
    // SAFETY: any four bytes are an f32, and allocations of the device are aligned to more than that.
    unsafe { matrix.bytes.transmute(matrix.rows * matrix.columns) }.ok_or(ONLY_GPT2)
}

fn bias(bias: &Option<CudaSlice<f32>>) -> Result<&CudaSlice<f32>, Error> {
    bias.as_ref().ok_or(ONLY_GPT2)
}
