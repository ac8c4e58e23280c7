//! One pass of tokens through the network: the launches.

use cudarc::driver::{CudaView, CudaViewMut};
use gpu::arguments::Strides;
use stage1_reference::{Sizes, Window};
use stage5_decode::paged::PagedCache;
use stage5_decode::{NewTokens, Workspace};
use {stage4_flash_cuda as stage4, stage5_decode as stage5};

use super::Model;
use super::buffers::Buffers;
use super::inputs::Inputs;
use crate::kernels::{Activation, Heads};
use crate::weights::{Block, Device, Norm};
use crate::{Architecture, Epilogue, Error, Mlp, Weights};

/// Keys that the tokens of a pass attend to.
#[derive(Debug)]
pub(super) enum Phase<'w> {
    /// To each other: they are the first ones of one sequence. Stage 4 has a
    /// kernel for many queries.
    Prefill,
    /// To the cache: they are the last ones, as many of each sequence. Stage 5 has
    /// kernels for a few queries.
    Decode(&'w mut Workspace),
}

/// A pass of `n` tokens of each of `batch` sequences. The cache counts them
/// already. Either number is 1.
pub(super) struct Pass<'a> {
    pub model: &'a Model,
    pub cache: &'a mut PagedCache,
    pub buffers: &'a mut Buffers,
    pub inputs: &'a Inputs,
    pub batch: usize,
    pub n: usize,
}

impl Pass<'_> {
    /// The logits of the token that follows the last one of each sequence, `[batch, V]`.
    // ANCHOR: run
    pub fn run(&mut self, mut phase: Phase<'_>, logits: CudaViewMut<'_, f32>) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let Weights {
            embedding,
            positions,
            blocks,
            ..
        } = &model.weights;
        let (tokens, at) = (self.inputs.tokens(rows), self.inputs.positions(rows));
        let x = self.buffers.x.first_mut(rows);
        model
            .kernels
            .embed(x, tokens, at, embedding, positions.as_ref())?;
        let half = self.half(&phase);
        for (layer, block) in blocks.iter().enumerate() {
            match half {
                Some(format) => self.block_in_half(format, layer, block)?, // half_pass.rs
                None => {
                    self.attend(layer, block, &mut phase)?;
                    self.feed_forward(block)?;
                }
            }
        }
        self.head(logits)
    }
    // ANCHOR_END: run

    pub(super) fn rows(&self) -> usize {
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
        let kernels = &model.kernels;
        let b = &mut *self.buffers;
        model.norm(
            &block.attention_norm,
            b.x.first(rows),
            b.normed.first_mut(rows),
        )?;
        let (normed, qkv) = (b.normed.first(rows), b.qkv.first_mut(rows));
        block.qkv.apply(kernels, normed, qkv, Epilogue::Store)?;
        self.rotate::<f32>()?;
        self.append::<f32>(layer)?;
        match phase {
            Phase::Prefill => self.attend_to_each_other(layer)?,
            Phase::Decode(workspace) => self.attend_to_cache(layer, workspace)?,
        }
        let b = &mut *self.buffers;
        let (attended, x) = (b.attended.first(rows), b.x.first_mut(rows));
        block.out.apply(kernels, attended, x, Epilogue::Add)
    }
    // ANCHOR_END: attend

    /// Rotates queries and keys, if that is how the model knows positions.
    pub(super) fn rotate<T: Activation>(&mut self) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let Some(rope) = &model.rope else {
            return Ok(());
        };
        let heads = Heads {
            queries: model.architecture.heads,
            keys: model.architecture.kv_heads,
        };
        let elements = rows * model.architecture.qkv_rows();
        let qkv = self.buffers.qkv.elements_mut::<T>(elements);
        let (at, frequencies) = (self.inputs.positions(rows), &rope.inverse_frequencies);
        let factor = rope.attention_factor;
        model.kernels.rope(qkv, at, frequencies, factor, heads)
    }

    /// Writes the new keys and values, which lie in the rows of `qkv`, into the cache.
    pub(super) fn append<T: Activation>(&mut self, layer: usize) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let parts = Parts::of(&model.architecture, self.n);
        let (cache, counts) = self.cache.layer_mut(layer);
        let elements = rows * model.architecture.qkv_rows();
        let qkv = self.buffers.qkv.elements::<T>(elements);
        let new = NewTokens {
            k: qkv.slice(parts.k..),
            v: qkv.slice(parts.v..),
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
        let shape = self.among_each_other(layer);
        let parts = Parts::of(&model.architecture, self.n);
        let b = &mut *self.buffers;
        let (inputs, o) = (parts.inputs(b.qkv.first(rows)), b.attended.first_mut(rows));
        let outputs = stage4::Outputs { o, lse: None };
        Ok(model
            .prefill
            .forward(&model.stream, inputs, outputs, &shape)?)
    }

    /// Tokens that attend to each other, in the rows of `qkv`.
    pub(super) fn among_each_other(&self, layer: usize) -> stage4::Shape {
        let a = &self.model.architecture;
        let parts = Parts::of(a, self.n);
        let sizes = Sizes {
            batch: self.batch,
            heads: a.heads,
            kv_heads: a.kv_heads,
            nq: self.n,
            nk: self.n,
            head_dim: a.head_dim,
        };
        stage4::Shape {
            causal: true,
            window: window(a, layer).map(|left| Window { left, right: 0 }),
            q: parts.strides,
            k: parts.strides,
            v: parts.strides,
            ..stage4::Shape::sequence_first(sizes)
        }
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
        let kernels = &model.kernels;
        let b = &mut *self.buffers;
        let activation = activation(model.architecture.mlp);
        model.norm(&block.mlp_norm, b.x.first(rows), b.normed.first_mut(rows))?;
        let (normed, hidden) = (b.normed.first(rows), b.hidden.first_mut(rows));
        block.up.apply(kernels, normed, hidden, activation)?;
        let (hidden, x) = (b.hidden.first(rows), b.x.first_mut(rows));
        block.down.apply(kernels, hidden, x, Epilogue::Add)
    }
    // ANCHOR_END: feed_forward

    /// The norm of the last row of each sequence, times the output matrix.
    fn head(&mut self, logits: CudaViewMut<'_, f32>) -> Result<(), Error> {
        let (model, batch) = (self.model, self.batch);
        let weights = &model.weights;
        let b = &mut *self.buffers;
        // Either there is one row of each sequence, or one sequence.
        let last = b.x.range(self.n - 1, batch);
        model.norm(&weights.norm, last, b.normed.first_mut(batch))?;
        let matrix = weights.head.as_ref().unwrap_or(&weights.embedding);
        let normed = b.normed.first(batch);
        model
            .kernels
            .linear(matrix, None, normed, logits, Epilogue::Store)
    }
}

