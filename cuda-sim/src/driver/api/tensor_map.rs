//! Tensor maps, which describe tensors to the tensor memory accelerator.

use std::ops::RangeInclusive;

use crate::{
    driver::{
        ffi::{Code, Error, In, InOut, Out, Result, guard},
        state::driver,
    },
    settings::device,
    tensor_map::{
        Element, GRAIN, MAX_BOX, MAX_DIMENSION, MAX_ELEMENT_STRIDE, MAX_PIXELS, MAX_RANK,
        MAX_SPATIAL, Pixels, STRIDE_LIMIT, Swizzle, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES,
        TensorMap,
    },
};

/// `CUtensorMap`.
type Bytes = [u8; TENSOR_MAP_BYTES];

/// The least compute capability with tensor maps.
const NEEDED: u32 = 90;

/// Describes a tensor and the box of it that a copy moves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: Out<Bytes>,
    element: u32,
    rank: u32,
    address: u64,
    sizes: In<u64>,
    strides: In<u64>,
    box_sizes: In<u32>,
    element_strides: In<u32>,
    interleave: u32,
    swizzle: u32,
    l2_promotion: u32,
    fill: u32,
) -> Code {
    guard(|| {
        let ranks = 1..=MAX_RANK;
        let (rank, element) = check(
            &map,
            ranks,
            [rank, element, interleave, l2_promotion],
            address,
        )?;
        let encoded = TensorMap {
            address,
            element,
            rank,
            sizes: sizes_of(&sizes, rank)?,
            strides: strides_of(&strides, rank, element)?,
            box_sizes: within("boxDim", &box_sizes, rank, MAX_BOX)?,
            element_strides: within("elementStrides", &element_strides, rank, MAX_ELEMENT_STRIDE)?,
            swizzle: swizzle_of(swizzle)?,
            fills_nan: fills_nan(fill, element)?,
            pixels: None,
        };
        check_rows(&encoded, "boxDim[0]")?;
        map.set("tensorMap", encoded.to_bytes())
    })
}

/// Describes a batch of images and the pixels of them that a copy moves for a convolution.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeIm2col(
    map: Out<Bytes>,
    element: u32,
    rank: u32,
    address: u64,
    sizes: In<u64>,
    strides: In<u64>,
    lower: In<i32>,
    upper: In<i32>,
    channels: u32,
    pixels: u32,
    element_strides: In<u32>,
    interleave: u32,
    swizzle: u32,
    l2_promotion: u32,
    fill: u32,
) -> Code {
    guard(|| {
        let ranks = 3..=MAX_RANK;
        let (rank, element) = check(
            &map,
            ranks,
            [rank, element, interleave, l2_promotion],
            address,
        )?;
        let mut box_sizes = [1; MAX_RANK];
        box_sizes[0] = one_within("channelsPerPixel", channels, MAX_BOX)?;
        let encoded = TensorMap {
            address,
            element,
            rank,
            sizes: sizes_of(&sizes, rank)?,
            strides: strides_of(&strides, rank, element)?,
            box_sizes,
            element_strides: within("elementStrides", &element_strides, rank, MAX_ELEMENT_STRIDE)?,
            swizzle: swizzle_of(swizzle)?,
            fills_nan: fills_nan(fill, element)?,
            pixels: Some(Pixels {
                count: one_within("pixelsPerColumn", pixels, MAX_PIXELS)?,
                lower: corner_of("pixelBoxLowerCorner", &lower, rank)?,
                upper: corner_of("pixelBoxUpperCorner", &upper, rank)?,
            }),
        };
        check_rows(&encoded, "channelsPerPixel")?;
        map.set("tensorMap", encoded.to_bytes())
    })
}

/// Lets a tensor map describe a tensor at another address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapReplaceAddress(map: InOut<Bytes>, address: u64) -> Code {
    guard(|| {
        driver()?;
        let Some(old) = TensorMap::from_bytes(&map.get("tensorMap")?) else {
            return Err(Error::value(
                "tensorMap holds no tensor map: cuTensorMapEncodeTiled makes one",
            ));
        };
        check_multiple("globalAddress", address, GRAIN)?;
        map.set("tensorMap", TensorMap { address, ..old }.to_bytes())
    })
}

/// Checks what all tensor maps have. The numbers are those of rank, type, interleaving and
/// promotion. Returns the rank and the type.
fn check(
    map: &Out<Bytes>,
    ranks: RangeInclusive<usize>,
    [rank, element, interleave, l2_promotion]: [u32; 4],
    address: u64,
) -> Result<(usize, Element)> {
    driver()?;
    if device().capability.number < NEEDED {
        return Err(Error::unsupported(
            "tensor maps on a device below compute capability 9.0",
        ));
    }
    map.check("tensorMap")?;
    check_multiple("tensorMap", map.address() as u64, TENSOR_MAP_ALIGNMENT)?;
    let rank = rank as usize;
    if !ranks.contains(&rank) {
        let (least, most) = (ranks.start(), ranks.end());
        return Err(Error::value(format!(
            "tensorRank is {rank}; it goes from {least} to {most}"
        )));
    }
    let element = element_of(element)?;
    check_multiple("globalAddress", address, GRAIN)?;
    check_interleave(interleave)?;
    if l2_promotion > 3 {
        let text = format!("l2Promotion is {l2_promotion}, no CUtensorMapL2promotion");
        return Err(Error::value(text));
    }
    Ok((rank, element))
}

fn check_multiple(argument: &str, address: u64, bytes: u64) -> Result {
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

fn sizes_of(sizes: &In<u64>, rank: usize) -> Result<[u64; MAX_RANK]> {
    let mut all = [1; MAX_RANK];
    for (i, size) in sizes.list("globalDim", rank)?.into_iter().enumerate() {
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
fn strides_of(strides: &In<u64>, rank: usize, element: Element) -> Result<[u64; MAX_RANK]> {
    let mut all = [0; MAX_RANK];
    all[0] = element.bytes().into();
    for (i, stride) in strides
        .list("globalStrides", rank - 1)?
        .into_iter()
        .enumerate()
    {
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

fn within(argument: &str, values: &In<u32>, rank: usize, most: u32) -> Result<[u32; MAX_RANK]> {
    let mut all = [1; MAX_RANK];
    for (i, value) in values.list(argument, rank)?.into_iter().enumerate() {
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
fn corner_of(argument: &str, corner: &In<i32>, rank: usize) -> Result<[i16; MAX_SPATIAL]> {
    let spatial = rank - 2;
    let least = -1 << (16 / spatial - 1);
    let mut all = [0; MAX_SPATIAL];
    for (i, value) in corner.list(argument, spatial)?.into_iter().enumerate() {
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
