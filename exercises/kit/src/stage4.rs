//! The calls of stage 4: attention in device memory, its gradients, and the tile of a kernel.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr};
use half::f16;
use serde::{Deserialize, Serialize};
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{
    BackwardInputs, Error, Fused, FusedBackward, Gradients, Inputs, Outputs, Rung, Shape, Sizes,
};

use crate::cuda::{self, Buffer, Called, Device, Reading, StridedBuffer, StridedTensor};
use crate::frame::{Broken, Plain, Tensor};
use crate::message::Run;
use crate::serving::Answer;

/// A call. Tensors are the whole memory behind a view, packed or not. It gives the tensors that it
/// writes.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// Of the tasks on the forward pass.
    Forward(Box<Forward>),
    /// Of the bonus task `backward`.
    Backward(Box<Backward>),
    /// Of the bonus task `tune`. It gives BLOCK_Q, BLOCK_KV and THREADS.
    Tile(Sizes),
}

/// [`Fused::forward`].
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the arguments of the method")]
pub struct Forward {
    /// The bonus task whose kernel computes, on tensors of f16; `None` for task `flash`, in f32.
    pub bonus: Option<Rung>,
    pub inputs: InputTensors,
    pub o: Tensor,
    pub lse: Option<Tensor>,
    pub shape: Shape,
}

/// [`FusedBackward::backward`].
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the arguments of the method")]
pub struct Backward {
    pub inputs: InputTensors,
    pub o: Tensor,
    pub lse: Tensor,
    pub d_o: Tensor,
    pub dq: Tensor,
    pub dk: Tensor,
    pub dv: Tensor,
    pub shape: Shape,
}

/// [`Inputs`] in a message.
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are those of `Inputs`")]
pub struct InputTensors {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub mask: Option<StridedTensor>,
    pub key_lengths: Option<Tensor>,
    pub blocks: Option<StridedTensor>,
}

/// [`Inputs`] in device memory.
struct InputBuffers<T> {
    q: Buffer<T>,
    k: Buffer<T>,
    v: Buffer<T>,
    mask: Option<StridedBuffer<f32>>,
    key_lengths: Option<Buffer<i32>>,
    blocks: Option<StridedBuffer<u32>>,
}

impl<T: Plain + DeviceRepr> InputBuffers<T> {
    fn new(device: &Device, inputs: &InputTensors) -> Result<Self, Broken> {
        Ok(Self {
            q: device.upload(&inputs.q)?,
            k: device.upload(&inputs.k)?,
            v: device.upload(&inputs.v)?,
            mask: device.upload_strided(&inputs.mask)?,
            key_lengths: device.upload_some(&inputs.key_lengths)?,
            blocks: device.upload_strided(&inputs.blocks)?,
        })
    }

    /// The call, as one that failed if it has changed q, k or v.
    fn unchanged(
        &self,
        device: &Device,
        mut called: Called,
        inputs: &InputTensors,
    ) -> Result<Called, Broken> {
        for (name, buffer, tensor) in [
            ("q", &self.q, &inputs.q),
            ("k", &self.k, &inputs.k),
            ("v", &self.v, &inputs.v),
        ] {
            called = device.unchanged(called, name, buffer, tensor)?;
        }
        Ok(called)
    }

    fn views(&self) -> Inputs<'_, T> {
        Inputs {
            q: self.q.view(),
            k: self.k.view(),
            v: self.v.view(),
            mask: self.mask.as_ref().map(StridedBuffer::view),
            key_lengths: self.key_lengths.as_ref().map(Buffer::view),
            blocks: self.blocks.as_ref().map(StridedBuffer::view),
        }
    }
}

/// Answers calls of the stage's interface. `flash` gets the stream, and so do `bonus`, which gets a
/// bonus task, too, and `backward`. `tile` is the whole of task `tune`.
pub fn serve<F, B, G>(
    flash: fn(&Arc<CudaStream>) -> F,
    bonus: fn(&Arc<CudaStream>, Rung) -> B,
    backward: fn(&Arc<CudaStream>) -> G,
    tile: fn(&Sizes) -> Tile,
) -> !
where
    F: Fused<Error = Error> + 'static,
    B: Fused<f16, Error = Error> + 'static,
    G: FusedBackward<Error = Error> + 'static,
{
    serve_any(
        &|stream| Box::new(flash(stream)),
        &|stream, rung| Box::new(bonus(stream, rung)),
        &|stream| Box::new(backward(stream)),
        tile,
        F::argument_of,
    )
}

