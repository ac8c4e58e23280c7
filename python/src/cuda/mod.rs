//! Stage 4's library on CUDA tensors where they lie: on their library's stream, in the device's
//! primary context. Nothing here was measured on hardware.

mod device;
mod tensor;

use half::{bf16, f16};
use pyo3::prelude::*;
use stage4_flash_cuda::{BackwardInputs, Gradients, Outputs, Shape};

use crate::dlpack::{DataType, Managed};
use crate::error::Error;
use crate::options::Options;
use crate::stage4::{DeviceElement, Masks, TYPES, packed, sizes_of};
use device::{Current, Device};
use tensor::CudaTensor;

/// Writes `o` and `lse`, which `cpu_forward` would return, in tensors of the caller: `o` as `q`,
/// `lse` float32, both packed.
///
/// Launches on `stream`, a `CUstream`, and does not wait. Without one it is the default stream, on
/// which DLPack hands tensors over, and the call waits, as the caller may read on any other.
#[pyfunction]
#[pyo3(signature = (q, k, v, options, o, lse, stream))]
#[expect(clippy::too_many_arguments, reason = "the tensors of the forward pass")]
pub fn cuda_forward(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    options: &Bound<'_, Options>,
    o: &Bound<'_, PyAny>,
    lse: &Bound<'_, PyAny>,
    stream: Option<usize>,
) -> PyResult<()> {
    let tensors = [
        Managed::new("q", q)?,
        Managed::new("k", k)?,
        Managed::new("v", v)?,
        Managed::new("o", o)?,
    ];
    let lse = Managed::new("lse", lse)?;
    match tensors[0].data_type() {
        DataType::FLOAT32 => forward::<f32>(py, tensors, lse, options, stream),
        DataType::FLOAT16 => forward::<f16>(py, tensors, lse, options, stream),
        DataType::BFLOAT16 => forward::<bf16>(py, tensors, lse, options, stream),
        _ => Err(tensors[0].refuse_type(TYPES)),
    }
}

/// Writes the gradients `dq`, `dk` and `dv`, which `cpu_backward` would return, in tensors of the
/// caller. All tensors are packed.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the tensors of the backward pass"
)]
pub fn cuda_backward(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    options: &Bound<'_, Options>,
    o: &Bound<'_, PyAny>,
    lse: &Bound<'_, PyAny>,
    d_o: &Bound<'_, PyAny>,
    dq: &Bound<'_, PyAny>,
    dk: &Bound<'_, PyAny>,
    dv: &Bound<'_, PyAny>,
    stream: usize,
) -> PyResult<()> {
    let tensors = [
        Managed::new("q", q)?,
        Managed::new("k", k)?,
        Managed::new("v", v)?,
        Managed::new("o", o)?,
        Managed::new("d_o", d_o)?,
        Managed::new("dq", dq)?,
        Managed::new("dk", dk)?,
        Managed::new("dv", dv)?,
    ];
    let lse = Managed::new("lse", lse)?;
    match tensors[0].data_type() {
        DataType::FLOAT32 => backward::<f32>(py, tensors, lse, options, stream),
        DataType::FLOAT16 => backward::<f16>(py, tensors, lse, options, stream),
        DataType::BFLOAT16 => backward::<bf16>(py, tensors, lse, options, stream),
        _ => Err(tensors[0].refuse_type(TYPES)),
    }
}

fn forward<T: DeviceElement>(
    py: Python<'_>,
    tensors: [Managed; 4],
    lse: Managed,
    options: &Bound<'_, Options>,
    stream: Option<usize>,
) -> PyResult<()> {
    let _current = Current::save(&tensors[0])?;
    let device = Device::of(&tensors[0])?;
    let waits = stream.is_none();
    let stream = device.stream(stream.unwrap_or(0));
    for output in [&tensors[3], &lse] {
        output.check_writable()?;
    }
    let [q, k, v, o] = tensors.map(|tensor| CudaTensor::<T>::new(&device, &stream, tensor, 4));
    let (q, k, v, mut o) = (q?, k?, v?, o?);
    let mut lse = CudaTensor::<f32>::new(&device, &stream, lse, 3)?;
    let options = options.get().shared();
    // The tensors come back with the result: giving them back takes the interpreter's lock.
    let (launched, _tensors) = py.detach(move || {
        let mut launch = || {
            let sizes = sizes_of(q.dim(), k.dim(), v.dim())?;
            let masks = Masks::upload(&stream, &sizes, &options)?;
            let shape = Shape {
                q: q.strides(),
                k: k.strides(),
                v: v.strides(),
                o: o.strides(),
                ..packed(sizes, &options)
            };
            let outputs = Outputs {
                o: o.view_mut(),
                lse: Some(lse.view_mut()),
            };
            let inputs = masks.inputs([q.view(), k.view(), v.view()]);
            T::forward(&device.attention, &stream, inputs, outputs, &shape)?;
            if waits {
                stream.synchronize()?;
            }
            Ok::<_, Error>(())
        };
        (launch(), (q, k, v, o, lse))
    });
    Ok(launched?)
}

fn backward<T: DeviceElement>(
    py: Python<'_>,
    tensors: [Managed; 8],
    lse: Managed,
    options: &Bound<'_, Options>,
    stream: usize,
) -> PyResult<()> {
    let _current = Current::save(&tensors[0])?;
    let device = Device::of(&tensors[0])?;
    let stream = device.stream(stream);
    for gradient in &tensors[5..] {
        gradient.check_writable()?;
    }
    let tensors = tensors.map(|tensor| CudaTensor::<T>::new(&device, &stream, tensor, 4));
    let [q, k, v, o, d_o, dq, dk, dv] = tensors;
    let (q, k, v, o, d_o) = (q?, k?, v?, o?, d_o?);
    let (mut dq, mut dk, mut dv) = (dq?, dk?, dv?);
    let lse = CudaTensor::<f32>::new(&device, &stream, lse, 3)?;
    let options = options.get().shared();
    let (launched, _tensors) = py.detach(move || {
        let mut launch = || {
            let sizes = sizes_of(q.dim(), k.dim(), v.dim())?;
            let masks = Masks::upload(&stream, &sizes, &options)?;
            let inputs = BackwardInputs {
                forward: masks.inputs([q.view(), k.view(), v.view()]),
                o: o.view(),
                lse: lse.view(),
                d_o: d_o.view(),
            };
            let gradients = Gradients {
                dq: dq.view_mut(),
                dk: dk.view_mut(),
                dv: dv.view_mut(),
            };
            let shape = packed(sizes, &options);
            T::backward(&device.backward, &stream, inputs, gradients, &shape)?;
            Ok::<_, Error>(())
        };
        (launch(), (q, k, v, o, d_o, dq, dk, dv, lse))
    });
    Ok(launched?)
}
