//! Attention on arrays in host memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use gpu::arguments::{Strides, pack_bits, upload};
use ndarray::ArrayView4;
use stage1_reference::{Options, Output};
use stage2_naive_cuda::host;

use crate::{Attention, BlockMask, Error, Inputs, Shape};

impl Attention {
    /// [`Attention::forward`] on arrays in host memory: copies them to the device,
    /// computes, waits, and copies back.
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
        host::attention(stream, [q, k, v], options, |inputs, outputs, sizes| {
            let lengths = options.key_lengths.as_ref().map(|lengths| {
                let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
                upload(stream, &lengths)
            });
            let lengths = lengths.transpose()?;
            let blocks = options.blocks.as_ref().map(|blocks| {
                let (batch, heads, rows, columns) = blocks.dim();
                let words = upload(stream, &pack_bits(blocks.iter().copied(), columns))?;
                let strides = Strides::broadcast((batch, heads, rows, columns.div_ceil(32)));
                Ok::<_, DriverError>((words, strides))
            });
            let blocks = blocks.transpose()?;
            let inputs = Inputs {
                q: inputs.q,
                k: inputs.k,
                v: inputs.v,
                mask: inputs.mask,
                key_lengths: lengths.as_ref().map(CudaSlice::as_view),
                blocks: blocks.as_ref().map(|(words, strides)| BlockMask {
                    values: words.as_view(),
                    strides: *strides,
                }),
            };
            let shape = Shape {
                scale: options.scale,
                causal: options.causal,
                window: options.window,
                dropout: options.dropout,
                ..Shape::packed(sizes)
            };
            self.forward(stream, inputs, outputs, &shape)
        })
    }
}
