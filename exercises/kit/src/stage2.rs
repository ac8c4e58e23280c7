//! The calls of stage 2: the steps of attention, in device memory.

use std::env;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use serde::{Deserialize, Serialize};
use stage1_reference::Sizes;
use stage2_naive_cuda::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Axis, Error, Gemm, Kernels,
    ScaleAndMask, Softmax, Steps, Strides,
};

use crate::cuda::{self, Device, Reading, of_array};
use crate::frame::{Broken, Tensors};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Steps`]. Tensors are the whole memory behind a view, packed or not.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// [`Steps::softmax`]. Takes x, and lse if there is one; gives both.
    Softmax {
        /// Sizes.
        #[serde(with = "SoftmaxFields")]
        shape: Softmax,
        /// Whether there is an lse.
        lse: bool,
    },
    /// [`Steps::gemm_nt`]. Takes a, b, c; gives c.
    GemmNt(#[serde(with = "GemmFields")] Gemm),
    /// [`Steps::gemm_nn`]. Takes a, b, c; gives c.
    GemmNn(#[serde(with = "GemmFields")] Gemm),
    /// [`Steps::scale_and_mask`]. Takes the scores, and the mask if there is one; gives the scores.
    ScaleAndMask {
        /// Sizes.
        #[serde(with = "ScaleAndMaskFields")]
        shape: ScaleAndMask,
        /// Strides of the mask: batch, head, row.
        mask: Option<[usize; 3]>,
    },
    /// [`Steps::attention`]. Takes q, k, v, the mask if there is one, o, and lse if there is one; gives o and lse.
    Attention {
        /// Sizes and strides.
        #[serde(with = "AttentionShapeFields")]
        shape: AttentionShape,
        /// Strides of the mask: batch, head, row.
        mask: Option<[usize; 3]>,
        /// Whether there is an lse.
        lse: bool,
    },
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
    argument_of: fn(&Error) -> Option<&str>,
) -> ! {
    let reading = Reading {
        argument_of,
        of_loading: |error| match error {
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
        |device, own: &Own, call, tensors, run| {
            answer(device, &**own, &reading, call, tensors, run)
        },
    )
}

fn answer(
    device: &Device,
    own: &dyn Steps<Error = Error>,
    reading: &Reading<Error>,
    call: Call,
    tensors: &mut Tensors,
    run: Run,
) -> Result<Answer, Broken> {
    let mut outputs = Vec::new();
    let (outcome, launches) = match call {
        Call::Softmax { shape, lse } => {
            let mut x = device.take(tensors)?;
            let mut lse = lse.then(|| device.take(tensors)).transpose()?;
            let called = device.call(run, reading, || {
                let lse = lse.as_mut().map(|lse| lse.view_mut());
                own.softmax(x.view_mut(), lse, &shape)
            });
            outputs.push(x);
            outputs.extend(lse);
            called
        }
        Call::GemmNt(shape) | Call::GemmNn(shape) => {
            let (a, b, mut c) = (
                device.take(tensors)?,
                device.take(tensors)?,
                device.take(tensors)?,
            );
            let called = device.call(run, reading, || match call {
                Call::GemmNt(_) => own.gemm_nt(a.view(), b.view(), c.view_mut(), &shape),
                _ => own.gemm_nn(a.view(), b.view(), c.view_mut(), &shape),
            });
            outputs.push(c);
            called
        }
        Call::ScaleAndMask { shape, mask } => {
            let mut scores = device.take(tensors)?;
            let values = mask.map(|_| device.take(tensors)).transpose()?;
            let called = device.call(run, reading, || {
                let mask = mask.zip(values.as_ref()).map(|(strides, values)| Additive {
                    values: values.view(),
                    strides: of_array(strides),
                });
                own.scale_and_mask(scores.view_mut(), mask, &shape)
            });
            outputs.push(scores);
            called
        }
        Call::Attention { shape, mask, lse } => {
            let (q, k, v) = (
                device.take(tensors)?,
                device.take(tensors)?,
                device.take(tensors)?,
            );
            let values = mask.map(|_| device.take(tensors)).transpose()?;
            let mut o = device.take(tensors)?;
            let mut lse = lse.then(|| device.take(tensors)).transpose()?;
            let called = device.call(run, reading, || {
                let mask = mask.zip(values.as_ref()).map(|(strides, values)| Additive {
                    values: values.view(),
                    strides: of_array(strides),
                });
                let inputs = AttentionInputs {
                    q: q.view(),
                    k: k.view(),
                    v: v.view(),
                    mask,
                };
                let outputs = AttentionOutputs {
                    o: o.view_mut(),
                    lse: lse.as_mut().map(|lse| lse.view_mut()),
                };
                own.attention(inputs, outputs, &shape)
            });
            outputs.push(o);
            outputs.extend(lse);
            called
        }
    };
    let tensors = outputs.iter().map(|output| device.give::<f32>(output));
    Ok(Answer {
        outcome,
        tensors: tensors.collect::<Result<_, _>>()?,
        launches,
        device_bytes: 0,
    })
}

// The fields of the stage's types, for serde.

#[derive(Serialize, Deserialize)]
#[serde(remote = "Strides")]
struct StridesFields {
    batch: usize,
    head: usize,
    row: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Axis")]
enum AxisNames {
    Last,
    NextToLast,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Softmax")]
struct SoftmaxFields {
    batch: usize,
    rows: usize,
    columns: usize,
    #[serde(with = "AxisNames")]
    axis: Axis,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Gemm")]
struct GemmFields {
    batch: usize,
    heads: usize,
    b_heads: usize,
    m: usize,
    n: usize,
    k: usize,
    #[serde(with = "StridesFields")]
    a: Strides,
    #[serde(with = "StridesFields")]
    b: Strides,
    #[serde(with = "StridesFields")]
    c: Strides,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScaleAndMask")]
struct ScaleAndMaskFields {
    batch: usize,
    heads: usize,
    nq: usize,
    nk: usize,
    #[serde(with = "crate::frame::bits")]
    scale: f32,
    causal: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Sizes")]
struct SizesFields {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    nq: usize,
    nk: usize,
    head_dim: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AttentionShape")]
struct AttentionShapeFields {
    #[serde(with = "SizesFields")]
    sizes: Sizes,
    #[serde(with = "crate::frame::optional_bits")]
    scale: Option<f32>,
    causal: bool,
    #[serde(with = "StridesFields")]
    q: Strides,
    #[serde(with = "StridesFields")]
    k: Strides,
    #[serde(with = "StridesFields")]
    v: Strides,
    #[serde(with = "StridesFields")]
    o: Strides,
}
