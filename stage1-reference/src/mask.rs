use std::ops::{Range, RangeInclusive};

use ndarray::Array4;

use crate::options::BLOCK;
use crate::{Error, Options, Sizes, Window};

/// Which keys a query sees: all masks of one problem, combined and checked. Made
/// by [`Options::combined`].
///
/// Causal mask and window are one band of diagonals `j − i`; a key length cuts off columns; a
/// block-sparse mask cuts out squares; an additive mask has a value for every score.
///
/// ```
/// use stage1_reference::{Options, Sizes, Tile};
/// let sizes = Sizes { batch: 1, heads: 1, kv_heads: 1, nq: 128, nk: 128, head_dim: 8 };
/// let options = Options::default().causal();
/// let mask = options.combined("example", &sizes)?;
/// assert!(mask.visible(0, 0, 5, 5) && !mask.visible(0, 0, 5, 6));
/// assert_eq!(mask.tile(0, 0, 0..64, 0..64), Tile::Mixed);
/// assert_eq!(mask.tile(0, 0, 0..64, 64..128), Tile::Masked);
/// assert_eq!(mask.tile(0, 0, 64..128, 0..64), Tile::Full);
/// # Ok::<(), stage1_reference::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Mask<'a> {
    options: &'a Options,
    sizes: Sizes,
    /// The first and the last diagonal `j − i` that causal mask and window let through.
    band: (i64, i64),
}

/// Effect of the masks on a tile of scores: some rows × some keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tile {
    /// No row sees any of the keys: the tile can be skipped.
    Masked,
    /// Every row sees all of the keys, and nothing is added to the scores: they
    /// can be used as they are.
    Full,
    /// Anything else: every score needs its [`Mask::bias`].
    Mixed,
}

impl Options {
    /// Checks the options and combines their masks.
    ///
    /// # Errors
    ///
    /// Those of [`Options::check`].
    pub fn combined(&self, operation: &'static str, sizes: &Sizes) -> Result<Mask<'_>, Error> {
        self.check(operation, sizes)?;
        let band = sizes.diagonals(self.causal, self.window);
        Ok(Mask {
            options: self,
            sizes: *sizes,
            band,
        })
    }
}

impl Mask<'_> {
    // ANCHOR: visible
    /// Summand of the scaled score of query `i` and key `j` in batch `b` and head `h`: −inf if any
    /// mask hides the key, else the value of the additive mask, or 0. Keys from nk on are hidden.
    ///
    /// # Panics
    ///
    /// If `b`, `h` or `i` is out of range.
    pub fn bias(&self, b: usize, h: usize, i: usize, j: usize) -> f32 {
        let in_band = self.diagonals().contains(&(signed(j) - signed(i)));
        if !in_band || j >= self.key_length(b) {
            return f32::NEG_INFINITY;
        }
        if let Some(blocks) = &self.options.blocks
            && !broadcast(blocks, b, h, i / BLOCK, j / BLOCK)
        {
            return f32::NEG_INFINITY;
        }
        match &self.options.mask {
            Some(mask) => broadcast(mask, b, h, i, j),
            None => 0.0,
        }
    }

    /// True if query `i` sees key `j` in batch `b` and head `h`: its
    /// [`bias`](Self::bias) is not −inf.
    ///
    /// # Panics
    ///
    /// If `b`, `h` or `i` is out of range.
    pub fn visible(&self, b: usize, h: usize, i: usize, j: usize) -> bool {
        self.bias(b, h, i, j) != f32::NEG_INFINITY
    }
    // ANCHOR_END: visible

    /// The diagonals `j − i` that causal mask and window let through, within
    /// `−nq..=nk`; never empty.
    pub fn diagonals(&self) -> RangeInclusive<i64> {
        self.band.0..=self.band.1
    }

    /// Number of keys of sequence `b`, at most nk. Rows of `k` and `v` from
    /// there on must not be read.
    ///
    /// # Panics
    ///
    /// If there are key lengths and `b` is out of range.
    pub fn key_length(&self, b: usize) -> usize {
        match &self.options.key_lengths {
            Some(lengths) => lengths[b],
            None => self.sizes.nk,
        }
    }

