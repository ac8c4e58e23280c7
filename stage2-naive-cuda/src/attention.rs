use cudarc::driver::{CudaView, CudaViewMut};
use gpu::arguments::Strides;
use ndarray::ArrayView4;
use serde::{Deserialize, Serialize};
use stage1_reference::{Feature, Options, Output, Sizes};

use crate::{Additive, Axis, Error, Gemm, Kernels, ScaleAndMask, Softmax, Variant, host};

/// What attention of this stage cannot do.
pub const LACKS: [Feature; 3] = [Feature::Window, Feature::KeyLengths, Feature::BlockSparse];

/// The sizes, strides and modifiers of an attention problem in device memory.
///
/// ```
/// use stage1_reference::Sizes;
/// use stage2_naive_cuda::{AttentionShape, Strides};
/// // One decode step: 1 query, 20 cached keys in a cache `[H, capacity, D]`, H = 4, capacity = 256, D = 64.
/// let sizes = Sizes { batch: 1, heads: 4, kv_heads: 4, nq: 1, nk: 20, head_dim: 64 };
/// let cache = Strides { batch: 0, head: 256 * 64, row: 64 };
/// let shape = AttentionShape { k: cache, v: cache, causal: true, ..AttentionShape::packed(sizes) };
/// assert_eq!(shape.sizes.nk, 20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AttentionShape {
    /// The sizes.
    pub sizes: Sizes,
    /// What the scores are multiplied by; `1 / sqrt(D)` if `None`.
    pub scale: Option<f32>,
    /// Whether query `i` sees only the keys `j ≤ i + nk − nq`.
    pub causal: bool,
    /// Strides of `q`, `[B, H, nq, D]`.
    pub q: Strides,
    /// Strides of `k`, `[B, H_kv, nk, D]`.
    pub k: Strides,
    /// Strides of `v`, `[B, H_kv, nk, D]`.
    pub v: Strides,
    /// Strides of `o`, `[B, H, nq, D]`.
    pub o: Strides,
}

/// The device memory that attention reads.
#[derive(Debug)]
pub struct AttentionInputs<'a> {
    /// Queries, `[B, H, nq, D]`.
    pub q: CudaView<'a, f32>,
    /// Keys, `[B, H_kv, nk, D]`.
    pub k: CudaView<'a, f32>,
    /// Values, `[B, H_kv, nk, D]`.
    pub v: CudaView<'a, f32>,
    /// An additive mask, if there is one.
    pub mask: Option<Additive<'a>>,
}

/// The device memory that attention writes.
#[derive(Debug)]
pub struct AttentionOutputs<'a> {
    /// The attended values, `[B, H, nq, D]`.
    pub o: CudaViewMut<'a, f32>,
    /// The log-sum-exp of each row of scores, packed `[B, H, nq]`; not written if `None`.
    pub lse: Option<CudaViewMut<'a, f32>>,
}

impl AttentionShape {
    /// Packed `[B, H, N, D]` tensors, the default scale and no causal mask.
    pub const fn packed(sizes: Sizes) -> Self {
        let Sizes {
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
            ..
        } = sizes;
        let queries = Strides::packed(heads, nq, head_dim);
        let keys = Strides::packed(kv_heads, nk, head_dim);
        Self {
            sizes,
            scale: None,
            causal: false,
            q: queries,
            k: keys,
            v: keys,
            o: queries,
        }
    }
}

