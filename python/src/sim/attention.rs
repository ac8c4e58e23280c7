//! Stage 4's library on the simulated device.

use cudarc::driver::CudaSlice;
use gpu::arguments::{download, upload};
use gpu_launch::report::Report;
use half::{bf16, f16};
use ndarray::{Array, Array3, Array4, ArrayView4, Ix3, Ix4};
use pyo3::prelude::*;
use stage4_flash_cuda as stage4;
use stage4_flash_cuda::{BackwardInputs, Gradients, Outputs};

use super::{Device, on_device};
use crate::dlpack::{DataType, Exported, Managed, Tensor};
use crate::error::Error;
use crate::options::Options;
use crate::stage4::{DeviceElement, Masks, TYPES, packed, sizes_of};

/// What [`sim_forward`] returns: `o`, `lse`, and the profile of each launch as JSON, if asked for.
type Forward = (Exported, Exported, Vec<String>);

/// `o` and `lse`, as `cpu_forward` computes them, with tensors in float32, float16 or bfloat16, and
/// the profiles of the launches as JSON if `profile` is true.
#[pyfunction]
pub fn sim_forward(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    options: &Bound<'_, Options>,
    profile: bool,
) -> PyResult<Forward> {
    let tensors = [
        Managed::new("q", q)?,
        Managed::new("k", k)?,
        Managed::new("v", v)?,
    ];
    match tensors[0].data_type() {
        DataType::FLOAT32 => forward::<f32>(py, tensors, options, profile),
        DataType::FLOAT16 => forward::<f16>(py, tensors, options, profile),
        DataType::BFLOAT16 => forward::<bf16>(py, tensors, options, profile),
        _ => Err(tensors[0].refuse_type(TYPES)),
    }
}

/// The gradients, as `cpu_backward` computes them, with tensors of the forward pass's type.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the tensors of the backward pass"
)]
pub fn sim_backward(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    options: &Bound<'_, Options>,
    o: &Bound<'_, PyAny>,
    lse: &Bound<'_, PyAny>,
    d_o: &Bound<'_, PyAny>,
) -> PyResult<[Exported; 3]> {
    let tensors = [
        Managed::new("q", q)?,
        Managed::new("k", k)?,
        Managed::new("v", v)?,
    ];
    let results = [Managed::new("o", o)?, Managed::new("d_o", d_o)?];
    let lse = Tensor::new("lse", lse)?;
    match tensors[0].data_type() {
        DataType::FLOAT32 => backward::<f32>(py, tensors, options, results, lse),
        DataType::FLOAT16 => backward::<f16>(py, tensors, options, results, lse),
        DataType::BFLOAT16 => backward::<bf16>(py, tensors, options, results, lse),
        _ => Err(tensors[0].refuse_type(TYPES)),
    }
}

fn forward<T: DeviceElement>(
    py: Python<'_>,
    tensors: [Managed; 3],
    options: &Bound<'_, Options>,
    profile: bool,
) -> PyResult<Forward> {
    let [q, k, v] = tensors.map(Managed::typed::<T, Ix4>);
    let tensors = [q?, k?, v?];
    for tensor in &tensors {
        tensor.check_room()?; // for its copy
    }
    let options = options.get().shared();
    let (o, lse, profiles) = on_device(py, tensors, move |device, [q, k, v]| {
        let tensors = [q.view(), k.view(), v.view()];
        let work = || device.forward(tensors, &options);
        if !profile {
            let (o, lse) = work()?;
            return Ok((o, lse, Vec::new()));
        }
        let (results, launches) = gpu::profile::profile(work)?;
        let (o, lse) = results?;
        let report = |launch| {
            Report::new(title(launch), launch, &|_| None)
                .json()
                .to_string()
        };
        Ok((o, lse, launches.iter().map(report).collect()))
    })?;
    Ok((Exported::new(o), Exported::new(lse), profiles))
}

/// The kernel and its launch, in words.
fn title(launch: &gpu::profile::LaunchProfile) -> String {
    let (kernel, grid, block) = (&launch.kernel, launch.grid, launch.block);
    format!("{kernel}, grid {grid:?}, block {block:?}")
}

