use super::SequenceId;

/// Error of an operation on page tables. The operation has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// A page size outside [`PAGE_SIZES`](crate::PAGE_SIZES).
    #[error("`page_size`: expected 16 to 256 tokens, got {actual}")]
    PageSize {
        /// Tokens of a page, as given.
        actual: usize,
    },

    /// The pool would have more tokens than [`MAX_SIZE`](gpu::arguments::MAX_SIZE).
    #[error("`pages`: expected at most {limit} of {page_size} tokens, got {actual}")]
    TooManyPages {
        /// Tokens of a page.
        page_size: usize,
        /// Most pages of this size.
        limit: usize,
        /// Pages, as given.
        actual: usize,
    },

    /// An append needs more pages than are free, those of copy-on-write included.
    #[error("out of pages: the append needs {needed}, and {free} are free")]
    OutOfPages {
        /// Pages that the append would take.
        needed: usize,
        /// Pages that no sequence holds.
        free: usize,
    },

    /// The sequence was freed, or belongs to other page tables.
    #[error("{sequence} is not in these page tables")]
    UnknownSequence {
        /// The sequence, as given.
        sequence: SequenceId,
    },

    /// One append names a sequence twice.
    #[error("one append names {sequence} twice")]
    RepeatedSequence {
        /// The sequence.
        sequence: SequenceId,
    },
}

impl PageError {
    /// The argument that was refused.
    pub fn argument(&self) -> &'static str {
        match self {
            Self::PageSize { .. } => "page_size",
            Self::TooManyPages { .. } => "pages",
            Self::OutOfPages { .. } => "new",
            Self::UnknownSequence { .. } | Self::RepeatedSequence { .. } => "sequence",
        }
    }
}
