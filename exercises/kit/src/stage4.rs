//! The calls of stage 4: attention in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr};
use half::f16;
use serde::{Deserialize, Serialize};
use stage4_flash_cuda::{Error, Fused, Inputs, Outputs, Rung, Shape};

use crate::cuda::{self, Buffer, Device, Reading, StridedBuffer, StridedTensor};
use crate::frame::{Broken, Plain, Tensor};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Fused::forward`]. Tensors are the whole memory behind a view, packed or
/// not. It gives o and lse.
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the arguments of the method")]
pub struct Call {
    /// The bonus task whose kernel computes, on tensors of f16; `None` for task `flash`, in f32.
    pub bonus: Option<Rung>,
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub mask: Option<StridedTensor>,
    pub key_lengths: Option<Tensor>,
    pub blocks: Option<StridedTensor>,
    pub o: Tensor,
    pub lse: Option<Tensor>,
    pub shape: Shape,
}

/// Answers calls of the stage's interface. `flash` gets the stream, and `bonus` a bonus
/// task, too.
pub fn serve<F: Fused<Error = Error> + 'static, B: Fused<f16, Error = Error> + 'static>(
    flash: fn(&Arc<CudaStream>) -> F,
    bonus: fn(&Arc<CudaStream>, Rung) -> B,
) -> ! {
    serve_any(
        &|stream| Box::new(flash(stream)),
        &|stream, rung| Box::new(bonus(stream, rung)),
        F::argument_of,
    )
}

type Own<T> = Box<dyn Fused<T, Error = Error>>;

fn serve_any(
    flash: &dyn Fn(&Arc<CudaStream>) -> Own<f32>,
    bonus: &dyn Fn(&Arc<CudaStream>, Rung) -> Own<f16>,
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
        |device, own: &Own<f32>, call: Call, run| match call.bonus {
            None => answer(device, &**own, &reading, &call, run),
            Some(rung) => {
                let own = bonus(device.stream(), rung);
                answer(device, &*own, &reading, &call, run)
            }
        },
    )
}

fn answer<T: Plain + DeviceRepr>(
    device: &Device,
    own: &dyn Fused<T, Error = Error>,
    reading: &Reading<Error>,
    call: &Call,
    run: Run,
) -> Result<Answer, Broken> {
    let (q, k) = (device.upload(&call.q)?, device.upload(&call.k)?);
    let v = device.upload(&call.v)?;
    let mask = device.upload_strided(&call.mask)?;
    let key_lengths = device.upload_some(&call.key_lengths)?;
    let blocks = device.upload_strided(&call.blocks)?;
    let mut o = device.upload(&call.o)?;
    let mut lse = device.upload_some::<f32>(&call.lse)?;
    let called = device.call(run, reading, || {
        let inputs = Inputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            mask: mask.as_ref().map(StridedBuffer::view),
            key_lengths: key_lengths.as_ref().map(Buffer::view),
            blocks: blocks.as_ref().map(StridedBuffer::view),
        };
        let outputs = Outputs {
            o: o.view_mut(),
            lse: lse.as_mut().map(Buffer::view_mut),
        };
        own.forward(inputs, outputs, &call.shape)
    });
    let mut outputs = vec![device.read(&o)?];
    if let Some(lse) = &lse {
        outputs.push(device.read(lse)?);
    }
    Ok(called.answer(outputs))
}
