use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use ndarray::{Array3, Array4, ArrayView3, ArrayView4, ArrayViewMut2, Axis, s};
use stage1_reference::{Error as ProblemError, Mask, Options, Sizes, Tile};

use crate::fast::lanes::LaneMatrix;
use crate::fast::masks::HeadMask;
use crate::fast::simd::{Kernels, Old, kernels};
use crate::fast::spread::spread;
use crate::{Error, Output, Tiles};

/// Gradients of a loss with respect to the inputs of attention, which
/// [`attention_backward()`] returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradients {
    /// By the queries, `[B, H, nq, D]`.
    pub dq: Array4<f32>,
    /// By the keys, `[B, H_kv, nk, D]`.
    pub dk: Array4<f32>,
    /// By the values, `[B, H_kv, nk, D]`.
    pub dv: Array4<f32>,
}

/// The gradients of a loss by `q`, `k` and `v`, given its gradient `d_o` by the
/// output `o` of [`attention()`].
///
/// The scores were never kept: each tile of them is computed again from `q`, `k` and `lse`.
/// `output` is what the forward pass returned for the same `q`, `k`, `v` and `options`; `d_o` is
/// `[B, H, nq, D]`. Memory is as in the forward pass, and `nq` floats for each head. The order in
/// which threads add to `dq` may change its last bits from run to run.
///
/// The scores are those of the forward pass, bit for bit; the weights are as exact as `lse`, which
/// rounds at 6 · 10⁻⁸ of itself: with scores of 10,000 they may be a share of 5 · 10⁻⁴ off. NaN or
/// infinity in an input, or a score of +∞, may reach any gradient of its head.
///
/// # Errors
///
/// As [`attention()`], and [`Error::Problem`] if `o`, `lse` or `d_o` has the wrong shape.
///
/// [`attention()`]: crate::attention()
pub fn attention_backward(
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
    output: &Output,
    d_o: ArrayView4<'_, f32>,
) -> Result<Gradients, Error> {
    attention_backward_with_tiles(q, k, v, options, output, d_o, Tiles::BACKWARD)
}

/// [`attention_backward()`], with tiles of another size.
///
/// # Errors
///
/// As [`attention_backward()`], and [`Error::EmptyTile`].
pub fn attention_backward_with_tiles(
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
    output: &Output,
    d_o: ArrayView4<'_, f32>,
    tiles: Tiles,
) -> Result<Gradients, Error> {
    attention_backward_by(kernels(), q, k, v, options, output, d_o, tiles)
}

/// [`attention_backward_with_tiles()`], with one of the compiled sets.
#[expect(
    clippy::too_many_arguments,
    reason = "those of the public function, and the set"
)]
pub(crate) fn attention_backward_by(
    simd: &'static Kernels,
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
    output: &Output,
    d_o: ArrayView4<'_, f32>,
    tiles: Tiles,
) -> Result<Gradients, Error> {
    let sizes = Sizes::of(OPERATION, q.dim(), k.dim(), v.dim())?;
    let mask = options.combined(OPERATION, &sizes)?;
    let tiles = tiles.fit(OPERATION, sizes.nq, sizes.nk)?;
    let scale = options.scale.unwrap_or(sizes.default_scale());
    let Output { o, lse } = output;
    for (argument, shape) in [("o", o.shape()), ("d_o", d_o.shape())] {
        same_shape(argument, shape, q.shape())?;
    }
    same_shape("lse", lse.shape(), &q.shape()[..3])?;

    let mut gradients = Gradients {
        dq: Array4::zeros(q.raw_dim()), // line 3
        dk: Array4::zeros(k.raw_dim()),
        dv: Array4::zeros(v.raw_dim()),
    };
    // line 4: D = rowsum(dO ∘ O)
    let delta = Array3::from_shape_fn(lse.raw_dim(), |(b, h, i)| {
        let row = s![b, h, i, ..];
        d_o.slice(row).dot(&o.slice(row))
    });
    let problem = Problem {
        q,
        k,
        v,
        d_o,
        lse: lse.view(),
        delta: delta.view(),
        options,
        scale,
        mask,
        sizes,
        tiles,
        simd,
    };
    problem.solve(&mut gradients);
    Ok(gradients)
}

const OPERATION: &str = "attention_backward";

fn same_shape(argument: &'static str, shape: &[usize], expected: &[usize]) -> Result<(), Error> {
    if shape == expected {
        return Ok(());
    }
    Err(Error::Problem(ProblemError::Shape {
        operation: OPERATION,
        argument,
        actual: shape.to_vec(),
        expected: format!("{expected:?} to fit `q`"),
    }))
}

/// A turn of the outer loop: some keys of one head, and where their gradients go.
struct KeyTile<'a> {
    b: usize,
    h_kv: usize,
    keys: Range<usize>,
    dk_j: ArrayViewMut2<'a, f32>, // [keys, D]
    dv_j: ArrayViewMut2<'a, f32>, // [keys, D]
}

/// The rows of `dq` of one tile of queries. Several tiles of keys add to them, maybe at once.
/// (On a GPU: atomic adds.)
type QueryGradient<'a> = Mutex<ArrayViewMut2<'a, f32>>; // [queries, D]

