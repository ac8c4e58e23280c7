//! Exercise 6, solved: a decoder, and a text that it writes.
//!
//! All kernels are given. [`Kernels`] has the linear layers, norms, rotation and embedding; `Model::attention` is stage 4's and
//! `Model::decode` stage 5's; [`KvCache`] keeps keys and values.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use gpu::arguments::Strides;
use stage1_reference::{Feature, Sizes};
use stage4_flash_cuda::Attention;
use stage5_decode::{CacheShape, Decode, KvCache, NewTokens};
use stage6_pipeline::{
    Architecture, Device, Epilogue, Error, Forward, Generate, Heads, Kernels, Mlp, Norm, Positions,
    Room, Rope, Source, Weights, attention_of_prompts,
};
use {stage4_flash_cuda as stage4, stage5_decode as stage5};

/// What the task does not ask for.
pub const LACKS: [Feature; 1] = [Feature::Window];

/// A decoder on a device.
#[derive(Debug)]
pub struct Model {
    stream: Arc<CudaStream>,
    architecture: Architecture,
    weights: Weights<Device>,
    /// `[D / 2]`, if positions are rotated.
    inverse_frequencies: Option<CudaSlice<f32>>,
    kernels: Kernels,
    /// Of prompts, whose tokens attend to each other.
    attention: Attention,
    /// Of new tokens, which attend to the cache.
    decode: Decode,
}

/// Sequences of the same length.
#[derive(Debug)]
pub struct Sequences<'m> {
    model: &'m Model,
    room: Room,
    cache: KvCache,
    /// Tokens of each sequence so far.
    length: usize,
}

/// What a pass does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first tokens of each sequence: they attend to each other.
    Prefill,
    /// One more token of each sequence: it attends to the cache.
    Decode,
}

/// Where queries, keys and values of a pass lie: side by side in the rows of a matrix `[B · n, (H + 2 H_kv) D]`.
struct Parts {
    /// Elements before the first key of a row.
    k: usize,
    /// Elements before the first value of a row.
    v: usize,
    /// Of queries, keys and values.
    strides: Strides,
}

impl Parts {
    /// Of `n` tokens of each sequence.
    fn of(a: &Architecture, n: usize) -> Self {
        Self {
            k: a.heads * a.head_dim,
            v: (a.heads + a.kv_heads) * a.head_dim,
            strides: Strides::sequence_first(a.heads + 2 * a.kv_heads, n, a.head_dim),
        }
    }
}

impl Sequences<'_> {
    /// Passes `n` new tokens of each of `B` sequences, `[B][n]`, through the network, and returns the logits `[B, V]` of the
    /// token that follows the last one of each. They have been checked: `B` and `n` are at least 1, and there is room for them.
    ///
    /// ```text
    /// x = embedding of each token (and of its position, if positions are learned)
    /// for each block:
    ///     qkv = linear(norm(x));  rotate q and k, if positions are rotated;  append k and v to the cache
    ///     x += linear(attention(q, k, v))
    ///     x += linear(activation(linear(norm(x))))
    /// logits = norm(x of the last token of each sequence) · output matrixᵀ
    /// ```
    ///
    /// All activations are `[B · n, …]`, row `b · n + i` belongs to token `i` of sequence `b`. Token `i` stands at position
    /// `self.length + i`.
    fn pass(&mut self, tokens: &[&[u32]], phase: Phase) -> Result<Vec<f32>, Error> {
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

    /// Checks new tokens, passes them through the network and counts them.
    fn forward(&mut self, tokens: &[&[u32]], phase: Phase) -> Result<Vec<f32>, Error> {
        let operation = match phase {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
        };
        let cached = match phase {
            Phase::Prefill => 0,
            Phase::Decode => self.length,
        };
        let vocab = self.model.architecture.vocab;
        self.room.check(operation, cached, tokens, vocab)?;
        if phase == Phase::Prefill {
            let nothing = vec![0; self.room.sequences];
            self.cache.truncate(&self.model.stream, &nothing)?;
        }
        self.length = cached;
        let logits = self.pass(tokens, phase)?;
        self.length += tokens[0].len();
        Ok(logits)
    }
}

/// The solution.
#[derive(Debug, Clone, Copy)]
pub struct Own;

impl Forward for Own {
    type Error = Error;
    type Model = Model;
    type Batch<'m> = Sequences<'m>;

    fn load(&self, source: &Source) -> Result<Model, Error> {
        let stream = gpu::context(0)?.default_stream();
        let (architecture, weights) = source.load(&Device(stream.clone()))?;
        let inverse_frequencies = match &architecture.positions {
            Positions::Learned => None,
            Positions::Rope(Rope {
                inverse_frequencies,
                ..
            }) => Some(stream.clone_htod(inverse_frequencies)?),
        };
        Ok(Model {
            kernels: Kernels::new(&stream)?,
            attention: attention_of_prompts(&stream, architecture.head_dim)?,
            decode: Decode::new(stream.context())?,
            inverse_frequencies,
            architecture,
            weights,
            stream,
        })
    }

    fn batch<'m>(&self, model: &'m Model, room: Room) -> Result<Sequences<'m>, Error> {
        let a = &model.architecture;
        let shape = CacheShape {
            batch: room.sequences,
            kv_heads: a.kv_heads,
            max_seq: room.tokens,
            head_dim: a.head_dim,
            dtype: model.weights.embedding.dtype,
        };
        Ok(Sequences {
            model,
            room,
            cache: KvCache::new(&model.stream, a.layers, shape)?,
            length: 0,
        })
    }

    fn prefill(&self, of: &mut Sequences<'_>, tokens: &[&[u32]]) -> Result<Vec<f32>, Error> {
        of.forward(tokens, Phase::Prefill)
    }

    fn decode(&self, of: &mut Sequences<'_>, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        of.forward(&Vec::from_iter(tokens.chunks(1)), Phase::Decode)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        match error {
            Error::Argument(error) => Some(error.argument),
            _ => None,
        }
    }
}

impl Generate for Own {
    /// The tokens that follow a prompt: each is the likeliest one, and of several with the same logit the one with the smallest
    /// id. Ends after `most` tokens, or before a token of `end`.
    fn generate(
        &self,
        of: &mut Sequences<'_>,
        prompt: &[u32],
        most: usize,
        end: &[u32],
    ) -> Result<Vec<u32>, Error> {
        let mut tokens = Vec::new();
        let mut logits = self.prefill(of, &[prompt])?;
        while tokens.len() < most {
            let next = likeliest(&logits);
            if end.contains(&next) {
                break;
            }
            tokens.push(next);
            if tokens.len() < most {
                logits = self.decode(of, &[next])?;
            }
        }
        Ok(tokens)
    }
}

/// The id of the largest logit, the smallest of several.
fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = id;
        }
    }
    best as u32
}
