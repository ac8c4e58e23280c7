//! The calls of stage 4: attention in device memory.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use serde::{Deserialize, Serialize};
use stage1_reference::{Sizes, Window};
use stage4_flash_cuda::{Additive, BlockMask, Error, Fused, Inputs, Outputs, Shape};

use crate::cuda::{self, Buffer, Device, Reading, array_of, of_array};
use crate::frame::{Broken, Tensors};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Fused`]. Tensors are the whole memory behind a view, packed or not.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// [`Fused::forward`]. Takes q, k, v, the additive mask, the key lengths and the block mask, as far as there are any, o, and
    /// lse if there is one; gives o and lse.
    Forward {
        /// Sizes, strides and options.
        shape: Fields,
        /// Strides of the additive mask.
        mask: Option<[usize; 3]>,
        /// Whether there are key lengths.
        key_lengths: bool,
        /// Strides of the block mask.
        blocks: Option<[usize; 3]>,
        /// Whether there is an lse.
        lse: bool,
    },
}

/// [`Shape`], as a message has it.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Fields {
    /// batch, heads, kv_heads, nq, nk, head_dim.
    sizes: [usize; 6],
    /// The bits: JSON has no NaN.
    scale: Option<u32>,
    causal: bool,
    /// Left and right.
    window: Option<[usize; 2]>,
    /// Of q, k, v and o.
    strides: [[usize; 3]; 4],
}

impl Fields {
    /// The fields of a shape.
    pub fn of(shape: &Shape) -> Self {
        let s = shape.sizes;
        Self {
            sizes: [s.batch, s.heads, s.kv_heads, s.nq, s.nk, s.head_dim],
            scale: shape.scale.map(f32::to_bits),
            causal: shape.causal,
            window: shape.window.map(|window| [window.left, window.right]),
            strides: [shape.q, shape.k, shape.v, shape.o].map(array_of),
        }
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        let [batch, heads, kv_heads, nq, nk, head_dim] = self.sizes;
        let sizes = Sizes {
            batch,
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
        };
        let [q, k, v, o] = self.strides.map(of_array);
        Shape {
            sizes,
            scale: self.scale.map(f32::from_bits),
            causal: self.causal,
            window: self.window.map(|[left, right]| Window { left, right }),
            q,
            k,
            v,
            o,
        }
    }
}

/// Answers calls of the stage's interface. `make` gets the stream.
pub fn serve<F: Fused<Error = Error> + 'static>(make: fn(&Arc<CudaStream>) -> F) -> ! {
    serve_any(&|stream| Box::new(make(stream)), F::argument_of)
}

type Own = Box<dyn Fused<Error = Error>>;

fn serve_any(make: &dyn Fn(&Arc<CudaStream>) -> Own, argument_of: fn(&Error) -> Option<&str>) -> ! {
    let reading = Reading {
        argument_of,
        of_loading: |error| match error {
            Error::Load(error) => Some(error),
            _ => None,
        },
    };
    cuda::serve(
        |device| Ok(make(device.stream())),
        |device, own: &Own, call, tensors, run| {
            answer(device, &**own, &reading, call, tensors, run)
        },
    )
}

fn answer(
    device: &Device,
    own: &dyn Fused<Error = Error>,
    reading: &Reading<Error>,
    call: Call,
    tensors: &mut Tensors,
    run: Run,
) -> Result<Answer, Broken> {
    let Call::Forward {
        shape,
        mask,
        key_lengths,
        blocks,
        lse,
    } = call;
    let [q, k, v] = [
        device.take(tensors)?,
        device.take(tensors)?,
        device.take(tensors)?,
    ];
    let of_mask = mask.map(|_| device.take(tensors)).transpose()?;
    let lengths: Option<Buffer<i32>> = key_lengths.then(|| device.take(tensors)).transpose()?;
    let of_blocks = blocks.map(|_| device.take(tensors)).transpose()?;
    let mut o = device.take(tensors)?;
    let mut lse = lse.then(|| device.take(tensors)).transpose()?;
    let (outcome, launches) = device.call(run, reading, || {
        let inputs = Inputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            mask: mask
                .zip(of_mask.as_ref())
                .map(|(strides, values)| Additive {
                    values: values.view(),
                    strides: of_array(strides),
                }),
            key_lengths: lengths.as_ref().map(Buffer::view),
            blocks: blocks
                .zip(of_blocks.as_ref())
                .map(|(strides, values)| BlockMask {
                    values: values.view(),
                    strides: of_array(strides),
                }),
        };
        let outputs = Outputs {
            o: o.view_mut(),
            lse: lse.as_mut().map(Buffer::view_mut),
        };
        own.forward(inputs, outputs, &shape.shape())
    });
    let tensors = [Some(&o), lse.as_ref()].into_iter().flatten();
    Ok(Answer {
        outcome,
        tensors: tensors
            .map(|output| device.give::<f32>(output))
            .collect::<Result<_, _>>()?,
        launches,
        device_bytes: 0,
    })
}