/// State of a thread between tiles. The tile of keys stays while the queries pass by,
/// so keys are columns here.
struct Scratch {
    k_j: LaneMatrix,    // [keys, D]
    k_j_t: LaneMatrix,  // [D, keys]
    v_j_t: LaneMatrix,  // [D, keys]
    dk_j_t: LaneMatrix, // [D, keys]
    dv_j_t: LaneMatrix, // [D, keys]
    p_ij: LaneMatrix,   // [queries, keys]
    ds_ij: LaneMatrix,  // [queries, keys]
    dq_i: LaneMatrix,   // [queries, D]
    lse_i: Vec<f32>,    // [queries]
    delta_i: Vec<f32>,  // [queries]
}

impl Scratch {
    fn new(Tiles { queries, keys }: Tiles, head_dim: usize) -> Self {
        Self {
            k_j: LaneMatrix::new(keys, head_dim),
            k_j_t: LaneMatrix::new(head_dim, keys),
            v_j_t: LaneMatrix::new(head_dim, keys),
            dk_j_t: LaneMatrix::new(head_dim, keys),
            dv_j_t: LaneMatrix::new(head_dim, keys),
            p_ij: LaneMatrix::new(queries, keys),
            ds_ij: LaneMatrix::new(queries, keys),
            dq_i: LaneMatrix::new(queries, head_dim),
            lse_i: Vec::with_capacity(queries),
            delta_i: Vec::with_capacity(queries),
        }
    }
}

struct Problem<'a> {
    q: ArrayView4<'a, f32>,     // [B, H, nq, D]
    k: ArrayView4<'a, f32>,     // [B, H_kv, nk, D]
    v: ArrayView4<'a, f32>,     // [B, H_kv, nk, D]
    d_o: ArrayView4<'a, f32>,   // [B, H, nq, D]
    lse: ArrayView3<'a, f32>,   // [B, H, nq]
    delta: ArrayView3<'a, f32>, // [B, H, nq]
    options: &'a Options,
    scale: f32,
    mask: Mask<'a>,
    sizes: Sizes,
    tiles: Tiles,
    simd: &'static Kernels,
}

