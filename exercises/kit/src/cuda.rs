//! Calls on a device.

use std::error::Error;
use std::sync::Arc;

use cuda_sim::{Fault, FaultKind as Kind};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr};
use gpu::arguments::Strides;
use gpu::profile::LaunchProfile;
use serde::de::DeserializeOwned;

use crate::frame::{Broken, Plain, Tensor, Tensors};
use crate::message::{FaultKind, Launch, Outcome, Run};
use crate::serving::{self, Answer, guarded};

/// The simulated device.
#[derive(Debug)]
pub struct Device {
    stream: Arc<CudaStream>,
}

/// Answers requests: opens the device, makes the implementation, and has each call answered by it. If either fails, so does
/// every call.
pub fn serve<C: DeserializeOwned, S>(
    make: impl FnOnce(&Device) -> Result<S, String>,
    answer: impl Fn(&Device, &S, C, &mut Tensors, Run) -> Result<Answer, Broken>,
) -> ! {
    let opened = Device::open().and_then(|device| {
        let own = make(&device)?;
        Ok((device, own))
    });
    serving::serve(|call, mut tensors, run| match &opened {
        Ok((device, own)) => {
            let mut answer = answer(device, own, call, &mut tensors, run)?;
            answer.device_bytes = device.in_use();
            Ok(answer)
        }
        Err(text) => {
            let text = text.clone();
            Ok(Answer::on_host(Outcome::Failed { text }, Vec::new()))
        }
    })
}

/// How to read an error of a stage.
#[derive(Debug)]
pub struct Reading<E> {
    /// The argument that it names.
    pub argument_of: fn(&E) -> Option<&str>,
    /// The error of compiling or loading a kernel, if it is one.
    pub of_loading: fn(&E) -> Option<&gpu::Error>,
}

impl Device {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn open() -> Result<Self, String> {
        gpu::simulate().map_err(|error| error.to_string())?;
        let context = gpu::context(0).map_err(|error| error.to_string())?;
        let stream = context.default_stream();
        Ok(Self { stream })
    }

    /// The default stream.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The next tensor, in device memory.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`], also if the device has no memory left.
    pub fn take<T: Plain + DeviceRepr>(&self, tensors: &mut Tensors) -> Result<Buffer<T>, Broken> {
        let values: Vec<T> = tensors.values()?;
        let slice = gpu::arguments::upload(&self.stream, &values);
        Ok(Buffer {
            slice: slice.map_err(|error| Broken::Tensor {
                expected: "device memory for it".to_owned(),
                actual: gpu::explanation(&error),
            })?,
            length: values.len(),
        })
    }

    /// The elements of a buffer, after all that was launched.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if the driver refuses.
    pub fn give<T: Plain + DeviceRepr>(&self, buffer: &Buffer<T>) -> Result<Tensor, Broken> {
        let mut values = vec![T::default(); buffer.length];
        gpu::arguments::download(&self.stream, &buffer.slice, &mut values).map_err(|error| {
            Broken::Tensor {
                expected: "its elements".to_owned(),
                actual: gpu::explanation(&error),
            }
        })?;
        Ok(Tensor::of(&values))
    }

    /// Makes a call as `run` says, and waits for its launches.
    pub fn call<E: Error>(
        &self,
        run: Run,
        reading: &Reading<E>,
        work: impl FnOnce() -> Result<(), E>,
    ) -> (Outcome, Vec<Launch>) {
        let mut work = Some(work);
        self.called(run, &mut || match work.take() {
            Some(work) => work().map_err(|error| refused(&error, reading)),
            None => Err(Outcome::Failed {
                text: "the call was made twice".to_owned(),
            }),
        })
    }

    fn called(
        &self,
        run: Run,
        work: &mut dyn FnMut() -> Result<(), Outcome>,
    ) -> (Outcome, Vec<Launch>) {
        gpu::set_checks(run.checks);
        cuda_sim::take_fault(); // of an earlier call
        let work = || {
            let result = guarded(work);
            // A fault of a launch that was not waited for comes here.
            let waited = self.stream.context().synchronize();
            (result, waited)
        };
        let seeded = || match run.seed {
            Some(seed) => gpu::with_seed(seed, work),
            None => work(),
        };
        let ((result, waited), launches) = if run.profile {
            match gpu::profile::profile(seeded) {
                Ok((done, launches)) => (
                    done,
                    launches
                        .iter()
                        .map(|launch| summary(launch, 1 + run.more))
                        .collect(),
                ),
                Err(error) => {
                    let text = error.to_string();
                    return (Outcome::Failed { text }, Vec::new());
                }
            }
        } else {
            (seeded(), Vec::new())
        };
        let outcome = match (cuda_sim::take_fault(), result) {
            (Some(fault), _) => Outcome::Fault {
                text: report(&fault),
                kind: match fault.kind {
                    Kind::Race(_) => FaultKind::Race,
                    Kind::Runaway { .. } | Kind::LongLaunch { .. } => FaultKind::Runaway,
                    _ => FaultKind::Other,
                },
            },
            (None, Err(panicked)) => panicked,
            (None, Ok(Err(refused))) => refused,
            (None, Ok(Ok(()))) => match waited {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Failed {
                    text: gpu::explanation(&error),
                },
            },
        };
        (outcome, launches)
    }

