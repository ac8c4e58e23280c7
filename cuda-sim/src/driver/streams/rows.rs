//! Rows of bytes in two memories.

/// Distances of rows and of slices in a memory, from first byte to first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distances {
    pub(crate) row: usize,
    pub(crate) slice: usize,
}

/// Bytes that are copied: slices of rows. That their last byte has an address is checked where they
/// are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Bytes of a row.
    pub(crate) bytes: usize,
    /// Rows of a slice; at least 1.
    pub(crate) rows: usize,
    /// At least 1.
    pub(crate) slices: usize,
    pub(crate) to: Distances,
    pub(crate) from: Distances,
}

impl Rows {
    /// One row.
    pub(crate) fn one(bytes: usize) -> Self {
        let none = Distances { row: 0, slice: 0 };
        Self {
            bytes,
            rows: 1,
            slices: 1,
            to: none,
            from: none,
        }
    }

    /// The same bytes in as few rows as possible: rows that follow each other without a gap on both
    /// sides are one.
    pub(crate) fn joined(self) -> Self {
        let Self { to, from, .. } = self;
        let joined = match to.row == self.bytes && from.row == self.bytes {
            true => Self {
                bytes: self.bytes * self.rows,
                rows: 1,
                ..self
            },
            false => self,
        };
        let is_dense = to.slice == joined.bytes && from.slice == joined.bytes;
        match joined.rows == 1 && is_dense {
            true => Self::one(joined.bytes * joined.slices),
            false => joined,
        }
    }

    /// The same rows, read from a memory in which they follow each other without a gap.
    pub(crate) fn with_dense_source(self) -> Self {
        let from = Distances {
            row: self.bytes,
            slice: self.bytes * self.rows,
        };
        Self { from, ..self }
    }

    /// Bytes that are copied.
    pub(crate) fn total(&self) -> usize {
        self.bytes * self.rows * self.slices
    }

    /// Bytes from the first to the last, with the gaps, on the side with these distances.
    pub(crate) fn extent(&self, side: Distances) -> usize {
        (self.slices - 1) * side.slice + (self.rows - 1) * side.row + self.bytes
    }

    /// Beginning of each row: bytes behind the first, to copy to and from.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Self {
            rows,
            slices,
            to,
            from,
            ..
        } = *self;
        (0..slices).flat_map(move |slice| {
            (0..rows).map(move |row| {
                let at = |side: Distances| slice * side.slice + row * side.row;
                (at(to), at(from))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_gaps_are_one() {
        let dense = Distances { row: 4, slice: 12 };
        let gaps = Distances { row: 5, slice: 15 };
        let gap_behind = Distances { row: 4, slice: 13 };
        let rows = |to, from| Rows {
            bytes: 4,
            rows: 3,
            slices: 2,
            to,
            from,
        };
        assert_eq!(rows(dense, dense).joined(), Rows::one(24));
        assert_eq!(rows(dense, gaps).joined(), rows(dense, gaps));
        let slices = rows(gap_behind, dense).joined();
        assert_eq!((slices.bytes, slices.rows, slices.slices), (12, 1, 2));
        for rows in [rows(dense, gaps), rows(gap_behind, dense), slices] {
            assert_eq!((rows.total(), rows.joined().total()), (24, 24));
            let (to, from) = rows.starts().last().expect("a row");
            assert_eq!(to + rows.bytes, rows.extent(rows.to));
            assert_eq!(from + rows.bytes, rows.extent(rows.from));
            let staged = rows.with_dense_source();
            assert_eq!(staged.extent(staged.from), 24);
        }
    }
}
