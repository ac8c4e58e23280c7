//! The calls of stage 2: the steps of attention, in device memory.

use std::env;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use stage2_naive_cuda::{Error, GemmRung, Ladder, SoftmaxRung, Step, Steps};

use crate::cuda::{self, Buffer, Device, Reading};
use crate::frame::{Broken, Tensor};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Steps`]. It gives the tensors that the step writes.
pub type Call = Step<Tensor, Tensor>;

/// Answers calls of the stage's interface. `make` gets the stream, and the solution: the steps that
/// attention is made of, unless the learner's own are asked for.
pub fn serve<S: Steps<Error = Error> + 'static>(
    make: fn(&Arc<CudaStream>, Option<Ladder>) -> S,
) -> ! {
    serve_any(
        &|stream, lower| Box::new(make(stream, lower)),
        S::argument_of,
    )
}

type Own = Box<dyn Steps<Error = Error>>;

fn serve_any(
    make: &dyn Fn(&Arc<CudaStream>, Option<Ladder>) -> Own,
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
            let solution = Ladder {
                stream: device.stream().clone(),
                gemm: GemmRung::Tiled,
                softmax: SoftmaxRung::Tree,
            };
            let lower = env::var_os(crate::OWN).is_none().then_some(solution);
            Ok(make(device.stream(), lower))
        },
        |device, own: &Own, call, run| answer(device, &**own, &reading, call, run),
    )
}

/// The inputs of a call with their names, in device memory and as they came.
fn inputs<'a>(
    buffers: &'a Step<Buffer<f32>, Buffer<f32>>,
    call: &'a Call,
) -> Vec<(&'static str, &'a Buffer<f32>, &'a Tensor)> {
    match (buffers, call) {
        (Step::Gemm { a, b, .. }, Step::Gemm { a: x, b: y, .. }) => vec![("a", a, x), ("b", b, y)],
        (
            Step::Attention { q, k, v, .. },
            Step::Attention {
                q: x, k: y, v: z, ..
            },
        ) => vec![("q", q, x), ("k", k, y), ("v", v, z)],
        _ => Vec::new(),
    }
}

fn answer(
    device: &Device,
    own: &dyn Steps<Error = Error>,
    reading: &Reading<Error>,
    mut call: Call,
    run: Run,
) -> Result<Answer, Broken> {
    let upload = |tensor: &Tensor| device.upload::<f32>(tensor);
    let mut buffers = call.try_map(upload, |tensor| upload(tensor))?;
    let views = buffers.try_map(
        |input| Ok(Buffer::view(input)),
        |output| Ok::<_, Broken>(Buffer::view_mut(output)),
    )?;
    let mut called = device.call(run, reading, || own.run(views));
    for (name, buffer, tensor) in inputs(&buffers, &call) {
        called = device.unchanged(called, name, buffer, tensor)?;
    }
    let (first, second) = buffers.outputs();
    device.answer::<f32>(called, &[Some(first), second.as_deref()])
}
