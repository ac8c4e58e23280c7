//! Calls on a device.

use std::error::Error;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use cuda_sim::{Agent, FaultKind as Kind, MemoryKind, MissingThreads};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceRepr};
use gpu::arguments::{Strided, Strides};
use gpu::profile::{Class, LaunchProfile, LineProfile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame::{Broken, Plain, Tensor};
use crate::message::{Detail, Fault, FaultKind, Launch, Line, Means, Outcome, Run, Space};
use crate::serving::{self, Answer, guarded};

/// The simulated device.
#[derive(Debug)]
pub struct Device {
    stream: Arc<CudaStream>,
}

/// Answers requests: opens the device, makes the implementation, and has each call answered by it.
/// If either fails, so does every call.
pub fn serve<C: DeserializeOwned, S>(
    make: impl FnOnce(&Device) -> Result<S, String>,
    answer: impl Fn(&Device, &S, C, Run) -> Result<Answer, Broken>,
) -> ! {
    let opened = Device::open().and_then(|device| {
        let own = make(&device)?;
        Ok((device, own))
    });
    serving::serve(|call, run| match &opened {
        Ok((device, own)) => {
            let mut answer = answer(device, own, call, run)?;
            answer.device_bytes = device.in_use();
            Ok(answer)
        }
        Err(text) => {
            let text = text.clone();
            Ok(Answer::on_host(Outcome::Failed { text }, Vec::new()))
        }
    })
}

/// Reader of a stage's errors.
#[derive(Debug)]
pub struct Reading<E> {
    /// Gives the argument that an error names.
    pub argument: fn(&E) -> Option<&str>,
    /// Gives the error of compiling or loading a kernel, if it is one.
    pub loading: fn(&E) -> Option<&gpu::Error>,
}

/// A call that was made on the device.
#[derive(Debug)]
pub struct Called {
    /// The kind of end.
    pub outcome: Outcome,
    launches: Vec<Launch>,
    to_host: u64,
    waits: u64,
}

impl Called {
    fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            launches: Vec::new(),
            to_host: 0,
            waits: 0,
        }
    }

    /// The answer with these outputs.
    pub fn answer(self, outputs: Vec<Tensor>) -> Answer {
        Answer {
            launches: self.launches,
            to_host: self.to_host,
            waits: self.waits,
            ..Answer::on_host(self.outcome, outputs)
        }
    }
}

/// A tensor in memory that need not be packed, and its strides.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct StridedTensor {
    /// The whole memory behind the view.
    pub values: Tensor,
    /// The strides.
    pub strides: Strides,
}

/// The same in device memory.
#[derive(Debug)]
pub struct StridedBuffer<T> {
    values: Buffer<T>,
    strides: Strides,
}

