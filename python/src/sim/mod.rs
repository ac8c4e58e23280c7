//! Stage 4's library on the simulated device: every access of its kernels is checked and counted.

mod element;
mod problem;

use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaSlice, CudaStream};
use gpu::arguments::{download, upload};
use gpu_launch::report::Report;
use half::{bf16, f16};
use ndarray::{Array, Array3, Array4, ArrayView4, Ix3, Ix4};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use stage4_flash_cuda as stage4;
use stage4_flash_cuda::{Attention, Backward, BackwardInputs, Gradients, Outputs};

use crate::dlpack::{DataType, Exported, Managed, Tensor};
use crate::error::Error;
use crate::job::{self, Place};
use crate::options::Options;
use element::DeviceElement;
use problem::Problem;

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

const TYPES: &str = "float32, float16 or bfloat16";

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

/// The simulated device of this process, with the kernels that it has loaded.
struct Device {
    stream: Arc<CudaStream>,
    attention: Attention,
    backward: Backward,
}

/// Runs `work` on the device, after the work of earlier calls. The first call opens it.
fn on_device<I: Send + 'static, R: Send + 'static>(
    py: Python<'_>,
    inputs: I,
    work: impl FnOnce(&Device, &I) -> Result<R, Error> + Send + 'static,
) -> PyResult<R> {
    /// The process that has the simulator's threads.
    static OWNER: OnceLock<u32> = OnceLock::new();
    static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
    let process = process::id();
    if *OWNER.get_or_init(|| process) != process {
        return Err(PyRuntimeError::new_err(
            "the simulated device belongs to the process that this one was forked from: start \
             processes by `spawn`, or use the device after the fork only",
        ));
    }
    let result = job::run(py, Place::Thread, inputs, move |inputs| {
        // Work that panicked has left the handles whole: they change in single steps.
        let mut device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
        let device = match &mut *device {
            Some(device) => device,
            none => none.insert(Device::open()?),
        };
        work(device, inputs)
    })?;
    Ok(result?)
}

impl Device {
    fn open() -> Result<Self, Error> {
        gpu::simulate()?;
        let context = gpu::context(0)?;
        Ok(Self {
            stream: context.default_stream(),
            attention: Attention::new(&context)?,
            backward: Backward::new(&context)?,
        })
    }

    /// `o` and `lse`.
    fn forward<T: DeviceElement>(
        &self,
        tensors: [ArrayView4<'_, T>; 3],
        options: &stage4::Options,
    ) -> Result<(Array4<T>, Array3<f32>), Error> {
        let problem = Problem::upload(&self.stream, tensors, options)?;
        let s = problem.shape.sizes;
        let mut o = Array::from_elem((s.batch, s.heads, s.nq, s.head_dim), T::default());
        let mut lse = Array::zeros((s.batch, s.heads, s.nq));
        let mut device_o = upload(&self.stream, &o)?;
        let mut device_lse = upload(&self.stream, &lse)?;
        let outputs = Outputs {
            o: device_o.as_view_mut(),
            lse: Some(device_lse.as_view_mut()),
        };
        T::forward(
            &self.attention,
            &self.stream,
            problem.inputs(),
            outputs,
            &problem.shape,
        )?;
        download(&self.stream, &device_o, &mut o)?;
        download(&self.stream, &device_lse, &mut lse)?;
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
        let problem = Problem::upload(stream, tensors, options)?;
        let o = upload(stream, o)?;
        let d_o = upload(stream, d_o)?;
        let lse = upload(stream, lse)?;
        let inputs = BackwardInputs {
            forward: problem.inputs(),
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
            &problem.shape,
        )?;
        for (device, host) in on_device.iter().zip(&mut gradients) {
            download(stream, device, host)?;
        }
        Ok(gradients)
    }
}
