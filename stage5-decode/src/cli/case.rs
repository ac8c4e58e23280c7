//! A case to be timed: an operation on a cache of some size.

use std::fmt;

use gpu::arguments::MAX_SIZE;
use serde::{Serialize, Serializer};
use stage1_reference::Sizes;
use stage5_decode::{CacheShape, Decode, Dtype, Mode, Shape};

/// A cache of one layer, whose sequences have the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Case {
    /// Sequences, `B`.
    pub batch: usize,
    /// Heads of queries, `H`.
    pub heads: usize,
    /// Heads of keys and values, `H_kv`; divides `heads`.
    pub kv_heads: usize,
    /// Tokens of each sequence.
    pub keys: usize,
    /// Tokens that a sequence can have.
    pub max_seq: usize,
    /// Head dimension, `D`.
    pub head_dim: usize,
    /// Element type of the cache.
    #[serde(serialize_with = "name")]
    pub dtype: Dtype,
    /// Tokens of a page; `None` if the cache is contiguous.
    pub page_size: Option<usize>,
}

/// An operation on the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Attention of the last token of each sequence, in so many splits.
    Decode { mode: Mode, splits: usize },
    /// Writes keys and values of the last `n` tokens into the cache.
    Update { n: usize },
    /// Attention of the last `nq` tokens by stage 4's fused kernel, causal, on
    /// an f32 contiguous cache.
    Stage4 { nq: usize },
}

impl Case {
    /// The shape of the cache.
    pub fn cache(&self) -> CacheShape {
        CacheShape {
            batch: self.batch,
            kv_heads: self.kv_heads,
            max_seq: self.max_seq,
            head_dim: self.head_dim,
            dtype: self.dtype,
        }
    }

    /// Decoding by `mode`, in the number of splits that the rule chooses.
    pub fn decode(&self, decode: Decode, mode: Mode) -> Operation {
        let shape = Shape::packed(self.heads, 1, self.head_dim);
        let splits = decode
            .with_mode(mode)
            .splits(&self.cache(), &shape, self.keys);
        Operation::Decode { mode, splits }
    }

    /// The sizes of attention of the last `nq` tokens.
    pub fn sizes(&self, nq: usize) -> Sizes {
        Sizes {
            batch: self.batch,
            heads: self.heads,
            kv_heads: self.kv_heads,
            nq,
            nk: self.keys,
            head_dim: self.head_dim,
        }
    }

    /// Bytes that decoding one token of each sequence reads and writes at least: keys
    /// and values once, q and o.
    pub fn bytes(&self) -> f64 {
        let row = |heads, bytes| product([self.batch, heads, self.head_dim, bytes]);
        let keys_and_values = 2.0 * self.keys as f64 * row(self.kv_heads, self.dtype.bytes());
        keys_and_values + 2.0 * row(self.heads, size_of::<f32>())
    }

    /// A part of the case whose blocks do what those of the other parts do, and how
    /// many such parts there are.
    pub fn sample(&self, operation: Operation) -> (Self, u64) {
        // A block of `update_cache` moves rows of several heads.
        let kv_heads = match operation {
            Operation::Update { .. } => self.kv_heads,
            Operation::Decode { .. } | Operation::Stage4 { .. } => 1,
        };
        let parts = self.batch * self.kv_heads / kv_heads;
        let part = Self {
            batch: 1,
            heads: self.heads / self.kv_heads * kv_heads,
            kv_heads,
            ..*self
        };
        (part, parts as u64)
    }
}

impl Operation {
    /// Bytes of device memory that the operation needs for a case, about.
    pub fn bytes(self, case: &Case) -> f64 {
        let rows = match self {
            Self::Decode { splits, .. } => 2 + splits,
            Self::Update { n } => 2 + 2 * n,
            Self::Stage4 { nq } => 2 * nq,
        };
        let cache = 2.0 * case.cache().bytes() as f64;
        cache + product([case.batch, case.heads, rows, case.head_dim]) * size_of::<f32>() as f64
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            batch,
            heads,
            kv_heads,
            keys,
            dtype,
            ..
        } = self;
        write!(
            f,
            "B = {batch}, H = {heads}, H_kv = {kv_heads}, {keys} tokens, {dtype}"
        )?;
        match self.page_size {
            Some(page_size) => write!(f, ", pages of {page_size}"),
            None => Ok(()),
        }
    }
}

fn name<S: Serializer>(dtype: &Dtype, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(dtype.name())
}

/// As a number that cannot overflow.
fn product<const N: usize>(factors: [usize; N]) -> f64 {
    factors.into_iter().map(|factor| factor as f64).product()
}

/// An argument: the element type of that name.
pub fn dtype(name: &str) -> Result<Dtype, String> {
    let known = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| format!("it is none of {}", Dtype::ALL.map(Dtype::name).join(", ")))
}

/// An argument: a number of sequences or tokens.
pub fn size(text: &str) -> Result<usize, String> {
    within(text, MAX_SIZE)
}

/// An argument: a number of heads.
pub fn heads(text: &str) -> Result<usize, String> {
    within(text, 1024)
}

/// An argument: a head dimension.
pub fn dim(text: &str) -> Result<usize, String> {
    within(text, Sizes::MAX_HEAD_DIM)
}

fn within(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("it is not from 1 to {most}"))
}
