//! What a bulk copy moves, row by row: a box or pixels of a tensor, or bytes in a row.

use std::ops::Range;

use crate::tensor_map::{MAX_RANK, Pixels, Swizzle, TensorMap};

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

    /// The box whose first element has these coordinates; of a map for im2col, the pixels from the
    /// filter's base there on, at these offsets from it.
    pub(super) fn tile(
        map: TensorMap,
        first: &[i32; MAX_RANK],
        offsets: &[u32; MAX_RANK],
    ) -> Moved {
        Moved {
            map: Some(map),
            rows: match &map.pixels {
                Some(pixels) => rows_of_pixels(&map, pixels, first, offsets),
                None => rows_of_tile(&map, first),
            },
            bytes: map.box_bytes(),
        }
    }

    pub(super) fn swizzle(&self) -> Swizzle {
        self.tile_swizzle().unwrap_or(Swizzle::None)
    }

    /// The swizzle of a tile; `None` of bytes in a row.
    pub(super) fn tile_swizzle(&self) -> Option<Swizzle> {
        self.map.map(|map| map.swizzle)
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
    let mut rows = Rows::of(map, first[0]);
    // Counts the rows, the second dimension fastest.
    let mut place = [0; MAX_RANK];
    loop {
        let step = |i: usize| i64::from(place[i] * map.element_strides[i]);
        rows.push(|i| i64::from(first[i]) + step(i));
        let next = (1..map.rank).find(|&i| {
            place[i] += 1;
            let carries = place[i] == map.box_elements(i);
            if carries {
                place[i] = 0;
            }
            !carries
        });
        if next.is_none() {
            return rows.rows;
        }
    }
}

fn rows_of_pixels(
    map: &TensorMap,
    pixels: &Pixels,
    first: &[i32; MAX_RANK],
    offsets: &[u32; MAX_RANK],
) -> Vec<Row> {
    let mut rows = Rows::of(map, first[0]);
    let images = map.rank - 1;
    let mut base = first.map(i64::from);
    for _ in 0..pixels.count {
        rows.push(|i| base[i] + i64::from(offsets[i]));
        // The next base, along the second dimension first; behind the last one, the next image.
        let next = (1..images).find(|&i| {
            let [low, high] = map.bounds(pixels, i);
            base[i] += i64::from(map.element_strides[i]);
            let carries = base[i] > high;
            if carries {
                base[i] = low;
            }
            !carries
        });
        if next.is_none() {
            base[images] += 1;
        }
    }
    rows.rows
}

/// Rows of a tensor, in the order of shared memory.
struct Rows<'m> {
    map: &'m TensorMap,
    /// The bytes of a row that the tensor has, if it has the row: the same in all rows.
    inside: Range<u64>,
    /// Distance of the first of them from the first element of the tensor's row.
    column: u64,
    rows: Vec<Row>,
}

impl Rows<'_> {
    /// No rows yet. Those to come begin at `first` of the innermost dimension.
    fn of(map: &TensorMap, first: i32) -> Rows<'_> {
        let element = u64::from(map.element.bytes());
        let first = i64::from(first);
        let size = i64::from(map.box_sizes[0]);
        let low = (-first).clamp(0, size);
        let high = (map.sizes[0] as i64 - first).clamp(low, size);
        Rows {
            map,
            inside: low as u64 * element..high as u64 * element,
            column: (first + low).max(0) as u64 * element,
            rows: Vec::with_capacity((map.box_bytes() / map.row_bytes()) as usize),
        }
    }

    /// The next row, whose place in the other dimensions `coordinate` tells.
    fn push(&mut self, coordinate: impl Fn(usize) -> i64) {
        let map = self.map;
        let mut device = map.address.saturating_add(self.column);
        let mut has_row = true;
        for i in 1..map.rank {
            let coordinate = coordinate(i);
            has_row &= (0..map.sizes[i] as i64).contains(&coordinate);
            let distance = (coordinate.max(0) as u64).saturating_mul(map.strides[i]);
            device = device.saturating_add(distance);
        }
        let bytes = map.row_bytes();
        self.rows.push(Row {
            start: self.rows.len() as u64 * bytes,
            bytes,
            inside: if has_row { self.inside.clone() } else { 0..0 },
            device,
        });
    }
}
