//! GPT-2's forward pass: one sequence of kernel launches, the same for a prompt and for one more token.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use stage1_reference::Sizes;
use stage2_naive_cuda::{
    AttentionInputs, AttentionOutputs, AttentionShape, Gemm, Strides, Variant,
};

use crate::cache::LayerCache;
use crate::{
    Architecture, Block, Config, Device, Dtype, Error, Kernels, KvCache, Matrix, ModelFiles,
    Positions, Weights,
};

/// A GPT-2 whose parameters lie in the memory of one device.
#[derive(Debug)]
pub struct Gpt2 {
    architecture: Architecture,
    stream: Arc<CudaStream>,
    weights: Weights<Device>,
    kernels: Kernels,
    attention: stage2_naive_cuda::Kernels,
}

impl Gpt2 {
    /// Checks the config and every tensor of `files`, then opens device `ordinal`, loads the kernels and uploads
    /// the parameters.
    ///
    /// # Errors
    ///
    /// Those of [`Config::load`] and [`Weights::load`]; [`Error::Gpu`] if the device is not there or a kernel
    /// cannot be loaded; [`Error::Driver`] if the device has not enough memory.
    pub fn load(files: &ModelFiles, ordinal: usize) -> Result<Self, Error> {
        let config = Config::load(files)?;
        if config.architecture.positions != Positions::Learned || !config.architecture.tied {
            return Err(ONLY_GPT2);
        }
        let stream = gpu::context(ordinal)?.default_stream();
        let weights = Weights::load(files, &config, &Device(stream.clone()))?;
        let kernels = Kernels::new(&stream)?;
        let attention = stage2_naive_cuda::Kernels::new(&stream)?;
        Ok(Self {
            architecture: config.architecture,
            stream,
            weights,
            kernels,
            attention,
        })
    }

