use std::cmp::Reverse;
use std::mem::MaybeUninit;
use std::ops::Range;

use ndarray::{Array1, Array3, Array4, ArrayView4, ArrayViewMut2, s};
use stage1_reference::{Mask, Options, Output, Sizes, Tile};

use crate::fast::lanes::{LaneMatrix, lanes};
use crate::fast::masks::{HeadMask, cut};
use crate::fast::simd::{Kernels, Old, kernels};
use crate::fast::spread::spread;
use crate::{Error, Tiles};

/// Attention: `o = softmax(scale · q kᵀ + mask) v`, in f32, tile by tile. The function of stage
/// 1, with all its options.
///
/// `q` is `[B, H, nq, D]`; `k` and `v` are `[B, H_kv, nk, D]` with `H % H_kv == 0`. Their strides
/// may be any. Apart from its result it needs less than 1 MiB for each thread of rayon's current
/// pool, and about 200 bytes for each tile of queries.
///
/// A score is the product of a query and a key, times the scale, in f32, as in stage 1; no check is
/// made that product and score are within its range. If one of a query's is +∞ there, its `o` and
/// `lse` are NaN; a key whose score is −∞ counts as hidden from it.
///
/// NaN or infinity in a row of `v` may reach queries that do not see that key but share a tile with
/// one that does, because a weight of 0 times NaN is NaN. It reaches no query that sees no key at
/// all, and padding is never read.
///
/// ```
/// use ndarray::Array4;
/// use stage3_flash_cpu::{Options, attention};
///
/// let q = Array4::<f32>::ones((1, 2, 3, 8));
/// let k = Array4::<f32>::ones((1, 1, 5, 8));
/// let v = Array4::<f32>::from_elem((1, 1, 5, 8), 7.0);
/// let output = attention(q.view(), k.view(), v.view(), &Options::default().causal())?;
/// assert!((output.o[[0, 1, 2, 0]] - 7.0).abs() < 1e-5);
/// # Ok::<(), stage3_flash_cpu::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Problem`]: shapes that do not fit each other, a mask that does not broadcast, a key
/// length above nk, a scale that is not finite, a probability of dropout that is not in `[0, 1)`.
pub fn attention(
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
) -> Result<Output, Error> {
    let sizes = Sizes::of(OPERATION, q.dim(), k.dim(), v.dim())?;
    attention_with_tiles(q, k, v, options, Tiles::for_sizes(&sizes))
}

/// [`attention()`], with tiles of another size.
///
/// # Errors
///
/// As [`attention()`], and [`Error::EmptyTile`].
pub fn attention_with_tiles(
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
    tiles: Tiles,
) -> Result<Output, Error> {
    attention_by(kernels(), q, k, v, options, tiles)
}

const OPERATION: &str = "attention";

/// [`attention_with_tiles()`], with one of the compiled sets.
pub(crate) fn attention_by(
    simd: &'static Kernels,
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
    tiles: Tiles,
) -> Result<Output, Error> {
    let sizes = Sizes::of(OPERATION, q.dim(), k.dim(), v.dim())?;
    let mask = options.combined(OPERATION, &sizes)?;
    let tiles = tiles.fit(OPERATION, sizes.nq, sizes.nk)?;
    let scale = options.scale.unwrap_or(sizes.default_scale());
    // The threads write the zeros of their tiles: here one thread would write all of them.
    let mut o = Array4::uninit((sizes.batch, sizes.heads, sizes.nq, sizes.head_dim));
    let mut lse = Array3::uninit((sizes.batch, sizes.heads, sizes.nq));
    let problem = Problem {
        q,
        k,
        v,
        options,
        scale,
        mask,
        sizes,
        tiles,
        simd,
    };
    // lines 1 to 3, and 16: for each tile of queries
    let query_tiles = problem.divide(&mut o, &mut lse);
    let scratch = || Scratch::new(tiles, sizes.head_dim);
    spread(query_tiles, scratch, |scratch, tile| {
        problem.attend(scratch, tile);
    });
    // SAFETY: the tiles cover both arrays, and `attend` has written each of its tile.
    let (o, lse) = unsafe { (o.assume_init(), lse.assume_init()) };
    Ok(Output { o, lse }) // line 17
}

