//! A plain description of a decoder: both model families are turned into it, and
//! everything else reads only this.

use serde::{Deserialize, Serialize};

use crate::Error;

/// The largest value of any size. Kernels take widths as `u32`; the widest row is a few times a
/// size, and no product of two sizes overflows `usize`.
pub(crate) const LARGEST: usize = 1 << 24;

/// The most transformer blocks: eight times those of the deepest model in use.
pub(crate) const MOST_LAYERS: usize = 1024;

/// The widest head of the attention kernels.
pub(crate) const WIDEST_HEAD: usize = 256;

/// A decoder-only transformer: its sizes, and which of the usual parts it is made of.
///
/// Letters in shapes: `C` = hidden, `H` = heads, `H_kv` = kv_heads, `D` = head_dim,
/// `F` = inner, `V` = vocab.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Number of transformer blocks.
    pub layers: usize,
    /// Width of the residual stream, `C`.
    pub hidden: usize,
    /// Query heads per block, `H`; a multiple of `kv_heads`.
    pub heads: usize,
    /// Heads of keys and values per block, `H_kv`.
    pub kv_heads: usize,
    /// Width of one attention head, `D`; `H * D` need not be `C`. Even if positions are rotated.
    pub head_dim: usize,
    /// Width of the hidden layer of the feed-forward part, `F`.
    pub inner: usize,
    /// The most tokens that a sequence may have, prompt and continuation together.
    pub context: usize,
    /// Number of token ids, `V`.
    pub vocab: usize,
    /// Normalisation before attention, before the feed-forward part, and after the last block.
    pub norm: NormKind,
    /// Number that normalisation adds to the variance or the mean square.
    pub norm_epsilon: f32,
    /// Encoding of the position of a token.
    pub positions: Positions,
    /// The feed-forward part.
    pub mlp: Mlp,
    /// One entry per block: a query sees at most so many keys, its own
    /// included; all of them if `None`.
    pub windows: Vec<Option<usize>>,
    /// The linear layers that have a bias.
    pub biases: Biases,
    /// True if the token embedding is the output matrix too.
    pub tied: bool,
    /// The tokens that end a text.
    pub end: Vec<u32>,
}

/// Normalisation of a row of `C` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// `(x − mean) / sqrt(var + epsilon) · weight + bias`, with the biased variance.
    LayerNorm,
    /// `x / sqrt(mean(x²) + epsilon) · weight`.
    RmsNorm,
}

/// Encoding of the position of a token.
#[derive(Debug, Clone, PartialEq)]
pub enum Positions {
    /// A learned row `[C]` per position is added to the token embedding.
    Learned,
    /// Queries and keys are rotated.
    Rope(Rope),
}

/// Rotary position embedding, half-split: with `a = position · inverse_frequencies[i]`, elements
/// `i` and `i + D/2` of a head become `x[i] cos a − x[i + D/2] sin a` and
/// `x[i + D/2] cos a + x[i] sin a`, both times `attention_factor`. transformers rounds `a` to f32.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Radians per position, `[D / 2]`; the scaling of the config is in them already.
    pub inverse_frequencies: Vec<f32>,
    /// Factor of sine and cosine; 1 except with YaRN.
    pub attention_factor: f32,
}

/// The feed-forward part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mlp {
    /// `down(gelu(up(x)))`, with GELU in its tanh form; `up` has `F` rows.
    Gelu,
    /// `down(silu(gate(x)) · up(x))`; the rows of `gate`, then those of `up` are
    /// one matrix of `2F` rows.
    SwiGlu,
}

/// Linear layers of a block that have a bias. The output matrix never has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Biases {
    /// Projection to queries, keys and values.
    pub qkv: bool,
    /// Projection of the attention output.
    pub out: bool,
    /// Both layers of the feed-forward part.
    pub mlp: bool,
}

impl Rope {
    /// `base^(−2i / D)`, without any scaling.
    pub fn plain(base: f64, head_dim: usize) -> Self {
        let wavelengths = Self::wavelengths(base, head_dim);
        Self {
            inverse_frequencies: wavelengths.map(|wavelength| 1.0 / wavelength).collect(),
            attention_factor: 1.0,
        }
    }

    /// `base^(2i / D)`, with the exponent rounded to f32, as transformers does.
    pub(crate) fn wavelengths(base: f64, head_dim: usize) -> impl Iterator<Item = f32> {
        (0..head_dim).step_by(2).map(move |i| {
            let exponent = i as f32 / head_dim as f32;
            base.powf(f64::from(exponent)) as f32
        })
    }
}

impl Architecture {
    /// Rows of the projection to queries, keys and values: `(H + 2 H_kv) D`.
    pub fn qkv_rows(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Rows of the first matrix of the feed-forward part: `F`, or `2F` with a gate.
    pub fn up_rows(&self) -> usize {
        match self.mlp {
            Mlp::Gelu => self.inner,
            Mlp::SwiGlu => 2 * self.inner,
        }
    }
}

/// The model that the course measures: nobody has trained it. LayerNorm, RoPE with base 10000,
/// SwiGLU of four times the width, no biases but those of the norms, a head of its own.
/// [`Weights::random`](crate::Weights::random) fills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dummy {
    /// Number of transformer blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Attention heads.
    pub heads: usize,
    /// Number of token ids.
    pub vocab: usize,
    /// The most tokens that a sequence may have.
    pub context: usize,
}

impl Default for Dummy {
    fn default() -> Self {
        Self {
            layers: 24,
            hidden: 4096,
            heads: 32,
            vocab: 8192,
            context: 4096,
        }
    }
}

impl Dummy {
    /// The decoder of this size.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for a size of 0 or beyond those of any model, and for heads of an odd
    /// width, one above 256, or that do not divide `hidden`.
    pub fn architecture(&self) -> Result<Architecture, Error> {
        let Self {
            layers,
            hidden,
            heads,
            vocab,
            context,
        } = *self;
        let wrong = |setting, found: usize, expected| Error::Setting {
            setting,
            found: found.to_string(),
            expected,
        };
        let sizes = [
            ("hidden", hidden),
            ("heads", heads),
            ("vocab", vocab),
            ("context", context),
        ];
        for (setting, size) in sizes {
            if !(1..=LARGEST).contains(&size) {
                return Err(wrong(setting, size, "1 to 16777216"));
            }
        }
        if !(1..=MOST_LAYERS).contains(&layers) {
            return Err(wrong("layers", layers, "1 to 1024"));
        }
        let head_dim = hidden / heads;
        if head_dim * heads != hidden || head_dim % 2 != 0 || head_dim > WIDEST_HEAD {
            let expected = "a divisor of hidden that gives heads of an even width of at most 256";
            return Err(wrong("heads", heads, expected));
        }
        Ok(Architecture {
            layers,
            hidden,
            heads,
            kv_heads: heads,
            head_dim,
            inner: 4 * hidden,
            context,
            vocab,
            norm: NormKind::LayerNorm,
            norm_epsilon: 1e-5,
            positions: Positions::Rope(Rope::plain(10_000.0, head_dim)),
            mlp: Mlp::SwiGlu,
            windows: vec![None; layers],
            biases: Biases {
                qkv: false,
                out: false,
                mlp: false,
            },
            tied: false,
            end: Vec::new(),
        })
    }
}
