//! Tensor maps: what the tensor memory accelerator of compute capability 9.0 is told of a tensor.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use cudarc::driver::{CudaStream, DevicePtr, DeviceRepr, DriverError, SyncOnDrop};

use crate::library::Tile;
use crate::{Inputs, Sizes};

/// Columns of a box: 128 bytes of f16, in which vectors of 16 bytes swap places.
const BOX_COLUMNS: u32 = 64;

/// A tensor of f16 in device memory, `[matrices, rows, columns]` and packed, and the boxes in which
/// kernels copy it: so many rows of 64 columns.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct TensorMap(CUtensorMap);

// SAFETY: plain bytes, which a kernel takes by value.
unsafe impl DeviceRepr for TensorMap {}

impl TensorMap {
    /// Of the tensor at `address`, a multiple of 16 that is not read here. Each row, of a multiple
    /// of 64 columns, is a part of the tensor; what a box has outside of it is 0.
    fn new(
        address: u64,
        [matrices, rows, columns]: [usize; 3],
        box_rows: usize,
    ) -> Result<TensorMap, DriverError> {
        let row_bytes = columns * size_of::<u16>();
        // A dimension of size 0 is none. Nothing is copied from it.
        let sizes = [columns, rows, matrices].map(|size| size.max(1) as u64);
        let strides = [row_bytes as u64, sizes[1] * row_bytes as u64];
        let mut map = MaybeUninit::uninit();
        // SAFETY: the arrays have an element for each of three dimensions, and a stride for each
        // but the first; the driver writes the map if it returns no error.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                3,
                address as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                [BOX_COLUMNS, box_rows as u32, 1].as_ptr(),
                [1, 1, 1].as_ptr(),
                CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
            .result()?;
            Ok(TensorMap(map.assume_init()))
        }
    }
}

/// The maps of q, k and v, whose boxes have the rows of a tile. What comes with them is to be kept
/// until the launch: streams that write a tensor are waited for, and wait for its readers.
///
/// # Errors
///
/// The driver's, if it does not take a map: tensors begin at multiples of 16 bytes.
pub fn tensor_maps<'a, T>(
    stream: &'a CudaStream,
    inputs: &'a Inputs<'_, T>,
    sizes: &Sizes,
    tile: Tile,
) -> Result<([TensorMap; 3], [SyncOnDrop<'a>; 3]), DriverError> {
    let matrices = sizes.batch * sizes.heads;
    let [(q, q_read), (k, k_read), (v, v_read)] =
        [&inputs.q, &inputs.k, &inputs.v].map(|tensor| tensor.device_ptr(stream));
    // Without keys, k and v are not read, and may have no address.
    let (k, v) = if sizes.nk == 0 { (q, q) } else { (k, v) };
    let keys =
        |address| TensorMap::new(address, [matrices, sizes.nk, sizes.head_dim], tile.block_kv);
    let queries = TensorMap::new(q, [matrices, sizes.nq, sizes.head_dim], tile.block_q)?;
    Ok(([queries, keys(k)?, keys(v)?], [q_read, k_read, v_read]))
}