impl<T> StridedBuffer<T> {
    /// The tensor.
    pub fn view(&self) -> Strided<'_, T> {
        Strided {
            values: self.values.view(),
            strides: self.strides,
        }
    }
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
        // SAFETY: a tensor is allocated, used and freed on one stream. A call that uses others
        // orders their work by itself, as it has to on any caller's tensors.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream();
        let stream = stream.map_err(|error| gpu::explanation(&error))?;
        Ok(Self { stream })
    }

    /// The stream of all calls, which is not the default one.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// A tensor in device memory, aligned as it says.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if it has another type, or the device no memory left.
    pub fn upload<T: Plain + DeviceRepr>(&self, tensor: &Tensor) -> Result<Buffer<T>, Broken> {
        let values: Vec<T> = tensor.values()?;
        let before = vec![T::default(); tensor.offset() / size_of::<T>()];
        let slice = gpu::arguments::upload(&self.stream, before.iter().chain(&values));
        Ok(Buffer {
            slice: slice.map_err(|error| Broken::Tensor {
                expected: "device memory for it".to_owned(),
                actual: gpu::explanation(&error),
            })?,
            elements: before.len()..before.len() + values.len(),
        })
    }

    /// A tensor in device memory, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`Device::upload`].
    pub fn upload_some<T: Plain + DeviceRepr>(
        &self,
        tensor: &Option<Tensor>,
    ) -> Result<Option<Buffer<T>>, Broken> {
        tensor
            .as_ref()
            .map(|tensor| self.upload(tensor))
            .transpose()
    }

    /// A tensor with strides in device memory, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`Device::upload`].
    pub fn upload_strided<T: Plain + DeviceRepr>(
        &self,
        tensor: &Option<StridedTensor>,
    ) -> Result<Option<StridedBuffer<T>>, Broken> {
        let Some(tensor) = tensor else {
            return Ok(None);
        };
        Ok(Some(StridedBuffer {
            values: self.upload(&tensor.values)?,
            strides: tensor.strides,
        }))
    }

    /// The answer with these outputs, as they are after all that was launched.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if the driver refuses.
    pub fn answer<T: Plain + DeviceRepr>(
        &self,
        called: Called,
        outputs: &[Option<&Buffer<T>>],
    ) -> Result<Answer, Broken> {
        let outputs = outputs.iter().flatten();
        let outputs = outputs.map(|buffer| self.read(buffer));
        Ok(called.answer(outputs.collect::<Result<_, Broken>>()?))
    }

    /// A tensor, as it is after all that was launched.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if the driver refuses.
    pub fn read<T: Plain + DeviceRepr>(&self, buffer: &Buffer<T>) -> Result<Tensor, Broken> {
        let mut values = vec![T::default(); buffer.elements.end];
        let read = gpu::arguments::download(&self.stream, &buffer.slice, &mut values);
        read.map_err(|error| Broken::Tensor {
            expected: "its elements".to_owned(),
            actual: gpu::explanation(&error),
        })?;
        Ok(Tensor::vector(&values[buffer.elements.clone()]))
    }

    /// The call, as one that failed if it has changed this input.
    ///
    /// # Errors
    ///
    /// Those of [`Device::read`].
    pub fn unchanged<T: Plain + DeviceRepr>(
        &self,
        mut called: Called,
        name: &str,
        buffer: &Buffer<T>,
        input: &Tensor,
    ) -> Result<Called, Broken> {
        if called.outcome == Outcome::Done && !self.read(buffer)?.has_bytes_of(input) {
            let text = format!("The call changes `{name}`, which is an input");
            called.outcome = Outcome::Failed { text };
        }
        Ok(called)
    }

    /// Makes a call as `run` says, and waits for its launches.
    pub fn call<E: Error>(
        &self,
        run: Run,
        reading: &Reading<E>,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Called {
        let mut work = Some(work);
        self.called(run, &mut || match work.take() {
            Some(work) => work().map_err(|error| refused(&error, reading)),
            None => Err(Outcome::Failed {
                text: "the call was made twice".to_owned(),
            }),
        })
    }

    fn called(&self, run: Run, work: &mut dyn FnMut() -> Result<(), Outcome>) -> Called {
        gpu::set_checks(run.checks);
        cuda_sim::take_fault(); // of an earlier call
        let work = || {
            let result = match run.captured {
                true => self.captured(work),
                false => guarded(work),
            };
            // A fault of a launch that was not waited for comes here.
            let waited = self.stream.context().synchronize();
            (result, waited)
        };
        let seeded = || match run.seed {
            Some(seed) => gpu::with_seed(seed, work),
            None => work(),
        };
        let (done, recording) = match run.profile {
            true => match gpu::profile::record(seeded) {
                Ok((done, recording)) => (done, Some(recording)),
                Err(error) => {
                    let text = error.to_string();
                    return Called::of(Outcome::Failed { text });
                }
            },
            false => (seeded(), None),
        };
        let (result, waited) = done;
        let outcome = match (cuda_sim::take_fault(), result) {
            (Some(fault), _) => Outcome::Fault(reported(&fault)),
            (None, Err(panicked)) => panicked,
            (None, Ok(Err(refused))) => refused,
            (None, Ok(Ok(()))) => match waited {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Failed {
                    text: gpu::explanation(&error),
                },
            },
        };
        let mut called = Called::of(outcome);
        if let Some(recording) = recording {
            let launches = recording.launches.iter();
            called.launches = launches.map(|launch| summary(launch, run)).collect();
            called.to_host = recording.memory.to_host.bytes;
            // The last wait is that of this function.
            called.waits = recording.waits.saturating_sub(1) + recording.memory.to_host.count;
        }
        called
    }

    /// Makes a call in a capture of the stream. Its launches are kept in a graph, which is never
    /// launched. Those on other streams run.
    fn captured(
        &self,
        work: &mut dyn FnMut() -> Result<(), Outcome>,
    ) -> Result<Result<(), Outcome>, Outcome> {
        let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        if let Err(error) = self.stream.begin_capture(relaxed) {
            let text = gpu::explanation(&error);
            return Ok(Err(Outcome::Failed { text }));
        }
        let result = guarded(work);
        // There is no graph if the driver refused a part of the call.
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        drop(self.stream.end_capture(flags));
        result
    }

    /// Device memory in use, in bytes; without variables of kernels, which stay as long as these.
    pub fn in_use(&self) -> u64 {
        // Frees are ordered on streams; one that fails here has failed before.
        let _ = self.stream.context().synchronize();
        cuda_sim::held()
    }
}

