use cudarc::driver::CudaView;
use stage1_reference::{Sizes, Window};
use stage2_naive_cuda::{Additive, Strides};

/// The device memory that attention writes: `o` `[B, H, nq, D]`, and packed `lse` `[B, H, nq]` if it is wanted.
pub use stage2_naive_cuda::AttentionOutputs as Outputs;

/// The sizes, strides and options of an attention problem in device memory. Masks that are tensors are in [`Inputs`].
///
/// ```
/// use stage1_reference::{Sizes, Window};
/// use stage4_flash_cuda::Shape;
/// let sizes = Sizes { batch: 2, heads: 8, kv_heads: 2, nq: 100, nk: 100, head_dim: 64 };
/// let shape = Shape { window: Some(Window { left: 16, right: 0 }), ..Shape::sequence_first(sizes) };
/// assert_eq!((shape.q.row, shape.k.row), (8 * 64, 2 * 64));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The sizes.
    pub sizes: Sizes,
    /// What the scores are multiplied by; `1 / sqrt(D)` if `None`.
    pub scale: Option<f32>,
    /// Whether query `i` sees only the keys `j ≤ i + nk − nq`.
    pub causal: bool,
    /// How far a query sees to either side.
    pub window: Option<Window>,
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
    /// Packed `[B, H, N, D]` tensors, the default scale and no mask.
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
        Self::new(sizes, queries, Strides::packed(kv_heads, nk, head_dim))
    }

    /// Packed `[B, N, H, D]` tensors, as a projection leaves them; the default scale and no mask.
    pub const fn sequence_first(sizes: Sizes) -> Self {
        let Sizes {
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
            ..
        } = sizes;
        let queries = Self::rows_of_heads(heads, nq, head_dim);
        Self::new(sizes, queries, Self::rows_of_heads(kv_heads, nk, head_dim))
    }

    const fn rows_of_heads(heads: usize, rows: usize, columns: usize) -> Strides {
        let row = heads.saturating_mul(columns);
        Strides {
            batch: rows.saturating_mul(row),
            head: columns,
            row,
        }
    }

    const fn new(sizes: Sizes, queries: Strides, keys: Strides) -> Self {
        Self {
            sizes,
            scale: None,
            causal: false,
            window: None,
            q: queries,
            k: keys,
            v: keys,
            o: queries,
        }
    }
}

/// The device memory that attention reads.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// Queries, `[B, H, nq, D]`.
    pub q: CudaView<'a, f32>,
    /// Keys, `[B, H_kv, nk, D]`.
    pub k: CudaView<'a, f32>,
    /// Values, `[B, H_kv, nk, D]`.
    pub v: CudaView<'a, f32>,
    /// Added to the scaled scores, if there is one: `[B, H, nq, nk]`.
    pub mask: Option<Additive<'a>>,
    /// How many keys each sequence has, `[B]`, if not nk. Rows of `k` and `v` from there on are not read. The host does
    /// not see these numbers: one that is negative counts as 0, one above nk as nk.
    pub key_lengths: Option<CudaView<'a, i32>>,
    /// Which blocks of 64 × 64 scores are seen, if not all.
    pub blocks: Option<BlockMask<'a>>,
}

/// Which blocks of 64 × 64 scores are seen: a `[B, H, ceil(nq / 64), words]` tensor in device memory, with a bit for
/// each block. Bit `c % 32` of word `c / 32` of a row is block `c` of that row, so a row has
/// `ceil(ceil(nk / 64) / 32)` words.
///
/// A stride of 0 repeats the mask over batches or heads.
#[derive(Debug)]
pub struct BlockMask<'a> {
    /// The words.
    pub bits: CudaView<'a, u32>,
    /// Where they lie, in words.
    pub strides: Strides,
}
