//! The calls of stage 4: attention in device memory.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use serde::{Deserialize, Serialize};
use stage4_flash_cuda::{Error, Fused, Inputs, Outputs, Shape};

use crate::cuda::{self, Buffer, Device, Reading, StridedBuffer, StridedTensor};
use crate::frame::{Broken, Tensor};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Fused::forward`]. Tensors are the whole memory behind a view, packed or
/// not. It gives o and lse.
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the arguments of the method")]
pub struct Call {
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

/// Answers calls of the stage's interface. `make` gets the stream.
pub fn serve<F: Fused<Error = Error> + 'static>(make: fn(&Arc<CudaStream>) -> F) -> ! {
    serve_any(&|stream| Box::new(make(stream)), F::argument_of)
}

type Own = Box<dyn Fused<Error = Error>>;

fn serve_any(make: &dyn Fn(&Arc<CudaStream>) -> Own, argument: fn(&Error) -> Option<&str>) -> ! {
    let reading = Reading {
        argument,
        loading: |error| match error {
            Error::Load(error) => Some(error),
            _ => None,
        },
    };
    cuda::serve(
        |device| Ok(make(device.stream())),
        |device, own: &Own, call, run| answer(device, &**own, &reading, &call, run),
    )
}

fn answer(
    device: &Device,
    own: &dyn Fused<Error = Error>,
    reading: &Reading<Error>,
    call: &Call,
    run: Run,
) -> Result<Answer, Broken> {
    let (q, k) = (device.upload(&call.q)?, device.upload(&call.k)?);
    let v = device.upload(&call.v)?;
    let mask = device.upload_strided(&call.mask)?;
    let key_lengths = device.upload_some(&call.key_lengths)?;
    let blocks = device.upload_strided(&call.blocks)?;
    let (mut o, mut lse) = (device.upload(&call.o)?, device.upload_some(&call.lse)?);
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
    device.answer::<f32>(called, &[Some(&o), lse.as_ref()])
}
