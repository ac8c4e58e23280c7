//! Page tables and lengths of sequences, with fork and copy-on-write.

use std::collections::{HashMap, HashSet};

use gpu::arguments::MAX_SIZE;

use super::pages::Pages;
use super::{PageError, SequenceId};
use crate::PAGE_SIZES;

/// A copy of a whole page, of keys and of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCopy {
    /// The page that is read.
    pub from: u32,
    /// The page that is written. No sequence has tokens in it yet.
    pub to: u32,
}

/// Page tables and lengths of a batch, as kernels read them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchTables {
    /// `[B, columns]`: the pages of each sequence, in the order of its tokens; then −1.
    pub entries: Vec<i32>,
    /// Pages of the sequence with the most pages.
    pub columns: usize,
    /// `[B]`: tokens of each sequence.
    pub lengths: Vec<usize>,
}

impl BatchTables {
    /// The same tables with at least `columns` columns.
    pub(super) fn widened(mut self, columns: usize) -> Self {
        if columns > self.columns {
            let rows = self.lengths.len();
            let mut entries = vec![-1; rows * columns];
            for row in 0..rows {
                let of_row = &self.entries[row * self.columns..(row + 1) * self.columns];
                entries[row * columns..][..self.columns].copy_from_slice(of_row);
            }
            (self.entries, self.columns) = (entries, columns);
        }
        self
    }
}

/// Bookkeeping of a paged KV cache: which page holds which tokens of which sequence.
///
/// Token `i` of a sequence is in slot `i % page_size` of page `table[i / page_size]`. The contents
/// of the pages belong to the caller: after [`append`](Self::append) it does the copies that are
/// returned, and then writes the new tokens.
///
/// An operation that returns an error changes nothing.
///
/// ```
/// use stage5_decode::paged::{PageCopy, PageTables};
///
/// let mut tables = PageTables::new(8, 16)?;
/// let a = tables.create();
/// assert!(tables.append(&[(a, 20)])?.is_empty());
/// assert_eq!(tables.table(a)?, [0, 1]); // 16 tokens and 4
/// let b = tables.fork(a)?; // takes no page
/// assert_eq!(tables.append(&[(b, 1)])?, [PageCopy { from: 1, to: 2 }]);
/// assert_eq!((tables.table(a)?, tables.table(b)?), (&[0, 1][..], &[0, 2][..]));
/// # Ok::<(), stage5_decode::paged::PageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageTables {
    page_size: usize,
    pages: Pages,
    sequences: HashMap<SequenceId, Sequence>,
    created: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Sequence {
    /// `ceil(length / page_size)` pages. Only a page that no other sequence holds is written.
    table: Vec<u32>,
    length: usize,
}

impl PageTables {
    /// `pages` free pages of `page_size` tokens, and no sequence.
    ///
    /// # Errors
    ///
    /// [`PageError::PageSize`]; [`PageError::TooManyPages`] if the tokens of all
    /// pages exceed [`MAX_SIZE`].
    pub fn new(pages: usize, page_size: usize) -> Result<Self, PageError> {
        if !PAGE_SIZES.contains(&page_size) {
            return Err(PageError::PageSize { actual: page_size });
        }
        let limit = MAX_SIZE / page_size;
        if pages > limit {
            return Err(PageError::TooManyPages {
                page_size,
                limit,
                actual: pages,
            });
        }
        Ok(Self {
            page_size,
            pages: Pages::new(pages as u32), // at most MAX_SIZE
            sequences: HashMap::new(),
            created: 0,
        })
    }

    /// Tokens of a page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// All pages, free or not.
    pub fn pages(&self) -> usize {
        self.pages.count()
    }

    /// Pages that no sequence holds.
    pub fn free_pages(&self) -> usize {
        self.pages.free()
    }

    /// Sequences that hold `page`. None if there is no such page.
    pub fn references(&self, page: u32) -> Option<u32> {
        ((page as usize) < self.pages()).then(|| self.pages.references(page))
    }