impl Problem<'_> {
    fn solve(&self, gradients: &mut Gradients) {
        let Gradients { dq, dk, dv } = gradients;
        // lines 1 and 2: tile i of head h of sequence b is number ((b H) + h) T + i.
        let mut dq_tiles: Vec<QueryGradient<'_>> = Vec::new();
        for dq in dq.outer_iter_mut() {
            for dq in dq.into_outer_iter_mut() {
                dq_tiles.extend(cut(dq, self.tiles.queries).map(|(_, dq_i)| Mutex::new(dq_i)));
            }
        }
        let mut key_tiles = Vec::new();
        for (b, (dk, dv)) in dk.outer_iter_mut().zip(dv.outer_iter_mut()).enumerate() {
            for (h_kv, (dk, dv)) in dk
                .into_outer_iter_mut()
                .zip(dv.into_outer_iter_mut())
                .enumerate()
            {
                let dv = cut(dv, self.tiles.keys);
                for ((keys, dk_j), (_, dv_j)) in cut(dk, self.tiles.keys).zip(dv) {
                    // The first keys come first: under a causal mask they are
                    // seen by the most queries.
                    key_tiles.push(KeyTile {
                        b,
                        h_kv,
                        keys,
                        dk_j,
                        dv_j,
                    });
                }
            }
        }
        let scratch = || Scratch::new(self.tiles, self.sizes.head_dim);
        spread(key_tiles, scratch, |scratch, tile| {
            self.differentiate(scratch, tile, &dq_tiles)
        });
    }

    /// The part of one tile of keys in all gradients. The numbers are the lines of Algorithm 2.
    fn differentiate(&self, scratch: &mut Scratch, tile: KeyTile<'_>, dq: &[QueryGradient<'_>]) {
        let KeyTile {
            b,
            h_kv,
            keys,
            mut dk_j,
            mut dv_j,
        } = tile;
        // Padding is never read.
        let keys = keys.start..keys.end.min(self.mask.key_length(b)).max(keys.start);
        let (n, d) = (keys.len(), self.sizes.head_dim);
        let (scale, simd) = (self.scale, self.simd);

        // line 6: load Kⱼ and Vⱼ
        let k = self.k.slice(s![b, h_kv, keys.clone(), ..]); // [keys, D]
        let v = self.v.slice(s![b, h_kv, keys.clone(), ..]); // [keys, D]
        scratch
            .k_j
            .view_mut(n, 0..d)
            .slice_mut(s![.., ..d])
            .assign(&k);
        scratch
            .k_j_t
            .view_mut(d, 0..n)
            .slice_mut(s![.., ..n])
            .assign(&k.t());
        scratch
            .v_j_t
            .view_mut(d, 0..n)
            .slice_mut(s![.., ..n])
            .assign(&v.t());
        // line 7: dKⱼ = 0, dVⱼ = 0
        scratch.dk_j_t.view_mut(d, 0..n).fill(0.0);
        scratch.dv_j_t.view_mut(d, 0..n).fill(0.0);

        let group = self.sizes.group();
        // Without heads of queries there is a group of none.
        for h in h_kv * group..self.sizes.heads.min((h_kv + 1) * group) {
            let mask = HeadMask {
                mask: self.mask,
                options: self.options,
                b,
                h,
            };
            // line 8: for each tile of queries that sees some of the keys
            let size = self.tiles.queries;
            let seen = mask.queries(&keys, self.sizes.nq);
            for i in seen.start / size..seen.end.div_ceil(size) {
                let queries = i * size..self.sizes.nq.min((i + 1) * size);
                let kind = mask.tile(&queries, &keys);
                if kind == Tile::Masked {
                    continue;
                }
                let m = queries.len();
                // line 9: load Qᵢ, dOᵢ, Lᵢ, Dᵢ
                let q_i = self.q.slice(s![b, h, queries.clone(), ..]); // [queries, D]
                let do_i = self.d_o.slice(s![b, h, queries.clone(), ..]); // [queries, D]
                scratch.lse_i.clear();
                scratch
                    .lse_i
                    .extend(self.lse.slice(s![b, h, queries.clone()]));
                scratch.delta_i.clear();
                scratch
                    .delta_i
                    .extend(self.delta.slice(s![b, h, queries.clone()]));
                // line 10: S = Qᵢ Kⱼᵀ, times the scale: bit for bit what it was in the forward pass
                let mut p_ij = scratch.p_ij.view_mut(m, 0..n);
                simd.mat_mul(
                    q_i,
                    scratch.k_j_t.view(d, 0..n),
                    Old::Replaced(scale),
                    p_ij.view_mut(),
                );
                if kind == Tile::Mixed {
                    mask.apply(p_ij.slice_mut(s![.., ..n]), &queries, &keys);
                }
                // line 11: P = exp(S − Lᵢ)
                simd.softmax(p_ij.view_mut(), &scratch.lse_i);
                // line 13: dP = dOᵢ Vⱼᵀ, times Z
                let mut ds_ij = scratch.ds_ij.view_mut(m, 0..n);
                simd.mat_mul(
                    do_i,
                    scratch.v_j_t.view(d, 0..n),
                    Old::Replaced(1.0),
                    ds_ij.view_mut(),
                );
                let z = mask.factors(&self.sizes, queries, keys.clone());
                if let Some(z) = &z {
                    let mut dp = ds_ij.slice_mut(s![.., ..n]);
                    dp *= z;
                }
                // line 14: dS = P ∘ (dP − Dᵢ)
                simd.score_gradient(ds_ij.view_mut(), p_ij.view(), &scratch.delta_i);
                // line 12: dVⱼ += Pᵀ dOᵢ, where P is times Z: so it comes after line 14
                if let Some(z) = &z {
                    let mut p = p_ij.slice_mut(s![.., ..n]);
                    p *= z;
                }
                let dv_j_t = scratch.dv_j_t.view_mut(d, 0..n);
                simd.mat_mul(do_i.t(), p_ij.view(), Old::Kept, dv_j_t);
                // line 15: dQᵢ += dS Kⱼ, times the scale
                let mut dq_i = scratch.dq_i.view_mut(m, 0..d);
                let (ds, k_j) = (ds_ij.slice(s![.., ..n]), scratch.k_j.view(n, 0..d));
                simd.mat_mul(ds, k_j, Old::Replaced(scale), dq_i.view_mut());
                let number = (b * self.sizes.heads + h) * self.sizes.nq.div_ceil(size) + i;
                let mut sum = dq[number].lock().unwrap_or_else(PoisonError::into_inner);
                *sum += &dq_i.slice(s![.., ..d]);
                drop(sum);
                // line 16: dKⱼ += dSᵀ Qᵢ
                let dk_j_t = scratch.dk_j_t.view_mut(d, 0..n);
                simd.mat_mul(q_i.t(), ds_ij.view(), Old::Kept, dk_j_t);
            } // line 17
        }
        // line 18: write dKⱼ, times the scale, and dVⱼ
        let mut dk_j = dk_j.slice_mut(s![..n, ..]);
        let mut dv_j = dv_j.slice_mut(s![..n, ..]);
        dk_j.zip_mut_with(
            &scratch.dk_j_t.view(d, 0..n).slice(s![.., ..n]).t(),
            |to, x| *to = scale * x,
        );
        dv_j.assign(&scratch.dv_j_t.view(d, 0..n).slice(s![.., ..n]).t());
    }
}

/// Cuts a matrix into pieces of `size` rows, each with its range of rows.
fn cut(
    matrix: ArrayViewMut2<'_, f32>,
    size: usize,
) -> impl Iterator<Item = (Range<usize>, ArrayViewMut2<'_, f32>)> {
    let rows = matrix.nrows();
    let mut rest = Some(matrix);
    (0..rows).step_by(size).filter_map(move |start| {
        let end = rows.min(start + size);
        let (piece, remaining) = rest.take()?.split_at(Axis(0), end - start);
        rest = Some(remaining);
        Some((start..end, piece))
    })
}
