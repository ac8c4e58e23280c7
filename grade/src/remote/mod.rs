//! The learner's implementation, as the suites see it: it has the stage's interface, and asks the learner's process.
//!
//! Arguments are read out of this process's host arrays and device memory and sent; outputs come back and are written
//! there. Expected values are computed here and never sent.

mod decoder;
mod decoding;
mod far;
mod fused;
mod host;
mod steps;
mod tuned;

pub use decoding::Decoder;
pub use far::OTHERS;
pub use fused::Bonus;
pub use tuned::Tuned;

use std::cell::{Cell, RefCell};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceRepr, DriverError};
use exercise_kit::cuda::StridedTensor;
use exercise_kit::frame::{Broken, Plain, Tensor, Tensors};
use exercise_kit::message::{Fault, FaultKind, InUse, Launch, Outcome, Reply, Request, Run};
use gpu::arguments::Strided;
use serde::Serialize;

use crate::child::{Child, Limits, Lost};
use crate::clock::Budget;
use crate::cut::cut;

/// Bytes that are kept of an error, a panic or the report on a fault.
const TEXT: usize = 16 << 10;

/// Bytes that are kept of the name of a launch's kernel or file.
const NAME: usize = 256;

/// The beginning of the reason to make no more calls if a kernel does not compile: each would compile it again.
const NOT_COMPILED: &str = "a kernel is not compiled";

/// A learner's program that answers calls.
#[derive(Debug)]
pub struct Remote {
    child: RefCell<Child>,
    /// Processor time of one call.
    limit: Duration,
    /// The time of this task.
    budget: RefCell<Budget>,
    cost: Cell<Duration>,
    run: Cell<Run>,
    calls: RefCell<Vec<Called>>,
    waits: Cell<u64>,
    left: Cell<Left>,
    /// Why no more calls are made.
    stopped: RefCell<Option<String>>,
    /// True if a call did not end.
    hangs: Cell<bool>,
    lacks_compiler: Cell<bool>,
    /// This process's device.
    stream: Option<Arc<CudaStream>>,
}

/// Device memory that calls leave behind.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    /// After the first call that left any, in bytes; 0 if none has.
    first: u64,
    /// The most after any call.
    most: u64,
    /// Later calls after which there was more than ever before.
    rises: u64,
}

impl Left {
    /// The same after one more call.
    fn after(self, bytes: u64) -> Self {
        match self.first {
            0 => Self {
                first: bytes,
                most: bytes,
                rises: 0,
            },
            first => Self {
                first,
                most: self.most.max(bytes),
                rises: self.rises + u64::from(bytes > self.most),
            },
        }
    }
}

/// A call that was made.
#[derive(Debug, Clone)]
pub struct Called {
    /// The kind of end.
    pub outcome: Outcome,
    /// Its launches, if they were asked for.
    pub launches: Vec<Launch>,
    /// Bytes that it copied from the device to the host, if they were asked for.
    pub to_host: u64,
    /// Waits for the device, copies to the host among them, if they were asked for.
    pub waits: u64,
    /// Bytes of its outputs.
    pub output_bytes: u64,
    /// Memory in use afterwards.
    pub in_use: InUse,
    /// From request to reply, in seconds: the lesser of wall time and the program's processor time.
    pub seconds: f64,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not return, or returned an error.
    #[error("{0}")]
    Ended(Outcome),
    /// The same of a call whose tensors have more than 2³² elements.
    #[error("{0}")]
    Far(Outcome),
    /// There was no answer.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// No call is made after the program was lost, a kernel ran away, or the time was used up.
    #[error("not run: {0}")]
    Stopped(String),
    /// An answer of other types or shapes.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// This process's device.
    #[error("{}", gpu::explanation(.0))]
    Driver(DriverError),
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl Error {
    /// The argument that the learner's error names.
    pub fn argument(&self) -> Option<&str> {
        match self {
            Self::Ended(Outcome::Refused { argument, .. }) => argument.as_deref(),
            _ => None,
        }
    }

    /// The fault of a kernel, if the call ended by one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Ended(Outcome::Fault(fault)) => Some(fault),
            _ => None,
        }
    }

    /// True if the learner's code is still to be written.
    pub fn is_to_do(&self) -> bool {
        matches!(self, Self::Ended(Outcome::Panicked { to_do: true, .. }))
    }
}

