//! GPT-2's forward pass: one sequence of kernel launches, the same for a prompt and for one more token.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use stage1_reference::Sizes;
use stage2_naive_cuda::{
    AttentionInputs, AttentionOutputs, AttentionShape, Gemm, Strides, Variant,
};

use crate::weights::Block;
use crate::{Affine, Config, Error, Kernels, KvCache, ModelFiles, Weights};

/// A GPT-2 whose parameters lie in the memory of one device.
#[derive(Debug)]
pub struct Gpt2 {
    config: Config,
    stream: Arc<CudaStream>,
    weights: Weights<CudaSlice<f32>>,
    kernels: Kernels,
    attention: stage2_naive_cuda::Kernels,
}

impl Gpt2 {
    /// Checks the config and every tensor of `files`, then opens device `ordinal`, loads the kernels and uploads
    /// the parameters.
    ///
    /// # Errors
    ///
    /// Those of [`Config::parse`] and [`Weights::read`]; [`Error::Gpu`] if the device is not there or a kernel
    /// cannot be loaded; [`Error::Driver`] if the device has not enough memory.
    pub fn load(files: &ModelFiles, ordinal: usize) -> Result<Self, Error> {
        let config = Config::parse(&files.config, &files.name_of("config.json"))?;
        let weights = Weights::read(&files.weights, &files.name_of("model.safetensors"), &config)?;

        let stream = gpu::context(ordinal)?.default_stream();
        let kernels = Kernels::new(&stream)?;
        let attention = stage2_naive_cuda::Kernels::new(&stream)?;
        let weights = weights.try_map(|tensor| stream.clone_htod(&tensor))?;
        Ok(Self {
            config,
            stream,
            weights,
            kernels,
            attention,
        })
    }

    /// The model's sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The stream that everything is launched on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// A session for one sequence at a time, with an empty cache.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the device has not enough memory.
    pub fn session(&self) -> Result<Session<'_>, Error> {
        Ok(Session {
            model: self,
            cache: KvCache::new(&self.stream, &self.config)?,
            activations: Activations::new(&self.stream, &self.config)?,
        })
    }

    /// `y = x · weight + bias`, or without the bias if the caller adds it with something else. `x` is
    /// `[n, in]`, `y` is `[n, out]`.
    fn matmul(
        &self,
        y: CudaViewMut<'_, f32>,
        x: CudaView<'_, f32>,
        layer: &Affine<CudaSlice<f32>>,
    ) -> Result<(), Error> {
        let outputs = layer.bias.len();
        let inputs = layer.weight.len() / outputs;
        let n = x.len() / inputs;
        let shape = Gemm::nn(n, outputs, inputs);
        self.attention
            .gemm_nn(variant(n), x, layer.weight.as_view(), y, &shape)?;
        Ok(())
    }
}

/// One sequence: the keys and values of its tokens so far, and the arrays that a forward pass works in.
#[derive(Debug)]
pub struct Session<'m> {
    model: &'m Gpt2,
    cache: KvCache,
    activations: Activations,
}

impl<'m> Session<'m> {
    /// Passes the next `n` tokens of the sequence through the model: the whole prompt at first, then one token
    /// at a time (or any other cut; the logits are the same up to rounding). Returns the logits, `[V]`, of the
    /// token that follows the last one.
    ///
    /// # Errors
    ///
    /// [`Error::NoTokens`], [`Error::TokenOutOfRange`], [`Error::ContextFull`] before anything runs;
    /// [`Error::Driver`] if a kernel fails. After an error the session is as it was.
    // ANCHOR: forward
    pub fn forward(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        let model = self.model;
        let Activations { x, .. } = &mut self.activations;
        let n = tokens.len();
        let c = model.config.n_embd;

        let Weights { wte, wpe, .. } = &model.weights;
        model
            .kernels
            .embedding(x.slice_mut(..n * c), tokens, wte, wpe, self.cache.len)?;
        for (layer, block) in model.weights.blocks.iter().enumerate() {
            self.attend(layer, block, n)?;
            self.feed_forward(block, n)?;
        }
        let logits = self.logits(n)?;
        self.cache.len += n;
        Ok(logits)
    }
    // ANCHOR_END: forward

