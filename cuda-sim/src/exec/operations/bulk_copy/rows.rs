//! What a bulk copy moves, row by row: a box of a tensor, or bytes in a row.

use std::ops::Range;

use crate::tensor_map::{MAX_RANK, Swizzle, TensorMap};

/// Bytes of a row, at most: 256 elements of 8 bytes.
pub(super) const MAX_ROW: usize = 2048;

/// What one copy moves between device memory and shared memory.
pub(super) struct Moved {
    /// The tensor map of a tile; `None` for bytes in a row.
    pub map: Option<TensorMap>,
    /// In the order of shared memory.
    pub rows: Vec<Row>,
    /// Bytes of shared memory.
    pub bytes: u64,
}

/// A row, which lies in shared memory from end to end, but for the swizzle.
pub(super) struct Row {
    /// Its first byte, counted from that of the copy.
    pub start: u64,
    pub bytes: u64,
    /// Those of its bytes that device memory has; the others are outside of the tensor.
    pub inside: Range<u64>,
    /// Address in device memory of the first of them.
    pub device: u64,
}

impl Row {
    /// Bytes of device memory.
    pub(super) fn length(&self) -> u64 {
        self.inside.end - self.inside.start
    }

    pub(super) fn is_whole(&self) -> bool {
        self.length() == self.bytes
    }
}

impl Moved {
    /// `bytes` bytes from `device` on.
    pub(super) fn bytes(device: u64, bytes: u64) -> Moved {
        let row = |start: u64| {
            let length = (bytes - start).min(MAX_ROW as u64);
            Row {
                start,
                bytes: length,
                inside: 0..length,
                // Beyond the end of all addresses, it is in no allocation either.
                device: device.saturating_add(start),
            }
        };
        Moved {
            map: None,
            rows: (0..bytes).step_by(MAX_ROW).map(row).collect(),
            bytes,
        }
    }

    /// The box whose first element has these coordinates.
    pub(super) fn tile(map: TensorMap, first: &[i32; MAX_RANK]) -> Moved {
        Moved {
            map: Some(map),
            rows: rows_of_tile(&map, first),
            bytes: map.box_bytes(),
        }
    }

    pub(super) fn swizzle(&self) -> Swizzle {
        self.map.map_or(Swizzle::None, |map| map.swizzle)
    }

    /// Calls `one` with each stretch of shared memory that the copy fills, if its first byte is at
    /// `shared`.
    pub(super) fn each_stretch<E>(
        &self,
        shared: u64,
        mut one: impl FnMut(Range<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (swizzle, bytes) = (self.swizzle(), self.bytes);
        // A swizzle permutes the pieces of each span.
        let span = u64::from(swizzle.span().unwrap_or(1));
        let whole = bytes / span * span;
        if whole > 0 {
            one(shared..shared + whole)?;
        }
        (whole..bytes).step_by(PIECE).try_for_each(|start| {
            let at = swizzle.place(shared + start);
            one(at..at + PIECE as u64)
        })
    }
}

/// Bytes that a swizzle keeps together.
pub(super) const PIECE: usize = 16;

fn rows_of_tile(map: &TensorMap, first: &[i32; MAX_RANK]) -> Vec<Row> {
    let element = u64::from(map.element.bytes());
    let bytes = map.row_bytes();
    // Elements of a row that the tensor has: the same in all rows.
    let size = i64::from(map.box_sizes[0]);
    let low = (-i64::from(first[0])).clamp(0, size);
    let high = (map.sizes[0] as i64 - i64::from(first[0])).clamp(low, size);
    let inside = low as u64 * element..high as u64 * element;
    let column = (i64::from(first[0]) + low).max(0) as u64 * element;
    let mut rows = Vec::with_capacity((map.box_bytes() / bytes) as usize);
    // Counts the rows, the second dimension fastest.
    let mut place = [0; MAX_RANK];
    let mut start = 0;
    loop {
        let mut device = map.address.saturating_add(column);
        let mut has_row = true;
        for i in 1..map.rank {
            let step = i64::from(place[i] * map.element_strides[i]);
            let coordinate = i64::from(first[i]) + step;
            has_row &= (0..map.sizes[i] as i64).contains(&coordinate);
            let distance = (coordinate.max(0) as u64).saturating_mul(map.strides[i]);
            device = device.saturating_add(distance);
        }
        rows.push(Row {
            start,
            bytes,
            inside: if has_row { inside.clone() } else { 0..0 },
            device,
        });
        start += bytes;
        let next = (1..map.rank).find(|&i| {
            place[i] += 1;
            let carries = place[i] == map.box_elements(i);
            if carries {
                place[i] = 0;
            }
            !carries
        });
        if next.is_none() {
            return rows;
        }
    }
}
