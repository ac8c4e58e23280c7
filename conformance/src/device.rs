//! The device rig: a device, copies to and from it, strided tensors in its memory,
//! and profiles of launches.

use std::env;
use std::fmt::Display;
use std::process::Command;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr, DriverError};
use gpu::profile::LaunchProfile;
use ndarray::Array4;

use crate::layout::{Layout, Strided};
use crate::{Element, Outcome, Report};

/// A device, real or simulated.
#[derive(Debug)]
pub struct Device {
    /// Its default stream.
    pub stream: Arc<CudaStream>,
    /// Its name, for reports.
    pub name: String,
}

/// A launch or a copy that the driver reports as failed; with the driver's own words.
#[derive(Debug, thiserror::Error)]
#[error("{:?}: {}", .0.0, gpu::explanation(.0))]
pub struct Failed(DriverError);

impl Device {
    /// Opens the first device.
    ///
    /// # Panics
    ///
    /// If there is none, with the words of the error: they say what to do.
    pub fn open() -> Self {
        let context = gpu::context(0).unwrap_or_else(|error| panic!("{error}"));
        let name = gpu::device_label(&context).unwrap_or_else(|error| panic!("{error}"));
        let stream = context.default_stream();
        Self { stream, name }
    }

    /// Copies values to the device. A driver allocates no 0 bytes, so an empty array
    /// becomes one default value.
    ///
    /// # Panics
    ///
    /// If the device has no memory left.
    pub fn upload<'a, T: DeviceRepr + Default + Copy + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a T>,
    ) -> CudaSlice<T> {
        let copy = gpu::arguments::upload(&self.stream, values);
        copy.unwrap_or_else(|error| panic!("{}", gpu::explanation(&error)))
    }

    /// Waits, and copies all values back.
    ///
    /// # Errors
    ///
    /// [`Failed`] if a launch or the copy failed.
    pub fn read<T: DeviceRepr + Default + Clone>(
        &self,
        values: &CudaSlice<T>,
    ) -> Result<Vec<T>, Failed> {
        let values = self.stream.clone_dtoh(values).map_err(Failed)?;
        self.stream.synchronize().map_err(Failed)?;
        Ok(values)
    }

    /// Waits, and copies the first values back, as many as `into` has, in row-major order.
    ///
    /// # Errors
    ///
    /// [`Failed`] if a launch or the copy failed.
    pub fn read_into<'a>(
        &self,
        values: &CudaSlice<f32>,
        into: impl IntoIterator<Item = &'a mut f32>,
    ) -> Result<(), Failed> {
        for (x, value) in into.into_iter().zip(self.read(values)?) {
            *x = value;
        }
        Ok(())
    }

    /// As [`Device::read`].
    ///
    /// # Panics
    ///
    /// If a launch or the copy failed, with the words of the driver.
    pub fn download<T: DeviceRepr + Default + Clone>(&self, values: &CudaSlice<T>) -> Vec<T> {
        self.read(values).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A tensor in device memory, with NaN around it. Its values are rounded to `T`.
    pub fn input<T: Element>(&self, array: &Array4<f32>, layout: Layout) -> Tensor<T> {
        Tensor::new(self, Strided::input(array, layout))
    }

    /// A tensor in device memory that becomes an output, with guards around it.
    pub fn in_place<T: Element>(&self, array: &Array4<f32>, layout: Layout) -> Tensor<T> {
        Tensor::new(self, Strided::in_place(array, layout))
    }

    /// A tensor in device memory that is full of NaN, with guards around it.
    pub fn output<T: Element>(
        &self,
        shape: (usize, usize, usize, usize),
        layout: Layout,
    ) -> Tensor<T> {
        Tensor::new(self, Strided::output(shape, layout))
    }

    /// So many elements of one value.
    pub fn filled<T: Element>(&self, value: f32, length: usize) -> CudaSlice<T> {
        self.upload(&vec![T::from_f32(value); length])
    }
}

/// A `[B, H, N, D]` tensor in device memory, in any layout.
#[derive(Debug)]
pub struct Tensor<T> {
    values: CudaSlice<T>,
    host: Strided,
}

impl<T: Element> Tensor<T> {
    fn new(device: &Device, host: Strided) -> Self {
        let values = Vec::from_iter(host.buffer.iter().map(|&x| T::from_f32(x)));
        let values = device.upload(&values);
        Self { values, host }
    }

