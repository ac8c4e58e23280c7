//! Task `flash`: FlashAttention-2 on the tiles of one head.

#![allow(unused)] // remove this line when nothing is left to do

use ndarray::{Array2, ArrayViewMut1, ArrayViewMut2, s};

use crate::{Head, tiles};

/// Queries of a tile, the paper's `B_r`. Choose it.
const BLOCK_Q: usize = 64;

/// Keys of a tile, the paper's `B_c`. Choose it.
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
pub fn attend_head(head: &Head<'_>, o: ArrayViewMut2<'_, f32>, lse: ArrayViewMut1<'_, f32>) {
    // for rows in tiles(0..head.q.nrows(), BLOCK_Q) { … }
    todo!("TODO, task 3/flash: the tiles")
}
