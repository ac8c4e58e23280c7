use std::fmt;

/// A part of the problem that an implementation may lack: see
/// [`Options::features`](crate::Options::features) and
/// [`Error::Unsupported`](crate::Error::Unsupported).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// A scale other than the default one.
    Scale,
    /// The causal mask.
    Causal,
    /// A sliding window.
    Window,
    /// Key lengths of the sequences.
    KeyLengths,
    /// An additive mask.
    AdditiveMask,
    /// A block-sparse mask.
    BlockSparse,
    /// Dropout of the weights.
    Dropout,
    /// Fewer heads of `k` and `v` than of `q`.
    GroupedHeads,
    /// Tensors that are not packed.
    Strides,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scale => "scale",
            Self::Causal => "causal mask",
            Self::Window => "window",
            Self::KeyLengths => "key lengths",
            Self::AdditiveMask => "additive mask",
            Self::BlockSparse => "block-sparse mask",
            Self::Dropout => "dropout",
            Self::GroupedHeads => "grouped heads",
            Self::Strides => "strides",
        })
    }
}