    /// Forgets the sequence. The next one starts at position 0.
    pub fn clear(&mut self) {
        self.cache.len = 0;
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.cache.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cache.len == 0
    }

    /// The model.
    pub fn model(&self) -> &'m Gpt2 {
        self.model
    }

    /// `x += attention(layernorm(x))` for the `n` newest tokens, whose keys and values go into the cache.
    // ANCHOR: attend
    fn attend(
        &mut self,
        layer: usize,
        block: &Block<CudaSlice<f32>>,
        n: usize,
    ) -> Result<(), Error> {
        let Gpt2 {
            config,
            kernels,
            attention,
            ..
        } = self.model;
        let (c, d) = (config.n_embd, config.head_dim());
        let rows = Rows(n);
        let a = &mut self.activations;

        let epsilon = config.layer_norm_epsilon;
        kernels.layernorm(
            rows.of_mut(&mut a.normed, c),
            rows.of(&a.x, c),
            &block.ln_1,
            epsilon,
        )?;
        self.model.matmul(
            rows.of_mut(&mut a.qkv, 3 * c),
            rows.of(&a.normed, c),
            &block.attn_qkv,
        )?;
        kernels.bias_add(rows.of_mut(&mut a.qkv, 3 * c), &block.attn_qkv.bias)?;
        kernels.append_kv(&mut self.cache, layer, rows.of(&a.qkv, 3 * c))?;

        // The heads of a query lie side by side in its row of qkv, and the heads of the output go side by side
        // into its row: strides say so, and nothing is moved to split or merge heads.
        let nk = self.cache.len + n;
        let sizes = Sizes {
            batch: 1,
            heads: config.n_head,
            kv_heads: config.n_head,
            nq: n,
            nk,
            head_dim: d,
        };
        let cached = Strides {
            batch: 0,
            head: config.n_ctx * d,
            row: d,
        };
        let shape = AttentionShape {
            causal: true,
            q: Strides {
                batch: 0,
                head: d,
                row: 3 * c,
            },
            k: cached,
            v: cached,
            o: Strides {
                batch: 0,
                head: d,
                row: c,
            },
            ..AttentionShape::packed(sizes)
        };
        let cache = &self.cache.layers[layer];
        let inputs = AttentionInputs {
            q: rows.of(&a.qkv, 3 * c),
            k: cache.k.as_view(),
            v: cache.v.as_view(),
            mask: None,
        };
        let outputs = AttentionOutputs {
            o: rows.of_mut(&mut a.attended, c),
            lse: None,
        };
        attention.attention(variant(n), inputs, outputs, &shape)?;

        self.model.matmul(
            rows.of_mut(&mut a.update, c),
            rows.of(&a.attended, c),
            &block.attn_out,
        )?;
        kernels.residual_add(
            rows.of_mut(&mut a.x, c),
            rows.of(&a.update, c),
            &block.attn_out.bias,
        )
    }
    // ANCHOR_END: attend

    /// `x += linear(gelu(linear(layernorm(x))))` for the `n` newest tokens.
    // ANCHOR: feed_forward
    fn feed_forward(&mut self, block: &Block<CudaSlice<f32>>, n: usize) -> Result<(), Error> {
        let Gpt2 {
            config, kernels, ..
        } = self.model;
        let (c, f) = (config.n_embd, config.n_inner);
        let rows = Rows(n);
        let a = &mut self.activations;

        let epsilon = config.layer_norm_epsilon;
        kernels.layernorm(
            rows.of_mut(&mut a.normed, c),
            rows.of(&a.x, c),
            &block.ln_2,
            epsilon,
        )?;
        self.model.matmul(
            rows.of_mut(&mut a.hidden, f),
            rows.of(&a.normed, c),
            &block.mlp_in,
        )?;
        kernels.bias_add(rows.of_mut(&mut a.hidden, f), &block.mlp_in.bias)?;
        kernels.gelu_tanh(rows.of_mut(&mut a.hidden, f))?;
        self.model.matmul(
            rows.of_mut(&mut a.update, c),
            rows.of(&a.hidden, f),
            &block.mlp_out,
        )?;
        kernels.residual_add(
            rows.of_mut(&mut a.x, c),
            rows.of(&a.update, c),
            &block.mlp_out.bias,
        )
    }
    // ANCHOR_END: feed_forward

    /// The logits of the last of the `n` newest tokens: its normed row times the token embedding transposed.
    fn logits(&mut self, n: usize) -> Result<Vec<f32>, Error> {
        let Gpt2 {
            config,
            kernels,
            attention,
            weights,
            stream,
            ..
        } = self.model;
        let (c, v) = (config.n_embd, config.vocab_size);
        let a = &mut self.activations;

        let last = a.x.slice((n - 1) * c..n * c);
        kernels.layernorm(
            a.normed.slice_mut(..c),
            last,
            &weights.ln_f,
            config.layer_norm_epsilon,
        )?;
        let (normed, logits) = (a.normed.slice(..c), a.logits.as_view_mut());
        attention.gemm_nt(
            variant(1),
            normed,
            weights.wte.as_view(),
            logits,
            &Gemm::nt(1, v, c),
        )?;
        Ok(stream.clone_dtoh(&a.logits)?)
    }
}

