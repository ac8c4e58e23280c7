//! Tensor maps from their description: the checks that `cuTensorMapEncodeTiled` and
//! `cuTensorMapEncodeIm2col` make.

use std::ops::RangeInclusive;

use super::{
    Element, GRAIN, MAX_BOX, MAX_DIMENSION, MAX_ELEMENT_STRIDE, MAX_PIXELS, MAX_RANK, MAX_SPATIAL,
    Pixels, STRIDE_LIMIT, Swizzle, TensorMap,
};
use crate::{
    settings::device,
    status::{Error, Result},
};

/// The least compute capability with tensor maps.
const NEEDED: u32 = 90;

/// Ranks of a tensor of which copies take boxes.
pub(crate) const TILED_RANKS: RangeInclusive<u32> = 1..=MAX_RANK as u32;
/// Ranks of a batch of images.
pub(crate) const IMAGE_RANKS: RangeInclusive<u32> = 3..=MAX_RANK as u32;

/// A tensor in device memory, by the arguments of `cuTensorMapEncodeTiled`: CUDA's numbers where it
/// has names.
#[derive(Clone, Copy, Debug)]
pub struct TensorDescription<'a> {
    /// `tensorDataType`.
    pub element: u32,
    /// `globalAddress`.
    pub address: u64,
    /// `globalDim`: elements in each dimension, the innermost first.
    pub sizes: &'a [u64],
    /// `globalStrides`: bytes from an element to the next one in each dimension but the innermost.
    pub strides: &'a [u64],
    /// `elementStrides`: distance of the elements that a box takes in each dimension.
    pub element_strides: &'a [u32],
    /// `interleave`.
    pub interleave: u32,
    /// `swizzle`.
    pub swizzle: u32,
    /// `l2Promotion`.
    pub l2_promotion: u32,
    /// `oobFill`.
    pub fill: u32,
}

impl TensorDescription<'_> {
    /// The map for copies of boxes; `box_sizes` is `boxDim`.
    pub(crate) fn tiled(&self, box_sizes: &[u32]) -> Result<TensorMap> {
        let map = TensorMap {
            box_sizes: within("boxDim", box_sizes, MAX_BOX)?,
            ..self.map(TILED_RANKS)?
        };
        check_rows(&map, "boxDim[0]")?;
        Ok(map)
    }

    /// The map for copies of pixels, of so many channels each. The corners of the bounding box are
    /// those of the dimensions between the channels and the images.
    pub(crate) fn im2col(
        &self,
        [channels, pixels]: [u32; 2],
        [lower, upper]: [&[i32]; 2],
    ) -> Result<TensorMap> {
        let map = self.map(IMAGE_RANKS)?;
        let mut box_sizes = [1; MAX_RANK];
        box_sizes[0] = one_within("channelsPerPixel", channels, MAX_BOX)?;
        let map = TensorMap {
            box_sizes,
            pixels: Some(Pixels {
                count: one_within("pixelsPerColumn", pixels, MAX_PIXELS)?,
                lower: corner_of("pixelBoxLowerCorner", lower)?,
                upper: corner_of("pixelBoxUpperCorner", upper)?,
            }),
            ..map
        };
        check_rows(&map, "channelsPerPixel")?;
        Ok(map)
    }

    /// What all maps have, with a box of one element.
    fn map(&self, ranks: RangeInclusive<u32>) -> Result<TensorMap> {
        let rank = check_rank(self.sizes.len() as u32, ranks)?;
        let element = element_of(self.element)?;
        check_multiple("globalAddress", self.address, GRAIN)?;
        check_interleave(self.interleave)?;
        if self.l2_promotion > 3 {
            let text = format!(
                "l2Promotion is {}, no CUtensorMapL2promotion",
                self.l2_promotion
            );
            return Err(Error::value(text));
        }
        Ok(TensorMap {
            address: self.address,
            element,
            rank,
            sizes: sizes_of(self.sizes)?,
            strides: strides_of(self.strides, element)?,
            box_sizes: [1; MAX_RANK],
            element_strides: within("elementStrides", self.element_strides, MAX_ELEMENT_STRIDE)?,
            swizzle: swizzle_of(self.swizzle)?,
            fills_nan: fills_nan(self.fill, element)?,
            pixels: None,
        })
    }
}

/// The number of dimensions, if the device has tensor maps and maps of so many.
pub(crate) fn check_rank(rank: u32, ranks: RangeInclusive<u32>) -> Result<usize> {
    if device().capability.number < NEEDED {
        return Err(Error::unsupported(
            "tensor maps on a device below compute capability 9.0",
        ));
    }
    if !ranks.contains(&rank) {
        let (least, most) = (ranks.start(), ranks.end());
        return Err(Error::value(format!(
            "tensorRank is {rank}; it goes from {least} to {most}"
        )));
    }
    Ok(rank as usize)
}