    /// Device memory in use, in bytes.
    pub fn in_use(&self) -> u64 {
        // Frees are ordered on streams; one that fails here has failed before.
        let _ = self.stream.context().synchronize();
        let memory = self.stream.context().mem_get_info();
        memory.map_or(0, |(free, total)| (total - free) as u64)
    }
}

/// A report whose first line has the place, too.
fn report(fault: &Fault) -> String {
    let place = match &fault.source {
        Some((file, line)) => format!(", {}:{line}", shown(file)),
        None => String::new(),
    };
    let (kind, whole) = (shown(&fault.kind.to_string()), shown(&fault.to_string()));
    let rest = whole.strip_prefix(&kind).unwrap_or(&whole);
    format!("{kind} (kernel {}{place}){rest}", fault.kernel)
}

/// Files as the learner knows them: those of the package `exercise-stage2` are in `exercises/stage2`.
fn shown(text: &str) -> String {
    text.replace("exercise-stage", "exercises/stage")
}

fn refused<E: Error>(error: &E, reading: &Reading<E>) -> Outcome {
    let text = error.to_string();
    match (reading.of_loading)(error) {
        Some(gpu::Error::NvrtcMissing { .. }) => {
            let advice = "It cannot be compiled here: NVRTC is not installed. Fetch it with `cargo run -p gpu -- fetch-nvrtc`.";
            let text = format!("{advice}\n{text}");
            Outcome::NoCompiler { text }
        }
        Some(gpu::Error::Compile { log, .. }) => {
            let first = log.lines().find(|line| line.contains("error"));
            let first = shown(first.unwrap_or_default());
            let text = format!("It does not compile: {first}\n{}", shown(&text));
            Outcome::NotCompiled { text }
        }
        _ => Outcome::Refused {
            argument: (reading.argument_of)(error).map(str::to_owned),
            text,
        },
    }
}

fn summary(launch: &LaunchProfile, problems: u64) -> Launch {
    let mut files: Vec<String> = Vec::new();
    for line in &launch.lines {
        if !line.file.is_empty() && !files.contains(&line.file) {
            files.push(line.file.clone());
        }
    }
    Launch {
        kernel: launch.kernel.clone(),
        files,
        seconds: launch.repeated(problems).seconds,
        flops: launch.total.flops(),
        read_bytes: launch.compulsory_read_bytes,
        write_bytes: launch.compulsory_write_bytes,
    }
}

/// Strides as a message has them.
pub fn array_of(strides: Strides) -> [usize; 3] {
    [strides.batch, strides.head, strides.row]
}

/// The strides of a message.
pub fn of_array([batch, head, row]: [usize; 3]) -> Strides {
    Strides { batch, head, row }
}

/// A tensor in device memory. It may be empty, which no allocation of a driver is.
#[derive(Debug)]
pub struct Buffer<T> {
    slice: CudaSlice<T>,
    length: usize,
}

impl<T> Buffer<T> {
    /// The elements.
    pub fn view(&self) -> CudaView<'_, T> {
        self.slice.slice(0..self.length)
    }

    /// The elements.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.slice_mut(0..self.length)
    }

    /// The elements from this one on.
    pub fn view_from(&self, first: usize) -> CudaView<'_, T> {
        self.slice.slice(first.min(self.length)..self.length)
    }

    /// The elements from this one on.
    pub fn view_mut_from(&mut self, first: usize) -> CudaViewMut<'_, T> {
        self.slice.slice_mut(first.min(self.length)..self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_each_line_once_and_the_learners_paths() {
        let file = "exercise-stage2/kernels/a.cu";
        let fault = Fault {
            kind: Kind::DivergentBarrier {
                other: Some((file.to_owned(), 4)),
            },
            kernel: "softmax".to_owned(),
            source: Some((file.to_owned(), 2)),
            block: [0; 3],
            thread: [0; 3],
            lanes: 1,
            missing: None,
        };
        let text = report(&fault);
        assert_eq!(
            text.lines().next(),
            Some(
                "divergent barrier: other threads of the warp are at exercises/stage2/kernels/a.cu:4 \
                 (kernel softmax, exercises/stage2/kernels/a.cu:2)"
            ),
            "{text}"
        );
        assert_eq!(text.matches("divergent barrier").count(), 1, "{text}");
        assert!(!text.contains("exercise-stage"), "{text}");
    }
}
