//! The masks of a problem in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, DriverError};
use gpu::arguments::{Strides, pack_bits, upload};
use stage4_flash_cuda as stage4;
use stage4_flash_cuda::{Additive, BlockMask, Inputs, Shape, Sizes};

use crate::error::Error;

/// The options of a problem that are tensors, copied to the device.
pub struct Masks {
    mask: Option<(CudaSlice<f32>, Strides)>,
    key_lengths: Option<CudaSlice<i32>>,
    blocks: Option<(CudaSlice<u32>, Strides)>,
}

impl Masks {
    /// Checks the options of a problem, and copies its masks to the device.
    pub fn upload(
        stream: &Arc<CudaStream>,
        sizes: &Sizes,
        options: &stage4::Options,
    ) -> Result<Self, Error> {
        let checked = options.check("attention", sizes);
        checked.map_err(stage4::Error::from)?;
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
            mask: mask.transpose()?,
            key_lengths: key_lengths.transpose()?,
            blocks: blocks.transpose()?,
        })
    }

    /// What a launch reads: tensors with these masks.
    pub fn inputs<'a, T>(&'a self, [q, k, v]: [CudaView<'a, T>; 3]) -> Inputs<'a, T> {
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

/// The sizes and options of a problem whose tensors are packed.
pub fn packed(sizes: Sizes, options: &stage4::Options) -> Shape {
    Shape {
        scale: options.scale,
        causal: options.causal,
        window: options.window,
        dropout: options.dropout,
        ..Shape::packed(sizes)
    }
}