type Own<T> = Box<dyn Fused<T, Error = Error>>;

type OwnBackward = Box<dyn FusedBackward<Error = Error>>;

fn serve_any(
    flash: &dyn Fn(&Arc<CudaStream>) -> Own<f32>,
    bonus: &dyn Fn(&Arc<CudaStream>, Rung) -> Own<f16>,
    backward: &dyn Fn(&Arc<CudaStream>) -> OwnBackward,
    tile: fn(&Sizes) -> Tile,
    argument: fn(&Error) -> Option<&str>,
) -> ! {
    let reading = Reading {
        argument,
        loading: |error| match error {
            Error::Load(error) => Some(error),
            _ => None,
        },
    };
    cuda::serve(
        |device| Ok(flash(device.stream())),
        |device, own: &Own<f32>, call, run| match call {
            Call::Forward(call) => match call.bonus {
                None => forward(device, &**own, &reading, &call, run),
                Some(rung) => {
                    let own = bonus(device.stream(), rung);
                    forward(device, &*own, &reading, &call, run)
                }
            },
            Call::Backward(call) => {
                let own = backward(device.stream());
                gradients(device, &*own, &reading, &call, run)
            }
            Call::Tile(sizes) => {
                let mut chosen = Vec::new();
                let called = device.call(run, &reading, || {
                    let tile = tile(&sizes);
                    let numbers = [tile.block_q, tile.block_kv, tile.threads];
                    chosen.extend(numbers.map(|n| u32::try_from(n).unwrap_or(u32::MAX)));
                    Ok(())
                });
                Ok(called.answer(vec![Tensor::vector(&chosen)]))
            }
        },
    )
}

fn forward<T: Plain + DeviceRepr>(
    device: &Device,
    own: &dyn Fused<T, Error = Error>,
    reading: &Reading<Error>,
    call: &Forward,
    run: Run,
) -> Result<Answer, Broken> {
    let inputs = InputBuffers::new(device, &call.inputs)?;
    let mut o = device.upload(&call.o)?;
    let mut lse = device.upload_some::<f32>(&call.lse)?;
    let called = device.call(run, reading, || {
        let outputs = Outputs {
            o: o.view_mut(),
            lse: lse.as_mut().map(Buffer::view_mut),
        };
        own.forward(inputs.views(), outputs, &call.shape)
    });
    let called = inputs.unchanged(device, called, &call.inputs)?;
    let mut outputs = vec![device.read(&o)?];
    if let Some(lse) = &lse {
        outputs.push(device.read(lse)?);
    }
    Ok(called.answer(outputs))
}

fn gradients(
    device: &Device,
    own: &dyn FusedBackward<Error = Error>,
    reading: &Reading<Error>,
    call: &Backward,
    run: Run,
) -> Result<Answer, Broken> {
    let forward = InputBuffers::new(device, &call.inputs)?;
    let [o, lse, d_o] = [&call.o, &call.lse, &call.d_o].map(|tensor| device.upload(tensor));
    let (o, lse, d_o) = (o?, lse?, d_o?);
    let [dq, dk, dv] = [&call.dq, &call.dk, &call.dv].map(|tensor| device.upload(tensor));
    let (mut dq, mut dk, mut dv) = (dq?, dk?, dv?);
    let called = device.call(run, reading, || {
        let inputs = BackwardInputs {
            forward: forward.views(),
            o: o.view(),
            lse: lse.view(),
            d_o: d_o.view(),
        };
        let gradients = Gradients {
            dq: dq.view_mut(),
            dk: dk.view_mut(),
            dv: dv.view_mut(),
        };
        own.backward(inputs, gradients, &call.shape)
    });
    let mut called = forward.unchanged(device, called, &call.inputs)?;
    for (name, buffer, tensor) in [
        ("o", &o, &call.o),
        ("lse", &lse, &call.lse),
        ("d_o", &d_o, &call.d_o),
    ] {
        called = device.unchanged(called, name, buffer, tensor)?;
    }
    device.answer::<f32>(called, &[Some(&dq), Some(&dk), Some(&dv)])
}