impl Remote {
    /// A program that was started now. `stream` is that of this process's device, for stages that have one.
    pub fn new(child: Child, limits: &Limits, stream: Option<Arc<CudaStream>>) -> Self {
        Self {
            child: RefCell::new(child),
            limit: limits.call,
            budget: RefCell::new(Budget::new(limits.task, limits.clock)),
            cost: Cell::default(),
            run: Cell::default(),
            calls: RefCell::default(),
            waits: Cell::default(),
            left: Cell::default(),
            stopped: RefCell::default(),
            hangs: Cell::default(),
            lacks_compiler: Cell::default(),
            stream,
        }
    }

    /// The stream of this process's device, for stages that have one.
    pub fn stream(&self) -> Option<Arc<CudaStream>> {
        self.stream.clone()
    }

    /// Sets the settings of the next calls.
    pub fn set_run(&self, run: Run) {
        self.run.set(run);
    }

    /// The calls that were made since this was asked last.
    pub fn take_calls(&self) -> Vec<Called> {
        take(&mut self.calls.borrow_mut())
    }

    /// The calls that `work` makes, which are kept for [`Remote::take_calls`], too.
    pub fn calls_of(&self, work: impl FnOnce()) -> Vec<Called> {
        let earlier = self.calls.borrow().len();
        work();
        self.calls.borrow()[earlier..].to_vec()
    }

    /// Makes calls, and returns by how many bytes the program's resident memory grew meanwhile, at most; `None` where the
    /// system does not tell.
    pub fn growing<T>(&self, calls: impl FnOnce() -> T) -> (T, Option<u64>) {
        let before = self.child.borrow().forget_peak();
        let result = calls();
        let peak = self.child.borrow().peak();
        let grown = before.zip(peak);
        (
            result,
            grown.map(|(before, peak)| peak.saturating_sub(before)),
        )
    }

    /// The bytes of device memory that have come into use since a call first left any behind, and the number of calls in which
    /// they did.
    pub fn growth(&self) -> (u64, u64) {
        let Left { first, most, rises } = self.left.get();
        (most - first, rises)
    }

    /// Waits for the device in all calls that returned, copies to the host among them, as far as they were asked for.
    pub fn waits(&self) -> u64 {
        self.waits.get()
    }

    /// The time of all calls, as [`Limits::submission`] counts it.
    pub fn cost(&self) -> Duration {
        self.cost.get()
    }

    /// Adds the time of calls to another program of the same task.
    pub fn charge(&self, cost: Duration) {
        self.cost.set(self.cost.get() + cost);
    }

    /// Why no more calls are made, if so.
    pub fn stopped(&self) -> Option<String> {
        self.stopped.borrow().clone()
    }

    /// True if no more calls can be made, whatever the kernels are.
    pub fn is_lost(&self) -> bool {
        self.stopped()
            .is_some_and(|reason| !reason.starts_with(NOT_COMPILED))
    }

    /// Lets calls be made again after one whose kernel does not compile: with the constants of another problem it may.
    pub fn forget_uncompiled(&self) {
        if !self.is_lost() {
            self.stopped.take();
        }
    }

    /// True if a call did not end, and was stopped.
    pub fn hangs(&self) -> bool {
        self.hangs.get()
    }

    /// True if a kernel had to be compiled, and there is no NVRTC.
    pub fn lacks_compiler(&self) -> bool {
        self.lacks_compiler.get()
    }

