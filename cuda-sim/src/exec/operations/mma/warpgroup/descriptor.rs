//! Matrix descriptors of `wgmma`: where a tile of A or B lies in shared memory.
//!
//! | bits | field | here |
//! |---|---|---|
//! | 0-13 | start address / 16 | `start` |
//! | 16-29 | leading dimension byte offset / 16 | LBO |
//! | 32-45 | stride dimension byte offset / 16 | SBO |
//! | 49-51 | base offset | `base_offset` |
//! | 62-63 | swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32 | W = 1, 8, 4, 2 chunks in a row |
//!
//! A *chunk* is 16 bytes. It never changes inside. These are the chunks of a tile before the
//! swizzle, as offsets from `start`. K-major: chunk c of row r has the columns of A (rows of B)
//! from 16c bytes on. MN-major: chunk c of column k has the rows 8c to 8c + 7, of 16 bits each.
//!
//! | major | swizzle | offset |
//! |---|---|---|
//! | K | none | 16 · (r mod 8) + SBO · (r div 8) + LBO · c |
//! | K | W chunks | 16W · (r mod 8) + SBO · (r div 8) + 16 · c |
//! | MN | none | 16 · (k mod 8) + LBO · (k div 8) + SBO · c |
//! | MN | W chunks | 16W · (k mod 8) + SBO · (k div 8) + 16 · (c mod W) + LBO · (c div W) |
//!
//! The swizzle changes bits of the absolute address: the number of the chunk within its row of
//! 128, 64 or 32 bytes is combined by exclusive or with the bits from 7 on. A pattern of 8, 4 or 2
//! rows of 128 bytes repeats. Where it does not begin at a multiple of its size, `base_offset` has
//! bits 7 to 9 of the place where it begins, and counts from there; no GPU was asked for that.

use std::fmt;

use crate::tensor_map::Swizzle;

/// A descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    base_offset: u64,
    pub swizzle: Swizzle,
}

/// Order of the elements of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Major {
    /// Along the depth of the product.
    K,
    /// Along the rows of A or the columns of B, which are its rows here.
    Mn,
}

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 16;

impl Descriptor {
    pub(crate) fn new(bits: u64) -> Descriptor {
        let offset = |bit: u32| (bits >> bit & 0x3fff) << 4;
        Descriptor {
            start: offset(0),
            leading: offset(16),
            stride: offset(32),
            base_offset: bits >> 49 & 7,
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::Bytes128,
                2 => Swizzle::Bytes64,
                _ => Swizzle::Bytes32,
            },
        }
    }

    /// Address in shared memory of the element in `row` and column `k`, of `bytes` bytes.
    #[inline(always)]
    pub(crate) fn address(&self, major: Major, row: usize, k: usize, bytes: usize) -> u64 {
        let (line, byte) = match major {
            Major::K => (row, k * bytes),
            Major::Mn => (k, row * bytes),
        };
        self.chunk(major, line, byte / CHUNK) + (byte % CHUNK) as u64
    }

    /// Address of the first byte of a chunk. MN-major, `line` is a column, and `c` counts chunks of
    /// eight rows.
    #[inline(always)]
    pub(crate) fn first_of(&self, major: Major, line: usize, c: usize) -> u64 {
        match major {
            Major::K => self.address(major, line, CHUNK * c, 1),
            Major::Mn => self.address(major, 8 * c, line, 2),
        }
    }

    /// Address of chunk `c` of a row, or, MN-major, of a column.
    #[inline(always)]
    fn chunk(&self, major: Major, line: usize, c: usize) -> u64 {
        let (line, c, chunk) = (line as u64, c as u64, CHUNK as u64);
        let width = width(self.swizzle);
        let within = chunk * width * (line % 8);
        let across = match (major, self.swizzle) {
            (Major::K, Swizzle::None) => self.stride * (line / 8) + self.leading * c,
            (Major::K, _) => self.stride * (line / 8) + chunk * c,
            (Major::Mn, Swizzle::None) => self.leading * (line / 8) + self.stride * c,
            (Major::Mn, _) => {
                self.stride * (line / 8) + chunk * (c % width) + self.leading * (c / width)
            }
        };
        let address = self.start + within + across;
        let row = (address >> 7).wrapping_sub(self.base_offset) & (width - 1);
        address ^ row << 4
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Descriptor {
            start,
            leading,
            stride,
            base_offset,
            swizzle,
        } = self;
        write!(
            f,
            "start address {start:#x}, leading byte offset {leading}, stride byte offset {stride}, base offset \
             {base_offset}, "
        )?;
        write!(f, "{swizzle}")
    }
}

