//! Attention on arrays in host memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use ndarray::{Array3, Array4, ArrayView4};
use stage1_reference::{Options, Output, Sizes};
use stage2_naive_cuda::{Additive, Strides};

use crate::attention::OPERATION;
use crate::{Attention, BlockMask, Error, Inputs, Outputs, Shape};

/// Blocks of the block mask in a word.
const BITS: usize = u32::BITS as usize;

impl Attention {
    /// [`Attention::forward`] on arrays in host memory: copies them to the device, computes, waits, and copies back.
    ///
    /// `q` is `[B, H, nq, D]`, `k` and `v` are `[B, H_kv, nk, D]`, in any memory layout.
    ///
    /// # Errors
    ///
    /// As [`stage1_reference::attention`], and those of [`Attention::forward`].
    pub fn forward_host(
        &self,
        stream: &Arc<CudaStream>,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        let sizes = Sizes::of(OPERATION, q.dim(), k.dim(), v.dim())?;
        options.check(OPERATION, &sizes)?;
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            head_dim,
            ..
        } = sizes;
        let mut o = Array4::zeros((batch, heads, nq, head_dim));
        let mut lse = Array3::from_elem((batch, heads, nq), f32::NEG_INFINITY);
        if lse.is_empty() || nk == 0 {
            return Ok(Output { o, lse }); // rows that see no key, if there are any
        }

        let [q, k, v] = [q, k, v].map(|x| upload(stream, x));
        let (q, k, v) = (q?, k?, v?);
        let mask = options.mask.as_ref().map(|mask| {
            let strides = broadcast(mask.dim(), nk);
            Ok::<_, Error>((upload(stream, mask.view())?, strides))
        });
        let mask = mask.transpose()?;
        let lengths = options.key_lengths.as_ref().map(|lengths| {
            let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
            stream.clone_htod(&lengths)
        });
        let lengths = lengths.transpose()?;
        let blocks = options.blocks.as_ref().map(|blocks| {
            let (words, strides) = pack(blocks);
            Ok::<_, Error>((stream.clone_htod(&words)?, strides))
        });
        let blocks = blocks.transpose()?;
        // SAFETY: attention writes every element of `o` and `lse`, which are packed.
        let (mut device_o, mut device_lse) = unsafe {
            (
                stream.alloc::<f32>(o.len())?,
                stream.alloc::<f32>(lse.len())?,
            )
        };

        let inputs = Inputs {
            q: q.as_view(),
            k: k.as_view(),
            v: v.as_view(),
            mask: mask.as_ref().map(|(values, strides)| Additive {
                values: values.as_view(),
                strides: *strides,
            }),
            key_lengths: lengths.as_ref().map(CudaSlice::as_view),
            blocks: blocks.as_ref().map(|(bits, strides)| BlockMask {
                bits: bits.as_view(),
                strides: *strides,
            }),
        };
        let outputs = Outputs {
            o: device_o.as_view_mut(),
            lse: Some(device_lse.as_view_mut()),
        };
        let shape = Shape {
            scale: options.scale,
            causal: options.causal,
            window: options.window,
            ..Shape::packed(sizes)
        };
        self.forward(stream, inputs, outputs, &shape)?;

        let fresh = "a fresh array is contiguous";
        stream.memcpy_dtoh(&device_o, o.as_slice_mut().expect(fresh))?;
        stream.memcpy_dtoh(&device_lse, lse.as_slice_mut().expect(fresh))?;
        stream.synchronize()?;
        Ok(Output { o, lse })
    }
}

/// Copies an array to the device, packed. It must not be empty.
fn upload(stream: &Arc<CudaStream>, array: ArrayView4<'_, f32>) -> Result<CudaSlice<f32>, Error> {
    let packed = array.as_standard_layout();
    let values = packed.as_slice();
    Ok(stream.clone_htod(values.expect("the standard layout is contiguous"))?)
}

/// The strides of a packed mask `[B or 1, H or 1, rows, _]` with rows of `columns`: 0 along an axis of 1.
fn broadcast((batch, heads, rows, _): (usize, usize, usize, usize), columns: usize) -> Strides {
    let packed = Strides::packed(heads, rows, columns);
    Strides {
        batch: if batch == 1 { 0 } else { packed.batch },
        head: if heads == 1 { 0 } else { packed.head },
        row: packed.row,
    }
}

/// The words of a [`BlockMask`], and their strides.
fn pack(blocks: &Array4<bool>) -> (Vec<u32>, Strides) {
    let (batch, heads, rows, columns) = blocks.dim();
    let words = columns.div_ceil(BITS);
    let mut bits = vec![0; batch * heads * rows * words];
    for (row, blocks) in blocks.rows().into_iter().enumerate() {
        for (column, _) in blocks.iter().enumerate().filter(|(_, seen)| **seen) {
            bits[row * words + column / BITS] |= 1 << (column % BITS);
        }
    }
    (bits, broadcast(blocks.dim(), words))
}