    /// Pages of a sequence, in the order of its tokens.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn table(&self, sequence: SequenceId) -> Result<&[u32], PageError> {
        Ok(&self.sequence(sequence)?.table)
    }

    /// Tokens of a sequence.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn length(&self, sequence: SequenceId) -> Result<usize, PageError> {
        Ok(self.sequence(sequence)?.length)
    }

    /// Page tables and lengths of `batch`, in its order. A sequence may be there twice.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn batch(&self, batch: &[SequenceId]) -> Result<BatchTables, PageError> {
        let sequences = batch.iter().map(|&sequence| self.sequence(sequence));
        let sequences = sequences.collect::<Result<Vec<_>, _>>()?;
        let columns = sequences.iter().map(|sequence| sequence.table.len());
        let columns = columns.max().unwrap_or(0);
        let mut entries = Vec::with_capacity(sequences.len() * columns);
        for (row, sequence) in sequences.iter().enumerate() {
            entries.extend(sequence.table.iter().map(|&page| page as i32));
            entries.resize((row + 1) * columns, -1);
        }
        Ok(BatchTables {
            entries,
            columns,
            lengths: sequences.iter().map(|sequence| sequence.length).collect(),
        })
    }

    /// A new sequence of no tokens.
    pub fn create(&mut self) -> SequenceId {
        self.insert(Sequence::default())
    }

    /// A new sequence with the tokens of `sequence`. It shares its pages, so it takes none.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, PageError> {
        let fork = self.sequence(sequence)?.clone();
        for &page in &fork.table {
            self.pages.share(page);
        }
        Ok(self.insert(fork))
    }

    /// Forgets all tokens of a sequence but the first `length`, and frees pages that no sequence
    /// holds any more. A sequence that has fewer tokens keeps them.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn truncate(&mut self, sequence: SequenceId, length: usize) -> Result<(), PageError> {
        let unknown = PageError::UnknownSequence { sequence };
        let sequence = self.sequences.get_mut(&sequence).ok_or(unknown)?;
        sequence.length = sequence.length.min(length);
        let kept = sequence.length.div_ceil(self.page_size);
        for page in sequence.table.drain(kept..) {
            self.pages.release(page);
        }
        Ok(())
    }

    /// Frees a sequence, and the pages that no other sequence holds.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn free(&mut self, sequence: SequenceId) -> Result<(), PageError> {
        let unknown = PageError::UnknownSequence { sequence };
        for page in self.sequences.remove(&sequence).ok_or(unknown)?.table {
            self.pages.release(page);
        }
        Ok(())
    }

    /// Appends to each sequence the number of tokens beside it: to all sequences, or to
    /// none if there is an error.
    ///
    /// Returns the page copies that must be done before the tokens are written; their order is
    /// free. A sequence whose last page is partly filled and shared gets a copy of it. The last
    /// holder of the page writes in place.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`], [`PageError::RepeatedSequence`], [`PageError::OutOfPages`].
    pub fn append(&mut self, batch: &[(SequenceId, usize)]) -> Result<Vec<PageCopy>, PageError> {
        let mut named = HashSet::new();
        for &(sequence, _) in batch {
            self.sequence(sequence)?;
            if !named.insert(sequence) {
                return Err(PageError::RepeatedSequence { sequence });
            }
        }
        let (needed, free) = (self.needed(batch), self.pages.free());
        if needed > free {
            return Err(PageError::OutOfPages { needed, free });
        }
        Ok(self.extend(batch))
    }

    /// Pages that an append takes: those of the new tokens, and those of copy-on-write.
    fn needed(&self, batch: &[(SequenceId, usize)]) -> usize {
        let mut needed = 0usize;
        let mut dropped = HashMap::<u32, u32>::new(); // references to a page that copies of it have dropped
        for (id, new) in batch {
            let sequence = &self.sequences[id];
            let pages = (sequence.length.saturating_add(*new)).div_ceil(self.page_size);
            needed = needed.saturating_add(pages - sequence.table.len());
            if let Some(page) = sequence.written_by(*new, self.page_size) {
                let dropped = dropped.entry(page).or_default();
                if self.pages.references(page) - *dropped > 1 {
                    *dropped += 1;
                    needed = needed.saturating_add(1);
                }
            }
        }
        needed
    }

    /// Appends to sequences that exist, for which there are pages enough.
    fn extend(&mut self, batch: &[(SequenceId, usize)]) -> Vec<PageCopy> {
        let Self {
            page_size,
            pages,
            sequences,
            ..
        } = self;
        let mut copies = Vec::new();
        let take = |pages: &mut Pages| pages.take().expect("`needed` has counted it");
        for (id, new) in batch {
            let sequence = sequences.get_mut(id).expect("`append` has looked it up");
            if let Some(from) = sequence.written_by(*new, *page_size)
                && pages.references(from) > 1
            {
                let to = take(pages);
                copies.push(PageCopy { from, to });
                pages.release(from);
                sequence.table.pop();
                sequence.table.push(to);
            }
            sequence.length += new;
            let filled = sequence.length.div_ceil(*page_size);
            sequence.table.resize_with(filled, || take(pages));
        }
        copies
    }

    fn sequence(&self, sequence: SequenceId) -> Result<&Sequence, PageError> {
        let unknown = PageError::UnknownSequence { sequence };
        self.sequences.get(&sequence).ok_or(unknown)
    }

    fn insert(&mut self, sequence: Sequence) -> SequenceId {
        let id = SequenceId(self.created);
        self.created += 1;
        self.sequences.insert(id, sequence);
        id
    }
}

impl Sequence {
    /// The page of the sequence that `new` more tokens are written to: its
    /// last, if that has free slots.
    fn written_by(&self, new: usize, page_size: usize) -> Option<u32> {
        let last = self.table.last().copied();
        last.filter(|_| new > 0 && !self.length.is_multiple_of(page_size))
    }
}
