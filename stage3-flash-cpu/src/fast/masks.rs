use std::ops::Range;

use ndarray::{Array2, Array4, ArrayView2, ArrayViewMut1, ArrayViewMut2, s};
use stage1_reference::{BLOCK, Mask, Options, Sizes, Tile};

use crate::fast::lanes::round;

/// The masks and the dropout of one head of one sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadMask<'a> {
    pub mask: Mask<'a>,
    pub options: &'a Options,
    pub b: usize,
    pub h: usize,
}

impl HeadMask<'_> {
    /// From the first key to the last one that any of these queries sees through causal
    /// mask, window and key length.
    pub fn keys(&self, queries: &Range<usize>) -> Range<usize> {
        let (first, last) = self.mask.diagonals().into_inner();
        let end = clamp(queries.end as i64 + last); // the last query sees keys up to `last` after it
        let start = clamp(queries.start as i64 + first);
        start..end.min(self.mask.key_length(self.b)).max(start)
    }

    /// From the first query to the last one that sees any of these keys through causal mask
    /// and window; at most `nq`.
    pub fn queries(&self, keys: &Range<usize>, nq: usize) -> Range<usize> {
        let (first, last) = self.mask.diagonals().into_inner();
        let end = clamp(keys.end as i64 - first).min(nq);
        let start = clamp(keys.start as i64 - last);
        start..end.max(start)
    }

    /// Those of `keys` from the first to the last one that any of these queries sees through causal
    /// mask, window and key length.
    pub fn seen(&self, queries: &Range<usize>, keys: &Range<usize>) -> Range<usize> {
        let seen = self.keys(queries);
        let start = keys.start.max(seen.start);
        start..keys.end.min(seen.end).max(start)
    }

    /// Those of a tile's queries, counted from its first one, that see some of these keys through
    /// causal mask and window; rounded outwards to whole lanes.
    pub fn lanes(&self, queries: &Range<usize>, keys: &Range<usize>) -> Range<usize> {
        let seen = self.queries(keys, queries.end);
        let start = seen.start.clamp(queries.start, queries.end);
        let end = seen.end.clamp(start, queries.end);
        round(start - queries.start..end - queries.start)
    }

    /// The effect of the masks on a tile.
    pub fn tile(&self, queries: &Range<usize>, keys: &Range<usize>) -> Tile {
        self.mask
            .tile(self.b, self.h, queries.clone(), keys.clone())
    }

    /// The factors of the weights of a tile, `[queries, keys]`, with dropout.
    pub fn factors(
        &self,
        sizes: &Sizes,
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Option<Array2<f32>> {
        let matrix = self.b * sizes.heads + self.h;
        (self.options.dropout).map(|dropout| dropout.factors(matrix, queries, keys))
    }

    /// Applies the masks to a tile of scores, `[queries, keys]`: adds the additive one, and sets to
    /// −inf what is hidden. Along one of its axes the tile has no gaps.
    pub fn apply(
        &self,
        mut scores: ArrayViewMut2<'_, f32>,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let Self { options, b, h, .. } = *self;
        if let Some(mask) = &options.mask {
            scores += &head_mask(mask, b, h).slice(s![queries.clone(), keys.clone()]);
        }
        if let Some(blocks) = &options.blocks {
            let blocks = head_mask(blocks, b, h);
            for (i, rows) in blocks_of(queries) {
                for (j, columns) in blocks_of(keys) {
                    if !blocks[[i, j]] {
                        let mut square = scores.slice_mut(s![rows.clone(), columns]);
                        square.fill(f32::NEG_INFINITY);
                    }
                }
            }
        }
        if scores.strides()[1] <= scores.strides()[0] {
            for (i, row) in queries.clone().zip(scores.rows_mut()) {
                hide_outside(row, keys.start, self.keys(&(i..i + 1)));
            }
        } else {
            for (j, column) in keys.clone().zip(scores.columns_mut()) {
                hide_outside(
                    column,
                    queries.start,
                    self.queries(&(j..j + 1), queries.end),
                );
            }
        }
    }
}

/// Sets to −inf the scores outside of `seen`. They lie side by side; the first
/// one has the number `start`.
fn hide_outside(mut scores: ArrayViewMut1<'_, f32>, start: usize, seen: Range<usize>) {
    let scores = scores.as_slice_mut().expect("there are no gaps");
    let place = |number: usize| number.saturating_sub(start).min(scores.len());
    let (first, end) = (place(seen.start), place(seen.end));
    scores[..first].fill(f32::NEG_INFINITY);
    scores[end..].fill(f32::NEG_INFINITY);
}

/// Cuts a range into pieces of `size`.
pub(crate) fn cut(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = range;
    (start..end)
        .step_by(size)
        .map(move |start| start..end.min(start.saturating_add(size)))
}

/// The part of a mask for one head; an axis of 1 is repeated.
fn head_mask<T>(mask: &Array4<T>, b: usize, h: usize) -> ArrayView2<'_, T> {
    let (batch, heads, ..) = mask.dim();
    mask.slice(s![
        if batch == 1 { 0 } else { b },
        if heads == 1 { 0 } else { h },
        ..,
        ..
    ])
}

/// The blocks that a range touches, each with the part of the range in it,
/// counted from the range's start.
fn blocks_of(range: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
    let Range { start, end } = *range;
    (start / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
        let (first, last) = (block * BLOCK, (block + 1) * BLOCK);
        (block, first.max(start) - start..last.min(end) - start)
    })
}

/// A position as an index, 0 if it lies before the first one.
fn clamp(position: i64) -> usize {
    usize::try_from(position).unwrap_or(0)
}