/// The arrays of a forward pass, allocated once with `n_ctx` rows each; a pass over `n` tokens uses the first
/// `n`.
#[derive(Debug)]
struct Activations {
    /// The residual stream, `[n_ctx, C]`.
    x: CudaSlice<f32>,
    /// Output of a layer norm, `[n_ctx, C]`.
    normed: CudaSlice<f32>,
    /// Queries, keys and values side by side, `[n_ctx, 3C]`.
    qkv: CudaSlice<f32>,
    /// Output of attention, its heads side by side, `[n_ctx, C]`.
    attended: CudaSlice<f32>,
    /// Hidden layer of the feed-forward part, `[n_ctx, F]`.
    hidden: CudaSlice<f32>,
    /// What is about to be added to `x`, `[n_ctx, C]`.
    update: CudaSlice<f32>,
    /// `[V]`.
    logits: CudaSlice<f32>,
}

impl Activations {
    fn new(stream: &Arc<CudaStream>, config: &Config) -> Result<Self, Error> {
        let rows = |columns| stream.alloc_zeros::<f32>(config.n_ctx * columns);
        let c = config.n_embd;
        Ok(Self {
            x: rows(c)?,
            normed: rows(c)?,
            qkv: rows(3 * c)?,
            attended: rows(c)?,
            hidden: rows(config.n_inner)?,
            update: rows(c)?,
            logits: stream.alloc_zeros(config.vocab_size)?,
        })
    }
}

/// The first so many rows of an array.
struct Rows(usize);

impl Rows {
    fn of<'a>(&self, array: &'a CudaSlice<f32>, columns: usize) -> CudaView<'a, f32> {
        array.slice(..self.0 * columns)
    }

    fn of_mut<'a>(&self, array: &'a mut CudaSlice<f32>, columns: usize) -> CudaViewMut<'a, f32> {
        array.slice_mut(..self.0 * columns)
    }
}

/// Tiles pay when several rows share a loaded weight. With one row there is nothing to share, and 15 of 16 rows
/// of a tile would be empty.
fn variant(rows: usize) -> Variant {
    if rows == 1 {
        Variant::Naive
    } else {
        Variant::Tiled
    }
}
