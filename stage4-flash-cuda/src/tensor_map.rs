//! Tensor maps: what the tensor memory accelerator of compute capability 9.0 is told of a tensor.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use cudarc::driver::{CudaStream, DevicePtr, DeviceRepr, DriverError, SyncOnDrop};

use crate::library::Tile;
use crate::{Format, Inputs, Sizes};

/// Columns of a box: 128 bytes, in which vectors of 16 bytes swap places.
const BOX_COLUMNS: u32 = 64;

/// Bytes of an element, and by how many a stride is divisible.
const ELEMENT: usize = size_of::<u16>();
const GRAIN: usize = 16;

/// A tensor of f16 or bf16 in device memory, and the boxes in which kernels copy it: so many rows
/// of 64 columns.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct TensorMap(CUtensorMap);

// SAFETY: plain bytes, which a kernel takes by value.
unsafe impl DeviceRepr for TensorMap {}

/// True if a tensor map can have strides of a tensor of these sizes, the outermost first; the
/// columns are contiguous. That of an axis of length 1 does not count, and none does where there is
/// no element.
pub(crate) fn has_strides<const N: usize>(sizes: [usize; N], strides: [usize; N]) -> bool {
    let mut axes = sizes.into_iter().zip(strides);
    sizes.contains(&0)
        || axes.all(|(size, stride)| {
            let is_limited = (1..1 << 39).contains(&stride);
            size <= 1 || (is_limited && (stride * ELEMENT).is_multiple_of(GRAIN))
        })
}

impl TensorMap {
    /// Of the tensor at `address`, a multiple of 16 that is not read here, with rows of `columns`.
    /// `sizes` and `strides` are those of the other axes, the outermost first, for which
    /// [`has_strides`] is true. What a box has outside of the tensor is 0.
    pub(crate) fn new<const N: usize>(
        format: Format,
        address: u64,
        sizes: [usize; N],
        strides: [usize; N],
        columns: usize,
        box_rows: usize,
    ) -> Result<TensorMap, DriverError> {
        debug_assert!(has_strides(sizes, strides));
        let element = match format {
            Format::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            Format::Bf16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        };
        // No dimension may have size 0. Nothing is copied from a tensor without elements.
        let sizes = if sizes.contains(&0) { [1; N] } else { sizes };
        let inner = |i: usize| (sizes[N - 1 - i], strides[N - 1 - i]);
        let axes = Vec::from_iter((0..N).map(inner)); // the innermost first
        let mut packed = columns * ELEMENT; // behind what lies inside
        let strides = axes.iter().map(|&(size, stride)| {
            let bytes = match size {
                1 => packed.next_multiple_of(GRAIN),
                _ => stride * ELEMENT,
            };
            packed = bytes * size;
            bytes as u64
        });
        let strides = Vec::from_iter(strides);
        let sizes = axes.iter().map(|&(size, _)| size as u64);
        let sizes = Vec::from_iter([columns as u64].into_iter().chain(sizes));
        let mut box_sizes = vec![1; N + 1];
        box_sizes[..2].copy_from_slice(&[BOX_COLUMNS, box_rows as u32]);
        let mut map = MaybeUninit::uninit();
        // SAFETY: the arrays have an element for each of N + 1 dimensions, and a stride for each
        // but the first; the driver writes the map if it returns no error.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                element,
                N as u32 + 1,
                address as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                box_sizes.as_ptr(),
                vec![1; N + 1].as_ptr(),
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

/// The maps of q, k and v, packed and in f16, whose boxes have the rows of a tile. Keep the guards
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
    let map = |address, rows, box_rows| {
        let (format, columns) = (Format::F16, sizes.head_dim);
        let strides = [rows * columns, columns];
        TensorMap::new(
            format,
            address,
            [matrices, rows],
            strides,
            columns,
            box_rows,
        )
    };
    let keys = |address| map(address, sizes.nk, tile.block_kv);
    let queries = map(q, sizes.nq, tile.block_q)?;
    Ok(([queries, keys(k)?, keys(v)?], [q_read, k_read, v_read]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_of_maps_are_positive_multiples_of_16_bytes_below_a_limit() {
        for (sizes, strides, fits) in [
            ([2, 3, 5], [640, 200, 40], true),
            ([2, 3, 5], [640, 64, 192], true), // heads within a row
            ([2, 3, 5], [640, 200, 44], false),
            ([2, 3, 5], [640, 0, 40], false),
            ([2, 3, 5], [1 << 39, 200, 40], false),
            ([2, 3, 5], [(1 << 39) - 8, 200, 40], true),
            ([1, 1, 5], [1 << 40, 0, 40], true),
            ([2, 3, 0], [0, 0, 3], true), // none counts
        ] {
            assert_eq!(has_strides(sizes, strides), fits, "{sizes:?}, {strides:?}");
        }
    }
}
