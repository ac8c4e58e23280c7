use ndarray::Array4;
use serde::{Deserialize, Serialize};

use crate::{Dropout, Error, Feature, Sizes};

/// Scale, masks and dropout of an attention problem.
///
/// The default is the default scale, no mask and no dropout. The masks combine: a key is seen only
/// if every mask lets it be. [`Mask`](crate::Mask) is all of them together.
///
/// ```
/// use stage1_reference::Options;
/// let options = Options::default().causal().window(128, 0).scale(0.5);
/// assert!(options.causal);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Options {
    /// Factor of the scores `q kᵀ`; `1 / sqrt(D)` if `None`.
    pub scale: Option<f32>,
    /// Causal mask: query `i` sees only the keys `j ≤ i + nk − nq` (aligned bottom-right: the
    /// last query sees all keys).
    pub causal: bool,
    /// Sliding window: the keys that a query sees to either side.
    pub window: Option<Window>,
    /// Number of keys of each sequence of the batch, `[B]`, each at most nk. The rows of `k` and
    /// `v` from there on are padding: they are never read and may hold anything, NaN included.
    /// Causal mask and window do not move with it.
    pub key_lengths: Option<Vec<usize>>,
    /// Additive mask of the scaled scores: `[B or 1, H or 1, nq, nk]`, where an axis of 1 is
    /// repeated. `−inf` hides a key.
    pub mask: Option<Array4<f32>>,
    /// Block-sparse mask, for blocks of [`BLOCK`] queries × [`BLOCK`] keys:
    /// `[B or 1, H or 1, ceil(nq / 64), ceil(nk / 64)]`, where an axis of 1 is repeated. `true`
    /// shows the block, `false` hides all of it.
    pub blocks: Option<Array4<bool>>,
    /// Dropout of the weights, for training.
    pub dropout: Option<Dropout>,
}

/// Rows and columns of a block of [`Options::blocks`], whatever the tile of an implementation.
pub const BLOCK: usize = 64;

/// A sliding window: query `i` sees the keys `p − left ≤ j ≤ p + right`, where `p = i + nk − nq`
/// (aligned bottom-right, as the causal mask is). `usize::MAX` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Keys seen before position `p`.
    pub left: usize,
    /// Keys seen after position `p`.
    pub right: usize,
}

impl Options {
    /// With this scale instead of `1 / sqrt(D)`.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// With the causal mask: query `i` sees the keys `j ≤ i + nk − nq`. If there are more queries
    /// than keys, the first `nq − nk` see none, and their `o` is 0.
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// With a sliding window of `left` keys before a query's position and `right` keys after it.
    pub fn window(mut self, left: usize, right: usize) -> Self {
        self.window = Some(Window { left, right });
        self
    }

    /// With this many keys in each sequence, `[B]`.
    pub fn key_lengths(mut self, lengths: impl Into<Vec<usize>>) -> Self {
        self.key_lengths = Some(lengths.into());
        self
    }

    /// With an additive mask, `[B or 1, H or 1, nq, nk]`.
    pub fn mask(mut self, mask: Array4<f32>) -> Self {
        self.mask = Some(mask);
        self
    }

    /// With a block-sparse mask, `[B or 1, H or 1, ceil(nq / 64), ceil(nk / 64)]`.
    pub fn blocks(mut self, blocks: Array4<bool>) -> Self {
        self.blocks = Some(blocks);
        self
    }

    /// With dropout of the weights.
    pub fn dropout(mut self, dropout: Dropout) -> Self {
        self.dropout = Some(dropout);
        self
    }

    /// The features that these options use, in the order of [`Feature`]. [`Feature::GroupedHeads`]
    /// and [`Feature::Strides`] are matters of the tensors, and not among them.
    pub fn features(&self) -> Vec<Feature> {
        let used = [
            (self.scale.is_some(), Feature::Scale),
            (self.causal, Feature::Causal),
            (self.window.is_some(), Feature::Window),
            (self.key_lengths.is_some(), Feature::KeyLengths),
            (self.mask.is_some(), Feature::AdditiveMask),
            (self.blocks.is_some(), Feature::BlockSparse),
            (self.dropout.is_some(), Feature::Dropout),
        ];
        let used = used.into_iter().filter(|(used, _)| *used);
        used.map(|(_, feature)| feature).collect()
    }

    /// For an implementation that lacks some features: refuses options that use one.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] names the first. `operation` is the caller's name, for the message.
    pub fn refuse(&self, operation: &'static str, lacks: &[Feature]) -> Result<(), Error> {
        let mut used = self.features().into_iter();
        match used.find(|feature| lacks.contains(feature)) {
            Some(feature) => Err(Error::Unsupported { operation, feature }),
            None => Ok(()),
        }
    }

    /// Checks the options against the sizes of a problem. NaN in the additive
    /// mask is data, not an error.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] names the one of `key_lengths`, `mask` and `blocks` that does not fit,
    /// [`Error::KeyLength`] the sequence that has more than nk keys; [`Error::Scale`] says that the
    /// scale is not finite, [`Error::Dropout`] that the probability is not in `[0, 1)`. `operation`
    /// is the caller's name, for the message.
    pub fn check(&self, operation: &'static str, sizes: &Sizes) -> Result<(), Error> {
        if let Some(scale) = self.scale
            && !scale.is_finite()
        {
            return Err(Error::Scale { operation, scale });
        }
        if let Some(dropout) = &self.dropout {
            dropout.check(operation)?;
        }
        let (batch, heads, nq, nk) = (sizes.batch, sizes.heads, sizes.nq, sizes.nk);
        if let Some(lengths) = &self.key_lengths {
            if lengths.len() != batch {
                let (shape, expected) = ([lengths.len()], format!("[{batch}]"));
                return Err(Error::shape(operation, "key_lengths", &shape, expected));
            }
            if let Some(sequence) = lengths.iter().position(|&length| length > nk) {
                let length = lengths[sequence];
                return Err(Error::KeyLength {
                    operation,
                    sequence,
                    length,
                    nk,
                });
            }
        }
        let broadcasts = |argument, shape: Option<&[usize]>, rows, columns| match shape {
            Some(&[b, h, r, c])
                if !((b == 1 || b == batch)
                    && (h == 1 || h == heads)
                    && (r, c) == (rows, columns)) =>
            {
                let expected = format!("[{batch} or 1, {heads} or 1, {rows}, {columns}]");
                Err(Error::shape(operation, argument, &[b, h, r, c], expected))
            }
            _ => Ok(()),
        };
        broadcasts("mask", self.mask.as_ref().map(|mask| mask.shape()), nq, nk)?;
        let (block_rows, block_columns) = (nq.div_ceil(BLOCK), nk.div_ceil(BLOCK));
        let blocks = self.blocks.as_ref().map(|blocks| blocks.shape());
        broadcasts("blocks", blocks, block_rows, block_columns)
    }
}
