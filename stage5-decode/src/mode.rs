use std::fmt;

use crate::ladder::Rung;

/// Which kernels run: those of the library, or a rung of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// The library's kernels, with every option.
    #[default]
    Library,
    /// A rung: a contiguous cache of its element type, packed tensors, no window. Any other call is
    /// a typed error.
    Rung(Rung),
}

impl Mode {
    /// All modes, in the order of the README's table.
    pub const ALL: [Self; 5] = [
        Self::Rung(Rung::Decode),
        Self::Rung(Rung::Split),
        Self::Rung(Rung::Grouped),
        Self::Rung(Rung::Mma),
        Self::Library,
    ];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library => f.write_str("library"),
            Self::Rung(rung) => f.write_str(rung.name()),
        }
    }
}