impl Kernels {
    /// Attention in four launches: `o = softmax(scale · q kᵀ + mask) v`.
    ///
    /// Allocates the scores, `[B, H, nq, nk]` f32, on the stream, and frees them there. A row that sees no key gets
    /// `o = 0` and `lse = −inf`.
    ///
    /// # Errors
    ///
    /// Sizes that do not divide, views too short for their strides, overlapping rows of `o`, a view on another
    /// device, sizes beyond 2³⁰: see [`Error`]. All are found before the first launch. After it, only the driver can fail.
    pub fn attention(
        &self,
        variant: Variant,
        inputs: AttentionInputs<'_>,
        outputs: AttentionOutputs<'_>,
        shape: &AttentionShape,
    ) -> Result<(), Error> {
        let AttentionInputs { q, k, v, mask } = inputs;
        let AttentionOutputs { o, lse } = outputs;
        let sizes = shape.sizes;
        let Sizes {
            batch,
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
        } = sizes;
        let rows = batch.saturating_mul(heads).saturating_mul(nq);
        let scale = shape.scale.unwrap_or(sizes.default_scale());
        let packed_scores = Strides::packed(heads, nq, nk);
        let q_by_k = Gemm {
            batch,
            heads,
            b_heads: kv_heads,
            a: shape.q,
            b: shape.k,
            c: packed_scores,
            ..Gemm::nt(nq, nk, head_dim)
        };
        let p_by_v = Gemm {
            n: head_dim,
            k: nk,
            a: packed_scores,
            b: shape.v,
            c: shape.o,
            ..q_by_k
        };

        // Every check of the four steps, so that none of them fails after another was launched.
        sizes.check("attention")?;
        let checks = self.checks("attention");
        checks.scale(scale)?;
        checks.sizes([("batch", batch), ("heads", heads), ("nq", nq), ("nk", nk)])?;
        checks.input("q", &q, [batch, heads, nq, head_dim], shape.q)?;
        checks.input("k", &k, [batch, kv_heads, nk, head_dim], shape.k)?;
        checks.input("v", &v, [batch, kv_heads, nk, head_dim], shape.v)?;
        checks.output("o", &o, [batch, heads, nq, head_dim], shape.o)?;
        if let Some(mask) = &mask {
            checks.input("mask", &mask.values, [batch, heads, nq, nk], mask.strides)?;
        }
        if let Some(lse) = &lse {
            checks.input("lse", lse, [1, 1, 1, rows], Strides::default())?;
        }
        for blocks in [q_by_k.blocks(variant), rows, p_by_v.blocks(variant)] {
            checks.grid(blocks)?;
        }
        if rows == 0 {
            return Ok(());
        }

        let count = rows.saturating_mul(nk);
        // A driver allocates no 0 bytes, and without keys there are no scores.
        // SAFETY: the first product writes every score before the next step reads it.
        let mut scores = unsafe { self.stream.alloc::<f32>(count.max(1)) }?;

        // ANCHOR: attention
        self.gemm_nt(variant, q, k, scores.as_view_mut(), &q_by_k)?;
        let masking = ScaleAndMask {
            batch,
            heads,
            nq,
            nk,
            scale,
            causal: shape.causal,
        };
        self.scale_and_mask(scores.as_view_mut(), mask, &masking)?;
        let by_row = Softmax {
            batch: batch * heads,
            rows: nq,
            columns: nk,
            axis: Axis::Last,
        };
        self.softmax(scores.as_view_mut(), lse, &by_row)?;
        self.gemm_nn(variant, scores.as_view(), v, o, &p_by_v)
        // ANCHOR_END: attention
    }

    /// [`Kernels::attention`] on arrays in host memory: copies them to the device, computes, waits, and copies back.
    ///
    /// `q` is `[B, H, nq, D]`, `k` and `v` are `[B, H_kv, nk, D]`, in any memory layout.
    ///
    /// # Errors
    ///
    /// As [`stage1_reference::attention`], those of [`Kernels::attention`], and
    /// [`Unsupported`](stage1_reference::Error::Unsupported) for the [`LACKS`].
    pub fn attention_host(
        &self,
        variant: Variant,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        let shape = |sizes| AttentionShape {
            scale: options.scale,
            causal: options.causal,
            ..AttentionShape::packed(sizes)
        };
        host::attention(
            &self.stream,
            [q, k, v],
            options,
            |inputs, outputs, sizes| {
                options.refuse("attention", &LACKS)?;
                self.attention(variant, inputs, outputs, &shape(sizes))
            },
        )
    }
}