/// An error if an address is no multiple of so many bytes.
pub(crate) fn check_multiple(argument: &str, address: u64, bytes: u64) -> Result {
    match address.is_multiple_of(bytes) {
        true => Ok(()),
        false => Err(Error::value(format!(
            "{argument} is {address:#x}, no multiple of {bytes}"
        ))),
    }
}

fn element_of(number: u32) -> Result<Element> {
    match number {
        13..=15 => Err(Error::unsupported(
            "tensors of 4-bit and 6-bit elements (CU_TENSOR_MAP_DATA_TYPE_16U4_…, …_16U6_…)",
        )),
        _ => Element::ALL.get(number as usize).copied().ok_or_else(|| {
            Error::value(format!(
                "tensorDataType is {number}, no CUtensorMapDataType"
            ))
        }),
    }
}

fn swizzle_of(number: u32) -> Result<Swizzle> {
    match number {
        4..=6 => Err(Error::unsupported(
            "swizzles of pieces other than 16 bytes (CU_TENSOR_MAP_SWIZZLE_128B_ATOM_…)",
        )),
        _ => Swizzle::ALL
            .get(number as usize)
            .copied()
            .ok_or_else(|| Error::value(format!("swizzle is {number}, no CUtensorMapSwizzle"))),
    }
}

fn check_interleave(number: u32) -> Result {
    match number {
        0 => Ok(()),
        1 | 2 => Err(Error::unsupported(
            "interleaved tensors (interleave is CU_TENSOR_MAP_INTERLEAVE_16B or …_32B)",
        )),
        _ => Err(Error::value(format!(
            "interleave is {number}, no CUtensorMapInterleave"
        ))),
    }
}

fn fills_nan(number: u32, element: Element) -> Result<bool> {
    match number {
        0 => Ok(false),
        1 if element.is_float() => Ok(true),
        1 => Err(Error::value(
            "oobFill asks for NaN, and tensorDataType is no type of floats",
        )),
        _ => Err(Error::value(format!(
            "oobFill is {number}, no CUtensorMapFloatOOBfill"
        ))),
    }
}

fn sizes_of(sizes: &[u64]) -> Result<[u64; MAX_RANK]> {
    let mut all = [1; MAX_RANK];
    for (i, &size) in sizes.iter().enumerate() {
        if !(1..=MAX_DIMENSION).contains(&size) {
            return Err(Error::value(format!(
                "globalDim[{i}] is {size}; it goes from 1 to 2^32"
            )));
        }
        all[i] = size;
    }
    Ok(all)
}

/// The strides, that of the innermost dimension first, which is not passed.
fn strides_of(strides: &[u64], element: Element) -> Result<[u64; MAX_RANK]> {
    let mut all = [0; MAX_RANK];
    all[0] = element.bytes().into();
    for (i, &stride) in strides.iter().enumerate() {
        check_multiple(&format!("globalStrides[{i}]"), stride, GRAIN)?;
        if stride >= STRIDE_LIMIT {
            return Err(Error::value(format!(
                "globalStrides[{i}] is {stride}; it must be below 2^40"
            )));
        }
        all[i + 1] = stride;
    }
    Ok(all)
}

fn within(argument: &str, values: &[u32], most: u32) -> Result<[u32; MAX_RANK]> {
    let mut all = [1; MAX_RANK];
    for (i, &value) in values.iter().enumerate() {
        all[i] = one_within(&format!("{argument}[{i}]"), value, most)?;
    }
    Ok(all)
}

fn one_within(argument: &str, value: u32, most: u32) -> Result<u32> {
    match (1..=most).contains(&value) {
        true => Ok(value),
        false => Err(Error::value(format!(
            "{argument} is {value}; it goes from 1 to {most}"
        ))),
    }
}

/// A corner of the bounding box, the second dimension of the tensor first. Its numbers have 16 bits
/// together in tensors of up to four dimensions, and 15 in those of five.
fn corner_of(argument: &str, corner: &[i32]) -> Result<[i16; MAX_SPATIAL]> {
    let least = -1 << (16 / corner.len() - 1);
    let mut all = [0; MAX_SPATIAL];
    for (i, &value) in corner.iter().enumerate() {
        let most = -1 - least;
        if !(least..=most).contains(&value) {
            return Err(Error::value(format!(
                "{argument}[{i}] is {value}; it goes from {least} to {most}"
            )));
        }
        all[i] = value as i16;
    }
    Ok(all)
}

/// Checks the bytes of a row of the box.
fn check_rows(map: &TensorMap, argument: &str) -> Result {
    let row = map.row_bytes();
    let elements = map.box_sizes[0];
    if !row.is_multiple_of(GRAIN) {
        return Err(Error::value(format!(
            "{argument} is {elements} elements, {row} bytes, no multiple of {GRAIN} bytes"
        )));
    }
    match map.swizzle.span() {
        Some(span) if row > span.into() => Err(Error::value(format!(
            "{argument} is {elements} elements, {row} bytes, more than the {span} bytes of swizzle"
        ))),
        _ => Ok(()),
    }
}
