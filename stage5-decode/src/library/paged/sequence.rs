use std::fmt::{self, Display, Formatter};

/// Identifier of a sequence in [`PageTables`](super::PageTables). It is not used again
/// after the sequence was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub(super) u64);

impl Display for SequenceId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "sequence {}", self.0)
    }
}
