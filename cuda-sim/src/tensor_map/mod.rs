//! Tensor maps: what `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` make and bulk copies of
//! tensors read.
//!
//! CUDA says that their 128 bytes are opaque. The layout is this file's own, with what programs
//! rely on: kernels make a map of zeros by `tensormap.replace`, and CUTLASS and Triton clear bit 21
//! of the second 64-bit word, which is unused here. `encode` makes them of a tensor's description.

mod encode;

use std::fmt;

pub use encode::TensorDescription;
pub(crate) use encode::{IMAGE_RANKS, TILED_RANKS, check_multiple, check_rank};

/// Bytes of a tensor map.
pub(crate) const TENSOR_MAP_BYTES: usize = 128;
/// A tensor map lies at a multiple of so many bytes.
pub(crate) const TENSOR_MAP_ALIGNMENT: u64 = 64;

/// Dimensions of a tensor, at most.
pub(crate) const MAX_RANK: usize = 5;
/// Elements of a box in each dimension, at most.
pub(crate) const MAX_BOX: u32 = 256;
/// Distance of the elements that a box takes of a dimension, at most.
pub(crate) const MAX_ELEMENT_STRIDE: u32 = 8;
/// Pixels that an im2col copy moves, at most.
pub(crate) const MAX_PIXELS: u32 = 1024;
/// Dimensions of a tensor between the channels and the images of a batch, at most.
pub(crate) const MAX_SPATIAL: usize = MAX_RANK - 2;
/// Elements of a tensor in each dimension, at most.
pub(crate) const MAX_DIMENSION: u64 = 1 << 32;
/// The first stride that is too large.
pub(crate) const STRIDE_LIMIT: u64 = 1 << 40;
/// Bytes by which addresses and strides of a tensor, and rows of a box, are divisible.
pub(crate) const GRAIN: u64 = 16;

/// A tensor in device memory, and the box of it that one copy moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TensorMap {
    pub address: u64,
    pub element: Element,
    pub rank: usize,
    /// Elements in each dimension, the innermost first. Those behind the rank are 1 here and below.
    pub sizes: [u64; MAX_RANK],
    /// Bytes from an element to the next one in each dimension.
    pub strides: [u64; MAX_RANK],
    /// Elements that a copy spans in each dimension.
    pub box_sizes: [u32; MAX_RANK],
    /// Of these, it takes each `element_strides`-th.
    pub element_strides: [u32; MAX_RANK],
    pub swizzle: Swizzle,
    /// Elements outside are NaN in shared memory; otherwise zero.
    pub fills_nan: bool,
    /// Of a map for im2col: which pixels a copy moves. The box has the channels of one.
    pub pixels: Option<Pixels>,
}

/// The pixels of an im2col copy. The filter's base goes through a bounding box in each image,
/// along the second dimension of the tensor first; a copy begins at one base and moves one pixel
/// for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pixels {
    /// Pixels of a copy.
    pub count: u32,
    /// The least base in each dimension between the channels and the images.
    pub lower: [i16; MAX_SPATIAL],
    /// Distance of the largest base from the last pixel of the image.
    pub upper: [i16; MAX_SPATIAL],
}

/// Type of an element: `CUtensorMapDataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Element {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
    /// Subnormals become zero on the way.
    F32Ftz,
    /// Rounded to 10 bits of fraction on the way.
    Tf32,
    Tf32Ftz,
}

/// Order of the pieces of 16 bytes in shared memory: `CUtensorMapSwizzle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}

impl Element {
    pub(crate) const ALL: [Element; 13] = [
        Element::U8,
        Element::U16,
        Element::U32,
        Element::S32,
        Element::U64,
        Element::S64,
        Element::F16,
        Element::F32,
        Element::F64,
        Element::Bf16,
        Element::F32Ftz,
        Element::Tf32,
        Element::Tf32Ftz,
    ];