/// A turn of the outer loop: some queries of one head, and where their results go.
struct QueryTile<'a> {
    mask: HeadMask<'a>,
    queries: Range<usize>,
    /// The keys that some of them see, and maybe more.
    keys: Range<usize>,
    o_i: &'a mut [MaybeUninit<f32>],   // [queries, D]
    lse_i: &'a mut [MaybeUninit<f32>], // [queries]
}

/// Queries whose scores are computed at once: with 128 keys, their tile fits the first-level cache.
const STRIP: usize = 64;

/// State of a thread between tiles. The matrices are the paper's, transposed: queries are columns,
/// so that each SIMD lane computes the softmax of one query.
struct Scratch {
    q_i: LaneMatrix,  // [D, queries]
    s_ij: LaneMatrix, // [keys, strip of queries]
    o_i: LaneMatrix,  // [D, queries]
    m_i: Vec<f32>,    // [queries]
    l_i: Vec<f32>,    // [queries]
    factor: Vec<f32>, // [queries]
}

impl Scratch {
    fn new(Tiles { queries, keys }: Tiles, head_dim: usize) -> Self {
        let per_query = || vec![0.0; lanes(queries)];
        Self {
            q_i: LaneMatrix::new(head_dim, queries),
            s_ij: LaneMatrix::new(keys, queries.min(STRIP)),
            o_i: LaneMatrix::new(head_dim, queries),
            m_i: per_query(),
            l_i: per_query(),
            factor: per_query(),
        }
    }
}

struct Problem<'a> {
    q: ArrayView4<'a, f32>, // [B, H, nq, D]
    k: ArrayView4<'a, f32>, // [B, H_kv, nk, D]
    v: ArrayView4<'a, f32>, // [B, H_kv, nk, D]
    options: &'a Options,
    scale: f32,
    mask: Mask<'a>,
    sizes: Sizes,
    tiles: Tiles,
    simd: &'static Kernels,
}

impl<'a> Problem<'a> {
    /// Attention for one tile of queries. The numbers are the lines of Algorithm 1.
    fn attend(&self, scratch: &mut Scratch, tile: QueryTile<'_>) {
        let QueryTile {
            mask,
            queries,
            keys,
            o_i,
            lse_i,
        } = tile;
        let (n, d) = (lse_i.len(), self.sizes.head_dim);
        let o_i = ArrayViewMut2::from_shape((n, d), zeroed(o_i)).expect(CONTIGUOUS);
        let lse_i = zeroed(lse_i);
        let (h, h_kv) = (mask.h, mask.h / self.sizes.group());
        let q = self.q.slice(s![mask.b, h, .., ..]); // [nq, D]
        let k = self.k.slice(s![mask.b, h_kv, .., ..]); // [nk, D]
        let v = self.v.slice(s![mask.b, h_kv, .., ..]); // [nk, D]
        let simd = self.simd;

        // line 4: load Qᵢ
        let q_i = q.slice(s![queries.clone(), ..]); // [queries, D]
        simd.transpose(q_i, scratch.q_i.view_mut(d, 0..n));
        // line 5: Oᵢ = 0, ℓᵢ = 0, mᵢ = −∞
        scratch.o_i.view_mut(d, 0..n).fill(0.0);
        scratch.l_i.fill(0.0);
        scratch.m_i.fill(f32::NEG_INFINITY);
        // line 6: for each tile of keys …
        for keys in cut(keys, self.tiles.keys) {
            // … and those queries that see some of them, a strip at a time, as a warp
            // takes its share on a GPU
            for lanes in cut(mask.lanes(&queries, &keys), STRIP) {
                let queries =
                    queries.start + lanes.start..queries.end.min(queries.start + lanes.end);
                let keys = mask.seen(&queries, &keys);
                let kind = mask.tile(&queries, &keys);
                if kind == Tile::Masked {
                    continue;
                }
                // line 7: load Kⱼ, Vⱼ
                let k_j = k.slice(s![keys.clone(), ..]); // [keys, D]
                let v_j = v.slice(s![keys.clone(), ..]); // [keys, D]
                let m_i = &mut scratch.m_i[lanes.clone()];
                let l_i = &mut scratch.l_i[lanes.clone()];
                let factor = &mut scratch.factor[..lanes.len()];
                let q_i = scratch.q_i.view(d, lanes.clone());
                let o_i = scratch.o_i.view_mut(d, lanes.clone());
                let mut s_ij = scratch.s_ij.view_mut(keys.len(), 0..lanes.len());
                // line 8: S = Qᵢ Kⱼᵀ, times the scale
                simd.mat_mul(k_j, q_i, Old::Replaced(self.scale), s_ij.view_mut());
                if kind == Tile::Mixed {
                    let s_ij = s_ij.slice_mut(s![.., ..queries.len()]);
                    mask.apply(s_ij.reversed_axes(), &queries, &keys);
                }
                // line 9: m_new = max(m, rowmax(S)), P = exp(S − m_new), ℓ = exp(m − m_new)
                // ℓ + rowsum(P), m = m_new
                simd.online_softmax(s_ij.view_mut(), m_i, l_i, factor);
                // P = P ∘ Z: dropout changes neither m nor ℓ
                if let Some(z) = mask.factors(&self.sizes, queries, keys) {
                    let mut p = s_ij.slice_mut(s![.., ..z.nrows()]);
                    p *= &z.t();
                }
                // line 10: O = diag(exp(m − m_new)) O + P Vⱼ
                simd.mat_mul(v_j.t(), s_ij.view(), Old::Rescaled(factor), o_i);
            }
        } // line 11
        // line 12: O = diag(ℓ)⁻¹ O
        let inverse = Array1::from_iter(scratch.l_i.iter().take(n).map(|l| 1.0 / l));
        let mut o = scratch.o_i.view_mut(d, 0..n);
        let mut o = o.slice_mut(s![.., ..n]);
        o *= &inverse;
        // A query that sees no key has O = 0, whatever the values in its tile.
        for (mut o, &l) in o.columns_mut().into_iter().zip(&scratch.l_i) {
            if l == 0.0 {
                o.fill(0.0);
            }
        }
        // line 13: L = m + ln ℓ, and line 15: write it
        for (lse, (m, l)) in lse_i.iter_mut().zip(scratch.m_i.iter().zip(&scratch.l_i)) {
            *lse = m + l.ln();
        }
        // line 14: write Oᵢ
        simd.transpose(o.view(), o_i);
    }

