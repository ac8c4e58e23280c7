//! Tensor maps, which describe tensors to the tensor memory accelerator.

use crate::{
    driver::{
        ffi::{Code, Error, In, InOut, Out, Result, guard},
        state::driver,
    },
    tensor_map::{
        GRAIN, IMAGE_RANKS, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TILED_RANKS, TensorDescription,
        TensorMap, check_multiple, check_rank,
    },
};

/// `CUtensorMap`.
type Bytes = [u8; TENSOR_MAP_BYTES];

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
        check_target(&map)?;
        let rank = check_rank(rank, TILED_RANKS)?;
        let description = TensorDescription {
            element,
            address,
            sizes: &sizes.list("globalDim", rank)?,
            strides: &strides.list("globalStrides", rank - 1)?,
            element_strides: &element_strides.list("elementStrides", rank)?,
            interleave,
            swizzle,
            l2_promotion,
            fill,
        };
        let encoded = description.tiled(&box_sizes.list("boxDim", rank)?)?;
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
        check_target(&map)?;
        let rank = check_rank(rank, IMAGE_RANKS)?;
        let description = TensorDescription {
            element,
            address,
            sizes: &sizes.list("globalDim", rank)?,
            strides: &strides.list("globalStrides", rank - 1)?,
            element_strides: &element_strides.list("elementStrides", rank)?,
            interleave,
            swizzle,
            l2_promotion,
            fill,
        };
        let lower = lower.list("pixelBoxLowerCorner", rank - 2)?;
        let upper = upper.list("pixelBoxUpperCorner", rank - 2)?;
        let encoded = description.im2col([channels, pixels], [&lower, &upper])?;
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

/// Checks the place of a tensor map.
fn check_target(map: &Out<Bytes>) -> Result {
    driver()?;
    map.check("tensorMap")?;
    check_multiple("tensorMap", map.address() as u64, TENSOR_MAP_ALIGNMENT)
}
