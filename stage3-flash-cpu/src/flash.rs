//! Task `flash`, solved: FlashAttention-2 on the tiles of one head.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayViewMut1, ArrayViewMut2, s};

use crate::{Head, tiles};

/// Queries of a tile, the paper's `B_r`.
const BLOCK_Q: usize = 64;

/// Keys of a tile, the paper's `B_c`.
const BLOCK_KV: usize = 64;

/// Computes `o` `[nq, D]` and `lse` `[nq]` of one head, tile by tile. Both are full of NaN at
/// first: write every element.
///
/// For each tile of at most [`BLOCK_Q`] queries, and in it for each tile of at most
/// [`BLOCK_KV`] keys that it sees:
///
/// 1. the scores of the tile, times the scale; −inf where a query must not see a key
/// 2. the new maximum of each row, the exponentials `p`, the factor `exp(m_old − m_new)`
/// 3. `l` and `o` times that factor, plus the sum of `p`, plus `p · v`
///
/// At the end of a tile of queries `o` is divided by `l`, and `lse = m + ln l`. A query
/// that sees no key has `o = 0` and `lse = −inf`. With the causal mask, query `i` sees
/// the keys `j ≤ i + nk − nq`.
pub fn attend_head(
    head: &Head<'_>,
    mut o: ArrayViewMut2<'_, f32>,
    mut lse: ArrayViewMut1<'_, f32>,
) {
    let Head { q, k, v, .. } = head;
    let ((nq, head_dim), nk) = (q.dim(), k.nrows());
    for rows in tiles(0..nq, BLOCK_Q) {
        let q_i = q.slice(s![rows.clone(), ..]); // [rows, D]
        let mut max = vec![f32::NEG_INFINITY; rows.len()];
        let mut sum = vec![0.0f32; rows.len()];
        let mut o_i = Array2::<f32>::zeros((rows.len(), head_dim));
        // The last query of the tile sees the most keys.
        let seen = match head.causal {
            true => (rows.end + nk).saturating_sub(nq).min(nk),
            false => nk,
        };
        for keys in tiles(0..seen, BLOCK_KV) {
            let k_j = k.slice(s![keys.clone(), ..]); // [keys, D]
            let v_j = v.slice(s![keys.clone(), ..]); // [keys, D]
            let mut p = q_i.dot(&k_j.t()) * head.scale; // the scores at first, [rows, keys]
            for (r, mut row) in p.rows_mut().into_iter().enumerate() {
                if head.causal {
                    let first_hidden = (rows.start + r + 1 + nk).saturating_sub(nq);
                    let hidden = first_hidden.saturating_sub(keys.start).min(keys.len());
                    row.slice_mut(s![hidden..]).fill(f32::NEG_INFINITY);
                }
                // ANCHOR: online_softmax
                let new_max = row.fold(max[r], |max, &score| max.max(score));
                if new_max == f32::NEG_INFINITY {
                    row.fill(0.0); // no key so far, and exp(−inf − −inf) is NaN
                    continue;
                }
                row.mapv_inplace(|score| (score - new_max).exp());
                let factor = (max[r] - new_max).exp();
                sum[r] = sum[r] * factor + row.sum();
                o_i.row_mut(r).mapv_inplace(|x| x * factor);
                max[r] = new_max;
                // ANCHOR_END: online_softmax
            }
            general_mat_mul(1.0, &p, &v_j, 1.0, &mut o_i); // o_i += p · v_j
        }
        for (r, i) in rows.enumerate() {
            lse[i] = max[r] + sum[r].ln(); // −inf + ln 0 = −inf
            let inverse = if sum[r] > 0.0 { 1.0 / sum[r] } else { 0.0 };
            o.row_mut(i).assign(&(&o_i.row(r) * inverse));
        }
    }
}
