use cudarc::driver::{CudaView, DeviceSlice};
use gpu::arguments::{ArgumentError, Checks, Strided, Strides};
use serde::{Deserialize, Serialize};
use stage1_reference::{BLOCK, Dropout, Error as Refusal, Feature, Sizes, Window};
use stage2_naive_cuda::Additive;

use crate::Error;

/// The device memory that attention writes: `o` `[B, H, nq, D]`, and packed `lse`
/// `[B, H, nq]` if it is wanted.
pub use stage2_naive_cuda::AttentionOutputs as Outputs;

/// The sizes, strides and options of an attention problem in device memory. Masks that are
/// tensors are in [`Inputs`].
///
/// ```
/// use stage4_flash_cuda::{Shape, Sizes, Window};
/// let sizes = Sizes { batch: 2, heads: 8, kv_heads: 2, nq: 100, nk: 100, head_dim: 64 };
/// let window = Some(Window { left: 16, right: 0 });
/// let shape = Shape { window, ..Shape::sequence_first(sizes) };
/// assert_eq!((shape.q.row, shape.k.row), (8 * 64, 2 * 64));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// The sizes.
    pub sizes: Sizes,
    /// Factor of the scores; `1 / sqrt(D)` if `None`.
    pub scale: Option<f32>,
    /// True if query `i` sees only the keys `j ≤ i + nk − nq`.
    pub causal: bool,
    /// Keys that a query sees to either side.
    pub window: Option<Window>,
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

impl Shape {
    /// Packed `[B, H, N, D]` tensors, the default scale, no mask and no dropout.
    pub const fn packed(sizes: Sizes) -> Self {
        let q = Strides::packed(sizes.heads, sizes.nq, sizes.head_dim);
        let k = Strides::packed(sizes.kv_heads, sizes.nk, sizes.head_dim);
        Self {
            sizes,
            scale: None,
            causal: false,
            window: None,
            dropout: None,
            q,
            k,
            v: k,
            o: q,
        }
    }

    /// Packed `[B, N, H, D]` tensors, as a projection leaves them; the default scale, no mask
    /// and no dropout.
    pub const fn sequence_first(sizes: Sizes) -> Self {
        let packed = Self::packed(sizes);
        let q = Strides::sequence_first(sizes.heads, sizes.nq, sizes.head_dim);
        let k = Strides::sequence_first(sizes.kv_heads, sizes.nk, sizes.head_dim);
        let (v, o) = (k, q);
        Self {
            q,
            k,
            v,
            o,
            ..packed
        }
    }

    /// Factor of the scores.
    pub fn scale(&self) -> f32 {
        self.scale.unwrap_or(self.sizes.default_scale())
    }

    /// True if a weight may be dropped.
    pub(crate) fn drops(&self) -> bool {
        self.dropout.is_some_and(|dropout| dropout.threshold() > 0)
    }

    fn is_packed(&self) -> bool {
        let (packed, queries, keys) = (Self::packed(self.sizes), self.queries(), self.keys());
        self.q.agrees_with(packed.q, queries)
            && self.k.agrees_with(packed.k, keys)
            && self.v.agrees_with(packed.v, keys)
            && self.o.agrees_with(packed.o, queries)
    }

    /// The options that the problem needs.
    fn needs<T>(&self, inputs: &Inputs<'_, T>) -> impl Iterator<Item = Feature> + use<T> {
        let needs = [
            (self.scale.is_some(), Feature::Scale),
            (self.causal, Feature::Causal),
            (self.window.is_some(), Feature::Window),
            (inputs.key_lengths.is_some(), Feature::KeyLengths),
            (inputs.mask.is_some(), Feature::AdditiveMask),
            (inputs.blocks.is_some(), Feature::BlockSparse),
            (self.dropout.is_some(), Feature::Dropout),
            (self.sizes.group() > 1, Feature::GroupedHeads),
            (!self.is_packed(), Feature::Strides),
        ];
        needs
            .into_iter()
            .filter_map(|(needed, feature)| needed.then_some(feature))
    }

    /// For an implementation that lacks some features: refuses a problem that needs one.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unsupported`] names the first. `operation` is the caller's name, for the message.
    pub fn refuse<T>(
        &self,
        operation: &'static str,
        inputs: &Inputs<'_, T>,
        lacks: &[Feature],
    ) -> Result<(), Error> {
        match self.needs(inputs).find(|feature| lacks.contains(feature)) {
            Some(feature) => Err(Refusal::Unsupported { operation, feature }.into()),
            None => Ok(()),
        }
    }