    /// Effect of the masks on the scores of queries `rows` and keys `keys`
    /// in batch `b` and head `h`.
    ///
    /// Exact but for the additive mask, whose values are not looked at: with one, a tile is `Mixed`
    /// unless the other masks make it `Masked`. A tile may be ragged: rows from nq on do not count,
    /// keys from nk on are hidden. A tile without rows or keys is `Masked`. Takes time for each
    /// block of the tile that has a bit, not for each score.
    ///
    /// # Panics
    ///
    /// If `b` or `h` is out of range.
    pub fn tile(&self, b: usize, h: usize, rows: Range<usize>, keys: Range<usize>) -> Tile {
        let rows = rows.start..rows.end.min(self.sizes.nq);
        let seen = keys.start..keys.end.min(self.key_length(b));
        let tile = match &self.options.blocks {
            None => self.in_band(&rows, &seen),
            Some(blocks) => {
                let squares =
                    squares(&rows).flat_map(|r| squares(&seen).map(move |c| (r.clone(), c)));
                let tiles = squares.map(|(rows, keys)| {
                    match broadcast(blocks, b, h, rows.start / BLOCK, keys.start / BLOCK) {
                        true => self.in_band(&rows, &keys),
                        false => Tile::Masked,
                    }
                });
                // Some parts masked and some full is mixed.
                let both = |a, b| if a == b { a } else { Tile::Mixed };
                tiles.reduce(both).unwrap_or(Tile::Masked)
            }
        };
        let exceptions = seen.end < keys.end || self.options.mask.is_some();
        match (tile, exceptions) {
            (Tile::Full, true) => Tile::Mixed,
            _ => tile,
        }
    }

    /// [`Mask::tile`] for causal mask and window alone.
    fn in_band(&self, rows: &Range<usize>, keys: &Range<usize>) -> Tile {
        if rows.is_empty() || keys.is_empty() {
            return Tile::Masked;
        }
        // A rectangle crosses every diagonal from its lower left corner's to
        // its upper right corner's.
        let lower_left = signed(keys.start) - signed(rows.end - 1);
        let upper_right = signed(keys.end - 1) - signed(rows.start);
        let (first, last) = self.band;
        if first <= lower_left && upper_right <= last {
            Tile::Full
        } else if lower_left.max(first) <= upper_right.min(last) {
            Tile::Mixed
        } else {
            Tile::Masked
        }
    }
}

impl Sizes {
    /// First and last diagonal `j − i` that causal mask and window let through, within `−nq..=nk`.
    pub fn diagonals(&self, causal: bool, window: Option<Window>) -> (i64, i64) {
        // Aligned bottom-right: the queries are the last nq of nk tokens, so query i
        // stands at key i + nk − nq.
        let own = signed(self.nk) - signed(self.nq);
        let (left, right) = window.map_or((usize::MAX, usize::MAX), |w| (w.left, w.right));
        let right = if causal { 0 } else { right };
        let first = own.saturating_sub(signed(left)).max(-signed(self.nq));
        let last = own.saturating_add(signed(right)).min(signed(self.nk));
        (first, last)
    }
}

/// The element of an array whose first two axes are repeated where they have length 1.
fn broadcast<T: Copy>(array: &Array4<T>, b: usize, h: usize, i: usize, j: usize) -> T {
    let (batch, heads, ..) = array.dim();
    let b = if batch == 1 { 0 } else { b };
    let h = if heads == 1 { 0 } else { h };
    array[[b, h, i, j]]
}

/// A range cut at the multiples of [`BLOCK`].
fn squares(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = range.clone();
    let blocks = start / BLOCK..end.div_ceil(BLOCK);
    let parts = blocks.map(move |block| start.max(block * BLOCK)..end.min((block + 1) * BLOCK));
    parts.filter(|part| !part.is_empty())
}

/// A size as a signed number; beyond any array, the largest one.
fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