fn backward<T: DeviceElement>(
    py: Python<'_>,
    tensors: [Managed; 3],
    options: &Bound<'_, Options>,
    results: [Managed; 2],
    lse: Tensor<f32, Ix3>,
) -> PyResult<[Exported; 3]> {
    let [q, k, v] = tensors.map(Managed::typed::<T, Ix4>);
    let [o, d_o] = results.map(Managed::typed::<T, Ix4>);
    let options = options.get().shared();
    let inputs = (q?, k?, v?, o?, d_o?, lse);
    let gradients = on_device(py, inputs, move |device, (q, k, v, o, d_o, lse)| {
        let tensors = [q.view(), k.view(), v.view()];
        let lse = lse.view().to_owned();
        device.backward(tensors, &options, [o.view(), d_o.view()], &lse)
    })?;
    Ok(gradients.map(Exported::new))
}

impl Device {
    /// `o` and `lse`.
    fn forward<T: DeviceElement>(
        &self,
        tensors: [ArrayView4<'_, T>; 3],
        options: &stage4::Options,
    ) -> Result<(Array4<T>, Array3<f32>), Error> {
        let stream = &self.stream;
        let [q, k, v] = tensors;
        let s = sizes_of(q.dim(), k.dim(), v.dim())?;
        let masks = Masks::upload(stream, &s, options)?;
        let mut o = Array::from_elem((s.batch, s.heads, s.nq, s.head_dim), T::default());
        let mut lse = Array::zeros((s.batch, s.heads, s.nq));
        let tensors = self.upload(tensors)?;
        let mut device_o = upload(stream, &o)?;
        let mut device_lse = upload(stream, &lse)?;
        let outputs = Outputs {
            o: device_o.as_view_mut(),
            lse: Some(device_lse.as_view_mut()),
        };
        let inputs = masks.inputs(tensors.each_ref().map(CudaSlice::as_view));
        T::forward(
            &self.attention,
            stream,
            inputs,
            outputs,
            &packed(s, options),
        )?;
        download(stream, &device_o, &mut o)?;
        download(stream, &device_lse, &mut lse)?;
        Ok((o, lse))
    }

    /// `dq`, `dk` and `dv`, given `o` and `d_o`, and `lse`.
    fn backward<T: DeviceElement>(
        &self,
        tensors: [ArrayView4<'_, T>; 3],
        options: &stage4::Options,
        [o, d_o]: [ArrayView4<'_, T>; 2],
        lse: &Array3<f32>,
    ) -> Result<[Array4<T>; 3], Error> {
        let stream = &self.stream;
        let mut gradients = tensors.map(|tensor| Array::from_elem(tensor.dim(), T::default()));
        let [q, k, v] = tensors;
        let sizes = sizes_of(q.dim(), k.dim(), v.dim())?;
        let masks = Masks::upload(stream, &sizes, options)?;
        let tensors = self.upload(tensors)?;
        let o = upload(stream, o)?;
        let d_o = upload(stream, d_o)?;
        let lse = upload(stream, lse)?;
        let inputs = BackwardInputs {
            forward: masks.inputs(tensors.each_ref().map(CudaSlice::as_view)),
            o: o.as_view(),
            lse: lse.as_view(),
            d_o: d_o.as_view(),
        };
        let [dq, dk, dv] = &gradients;
        let mut on_device = [
            upload(stream, dq)?,
            upload(stream, dk)?,
            upload(stream, dv)?,
        ];
        let [dq, dk, dv] = on_device.each_mut().map(CudaSlice::as_view_mut);
        T::backward(
            &self.backward,
            stream,
            inputs,
            Gradients { dq, dk, dv },
            &packed(sizes, options),
        )?;
        for (device, host) in on_device.iter().zip(&mut gradients) {
            download(stream, device, host)?;
        }
        Ok(gradients)
    }

    /// Copies the inputs to the device, packed.
    fn upload<T: DeviceElement>(
        &self,
        [q, k, v]: [ArrayView4<'_, T>; 3],
    ) -> Result<[CudaSlice<T>; 3], Error> {
        let stream = &self.stream;
        Ok([upload(stream, q)?, upload(stream, k)?, upload(stream, v)?])
    }
}
