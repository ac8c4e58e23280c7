use cudarc::driver::CudaView;
use gpu::arguments::{ArgumentError, Checks, MAX_SIZE, Strides};
use serde::{Deserialize, Serialize};

use crate::{CacheShape, CacheView, Dtype, Element, PerSequence};

/// The device memory that decoding writes: `o` `[B, H, nq, D]`, and packed `lse`
/// `[B, H, nq]` if it is wanted.
pub use stage4_flash_cuda::Outputs;

/// The most queries of a sequence in one call.
pub const MAX_QUERIES: usize = 16;

/// The queries of a decoding step: sizes, strides and options. The cache has the other sizes.
///
/// The queries of a sequence are its last `nq` tokens, whose keys and values the cache has already.
/// Query `i` of a sequence of `n` tokens sees the keys `j ≤ n − nq + i`. So the queries of new
/// tokens are the last rows of a sequence, where [`NewTokens`] has its first ones.
///
/// ```
/// use stage5_decode::Shape;
/// let shape = Shape { window: Some(4095), ..Shape::packed(32, 1, 128) };
/// assert_eq!((shape.q.head, shape.q.row), (128, 128));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Heads of `q` and `o`, `H`: a multiple of those of the cache.
    pub heads: usize,
    /// Queries of each sequence: 1 to decode, up to [`MAX_QUERIES`] to check
    /// drafts or to prefill a chunk.
    pub nq: usize,
    /// Factor of the scores; `1 / sqrt(D)` if `None`.
    pub scale: Option<f32>,
    /// Number of keys before its own that a query sees; all if `None`.
    pub window: Option<usize>,
    /// Strides of `q`, `[B, H, nq, D]`.
    pub q: Strides,
    /// Strides of `o`, `[B, H, nq, D]`.
    pub o: Strides,
}

impl Shape {
    /// Packed `[B, H, nq, D]` tensors, the default scale and no window.
    pub const fn packed(heads: usize, nq: usize, head_dim: usize) -> Self {
        Self::new(heads, nq, Strides::packed(heads, nq, head_dim))
    }

    /// Packed `[B, nq, H, D]` tensors, as a projection leaves them; the
    /// default scale and no window.
    pub const fn sequence_first(heads: usize, nq: usize, head_dim: usize) -> Self {
        Self::new(heads, nq, Strides::sequence_first(heads, nq, head_dim))
    }

    const fn new(heads: usize, nq: usize, strides: Strides) -> Self {
        Self {
            heads,
            nq,
            scale: None,
            window: None,
            q: strides,
            o: strides,
        }
    }

    /// Factor of the scores.
    pub fn scale(&self, head_dim: usize) -> f32 {
        self.scale.unwrap_or(1.0 / (head_dim as f32).sqrt())
    }

    /// Number of keys before its own that a query sees, as the kernels take it.
    pub(crate) fn window(&self) -> usize {
        self.window.unwrap_or(MAX_SIZE).min(MAX_SIZE)
    }

    /// Checks everything about the arguments that does not depend on the kernel.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::check`](crate::Cache::check); heads that do not divide, more than
    /// [`MAX_QUERIES`] queries, a scale that is not finite, views too short for their strides,
    /// overlapping rows of `o`, a view of another device.
    pub fn check(
        &self,
        checks: &Checks,
        inputs: &Inputs<'_>,
        outputs: &Outputs<'_>,
    ) -> Result<(), ArgumentError> {
        inputs.cache.check(checks)?;
        let CacheShape {
            batch,
            kv_heads,
            head_dim,
            ..
        } = inputs.cache.shape;
        let (heads, nq) = (self.heads, self.nq);
        checks.groups(heads, kv_heads)?;
        checks.scale(self.scale(head_dim))?;
        checks.sizes([("heads", heads)])?;
        if nq > MAX_QUERIES {
            return Err(checks.error("nq", format_args!("at most {MAX_QUERIES}"), nq));
        }
        let queries = [batch, heads, nq, head_dim];
        checks.input("q", &inputs.q, queries, self.q)?;
        checks.output("o", &outputs.o, queries, self.o)?;
        if let Some(lse) = &outputs.lse {
            let packed = Strides::packed(batch, heads, nq);
            checks.input("lse", lse, [1, batch, heads, nq], packed)?;
        }
        Ok(())
    }
}

/// The device memory that decoding reads.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// Queries, `[B, H, nq, D]`.
    pub q: CudaView<'a, f32>,
    /// Keys and values.
    pub cache: CacheView<'a>,
}

/// Keys and values of new tokens, `[B, H_kv, n, D]` in any element type; in f32 for a rung. The
/// first `counts` rows of a sequence are its last tokens; others are padding.
#[derive(Debug)]
pub struct NewTokens<'a, T = f32> {
    /// Keys.
    pub k: CudaView<'a, T>,
    /// Values.
    pub v: CudaView<'a, T>,
    /// Rows of each sequence.
    pub n: usize,
    /// Strides of `k`.
    pub k_strides: Strides,
    /// Strides of `v`.
    pub v_strides: Strides,
}

impl<'a, T: Element> NewTokens<'a, T> {
    /// Checks the new tokens against a cache of this shape, whose lengths count them already.
    ///
    /// # Errors
    ///
    /// Views too short for their strides, a count above `n` or above the length of the sequence,
    /// a view of another device.
    pub fn check(
        &self,
        checks: &Checks,
        shape: &CacheShape,
        lengths: &PerSequence<'_>,
        counts: &PerSequence<'_>,
    ) -> Result<(), ArgumentError> {
        let tokens = [shape.batch, shape.kv_heads, self.n, shape.head_dim];
        checks.sizes([("n", self.n)])?;
        checks.input("k", &self.k, tokens, self.k_strides)?;
        checks.input("v", &self.v, tokens, self.v_strides)?;
        counts.check(checks, "counts", shape, |b| self.n.min(lengths.host[b]))
    }

    /// The same as f32, which the kernels of the ladder take.
    pub(crate) fn in_f32(self, checks: &Checks) -> Result<NewTokens<'a>, ArgumentError> {
        let same = |x: CudaView<'a, T>| match T::DTYPE {
            // SAFETY: any bits are an f32, and the types are the same.
            Dtype::F32 => unsafe { x.transmute(x.len()) },
            Dtype::F16 | Dtype::Bf16 => None,
        };
        match (same(self.k), same(self.v)) {
            (Some(k), Some(v)) => Ok(NewTokens {
                k,
                v,
                n: self.n,
                k_strides: self.k_strides,
                v_strides: self.v_strides,
            }),
            _ => Err(checks.error("k", "f32", T::DTYPE)),
        }
    }
}