/// Work on the hidden layer of the feed-forward part.
pub(super) fn activation(mlp: Mlp) -> Epilogue {
    match mlp {
        Mlp::Gelu => Epilogue::Gelu,
        Mlp::SwiGlu => Epilogue::SwiGlu,
    }
}

/// Places of the parts of a row of `qkv`.
pub(super) struct Parts {
    /// Elements before the keys.
    k: usize,
    /// Elements before the values.
    v: usize,
    /// Of queries, keys or values: heads lie side by side in a row.
    strides: Strides,
}

impl Parts {
    /// For `n` tokens of each sequence.
    pub(super) fn of(a: &Architecture, n: usize) -> Self {
        Self {
            k: a.heads * a.head_dim,
            v: (a.heads + a.kv_heads) * a.head_dim,
            strides: Strides::sequence_first(a.heads + 2 * a.kv_heads, n, a.head_dim),
        }
    }

    /// Queries, keys and values of these rows.
    pub(super) fn inputs<'v, T>(&self, qkv: CudaView<'v, T>) -> stage4::Inputs<'v, T> {
        stage4::Inputs::new(qkv.slice(..), qkv.slice(self.k..), qkv.slice(self.v..))
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
    /// `n` queries of each sequence, in the rows of `qkv`.
    pub(super) fn queries(&self, n: usize) -> stage5::Shape {
        let a = &self.architecture;
        stage5::Shape {
            q: Parts::of(a, n).strides,
            ..stage5::Shape::sequence_first(a.heads, n, a.head_dim)
        }
    }

    pub(super) fn norm<Y: Activation>(
        &self,
        norm: &Norm<Device>,
        x: CudaView<'_, f32>,
        y: CudaViewMut<'_, Y>,
    ) -> Result<(), Error> {
        let a = &self.architecture;
        self.kernels.norm(norm, a.norm, a.norm_epsilon, x, y)
    }
}
