//! The calls of stage 2: the steps of attention, in device memory.

use std::env;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use serde::{Deserialize, Serialize};
use stage2_naive_cuda::{
    AttentionInputs, AttentionOutputs, AttentionShape, Error, Gemm, Kernels, ScaleAndMask, Softmax,
    Steps,
};

use crate::cuda::{self, Buffer, Device, Reading, StridedBuffer, StridedTensor};
use crate::frame::{Broken, Tensor};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Steps`]. Tensors are the whole memory behind a view, packed or not. A call gives the tensors that it writes.
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods")]
pub enum Call {
    /// [`Steps::softmax`].
    Softmax {
        x: Tensor,
        lse: Option<Tensor>,
        shape: Softmax,
    },
    /// [`Steps::gemm_nt`].
    GemmNt(Product),
    /// [`Steps::gemm_nn`].
    GemmNn(Product),
    /// [`Steps::scale_and_mask`].
    ScaleAndMask {
        scores: Tensor,
        mask: Option<StridedTensor>,
        shape: ScaleAndMask,
    },
    /// [`Steps::attention`].
    Attention {
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Option<StridedTensor>,
        o: Tensor,
        lse: Option<Tensor>,
        shape: AttentionShape,
    },
}

/// The arguments of a matrix product.
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods")]
pub struct Product {
    pub a: Tensor,
    pub b: Tensor,
    pub c: Tensor,
    pub shape: Gemm,
}

/// Answers calls of the stage's interface. `make` gets the stream, and the solution's kernels: the steps that attention is
/// made of, unless the learner's own are asked for.
pub fn serve<S: Steps<Error = Error> + 'static>(
    make: fn(&Arc<CudaStream>, Option<Kernels>) -> S,
) -> ! {
    serve_any(
        &|stream, lower| Box::new(make(stream, lower)),
        S::argument_of,
    )
}

type Own = Box<dyn Steps<Error = Error>>;

fn serve_any(
    make: &dyn Fn(&Arc<CudaStream>, Option<Kernels>) -> Own,
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
        |device| {
            let lower = match env::var_os(crate::OWN) {
                Some(_) => None,
                None => Some(Kernels::new(device.stream()).map_err(|error| error.to_string())?),
            };
            Ok(make(device.stream(), lower))
        },
        |device, own: &Own, call, run| answer(device, &**own, &reading, call, run),
    )
}

fn answer(
    device: &Device,
    own: &dyn Steps<Error = Error>,
    reading: &Reading<Error>,
    call: Call,
    run: Run,
) -> Result<Answer, Broken> {
    match &call {
        Call::Softmax { x, lse, shape } => {
            let (mut x, mut lse) = (device.upload(x)?, device.upload_some(lse)?);
            let called = device.call(run, reading, || {
                let lse = lse.as_mut().map(Buffer::view_mut);
                own.softmax(x.view_mut(), lse, shape)
            });
            device.answer::<f32>(called, &[Some(&x), lse.as_ref()])
        }
        Call::GemmNt(product) | Call::GemmNn(product) => {
            let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
            let mut c = device.upload(&product.c)?;
            let called = device.call(run, reading, || match call {
                Call::GemmNt(_) => own.gemm_nt(a.view(), b.view(), c.view_mut(), &product.shape),
                _ => own.gemm_nn(a.view(), b.view(), c.view_mut(), &product.shape),
            });
            device.answer::<f32>(called, &[Some(&c)])
        }
        Call::ScaleAndMask {
            scores,
            mask,
            shape,
        } => {
            let mut scores = device.upload(scores)?;
            let mask = device.upload_strided(mask)?;
            let called = device.call(run, reading, || {
                let mask = mask.as_ref().map(StridedBuffer::view);
                own.scale_and_mask(scores.view_mut(), mask, shape)
            });
            device.answer::<f32>(called, &[Some(&scores)])
        }
        Call::Attention {
            q,
            k,
            v,
            mask,
            o,
            lse,
            shape,
        } => {
            let (q, k, v) = (device.upload(q)?, device.upload(k)?, device.upload(v)?);
            let mask = device.upload_strided(mask)?;
            let (mut o, mut lse) = (device.upload(o)?, device.upload_some(lse)?);
            let called = device.call(run, reading, || {
                let inputs = AttentionInputs {
                    q: q.view(),
                    k: k.view(),
                    v: v.view(),
                    mask: mask.as_ref().map(StridedBuffer::view),
                };
                let outputs = AttentionOutputs {
                    o: o.view_mut(),
                    lse: lse.as_mut().map(Buffer::view_mut),
                };
                own.attention(inputs, outputs, shape)
            });
            device.answer::<f32>(called, &[Some(&o), lse.as_ref()])
        }
    }
}
