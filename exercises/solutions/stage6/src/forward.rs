//! Task `forward`, solved: one pass of tokens through the network.

use cudarc::driver::CudaSlice;
use stage1_reference::Sizes;
use stage5_decode::NewTokens;
use stage6_pipeline::{Device, Epilogue, Error, Heads, Mlp, Norm, Positions};
use {stage4_flash_cuda as stage4, stage5_decode as stage5};

use crate::{Model, Parts, Phase, Sequences};

impl Sequences<'_> {
    /// Passes `n` new tokens of each of `B` sequences, `[B][n]`, through the network, and returns
    /// the logits `[B, V]` of the token that follows the last one of each. They have been checked:
    /// `B` and `n` are at least 1, and there is room for them.
    ///
    /// ```text
    /// x = embedding of each token (and of its position, if positions are learned)
    /// for each block:
    ///     qkv = linear(norm(x))
    ///     rotate q and k, if positions are rotated; append k and v to the cache
    ///     x += linear(attention(q, k, v))
    ///     x += linear(activation(linear(norm(x))))
    /// logits = norm(x of the last token of each sequence) · output matrixᵀ
    /// ```
    ///
    /// All activations are `[B · n, …]`, row `b · n + i` belongs to token `i` of sequence `b`.
    /// Token `i` stands at position `self.length + i`.
    pub(crate) fn pass(&mut self, tokens: &[&[u32]], phase: Phase) -> Result<Vec<f32>, Error> {
        let Model {
            stream,
            architecture: a,
            weights,
            kernels,
            ..
        } = self.model;
        let (batch, n) = (tokens.len(), tokens[0].len());
        let rows = batch * n;
        let ids = Vec::from_iter(tokens.concat().iter().map(|&token| token as i32));
        let positions = (0..rows).map(|row| (self.length + row % n) as i32);
        let ids = stream.clone_htod(&ids)?;
        let positions = stream.clone_htod(&Vec::from_iter(positions))?;
        let buffer = |columns: usize| stream.alloc_zeros::<f32>(rows * columns);
        let mut x = buffer(a.hidden)?;
        let mut normed = buffer(a.hidden)?;
        let mut qkv = buffer(a.qkv_rows())?;
        let mut attended = buffer(a.heads * a.head_dim)?;
        let mut hidden = buffer(a.inner)?;
        let norm = |norm: &Norm<Device>, x: &CudaSlice<f32>, y: &mut CudaSlice<f32>| {
            kernels.norm(norm, a.norm, a.norm_epsilon, x.as_view(), y.as_view_mut())
        };

        let (embedding, learned) = (&weights.embedding, weights.positions.as_ref());
        let (of_ids, of_positions) = (ids.as_view(), positions.as_view());
        kernels.embed(x.as_view_mut(), of_ids, of_positions, embedding, learned)?;
        self.cache.grow(stream, &vec![n; batch])?;
        for (layer, block) in weights.blocks.iter().enumerate() {
            norm(&block.attention_norm, &x, &mut normed)?;
            let projection = &block.qkv;
            projection.apply(kernels, normed.as_view(), qkv.as_view_mut(), Epilogue::Store)?;
            self.rotate(&mut qkv, &positions)?;
            self.append(layer, &qkv, n)?;
            match phase {
                Phase::Prefill => self.attend_to_each_other(&qkv, &mut attended, batch, n)?,
                Phase::Decode => self.attend_to_cache(layer, &qkv, &mut attended)?,
            }
            block.out.apply(kernels, attended.as_view(), x.as_view_mut(), Epilogue::Add)?;

            norm(&block.mlp_norm, &x, &mut normed)?;
            let activation = match a.mlp {
                Mlp::Gelu => Epilogue::Gelu,
                Mlp::SwiGlu => Epilogue::SwiGlu,
            };
            block.up.apply(kernels, normed.as_view(), hidden.as_view_mut(), activation)?;
            block.down.apply(kernels, hidden.as_view(), x.as_view_mut(), Epilogue::Add)?;
        }

        let last = Vec::from_iter((0..batch).map(|b| (b * n + n - 1) as i32));
        let last = stream.clone_htod(&last)?;
        let mut of_last = stream.alloc_zeros(batch * a.hidden)?;
        let mut normed = stream.alloc_zeros(batch * a.hidden)?;
        let mut logits = stream.alloc_zeros(batch * a.vocab)?;
        kernels.gather(of_last.as_view_mut(), last.as_view(), x.as_view())?;
        norm(&weights.norm, &of_last, &mut normed)?;
        let matrix = weights.head.as_ref().unwrap_or(embedding);
        let (normed, of_logits) = (normed.as_view(), logits.as_view_mut());
        kernels.linear(matrix, None, normed, of_logits, Epilogue::Store)?;
        Ok(stream.clone_dtoh(&logits)?)
    }

    /// Rotates queries and keys, if that is how the decoder knows positions.
    fn rotate(&self, qkv: &mut CudaSlice<f32>, positions: &CudaSlice<i32>) -> Result<(), Error> {
        let Model {
            architecture: a,
            kernels,
            inverse_frequencies,
            ..
        } = self.model;
        let (Positions::Rope(rope), Some(frequencies)) = (&a.positions, inverse_frequencies) else {
            return Ok(());
        };
        let heads = Heads {
            queries: a.heads,
            keys: a.kv_heads,
        };
        let (qkv, positions) = (qkv.as_view_mut(), positions.as_view());
        kernels.rope(qkv, positions, frequencies, rope.attention_factor, heads)
    }

    /// Writes the keys and values of `n` new tokens of each sequence into the cache.
    fn append(&mut self, layer: usize, qkv: &CudaSlice<f32>, n: usize) -> Result<(), Error> {
        let parts = Parts::of(&self.model.architecture, n);
        let (cache, counts) = self.cache.layer_mut(layer);
        let new = NewTokens {
            k: qkv.slice(parts.k..),
            v: qkv.slice(parts.v..),
            n,
            k_strides: parts.strides,
            v_strides: parts.strides,
        };
        let Model { stream, decode, .. } = self.model;
        Ok(decode.update_cache(stream, cache, counts, new)?)
    }

    fn attend_to_each_other(
        &self,
        qkv: &CudaSlice<f32>,
        attended: &mut CudaSlice<f32>,
        batch: usize,
        n: usize,
    ) -> Result<(), Error> {
        let Model {
            stream,
            architecture: a,
            attention,
            ..
        } = self.model;
        let parts = Parts::of(a, n);
        let inputs = stage4::Inputs {
            q: qkv.as_view(),
            k: qkv.slice(parts.k..),
            v: qkv.slice(parts.v..),
            mask: None,
            key_lengths: None,
            blocks: None,
        };
        let outputs = stage4::Outputs {
            o: attended.as_view_mut(),
            lse: None,
        };
        let sizes = Sizes {
            batch,
            heads: a.heads,
            kv_heads: a.kv_heads,
            nq: n,
            nk: n,
            head_dim: a.head_dim,
        };
        let shape = stage4::Shape {
            causal: true,
            q: parts.strides,
            k: parts.strides,
            v: parts.strides,
            ..stage4::Shape::sequence_first(sizes)
        };
        Ok(attention.forward(stream, inputs, outputs, &shape)?)
    }

    fn attend_to_cache(
        &self,
        layer: usize,
        qkv: &CudaSlice<f32>,
        attended: &mut CudaSlice<f32>,
    ) -> Result<(), Error> {
        let Model {
            stream,
            architecture: a,
            decode,
            ..
        } = self.model;
        let inputs = stage5::Inputs {
            q: qkv.as_view(),
            cache: self.cache.layer(layer),
        };
        let outputs = stage5::Outputs {
            o: attended.as_view_mut(),
            lse: None,
        };
        let shape = stage5::Shape {
            q: Parts::of(a, 1).strides,
            ..stage5::Shape::sequence_first(a.heads, 1, a.head_dim)
        };
        Ok(decode.forward(stream, inputs, outputs, &shape)?)
    }
}
