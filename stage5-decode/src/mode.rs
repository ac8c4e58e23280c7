use std::fmt;

/// Which kernel computes attention on a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// [`Mode::Grouped`] where several rows of `q` see the same keys, `H / H_kv · nq > 1`; else [`Mode::Split`].
    #[default]
    Auto,
    /// Rung 1: a block for each sequence and head.
    Naive,
    /// Rung 2: blocks for parts of a sequence.
    Split,
    /// Rung 3: blocks for parts of a sequence, and for all queries that see it.
    Grouped,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Naive, Self::Split, Self::Grouped];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Naive => "naive",
            Self::Split => "split",
            Self::Grouped => "grouped",
        })
    }
}
