//! Exercise 6: a decoder, and a text that it writes.
//!
//! | task | points | you write |
//! |---|---|---|
//! | `forward` | 3 | `src/forward.rs`: one pass of tokens through the network |
//! | `demo` | 1 | `src/generate.rs`: token after token |
//!
//! All kernels are given. [`Kernels`] has the linear layers, norms, rotation and embedding;
//! `Model::attention` is stage 4's and `Model::decode` stage 5's: the course's when your files are
//! graded, yours when `cargo grade story` tells a story. [`KvCache`] keeps keys and values. Both
//! families of checkpoints, GPT-2 and Llama, go through the same code: [`Architecture`] says which
//! of the usual parts a decoder is made of. This file is done: it loads a decoder, makes room for
//! sequences and checks tokens. `cargo grade 6` judges, `cargo grade hint forward` helps.

#![allow(dead_code)] // until your file uses it

mod forward;
mod generate;

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use exercise_kit::given::{Attention, Decode, Given};
use gpu::arguments::Strides;
use stage1_reference::Feature;
use stage5_decode::{CacheShape, KvCache};
use stage6_pipeline::{
    Architecture, Device, Error, Forward, Kernels, Positions, Room, Rope, Source, Weights,
};

/// Parts that the task does not ask for.
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

/// Phase of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first tokens of each sequence: they attend to each other.
    Prefill,
    /// One more token of each sequence: it attends to the cache.
    Decode,
}

/// Where queries, keys and values of a pass lie: side by side in the rows of a matrix
/// `[B · n, (H + 2 H_kv) D]`.
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

/// Your implementation, on attention that is given.
#[derive(Debug, Clone, Default)]
pub struct Own(pub Given);

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
        let (attention, decode) = self.0.attention(&stream)?;
        Ok(Model {
            kernels: Kernels::new(&stream)?,
            attention,
            decode,
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

    fn prefill(&self, batch: &mut Sequences<'_>, tokens: &[&[u32]]) -> Result<Vec<f32>, Error> {
        batch.forward(tokens, Phase::Prefill)
    }

    fn decode(&self, batch: &mut Sequences<'_>, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        self.0.hear(tokens);
        batch.forward(&Vec::from_iter(tokens.chunks(1)), Phase::Decode)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        match error {
            Error::Argument(error) => Some(error.argument),
            _ => None,
        }
    }
}