    pub(crate) fn bytes(self) -> u32 {
        match self {
            Element::U8 => 1,
            Element::U16 | Element::F16 | Element::Bf16 => 2,
            Element::U32
            | Element::S32
            | Element::F32
            | Element::F32Ftz
            | Element::Tf32
            | Element::Tf32Ftz => 4,
            Element::U64 | Element::S64 | Element::F64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        self.nan().is_some()
    }

    /// The bits that stand for an element outside of the tensor, if floats are asked to be NaN.
    /// CUDA does not tell which NaN it is; this one is what arithmetic gives on a GPU.
    pub(crate) fn nan(self) -> Option<u64> {
        match self {
            Element::U8
            | Element::U16
            | Element::U32
            | Element::S32
            | Element::U64
            | Element::S64 => None,
            Element::F16 | Element::Bf16 => Some(0x7fff),
            Element::F32 | Element::F32Ftz | Element::Tf32 | Element::Tf32Ftz => Some(0x7fff_ffff),
            Element::F64 => Some(0x7fff_ffff_ffff_ffff),
        }
    }

    /// An f32 as it arrives in shared memory.
    pub(crate) fn converted(self, bits: u32) -> u32 {
        let is_subnormal = bits & 0x7f80_0000 == 0;
        let flushes = matches!(self, Element::F32Ftz | Element::Tf32Ftz);
        let bits = match flushes && is_subnormal {
            true => bits & 1 << 31,
            false => bits,
        };
        let is_finite = bits & 0x7f80_0000 != 0x7f80_0000;
        match self {
            // To nearest, ties to even; infinities and NaN stay as they are.
            Element::Tf32 | Element::Tf32Ftz if is_finite => {
                (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff
            }
            _ => bits,
        }
    }

    /// True if elements change on their way to shared memory.
    pub(crate) fn converts(self) -> bool {
        matches!(self, Element::F32Ftz | Element::Tf32 | Element::Tf32Ftz)
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span() {
            None => write!(f, "no swizzle"),
            Some(span) => write!(f, "swizzle of {span} bytes"),
        }
    }
}

impl Swizzle {
    pub(crate) const ALL: [Swizzle; 4] = [
        Swizzle::None,
        Swizzle::Bytes32,
        Swizzle::Bytes64,
        Swizzle::Bytes128,
    ];

    /// The longest row of a box, in bytes.
    #[inline(always)]
    pub(crate) fn span(self) -> Option<u32> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }

    /// Where the byte lies that would lie at `address` of shared memory without swizzling.
    #[inline(always)]
    pub(crate) fn place(self, address: u64) -> u64 {
        let mask = match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 3,
            Swizzle::Bytes128 => 7,
        };
        address ^ (address >> 7 & mask) << 4
    }
}

/// Places of the fields in the 128 bytes, each as wide as `tensormap.replace` stores it. A
/// dimension of 2³² elements has the size 0. Pixels and corners have 16 bits; other bytes are 0.
pub(crate) mod place {
    use super::MAX_RANK;

    pub(crate) const ADDRESS: usize = 0;
    pub(crate) const ELEMENT: usize = 8;
    /// The rank less 1.
    pub(crate) const RANK: usize = 9;
    pub(crate) const FILL: usize = 10;
    pub(crate) const SWIZZLE: usize = 11;
    pub(crate) const SIZES: usize = 16;
    pub(crate) const BOX_SIZES: usize = SIZES + 4 * MAX_RANK;
    pub(crate) const ELEMENT_STRIDES: usize = BOX_SIZES + 4 * MAX_RANK;
    /// That of the second dimension comes first.
    pub(crate) const STRIDES: usize = 80;
    pub(crate) const PIXELS: usize = STRIDES + 8 * (MAX_RANK - 1);
    pub(crate) const CORNERS: usize = PIXELS + 2;
}

