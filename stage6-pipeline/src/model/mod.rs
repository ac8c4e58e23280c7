//! A decoder on a device: its weights and kernels, and what has been set.

mod batch;
mod buffers;
mod half_pass;
mod inputs;
mod pass;
mod steps;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use stage4_flash_cuda::{Attention, Format};
use stage5_decode::{Decode, Dtype, MAX_SPLITS};

pub use self::batch::Batch;
use crate::weights::{Device, Linear, Norm};
use crate::{Architecture, Config, Error, Kernels, ModelFiles, Positions, Weights};

/// A decoder whose parameters lie in the memory of one device.
///
/// It has a context object and a stream of its own: everything that it and its [`Batch`]es launch
/// is in the order of that stream. It is not `Sync`: while one batch captures a step as a graph,
/// what another thread launches on the stream would become part of the graph.
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<stage6_pipeline::Model>();
/// ```
#[derive(Debug)]
pub struct Model {
    architecture: Architecture,
    stream: Arc<CudaStream>,
    weights: Weights<Device>,
    /// If queries and keys are rotated.
    rope: Option<Rotation>,
    kernels: Kernels,
    /// Of the first tokens of a sequence.
    prefill: Attention,
    /// Of tokens that have others in the cache.
    decode: Decode,
    cache: Dtype,
    /// The type of the activations of a long prompt, if that is not f32.
    half: Option<Format>,
    one_thread: PhantomData<Cell<()>>,
}

/// [`Rope`](crate::Rope), on the device.
#[derive(Debug)]
struct Rotation {
    /// `[D / 2]`.
    inverse_frequencies: CudaSlice<f32>,
    attention_factor: f32,
}

impl Model {
    /// Checks the config and every tensor of `files`, opens device `ordinal`, loads the kernels
    /// and uploads the parameters.
    ///
    /// # Errors
    ///
    /// Those of [`Config::load`] and [`Weights::load`]; [`Error::Gpu`] if the device is not there
    /// or a kernel cannot be loaded; [`Error::Driver`] if the device has not enough memory.
    pub fn load(files: &ModelFiles, ordinal: usize) -> Result<Self, Error> {
        let config = Config::load(files)?;
        let stream = own_stream(ordinal)?;
        let weights = Weights::load(files, &config, &Device(stream.clone()))?;
        Self::new(config.architecture, weights, stream)
    }

    /// A decoder that nobody has trained: opens device `ordinal`, and draws parameters from a
    /// seed. Matrices are `dtype`.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`], [`Error::Driver`], as [`Model::load`] has them.
    pub fn random(
        architecture: Architecture,
        dtype: Dtype,
        seed: u64,
        ordinal: usize,
    ) -> Result<Self, Error> {
        let stream = own_stream(ordinal)?;
        let weights = Weights::random(&architecture, dtype, seed, &Device(stream.clone()))?;
        Self::new(architecture, weights, stream)
    }

    fn new(
        architecture: Architecture,
        weights: Weights<Device>,
        stream: Arc<CudaStream>,
    ) -> Result<Self, Error> {
        let kernels = Kernels::new(&stream)?;
        Ok(Self {
            half: half_pass::format(&architecture, &weights, &kernels),
            rope: match &architecture.positions {
                Positions::Learned => None,
                Positions::Rope(rope) => Some(Rotation {
                    inverse_frequencies: stream.clone_htod(&rope.inverse_frequencies)?,
                    attention_factor: rope.attention_factor,
                }),
            },
            kernels,
            prefill: Attention::new(stream.context())?,
            decode: Decode::new(stream.context())?,
            cache: weights.embedding.dtype,
            one_thread: PhantomData,
            architecture,
            stream,
            weights,
        })
    }

    /// The same with keys and values cached as `dtype`, instead of as the weights are.
    pub fn with_cache(mut self, dtype: Dtype) -> Self {
        self.cache = dtype;
        self
    }

    /// The same with the cached tokens of a sequence split into `splits` parts, instead of by the
    /// rule of [`stage5_decode::splits()`]. The rule looks at the batch and the longest sequence in
    /// it, and other parts round otherwise: with a fixed number, a sequence gets the same bits in
    /// every batch of up to 8. (Products of more rows add in another order.)
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if `splits` is not 1 to 128.
    pub fn with_splits(mut self, splits: usize) -> Result<Self, Error> {
        if !(1..=MAX_SPLITS).contains(&splits) {
            return Err(Error::Setting {
                setting: "splits",
                found: splits.to_string(),
                expected: "1 to 128",
            });
        }
        self.decode = self.decode.with_splits(splits);
        Ok(self)
    }

    /// The model's sizes and parts.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The element type of the cache.
    pub fn cache(&self) -> Dtype {
        self.cache
    }

    /// The context on the device, for questions about the device. No stream
    /// can be made of a reference.
    pub fn context(&self) -> &CudaContext {
        self.stream.context()
    }

    /// Bytes that a decode step of `batch` sequences of `tokens` tokens each has to read:
    /// the weights once, and keys and values of every token. Embeddings, of which a few
    /// rows are read, do not count.
    pub fn step_bytes(&self, batch: usize, tokens: usize) -> usize {
        let a = &self.architecture;
        let vector = |vector: &Option<CudaSlice<f32>>| vector.as_ref().map_or(0, |v| v.num_bytes());
        let norm = |norm: &Norm<Device>| norm.weight.num_bytes() + vector(&norm.bias);
        let linear = |x: &Linear<Device>| x.weight.bytes.num_bytes() + vector(&x.bias);
        let blocks = self.weights.blocks.iter().map(|block| {
            let norms = norm(&block.attention_norm) + norm(&block.mlp_norm);
            let products = [&block.qkv, &block.out, &block.up, &block.down];
            norms + products.map(linear).iter().sum::<usize>()
        });
        let head = self
            .weights
            .head
            .as_ref()
            .unwrap_or(&self.weights.embedding);
        let token = 2 * a.kv_heads * a.head_dim * self.cache.bytes();
        let keys = |window: &Option<usize>| window.unwrap_or(tokens).min(tokens);
        let cached = a.windows.iter().map(|window| batch * keys(window) * token);
        blocks.sum::<usize>()
            + norm(&self.weights.norm)
            + head.bytes.num_bytes()
            + cached.sum::<usize>()
    }

    /// Room for `sequences` sequences of up to `tokens` tokens each, prompt and continuation
    /// together; no sequence yet.
    ///
    /// # Errors
    ///
    /// [`Error::ContextFull`] if `tokens` is more than the model's context, [`Error::Driver`] if
    /// the device has not enough memory.
    pub fn batch(&self, sequences: usize, tokens: usize) -> Result<Batch<'_>, Error> {
        Batch::new(self, sequences, tokens)
    }
}

/// A stream of a context object of its own. A default stream cannot be captured.
fn own_stream(ordinal: usize) -> Result<Arc<CudaStream>, Error> {
    let context = gpu::context(ordinal)?;
    // SAFETY: the context object belongs to one model, which gives away neither it nor its stream:
    // all memory of the context is used in the order of one stream.
    unsafe { context.disable_event_tracking() };
    Ok(context.new_stream()?)
}