    /// The model's sizes and parts.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
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
            cache: KvCache::new(&self.stream, &self.architecture)?,
            activations: Activations::new(&self.stream, &self.architecture)?,
        })
    }

    /// `y = x · weightᵀ`; the bias is left to the kernel that comes next. `x` is `[n, in]`, `y` is `[n, out]`.
    fn matmul(
        &self,
        y: CudaViewMut<'_, f32>,
        x: CudaView<'_, f32>,
        weight: &Matrix<CudaSlice<u8>>,
    ) -> Result<(), Error> {
        let Matrix { rows, columns, .. } = *weight;
        let n = x.len() / columns;
        let shape = Gemm::nt(n, rows, columns);
        self.attention
            .gemm_nt(variant(n), x, values(weight)?, y, &shape)?;
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
        let Gpt2 {
            architecture,
            weights,
            kernels,
            ..
        } = self.model;
        let (n, cached, context) = (tokens.len(), self.cache.len, architecture.context);
        if n > context - cached {
            return Err(Error::ContextFull {
                cached,
                new: n,
                context,
            });
        }

        let positions = weights.positions.as_ref().ok_or(ONLY_GPT2)?;
        let x = self.activations.x.rows_mut(n);
        kernels.embedding(
            x,
            tokens,
            &values(&weights.embedding)?,
            &values(positions)?,
            cached,
        )?;
        for (layer, block) in weights.blocks.iter().enumerate() {
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
    fn attend(&mut self, layer: usize, block: &Block<Device>, n: usize) -> Result<(), Error> {
        let Gpt2 {
            architecture,
            kernels,
            attention,
            ..
        } = self.model;
        let a = &mut self.activations;

        kernels.layernorm(
            a.normed.rows_mut(n),
            a.x.rows(n),
            &block.attention_norm.weight,
            bias(&block.attention_norm.bias)?,
            architecture.norm_epsilon,
        )?;
        self.model
            .matmul(a.qkv.rows_mut(n), a.normed.rows(n), &block.qkv.weight)?;
        kernels.bias_add(a.qkv.rows_mut(n), bias(&block.qkv.bias)?)?;
        kernels.append_kv(&mut self.cache, layer, a.qkv.rows(n))?;

        let shape = attention_shape(architecture, n, self.cache.len + n);
        let LayerCache { k, v } = &self.cache.layers[layer];
        let inputs = AttentionInputs {
            q: a.qkv.rows(n),
            k: k.as_view(),
            v: v.as_view(),
            mask: None,
        };
        let outputs = AttentionOutputs {
            o: a.attended.rows_mut(n),
            lse: None,
        };
        attention.attention(variant(n), inputs, outputs, &shape)?;

        self.model
            .matmul(a.update.rows_mut(n), a.attended.rows(n), &block.out.weight)?;
        kernels.residual_add(a.x.rows_mut(n), a.update.rows(n), bias(&block.out.bias)?)
    }
    // ANCHOR_END: attend

    /// `x += linear(gelu(linear(layernorm(x))))` for the `n` newest tokens.
    // ANCHOR: feed_forward
    fn feed_forward(&mut self, block: &Block<Device>, n: usize) -> Result<(), Error> {
        let Gpt2 {
            architecture,
            kernels,
            ..
        } = self.model;
        let a = &mut self.activations;

        kernels.layernorm(
            a.normed.rows_mut(n),
            a.x.rows(n),
            &block.mlp_norm.weight,
            bias(&block.mlp_norm.bias)?,
            architecture.norm_epsilon,
        )?;
        self.model
            .matmul(a.hidden.rows_mut(n), a.normed.rows(n), &block.up.weight)?;
        kernels.bias_add(a.hidden.rows_mut(n), bias(&block.up.bias)?)?;
        kernels.gelu_tanh(a.hidden.rows_mut(n))?;
        self.model
            .matmul(a.update.rows_mut(n), a.hidden.rows(n), &block.down.weight)?;
        kernels.residual_add(a.x.rows_mut(n), a.update.rows(n), bias(&block.down.bias)?)
    }
    // ANCHOR_END: feed_forward

    /// The logits of the last of the `n` newest tokens: its normed row times the token embedding transposed.
    fn logits(&mut self, n: usize) -> Result<Vec<f32>, Error> {
        let Gpt2 {
            architecture,
            kernels,
            attention,
            weights,
            stream,
        } = self.model;
        let a = &mut self.activations;

        let last = a.x.row(n - 1);
        kernels.layernorm(
            a.normed.rows_mut(1),
            last,
            &weights.norm.weight,
            bias(&weights.norm.bias)?,
            architecture.norm_epsilon,
        )?;
        let (normed, wte, logits) = (
            a.normed.rows(1),
            values(&weights.embedding)?,
            a.logits.rows_mut(1),
        );
        let shape = Gemm::nt(1, architecture.vocab, architecture.hidden);
        attention.gemm_nt(variant(1), normed, wte, logits, &shape)?;
        Ok(stream.clone_dtoh(&a.logits.rows(1))?)
    }
}

/// Where attention finds its tensors. The heads of a query lie side by side in its row of `qkv`, and the heads of
/// the output go side by side into its row: strides say so, and nothing moves to split or merge heads.
fn attention_shape(architecture: &Architecture, nq: usize, nk: usize) -> AttentionShape {
    let Architecture {
        heads,
        head_dim,
        hidden: c,
        context,
        ..
    } = *architecture;
    let sizes = Sizes {
        batch: 1,
        heads,
        kv_heads: heads,
        nq,
        nk,
        head_dim,
    };
    let cached = Strides {
        batch: 0,
        head: context * head_dim,
        row: head_dim,
    };
    AttentionShape {
        causal: true,
        q: Strides {
            batch: 0,
            head: head_dim,
            row: 3 * c,
        },
        k: cached,
        v: cached,
        o: Strides {
            batch: 0,
            head: head_dim,
            row: c,
        },
        ..AttentionShape::packed(sizes)
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

/// The matrices of a forward pass, allocated once with `n_ctx` rows each; a pass over `n` tokens uses the first
/// `n`.
#[derive(Debug)]
struct Activations {
    /// The residual stream, `[n_ctx, C]`.
    x: Rows,
    /// Output of a layer norm, `[n_ctx, C]`.
    normed: Rows,
    /// Queries, keys and values side by side, `[n_ctx, 3C]`.
    qkv: Rows,
    /// Output of attention, its heads side by side, `[n_ctx, C]`.
    attended: Rows,
    /// Hidden layer of the feed-forward part, `[n_ctx, F]`.
    hidden: Rows,
    /// What is about to be added to `x`, `[n_ctx, C]`.
    update: Rows,
    /// `[1, V]`.
    logits: Rows,
}

impl Activations {
    fn new(stream: &Arc<CudaStream>, architecture: &Architecture) -> Result<Self, Error> {
        let matrix = |rows, columns| -> Result<Rows, Error> {
            Ok(Rows {
                values: stream.alloc_zeros(rows * columns)?,
                columns,
            })
        };
        let (rows, c) = (architecture.context, architecture.hidden);
        Ok(Self {
            x: matrix(rows, c)?,
            normed: matrix(rows, c)?,
            qkv: matrix(rows, 3 * c)?,
            attended: matrix(rows, c)?,
            hidden: matrix(rows, architecture.inner)?,
            update: matrix(rows, c)?,
            logits: matrix(1, architecture.vocab)?,
        })
    }
}

/// A row-major matrix on the device.
#[derive(Debug)]
struct Rows {
    values: CudaSlice<f32>,
    columns: usize,
}

impl Rows {
    /// The first `n` rows.
    fn rows(&self, n: usize) -> CudaView<'_, f32> {
        self.values.slice(..n * self.columns)
    }

    /// The first `n` rows, to be written.
    fn rows_mut(&mut self, n: usize) -> CudaViewMut<'_, f32> {
        self.values.slice_mut(..n * self.columns)
    }

    /// One row.
    fn row(&self, index: usize) -> CudaView<'_, f32> {
        self.values
            .slice(index * self.columns..(index + 1) * self.columns)
    }
}

/// Tiles pay when several rows share a loaded weight. With fewer rows than a tile has, 16, the rest of it is empty
/// and computed all the same: a decode step, of one row, would do 16 times its work.
fn variant(rows: usize) -> Variant {
    if rows < 16 {
        Variant::Naive
    } else {
        Variant::Tiled
    }
}