    /// From one batch, head and row to the next, in elements.
    pub fn strides(&self) -> [usize; 3] {
        self.host.strides
    }

    /// The memory from the first element on.
    pub fn view(&self) -> CudaView<'_, T> {
        self.values.slice(self.host.offset.min(self.values.len())..)
    }

    /// The memory from the first element on.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        let start = self.host.offset.min(self.values.len());
        self.values.slice_mut(start..)
    }

    /// The tensor, after it was made sure that all else in its buffer is as it was.
    ///
    /// # Errors
    ///
    /// A sentence, if a launch failed or a value around the tensor was changed.
    pub fn read(&self, device: &Device) -> Result<Array4<f32>, String> {
        let values = device
            .read(&self.values)
            .map_err(|error| error.to_string())?;
        self.host.read(values.into_iter().map(T::to_f32).collect())
    }
}

/// Profiles of the kernels that `work` launches; `None` on a GPU, whose
/// counters Nsight Compute reads.
///
/// # Panics
///
/// If there is no device.
pub fn profiles<T, E>(
    work: impl FnOnce() -> Result<T, E>,
) -> Option<Result<(T, Vec<LaunchProfile>), E>> {
    match gpu::profile::profile(work) {
        Ok((result, launches)) => Some(result.map(|value| (value, launches))),
        Err(gpu::Error::NoProfile) => {
            println!("not counted: on a GPU, Nsight Compute reads the counters");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The profiles of some launches, or the error of the call that should have launched; `None` on a
/// device that does not count.
pub type Launches = Option<Result<Vec<LaunchProfile>, String>>;

/// The launches of `work`: see [`profiles`].
pub fn launches<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Launches {
    let profiles = profiles(work)?.map_err(|error| error.to_string());
    Some(profiles.map(|(_, launches)| launches))
}

/// Set for a process that [`alone`] starts.
const CHILD: &str = "CONFORMANCE_CHILD";

/// Runs the test of this name in a process of its own with these variables, and returns what it
/// prints. In that process, `None`: the test goes on.
///
/// The simulator reads its settings once in a process.
///
/// # Panics
///
/// If the process fails or runs another number of tests than one.
pub fn alone(test: &str, variables: &[(&str, &str)]) -> Option<String> {
    if env::var_os(CHILD).is_some() {
        return None;
    }
    let program = env::current_exe().expect("this program has a path");
    let child = Command::new(program)
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .env(CHILD, "1")
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let errors = String::from_utf8_lossy(&child.stderr);
    let passed = child.status.success() && text.contains("1 passed");
    assert!(passed, "{variables:?}: {text}{errors}");
    Some(text)
}

/// The most schedules of a process that [`on_host_threads`] starts.
const MOST_SCHEDULES: &str = "CONFORMANCE_SCHEDULES";

/// The number of schedules to try where `all` are wanted.
pub(crate) fn schedules(all: u64) -> u64 {
    let most = env::var(MOST_SCHEDULES).ok();
    most.and_then(|most| most.parse().ok())
        .map_or(all, |most: u64| most.min(all))
}

/// Runs the test of this name in processes with one, two and four host threads of the simulator. In
/// each it calls `judge` for a report on [`Part::Schedules`](crate::Part::Schedules); all must
/// pass, with the same digests. All schedules are tried with one thread, and four of them with
/// more: a schedule is a function of its seed.
///
/// # Panics
///
/// If a report is not passed, or the digests differ.
pub fn on_host_threads(test: &str, judge: impl FnOnce() -> Report) {
    let digests = |threads, schedules: Option<&str>| {
        let mut variables = vec![("GPU", "sim"), ("CUDA_SIM_THREADS", threads)];
        variables.extend(schedules.map(|most| (MOST_SCHEDULES, most)));
        let text = alone(test, &variables)?;
        let digests = text.lines().filter(|line| line.starts_with("digest of "));
        Some(digests.map(str::to_owned).collect::<Vec<_>>())
    };
    let Some(first) = digests("1", None) else {
        let report = judge();
        for case in &report.cases {
            if let Outcome::Claimed(claim) = &case.outcome {
                println!("digest of {}: {}", case.name, claim.actual);
            }
        }
        return report
            .into_result()
            .unwrap_or_else(|report| panic!("{report}"));
    };
    assert!(!first.is_empty(), "{test} judges no schedules");
    for threads in ["2", "4"] {
        assert_eq!(
            digests(threads, Some("4")).as_ref(),
            Some(&first),
            "{threads} host threads"
        );
    }
}
