//! Task `forward`: one pass of tokens through the network.

#![allow(unused)] // remove this line when nothing is left to do

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
        // - Copy tokens and positions to the device as `i32`; `stream.alloc_zeros` makes
        //   buffers for activations.
        // - `kernels.embed`, `kernels.norm`, `kernels.rope`, `kernels.gather`, `kernels.linear`.
        //   `block.qkv.apply` and alike are `linear` with a block's own matrix; their `Epilogue`
        //   does the activation, or adds to `x`.
        // - `self.cache.grow` once, before the first block. In each block `decode.update_cache`
        //   with `cache.layer_mut`. Then `attention.forward` on the rows of qkv (prefill), or
        //   `decode.forward` with `cache.layer` (decode).
        todo!("TODO, task forward: the pass")
    }
}