    /// Cuts the output into tiles of queries. Those of one head stay together, because they read
    /// the same keys; of them the longest come first, so that the threads end together.
    fn divide<'o>(
        &self,
        o: &'o mut Array4<MaybeUninit<f32>>,
        lse: &'o mut Array3<MaybeUninit<f32>>,
    ) -> Vec<QueryTile<'o>>
    where
        'a: 'o,
    {
        let Sizes {
            heads,
            nq,
            head_dim,
            ..
        } = self.sizes;
        let size = self.tiles.queries;
        let mut tiles = Vec::new();
        let o = o.as_slice_mut().expect(CONTIGUOUS);
        let lse = lse.as_slice_mut().expect(CONTIGUOUS);
        // A chunk must not be empty; without queries there are none.
        let o = o.chunks_mut((nq * head_dim).max(1));
        let lse = lse.chunks_mut(nq.max(1));
        for (head, (o, lse)) in o.zip(lse).enumerate() {
            let mask = HeadMask {
                mask: self.mask,
                options: self.options,
                b: head / heads,
                h: head % heads,
            };
            let first = tiles.len();
            let o = o.chunks_mut(size * head_dim);
            for (i, (o_i, lse_i)) in o.zip(lse.chunks_mut(size)).enumerate() {
                let queries = i * size..i * size + lse_i.len();
                let keys = mask.keys(&queries);
                tiles.push(QueryTile {
                    mask,
                    queries,
                    keys,
                    o_i,
                    lse_i,
                });
            }
            tiles[first..].sort_by_key(|tile| Reverse(tile.keys.len()));
        }
        tiles
    }
}

/// Sets memory to 0.
fn zeroed(memory: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    memory.fill(MaybeUninit::new(0.0));
    // SAFETY: all elements have just been written; the two types have the same layout.
    unsafe { &mut *(std::ptr::from_mut(memory) as *mut [f32]) }
}

const CONTIGUOUS: &str = "a fresh array has no gaps";