impl TensorMap {
    pub(crate) fn to_bytes(self) -> [u8; TENSOR_MAP_BYTES] {
        let mut bytes = [0; TENSOR_MAP_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(place::ADDRESS, &self.address.to_le_bytes());
        put(place::ELEMENT, &[self.element as u8]);
        put(place::RANK, &[self.rank as u8 - 1]);
        put(place::FILL, &[self.fills_nan.into()]);
        put(place::SWIZZLE, &[self.swizzle as u8]);
        for i in 0..self.rank {
            let words = [
                (place::SIZES, self.sizes[i] as u32),
                (place::BOX_SIZES, self.box_sizes[i]),
                (place::ELEMENT_STRIDES, self.element_strides[i]),
            ];
            for (first, word) in words {
                put(first + 4 * i, &word.to_le_bytes());
            }
            if i > 0 {
                let at = place::STRIDES + 8 * (i - 1);
                put(at, &self.strides[i].to_le_bytes());
            }
        }
        if let Some(pixels) = self.pixels {
            put(place::PIXELS, &(pixels.count as u16).to_le_bytes());
            let corners = pixels.lower.into_iter().chain(pixels.upper);
            for (i, corner) in corners.enumerate() {
                put(place::CORNERS + 2 * i, &corner.to_le_bytes());
            }
        }
        bytes
    }

    /// `None` if the bytes are no tensor map.
    pub(crate) fn from_bytes(bytes: &[u8; TENSOR_MAP_BYTES]) -> Option<TensorMap> {
        let long = |at: usize| {
            let field = bytes[at..].first_chunk().copied();
            u64::from_le_bytes(field.unwrap_or_default())
        };
        let word = |at: usize| long(at) as u32;
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let [element, rank, swizzle, fill] =
            [place::ELEMENT, place::RANK, place::SWIZZLE, place::FILL].map(|at| bytes[at]);
        let element = *Element::ALL.get(usize::from(element))?;
        let rank = usize::from(rank) + 1;
        let words =
            |first: usize| std::array::from_fn(|i| if i < rank { word(first + 4 * i) } else { 1 });
        let sizes: [u32; MAX_RANK] = words(place::SIZES);
        let corner =
            |first: usize| std::array::from_fn(|i| short(place::CORNERS + 2 * (first + i)) as i16);
        let pixels = Pixels {
            count: short(place::PIXELS).into(),
            lower: corner(0),
            upper: corner(MAX_SPATIAL),
        };
        let map = TensorMap {
            address: long(place::ADDRESS),
            element,
            rank,
            sizes: sizes.map(|size| match size {
                0 => MAX_DIMENSION,
                _ => size.into(),
            }),
            strides: std::array::from_fn(|i| match i {
                0 => element.bytes().into(),
                _ if i < rank => long(place::STRIDES + 8 * (i - 1)),
                _ => 0,
            }),
            box_sizes: words(place::BOX_SIZES),
            element_strides: words(place::ELEMENT_STRIDES),
            swizzle: *Swizzle::ALL.get(usize::from(swizzle))?,
            fills_nan: fill != 0,
            pixels: (pixels.count > 0).then_some(pixels),
        };
        let within = |values: &[u32; MAX_RANK], most: u32| {
            values.iter().all(|value| (1..=most).contains(value))
        };
        let is_valid = map.rank <= MAX_RANK
            && map.address.is_multiple_of(GRAIN)
            && fill <= 1
            && map
                .pixels
                .is_none_or(|pixels| map.rank > 2 && pixels.count <= MAX_PIXELS)
            && within(&map.box_sizes, MAX_BOX)
            && within(&map.element_strides, MAX_ELEMENT_STRIDE)
            && map.strides[1..]
                .iter()
                .all(|&stride| stride < STRIDE_LIMIT && stride.is_multiple_of(GRAIN))
            && map.row_bytes().is_multiple_of(GRAIN)
            && (map.swizzle.span()).is_none_or(|span| map.row_bytes() <= span.into());
        is_valid.then_some(map)
    }

    /// Elements that a copy takes of a dimension. Of the innermost one, it takes all.
    pub(crate) fn box_elements(&self, dimension: usize) -> u32 {
        match dimension {
            0 => self.box_sizes[0],
            _ => self.box_sizes[dimension].div_ceil(self.element_strides[dimension]),
        }
    }

    /// Bytes of a row of the box.
    pub(crate) fn row_bytes(&self) -> u64 {
        u64::from(self.box_sizes[0] * self.element.bytes())
    }

    /// Bytes that a copy moves.
    pub(crate) fn box_bytes(&self) -> u64 {
        let rows: u64 = match self.pixels {
            Some(pixels) => pixels.count.into(),
            None => (1..self.rank)
                .map(|i| u64::from(self.box_elements(i)))
                .product(),
        };
        self.row_bytes() * rows
    }

    /// The least and the largest base of a filter in a dimension between the channels and the
    /// images.
    pub(crate) fn bounds(&self, pixels: &Pixels, dimension: usize) -> [i64; 2] {
        let last = self.sizes[dimension] as i64 - 1;
        let [lower, upper] =
            [pixels.lower, pixels.upper].map(|corner| i64::from(corner[dimension - 1]));
        [lower, last + upper]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            address: 0x7fff_1234_5670,
            element: Element::Bf16,
            rank: 5,
            sizes: [MAX_DIMENSION, 1, 77, 1 << 31, 9],
            strides: [2, STRIDE_LIMIT - 16, 0, 16, 4096],
            box_sizes: [32, 1, 3, MAX_BOX, 7],
            element_strides: [1, 8, 2, 3, 1],
            swizzle: Swizzle::Bytes64,
            fills_nan: true,
            pixels: None,
        }
    }

