use cudarc::driver::CudaViewMut;
use gpu::arguments::Strides;
use ndarray::ArrayView4;
use stage1_reference::{Attend, Dropout, Feature, Options, Output, Sizes};

use super::{
    AttentionInputs, AttentionOutputs, Axis, DropoutShape, GemmShape, Kernels, ScaleAndMaskShape,
    SoftmaxShape, host,
};
use crate::{Attention, Call, Error, GemmRung, Ladder, Product, SoftmaxRung, Steps};

/// The options that attention of this stage lacks.
pub const LACKS: [Feature; 3] = [Feature::Window, Feature::KeyLengths, Feature::BlockSparse];

/// The options that the ladder lacks.
pub const LADDER_LACKS: [Feature; 7] = [
    Feature::Window,
    Feature::KeyLengths,
    Feature::BlockSparse,
    Feature::AdditiveMask,
    Feature::Dropout,
    Feature::GroupedHeads,
    Feature::Strides,
];

/// The kernels of [`Kernels::attention`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// The first rungs of the ladder, without the options of [`LADDER_LACKS`].
    Naive,
    /// Those of the library, whose product is tiled.
    Tiled,
}

/// The sizes, strides and modifiers of an attention problem in device memory.
///
/// ```
/// use stage1_reference::Sizes;
/// use stage2_naive_cuda::{AttentionShape, Strides};
/// // One decode step: 1 query, 20 keys in a cache `[H, capacity, D]`, H = 4, capacity = 256,
/// // D = 64.
/// let sizes = Sizes { batch: 1, heads: 4, kv_heads: 4, nq: 1, nk: 20, head_dim: 64 };
/// let cache = Strides { batch: 0, head: 256 * 64, row: 64 };
/// let packed = AttentionShape::packed(sizes);
/// let shape = AttentionShape { k: cache, v: cache, causal: true, ..packed };
/// assert_eq!(shape.sizes.nk, 20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionShape {
    /// The sizes.
    pub sizes: Sizes,
    /// The factor of the scores; `1 / sqrt(D)` if `None`.
    pub scale: Option<f32>,
    /// Hides the keys `j > i + nk − nq` from query `i`.
    pub causal: bool,
    /// Dropout of the weights.
    pub dropout: Option<Dropout>,
    /// Strides of `q`, `[B, H, nq, D]`.
    pub q: Strides,
    /// Strides of `k`, `[B, H_kv, nk, D]`.
    pub k: Strides,
    /// Strides of `v`, `[B, H_kv, nk, D]`.
    pub v: Strides,
    /// Strides of `o`, `[B, H, nq, D]`.
    pub o: Strides,
}

impl AttentionShape {
    /// Packed `[B, H, N, D]` tensors, the default scale, no causal mask and no dropout.
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
            dropout: None,
            q: queries,
            k: keys,
            v: keys,
            o: queries,
        }
    }
}