    /// Ends the program, and returns what it printed.
    pub fn finish(self) -> String {
        self.child.into_inner().finish()
    }

    /// Makes a call. The outputs come however it ended, unless the program was lost.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`], [`Error::Stopped`].
    pub fn call<C: Serialize>(&self, call: C) -> Result<(Outcome, Tensors), Error> {
        self.call_heard(call, &mut |_| {})
    }

    /// The same of a call that gives something while it goes on.
    ///
    /// # Errors
    ///
    /// Those of [`Remote::call`].
    pub fn call_heard<C: Serialize>(
        &self,
        call: C,
        heard: &mut dyn FnMut(Vec<Tensor>),
    ) -> Result<(Outcome, Tensors), Error> {
        if let Some(reason) = self.stopped() {
            return Err(Error::Stopped(reason));
        }
        if let Some(why) = self.budget.borrow().over() {
            let reason = format!("the time for this task is over: {why}");
            self.stopped.replace(Some(reason.clone()));
            return Err(Error::Stopped(reason));
        }
        let run = self.run.get();
        let stopwatch = self.child.borrow().stopwatch();
        let request = Request { call, run };
        let deadline = self.budget.borrow().deadline();
        let mut child = self.child.borrow_mut();
        let reply = child.call(&request, self.limit, deadline, heard);
        drop(child);
        self.cost.set(self.cost.get() + stopwatch.cost());
        let mut reply = reply.inspect_err(|lost| {
            self.stopped.replace(Some(lost.to_string()));
            self.hangs.set(matches!(lost, Lost::TimedOut(_)));
        })?;
        let work = stopwatch.time();
        self.budget.borrow_mut().spend(work);
        shorten(&mut reply);
        self.note(&reply.outcome);
        let left = reply.in_use.device;
        // After a fault nothing can be freed.
        if !matches!(reply.outcome, Outcome::Fault(_)) {
            self.left.set(self.left.get().after(left));
        }
        if reply.outcome == Outcome::Done {
            self.waits.set(self.waits.get().saturating_add(reply.waits));
        }
        self.calls.borrow_mut().push(Called {
            outcome: reply.outcome.clone(),
            launches: reply.launches,
            to_host: reply.to_host,
            waits: reply.waits,
            output_bytes: reply.outputs.iter().map(Tensor::bytes).sum(),
            in_use: reply.in_use,
            seconds: work.as_secs_f64(),
        });
        Ok((reply.outcome, Tensors::new(reply.outputs)))
    }

    /// Notes how a call ended, if no more calls are to be made.
    fn note(&self, outcome: &Outcome) {
        if matches!(outcome, Outcome::NoCompiler { .. }) {
            self.lacks_compiler.set(true);
        }
        let reason = match outcome {
            Outcome::Fault(Fault {
                kind: FaultKind::EndlessLoop | FaultKind::LongLaunch,
                ..
            }) => "a kernel ran away in an earlier call".to_owned(),
            Outcome::NotCompiled { text } | Outcome::NoCompiler { text } => {
                let first = text.lines().next().unwrap_or_default();
                let why = first.split_once(": ").map_or(first, |(_, why)| why);
                format!("{NOT_COMPILED}: {}", why.trim_end_matches('.'))
            }
            _ => return,
        };
        self.stopped.replace(Some(reason));
    }

