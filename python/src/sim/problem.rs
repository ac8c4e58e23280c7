//! A problem in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use gpu::arguments::{Strides, pack_bits, upload};
use ndarray::ArrayView4;
use stage4_flash_cuda as stage4;
use stage4_flash_cuda::{Additive, BlockMask, Inputs, Shape, Sizes};

use super::element::DeviceElement;
use crate::error::Error;

/// What both passes read, in device memory: packed tensors and masks.
pub struct Problem<T> {
    tensors: [CudaSlice<T>; 3],
    mask: Option<(CudaSlice<f32>, Strides)>,
    key_lengths: Option<CudaSlice<i32>>,
    blocks: Option<(CudaSlice<u32>, Strides)>,
    pub shape: Shape,
}

impl<T: DeviceElement> Problem<T> {
    /// Checks a problem, and copies it to the device.
    pub fn upload(
        stream: &Arc<CudaStream>,
        [q, k, v]: [ArrayView4<'_, T>; 3],
        options: &stage4::Options,
    ) -> Result<Self, Error> {
        let sizes = Sizes::of("attention", q.dim(), k.dim(), v.dim()).map_err(refused)?;
        options.check("attention", &sizes).map_err(refused)?;
        let mask = options.mask.as_ref().map(|mask| {
            let strides = Strides::broadcast(mask.dim());
            Ok::<_, DriverError>((upload(stream, mask)?, strides))
        });
        let key_lengths = options.key_lengths.as_ref().map(|lengths| {
            // Each is at most nk, which the launch holds below 2³⁰.
            let lengths = lengths.iter().map(|&length| length as i32);
            upload(stream, &Vec::from_iter(lengths))
        });
        let blocks = options.blocks.as_ref().map(|blocks| {
            let (batch, heads, rows, columns) = blocks.dim();
            let strides = Strides::broadcast((batch, heads, rows, columns.div_ceil(32)));
            Ok::<_, DriverError>((
                upload(stream, &pack_bits(blocks.iter().copied(), columns))?,
                strides,
            ))
        });
        Ok(Self {
            tensors: [upload(stream, q)?, upload(stream, k)?, upload(stream, v)?],
            mask: mask.transpose()?,
            key_lengths: key_lengths.transpose()?,
            blocks: blocks.transpose()?,
            shape: Shape {
                scale: options.scale,
                causal: options.causal,
                window: options.window,
                dropout: options.dropout,
                ..Shape::packed(sizes)
            },
        })
    }

    /// The problem as a launch takes it.
    pub fn inputs(&self) -> Inputs<'_, T> {
        let [q, k, v] = self.tensors.each_ref().map(CudaSlice::as_view);
        Inputs {
            mask: self.mask.as_ref().map(|(values, strides)| Additive {
                values: values.as_view(),
                strides: *strides,
            }),
            key_lengths: self.key_lengths.as_ref().map(CudaSlice::as_view),
            blocks: self.blocks.as_ref().map(|(words, strides)| BlockMask {
                values: words.as_view(),
                strides: *strides,
            }),
            ..Inputs::new(q, k, v)
        }
    }
}

fn refused(error: impl Into<stage4::Error>) -> Error {
    error.into().into()
}