/// Nothing is ever allocated below this address.
const NO_POINTER: u64 = 64 << 10;

/// A fault as the grader gets it.
fn reported(fault: &cuda_sim::Fault) -> Fault {
    let (kind, space) = match &fault.kind {
        Kind::Race(race) if [race.by, race.other.by] != [Agent::Thread; 2] => {
            (FaultKind::AsynchronousRace, Some(race.access.space))
        }
        Kind::Race(race) => (FaultKind::Race, Some(race.access.space)),
        Kind::UnfinishedCopy(copy) => (FaultKind::CopyInFlight, Some(copy.access.space)),
        Kind::OutOfBounds(access)
            if access.space == MemoryKind::Global && access.address < NO_POINTER =>
        {
            (FaultKind::Null, Some(access.space))
        }
        Kind::OutOfBounds(access) => (FaultKind::OutOfBounds, Some(access.space)),
        Kind::UseAfterFree(access) => (FaultKind::Other, Some(access.space)),
        Kind::Misaligned(access) => (FaultKind::Misaligned, Some(access.space)),
        Kind::UninitialisedRead(read) => match fault.missing {
            Some(MissingThreads::Returned(_)) => {
                (FaultKind::UnwrittenAfterReturn, Some(read.access.space))
            }
            _ => (FaultKind::Unwritten, Some(read.access.space)),
        },
        Kind::MissingProductFence { .. } => (FaultKind::UnfencedProduct, None),
        Kind::ProductInFlight(_) => (FaultKind::ProductInFlight, None),
        Kind::BadDescriptor { .. } => (FaultKind::Descriptor, None),
        Kind::BadMbarrier { .. } => (FaultKind::Mbarrier, None),
        Kind::Deadlock { barriers } if !barriers.is_empty() => (FaultKind::Mbarrier, None),
        Kind::DivergentBarrier { .. }
        | Kind::DifferentBarriers { .. }
        | Kind::Deadlock { .. }
        | Kind::GridDeadlock { .. } => (FaultKind::Barrier, None),
        Kind::Runaway { .. } => (FaultKind::EndlessLoop, None),
        Kind::LongLaunch { .. } => (FaultKind::LongLaunch, None),
        _ => (FaultKind::Other, None),
    };
    let (sentence, whole) = (shown(&fault.kind.to_string()), shown(&fault.to_string()));
    let report = whole.strip_prefix(&sentence).unwrap_or(&whole);
    Fault {
        kind,
        space: space.map(|space| match space {
            MemoryKind::Shared => Space::Shared,
            _ => Space::Other,
        }),
        kernel: fault.kernel.clone(),
        place: fault
            .source
            .as_ref()
            .map(|(file, line)| (shown(file), *line)),
        report: report.trim_start_matches('\n').to_owned(),
        sentence,
    }
}

/// Files as the learner knows them: those of the package `exercise-stage2`
/// are in `exercises/stage2`.
fn shown(text: &str) -> String {
    text.replace("exercise-stage", "exercises/stage")
}

/// The kind of end of a call that gave an error of its stage.
pub fn refused<E: Error>(error: &E, reading: &Reading<E>) -> Outcome {
    let text = error.to_string();
    match (reading.loading)(error) {
        Some(gpu::Error::NvrtcMissing { .. }) => {
            let advice = "It cannot be compiled here: NVRTC is not installed. Fetch it with `cargo gpu fetch-nvrtc`.";
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
            argument: (reading.argument)(error).map(str::to_owned),
            text,
        },
    }
}