impl Kernels {
    /// Attention in four launches, or five with dropout: `o = softmax(scale · q kᵀ + mask) v`.
    ///
    /// Allocates the scores, `[B, H, nq, nk]` f32, on the stream, and frees them there. A row that
    /// sees no key gets `o = 0` and `lse = −inf`.
    ///
    /// # Errors
    ///
    /// An option that the variant lacks, a probability of dropout that is not in `[0, 1)`, sizes
    /// that do not divide, views too short for their strides, overlapping rows of `o`, a view on
    /// another device, sizes beyond 2³⁰: see [`Error`]. All are found before the first launch.
    /// After it, only the driver can fail.
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
        let q_by_k = GemmShape {
            batch,
            heads,
            b_heads: kv_heads,
            a: shape.q,
            b: shape.k,
            c: packed_scores,
            ..GemmShape::nt(nq, nk, head_dim)
        };
        let p_by_v = GemmShape {
            product: Product::Nn,
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
        if let Some(dropout) = shape.dropout {
            dropout.check("attention")?;
        }
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
        for blocks in [q_by_k.blocks(), rows, p_by_v.blocks()] {
            checks.grid(blocks)?;
        }
        if variant == Variant::Naive {
            return self.by_ladder(AttentionInputs { q, k, v, mask }, o, lse, shape);
        }
        if rows == 0 {
            return Ok(());
        }

        let count = rows.saturating_mul(nk);
        // A driver allocates no 0 bytes, and without keys there are no scores.
        // SAFETY: the first product writes every score before the next step reads it.
        let mut scores = unsafe { self.stream.alloc::<f32>(count.max(1)) }?;

        self.gemm(q, k, scores.as_view_mut(), &q_by_k)?;
        let masking = ScaleAndMaskShape {
            batch,
            heads,
            nq,
            nk,
            scale,
            causal: shape.causal,
        };
        self.scale_and_mask(scores.as_view_mut(), mask, &masking)?;
        let by_row = SoftmaxShape {
            batch: batch * heads,
            rows: nq,
            columns: nk,
            axis: Axis::Last,
        };
        self.softmax(scores.as_view_mut(), lse, &by_row)?;
        if let Some(dropout) = shape.dropout {
            let dropping = DropoutShape {
                matrices: batch * heads,
                nq,
                nk,
                transposed: false,
                dropout,
            };
            self.dropout(scores.as_view_mut(), &dropping)?;
        }
        self.gemm(scores.as_view(), v, o, &p_by_v)
    }

    /// [`Variant::Naive`], on arguments that fit.
    fn by_ladder(
        &self,
        AttentionInputs { q, k, v, mask }: AttentionInputs<'_>,
        o: CudaViewMut<'_, f32>,
        lse: Option<CudaViewMut<'_, f32>>,
        shape: &AttentionShape,
    ) -> Result<(), Error> {
        let AttentionShape {
            sizes,
            scale,
            causal,
            ..
        } = *shape;
        let packed = AttentionShape::packed(sizes);
        let queries = [sizes.batch, sizes.heads, sizes.nq, sizes.head_dim];
        let keys = [sizes.batch, sizes.kv_heads, sizes.nk, sizes.head_dim];
        let is_packed = shape.q.agrees_with(packed.q, queries)
            && shape.k.agrees_with(packed.k, keys)
            && shape.v.agrees_with(packed.v, keys)
            && shape.o.agrees_with(packed.o, queries);
        let used = [
            (mask.is_some(), Feature::AdditiveMask),
            (shape.dropout.is_some(), Feature::Dropout),
            (sizes.kv_heads != sizes.heads, Feature::GroupedHeads),
            (!is_packed, Feature::Strides),
        ];
        if let Some((_, feature)) = used.into_iter().find(|(used, _)| *used) {
            let operation = "attention";
            return Err(stage1_reference::Error::Unsupported { operation, feature }.into());
        }
        let shape = Attention {
            batch: sizes.batch * sizes.heads,
            nq: sizes.nq,
            nk: sizes.nk,
            head_dim: sizes.head_dim,
            scale: scale.unwrap_or(sizes.default_scale()),
            causal,
        };
        let mut unwanted;
        let lse = match lse {
            Some(lse) => lse,
            None => {
                unwanted = self.stream.alloc_zeros((shape.batch * shape.nq).max(1))?;
                unwanted.as_view_mut()
            }
        };
        let ladder = Ladder {
            stream: self.stream.clone(),
            gemm: GemmRung::Plain,
            softmax: SoftmaxRung::Tree,
        };
        ladder.run(Call::Attention {
            q,
            k,
            v,
            o,
            lse,
            shape,
        })
    }

    /// [`Kernels::attention`] on arrays in host memory: copies them to the device, computes, waits,
    /// and copies back.
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
            dropout: options.dropout,
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

impl Attend for Kernels {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        self.attention_host(Variant::Tiled, q, k, v, options)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
