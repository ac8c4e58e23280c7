//! A tensor map as the driver makes it.

use std::ffi::c_void;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use gpu_launch::{Element, Fill, Interleave, Promotion, Swizzle, Tensor, TensorMap};

/// The `CUtensorMap` of a tensor.
///
/// # Errors
///
/// The driver's.
pub(super) fn encode(tensor: &Tensor<'_>) -> Result<[u8; TensorMap::BYTES], DriverError> {
    let settings = tensor.map;
    let mut map = Aligned([0; TensorMap::BYTES]);
    // SAFETY: the map is as large and as aligned as a `CUtensorMap`; each list has as many elements
    // as the tensor has dimensions, the strides one fewer. The driver does not read the tensor.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            (&raw mut map).cast::<CUtensorMap>(),
            element(tensor.element),
            settings.sizes.len() as u32,
            tensor.address as *mut c_void,
            settings.sizes.as_ptr(),
            tensor.strides.as_ptr(),
            settings.box_sizes.as_ptr(),
            tensor.every.as_ptr(),
            interleave(settings.interleave),
            swizzle(settings.swizzle),
            promotion(settings.l2),
            fill(settings.fill),
        )
    };
    result.result().map(|()| map.0)
}

/// Memory that cuTensorMapEncodeTiled writes to.
#[repr(C, align(64))]
struct Aligned([u8; TensorMap::BYTES]);

const _: () = assert!(
    size_of::<CUtensorMap>() == TensorMap::BYTES && align_of::<Aligned>() == TensorMap::ALIGN
);

fn element(element: Element) -> CUtensorMapDataType {
    match element {
        Element::U8 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        Element::U16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        Element::U32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        Element::I32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Element::U64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        Element::I64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT64,
        Element::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Element::F32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Element::F64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Element::Bf16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Element::F32Ftz => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
        Element::Tf32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        Element::Tf32Ftz => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    }
}

fn swizzle(swizzle: Swizzle) -> CUtensorMapSwizzle {
    match swizzle {
        Swizzle::None => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Bytes32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Bytes64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Bytes128 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

fn fill(fill: Fill) -> CUtensorMapFloatOOBfill {
    match fill {
        Fill::Zeros => CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        Fill::Nan => CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    }
}

fn interleave(interleave: Interleave) -> CUtensorMapInterleave {
    match interleave {
        Interleave::None => CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
        Interleave::Bytes16 => CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_16B,
        Interleave::Bytes32 => CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_32B,
    }
}

fn promotion(promotion: Promotion) -> CUtensorMapL2promotion {
    match promotion {
        Promotion::None => CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        Promotion::Bytes64 => CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        Promotion::Bytes128 => CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        Promotion::Bytes256 => CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    }
}