    /// Checks everything about the arguments that does not depend on the kernel.
    ///
    /// # Errors
    ///
    /// Sizes that do not divide or are beyond 2³⁰, a scale that is not finite, a probability of
    /// dropout that is not in `[0, 1)`, views too short for their strides, overlapping rows of `o`,
    /// a view of another device: the first of them.
    pub fn check<T>(
        &self,
        checks: &Checks,
        inputs: &Inputs<'_, T>,
        outputs: &Outputs<'_, T>,
    ) -> Result<(), Error> {
        self.check_inputs(checks, inputs)?;
        checks.output("o", &outputs.o, self.queries(), self.o)?;
        if let Some(lse) = &outputs.lse {
            self.check_rows(checks, "lse", lse)?;
        }
        Ok(())
    }

    /// The part of [`Shape::check`] that is about what attention reads.
    pub(crate) fn check_inputs<T>(
        &self,
        checks: &Checks,
        inputs: &Inputs<'_, T>,
    ) -> Result<(), Error> {
        let s = self.sizes;
        s.check(checks.operation())?;
        checks.scale(self.scale())?;
        if let Some(dropout) = self.dropout {
            dropout.check(checks.operation())?;
        }
        checks.sizes([
            ("batch", s.batch),
            ("heads", s.heads),
            ("nq", s.nq),
            ("nk", s.nk),
        ])?;
        checks.input("q", &inputs.q, self.queries(), self.q)?;
        checks.input("k", &inputs.k, self.keys(), self.k)?;
        checks.input("v", &inputs.v, self.keys(), self.v)?;
        if let Some(mask) = &inputs.mask {
            let scores = [s.batch, s.heads, s.nq, s.nk];
            checks.input("mask", &mask.values, scores, mask.strides)?;
        }
        if let Some(lengths) = &inputs.key_lengths {
            checks.input(
                "key_lengths",
                lengths,
                [1, 1, 1, s.batch],
                Strides::default(),
            )?;
        }
        if let Some(blocks) = &inputs.blocks {
            let words = s.nk.div_ceil(BLOCK).div_ceil(32);
            let shape = [s.batch, s.heads, s.nq.div_ceil(BLOCK), words];
            checks.input("blocks", &blocks.values, shape, blocks.strides)?;
        }
        Ok(())
    }

    /// Checks a packed tensor with a number for each query, `[B, H, nq]`.
    pub(crate) fn check_rows(
        &self,
        checks: &Checks,
        argument: &'static str,
        view: &impl DeviceSlice<f32>,
    ) -> Result<(), ArgumentError> {
        let s = self.sizes;
        checks.packed(argument, view, [s.batch, s.heads, s.nq])
    }

    /// The shape of q and o.
    pub(crate) const fn queries(&self) -> [usize; 4] {
        let s = self.sizes;
        [s.batch, s.heads, s.nq, s.head_dim]
    }

    /// The shape of k and v.
    pub(crate) const fn keys(&self) -> [usize; 4] {
        let s = self.sizes;
        [s.batch, s.kv_heads, s.nk, s.head_dim]
    }
}

/// The device memory that attention reads. `T` is the type of the elements of q, k and v.
#[derive(Debug)]
pub struct Inputs<'a, T = f32> {
    /// Queries, `[B, H, nq, D]`.
    pub q: CudaView<'a, T>,
    /// Keys, `[B, H_kv, nk, D]`.
    pub k: CudaView<'a, T>,
    /// Values, `[B, H_kv, nk, D]`.
    pub v: CudaView<'a, T>,
    /// Added to the scaled scores, if there is one: `[B, H, nq, nk]`, f32. A stride of 0 repeats
    /// the same scores, as those of [`Strides::broadcast`] do.
    pub mask: Option<Additive<'a>>,
    /// Number of keys of each sequence, `[B]`, if not nk. Rows of `k` and `v` from there on change
    /// nothing, but `attention_wgmma.cu` copies some of them. The host does not see these numbers:
    /// one that is negative counts as 0, one above nk as nk.
    pub key_lengths: Option<CudaView<'a, i32>>,
    /// The blocks of 64 × 64 scores that are seen, if not all.
    pub blocks: Option<BlockMask<'a>>,
}

impl<'a, T> Inputs<'a, T> {
    /// Queries, keys and values, without the masks that are tensors.
    pub const fn new(q: CudaView<'a, T>, k: CudaView<'a, T>, v: CudaView<'a, T>) -> Self {
        Self {
            q,
            k,
            v,
            mask: None,
            key_lengths: None,
            blocks: None,
        }
    }
}

/// The blocks of 64 × 64 scores that are seen: a `[B, H, ceil(nq / 64), words]` tensor in device
/// memory, with a bit for each block. Bit `c % 32` of word `c / 32` of a row is block `c` of
/// that row, so a row has `ceil(ceil(nk / 64) / 32)` words; [`gpu::arguments::pack_bits`] makes
/// them. Strides are in words.
pub type BlockMask<'a> = Strided<'a, u32>;