/// A profile as the grader gets it.
pub fn summary(launch: &LaunchProfile, run: Run) -> Launch {
    let mut files: Vec<String> = Vec::new();
    for line in &launch.lines {
        let file = shown(&line.file);
        if !file.is_empty() && !files.contains(&file) {
            files.push(file);
        }
    }
    Launch {
        kernel: launch.kernel.clone(),
        files,
        seconds: launch.repeated(1 + run.more).seconds,
        flops: launch.total.flops(),
        read_bytes: launch.compulsory_read_bytes,
        write_bytes: launch.compulsory_write_bytes,
        bound: launch.time.bound.name().to_owned(),
        parts: (launch.time.parts.iter())
            .map(|(resource, seconds)| (resource.name().to_owned(), *seconds))
            .collect(),
        means: means(launch),
        detail: run.lines.then(|| Detail {
            grid: launch.grid,
            block: launch.block,
            figures: figures(launch),
            lines: launch.lines.iter().map(line).collect(),
        }),
    }
}

fn means(launch: &LaunchProfile) -> Means {
    let shared = launch.total.shared();
    Means {
        tensor_flops: launch.total.flops_tensor,
        wgmma_flops: launch.total.flops_wgmma,
        tensor_instructions: launch.total.of(Class::Tensor),
        tensor_during_copies: launch.tensor_during_copies,
        loaded: [launch.total.global_loads.bytes, launch.total.bytes_copied],
        matrix_loads: launch.total.matrix_loads,
        blocks: launch.grid.iter().map(|&size| u64::from(size)).product(),
        stored: launch.total.global_stores.bytes,
        shared: [shared.ideal, shared.wavefronts],
    }
}

fn figures(launch: &LaunchProfile) -> Vec<(String, f64)> {
    let total = &launch.total;
    let dram = launch.compulsory_read_bytes + launch.compulsory_write_bytes;
    let figures = [
        ("time, µs", 1e6 * launch.time.seconds),
        ("warp instructions", total.warp_instructions as f64),
        ("f32 operations", total.flops_f32 as f64),
        ("global sectors", total.global().sectors as f64),
        ("DRAM bytes, at least", dram as f64),
        ("shared wavefronts", total.shared().wavefronts as f64),
        ("barriers, once per warp", total.barriers as f64),
        ("divergent branches", total.divergent_branches as f64),
    ];
    Vec::from(figures.map(|(name, value)| (name.to_owned(), value)))
}

fn line(line: &LineProfile) -> Line {
    let (global, shared) = (line.counters.global(), line.counters.shared());
    Line {
        file: shown(&line.file),
        line: line.line,
        instructions: line.counters.warp_instructions,
        global: [global.requests, global.sectors],
        shared: [shared.ideal, shared.wavefronts],
    }
}

/// A tensor in device memory. It may be empty, which no allocation of a driver is.
#[derive(Debug)]
pub struct Buffer<T> {
    slice: CudaSlice<T>,
    /// Its elements in the slice. Those before them are there for the alignment.
    elements: Range<usize>,
}

impl<T> Buffer<T> {
    /// The elements.
    pub fn view(&self) -> CudaView<'_, T> {
        self.slice.slice(self.elements.clone())
    }

    /// The elements.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.slice_mut(self.elements.clone())
    }

    /// The elements, behind so many others that no memory holds.
    pub fn behind(&mut self, skipped: usize) -> Behind<'_, T>
    where
        T: DeviceRepr,
    {
        let stream = self.slice.stream().clone();
        let start = self.view().device_ptr(&stream).0;
        let start = start.wrapping_sub((skipped * size_of::<T>()) as u64);
        // SAFETY: the slice is never freed, as `Behind` leaks it. A kernel that reads or writes
        // what is skipped, at addresses that belong to no allocation, is stopped by the simulator;
        // this process does not touch them.
        let slice = unsafe { stream.upgrade_device_ptr(start, skipped + self.elements.len()) };
        Behind {
            slice: ManuallyDrop::new(slice),
            buffer: PhantomData,
        }
    }
}

/// A tensor whose first elements lie in no memory: it has addresses for them, and that is all that
/// a tensor needs whose first elements nobody touches.
#[derive(Debug)]
pub struct Behind<'a, T> {
    slice: ManuallyDrop<CudaSlice<T>>,
    buffer: PhantomData<&'a mut Buffer<T>>,
}

impl<T> Behind<'_, T> {
    /// All elements.
    pub fn view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }

    /// All elements.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.as_view_mut()
    }
}

impl<T> Drop for Behind<'_, T> {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        unsafe { ManuallyDrop::take(&mut self.slice) }.leak();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_each_line_once_and_the_learners_paths() {
        let file = "exercise-stage2/kernels/a.cu";
        let fault = cuda_sim::Fault {
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
        let text = reported(&fault).to_string();
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