    /// Makes a call whose outputs are these views of this process's device memory. They are written however it ends.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn into_views<C: Serialize, T: Plain + DeviceRepr, U: Plain + DeviceRepr>(
        &self,
        call: C,
        first: &mut CudaViewMut<'_, T>,
        second: Option<&mut CudaViewMut<'_, U>>,
    ) -> Result<(), Error> {
        let (outcome, mut outputs) = self.call(call)?;
        let mut written = self.write(&mut outputs, first);
        if let Some(second) = second {
            written = written.and_then(|()| self.write(&mut outputs, second));
        }
        // Where there are no outputs, the outcome says why.
        done(outcome).and(written)
    }

    /// The elements of a view of this process's device memory, and how it is aligned.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn read<T: Plain + DeviceRepr>(&self, view: &CudaView<'_, T>) -> Result<Tensor, Error> {
        match &self.stream {
            Some(stream) if !view.is_empty() => {
                let values = stream.clone_dtoh(view)?;
                Ok(Tensor::vector(&values).at(view.device_ptr(stream).0))
            }
            _ => Ok(Tensor::vector::<T>(&[])),
        }
    }

    /// The elements of an output before the call.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn read_some<T: Plain + DeviceRepr>(
        &self,
        view: &Option<CudaViewMut<'_, T>>,
    ) -> Result<Option<Tensor>, Error> {
        let view = view.as_ref().map(CudaViewMut::as_view);
        view.map(|view| self.read(&view)).transpose()
    }

    /// The elements and strides of a tensor that need not be packed.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn read_strided<T: Plain + DeviceRepr>(
        &self,
        tensor: &Option<Strided<'_, T>>,
    ) -> Result<Option<StridedTensor>, Error> {
        let Some(tensor) = tensor else {
            return Ok(None);
        };
        Ok(Some(StridedTensor {
            values: self.read(&tensor.values)?,
            strides: tensor.strides,
        }))
    }

    /// Writes an output into a view of this process's device memory.
    ///
    /// # Errors
    ///
    /// The driver's; [`Error::Broken`] if it has another type or length, or is missing.
    pub fn write<T: Plain + DeviceRepr>(
        &self,
        outputs: &mut Tensors,
        view: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        let values: Vec<T> = outputs.values()?;
        if values.len() != view.len() {
            return Err(Error::Broken(Broken::Tensor {
                expected: format!("{} elements", view.len()),
                actual: values.len().to_string(),
            }));
        }
        self.store(&values, view)
    }

    /// Writes as many values as the view has.
    fn store<T: DeviceRepr>(
        &self,
        values: &[T],
        view: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        if let Some(stream) = &self.stream
            && !values.is_empty()
        {
            stream.memcpy_htod(values, view)?;
        }
        Ok(())
    }
}

/// Cuts a reply's texts and names, which may be of any length.
fn shorten(reply: &mut Reply) {
    for text in reply.outcome.texts_mut() {
        *text = cut(text, TEXT);
    }
    for name in reply.names_mut() {
        *name = cut(name, NAME);
    }
}

/// The outcome as a result.
fn done(outcome: Outcome) -> Result<(), Error> {
    match outcome {
        Outcome::Done => Ok(()),
        outcome => Err(Error::Ended(outcome)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exercise_kit::message::Means;

    #[test]
    fn memory_that_is_left_is_counted_from_the_first_on() {
        let left = [0, 8, 8, 4, 16, 16, 24].into_iter();
        let Left { first, most, rises } = left.fold(Left::default(), Left::after);
        assert_eq!((first, most, rises), (8, 24, 2));
    }

    #[test]
    fn a_reply_is_shortened() {
        let long = "x".repeat(1 << 20);
        let mut reply = Reply {
            outcome: Outcome::Failed { text: long.clone() },
            outputs: Vec::new(),
            launches: vec![Launch {
                kernel: long.clone(),
                files: vec!["short".to_owned(), long],
                seconds: 1.0,
                flops: 1,
                read_bytes: 1,
                write_bytes: 1,
                bound: String::new(),
                parts: Vec::new(),
                means: Means::default(),
                detail: None,
            }],
            to_host: 0,
            waits: 0,
            in_use: InUse::default(),
        };
        shorten(&mut reply);
        assert!(reply.outcome.to_string().len() < TEXT + 100);
        let Launch { kernel, files, .. } = &reply.launches[0];
        assert_eq!(files[0], "short");
        assert!(kernel.len().max(files[1].len()) < NAME + 100);
    }
}