    #[test]
    fn bytes_hold_every_field() {
        let first = map();
        assert_eq!(TensorMap::from_bytes(&first.to_bytes()), Some(first));
        let pixels = Some(Pixels {
            count: MAX_PIXELS,
            lower: [i16::MIN, -1, 0],
            upper: [i16::MAX, 1, -2],
        });
        let for_pixels = TensorMap { pixels, ..first };
        let read = TensorMap::from_bytes(&for_pixels.to_bytes());
        assert_eq!(read, Some(for_pixels));
        for element in Element::ALL {
            for swizzle in Swizzle::ALL {
                let mut map = TensorMap {
                    element,
                    swizzle,
                    fills_nan: false,
                    ..first
                };
                map.strides[0] = element.bytes().into();
                map.box_sizes[0] = GRAIN as u32 / element.bytes();
                assert_eq!(TensorMap::from_bytes(&map.to_bytes()), Some(map));
            }
        }
    }

    #[test]
    fn what_cutlass_clears_is_unused() {
        let mut bytes = map().to_bytes();
        bytes[10] &= !(1 << 5);
        assert_eq!(TensorMap::from_bytes(&bytes), Some(map()));
    }

    #[test]
    fn other_bytes_are_no_tensor_map() {
        assert_eq!(TensorMap::from_bytes(&[0; 128]), None);
        assert_eq!(TensorMap::from_bytes(&[0xff; 128]), None);
        let good = map().to_bytes();
        for (at, value) in [
            (place::ADDRESS, 8),
            (place::ELEMENT, 13),
            (place::RANK, 5),
            (place::FILL, 2),
            (place::SWIZZLE, 4),
            (place::BOX_SIZES, 0),
            (place::BOX_SIZES, 64), // a row longer than the swizzle's span
            (place::BOX_SIZES + 5, 1),
            (place::ELEMENT_STRIDES + 4, 9),
            (place::STRIDES, 1),
            (place::STRIDES + 5, 1),
            (place::PIXELS + 1, 5),
        ] {
            let mut bytes = good;
            bytes[at] = value;
            assert_eq!(TensorMap::from_bytes(&bytes), None, "{value} at {at}");
        }
    }

    #[test]
    fn elements_are_rounded_and_flushed_on_their_way() {
        for (element, bits, wanted) in [
            (Element::F32, 0x8000_0001, 0x8000_0001),
            (Element::F32Ftz, 0x8000_0001, 0x8000_0000),
            (Element::F32Ftz, 0x0080_0001, 0x0080_0001),
            // Halfway: to the even neighbour.
            (Element::Tf32, 0x3f80_1000, 0x3f80_0000),
            (Element::Tf32, 0x3f80_3000, 0x3f80_4000),
            (Element::Tf32, 0x3f80_1001, 0x3f80_2000),
            (Element::Tf32, 0x3fff_f000, 0x4000_0000),
            (Element::Tf32, 0x7f7f_ffff, 0x7f80_0000),
            (Element::Tf32, 0x7f80_0001, 0x7f80_0001),
            (Element::Tf32, 0x0000_3000, 0x0000_4000),
            (Element::Tf32Ftz, 0x0000_3000, 0),
        ] {
            assert_eq!(element.converted(bits), wanted, "{element:?} {bits:#x}");
        }
    }
}