/// Chunks in a row, which the swizzle exchanges.
#[inline(always)]
fn width(swizzle: Swizzle) -> u64 {
    u64::from(swizzle.span().map_or(1, |span| span / CHUNK as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(start: u64, leading: u64, stride: u64, swizzle: u64) -> Descriptor {
        Descriptor::new(start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62)
    }

    /// The exclusive or as the PTX manual draws it, by bits: `count` bits from 4 on change with
    /// those from 7 on.
    fn swizzled(address: u64, count: u32) -> u64 {
        (0..count).fold(address, |address, bit| {
            address ^ (address >> (7 + bit) & 1) << (4 + bit)
        })
    }

    /// Offset of a place in a layout of CuTe: of each mode the sizes and strides, the first one
    /// fastest.
    fn offset(modes: &[(&[u64], &[u64])], places: &[u64]) -> u64 {
        let mut sum = 0;
        for ((sizes, strides), &place) in modes.iter().zip(places) {
            let mut left = place;
            for (size, stride) in sizes.iter().zip(*strides) {
                sum += left % size * stride;
                left /= size;
            }
            assert_eq!(left, 0, "{place} is beyond {sizes:?}");
        }
        sum
    }

    /// The canonical layouts of CUTLASS, in elements: T to a chunk, of `bytes` bytes each.
    fn canonical(
        major: Major,
        swizzle: u64,
        [leading, stride]: [u64; 2],
        bytes: u64,
        [row, k]: [u64; 2],
    ) -> u64 {
        let t = 16 / bytes;
        let [lbo, sbo] = [leading / bytes, stride / bytes];
        let all = u64::MAX;
        let elements = match (major, swizzle) {
            (Major::K, 0) => offset(&[(&[8, all], &[t, sbo]), (&[t, 2], &[1, lbo])], &[row, k]),
            (Major::K, mode) => {
                let width = [8, 4, 2][mode as usize - 1];
                offset(
                    &[(&[8, all], &[width * t, sbo]), (&[t, 2], &[1, t])],
                    &[row, k],
                )
            }
            (Major::Mn, 0) => offset(&[(&[t, all], &[1, sbo]), (&[8, all], &[t, lbo])], &[row, k]),
            (Major::Mn, mode) => {
                let width = [8, 4, 2][mode as usize - 1];
                let rows = (&[t, width, all][..], &[1, t, lbo][..]);
                offset(&[rows, (&[8, all], &[width * t, sbo])], &[row, k])
            }
        };
        elements * bytes
    }

    #[test]
    fn every_element_of_every_layout_is_where_the_canonical_layouts_have_it() {
        for major in [Major::K, Major::Mn] {
            for swizzle in 0..4 {
                let bits = [0, 3, 2, 1][swizzle as usize];
                for bytes in [1, 2, 4] {
                    if major == Major::Mn && bytes != 2 {
                        continue;
                    }
                    for [leading, stride] in [[128, 256], [4096, 1024], [2048, 512], [16, 4096]] {
                        for start in [0, 1024, 1024 + 32, 8192 + 96] {
                            let tile = descriptor(start, leading, stride, swizzle);
                            for row in 0..256 {
                                for k in 0..32 / bytes {
                                    let place = [row, k];
                                    let plain =
                                        canonical(major, swizzle, [leading, stride], bytes, place);
                                    let wanted = swizzled(start + plain, bits);
                                    let got = tile.address(
                                        major,
                                        row as usize,
                                        k as usize,
                                        bytes as usize,
                                    );
                                    assert_eq!(got, wanted, "{major:?} {tile} row {row}, k {k}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_pattern_may_begin_anywhere() {
        // Row r of a tile of 128 bytes a row, which begins at 0x380: as if it began at 0.
        let whole = descriptor(0, 0, 1024, 1);
        let bits = 0x380 >> 4 | 1024 >> 4 << 32 | 7 << 49 | 1 << 62;
        let moved = Descriptor::new(bits);
        for row in 0..16 {
            for k in 0..16 {
                let at = |tile: Descriptor| tile.address(Major::K, row, k, 2);
                assert_eq!(at(moved), at(whole) + 0x380, "row {row}, k {k}");
            }
        }
    }

    #[test]
    fn the_text_names_every_field() {
        let tile = descriptor(0x420, 64, 1024, 1);
        assert_eq!(
            tile.to_string(),
            "start address 0x420, leading byte offset 64, stride byte offset 1024, base offset 0, swizzle of 128 bytes"
        );
        assert_eq!(
            Descriptor::new(3 << 49).to_string(),
            "start address 0x0, leading byte offset 0, stride byte offset 0, base offset 3, no swizzle"
        );
    }
}
