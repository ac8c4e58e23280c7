//! A request, answered by the device.

use std::path::Path;

use cuda_sim::trace::{self, Selection};
use cuda_sim::{LaunchProfile, Simulator, SimulatorError};
use gpu_launch::report::Report;
use gpu_launch::{Invocation, LaunchError, Position, Prepared, Values, readable_report, recording};
use gpu_recording::Recording;
use serde::Serialize;
use serde_json::Value;

use crate::device::WebDevice;
use crate::request::{Request, TraceRequest};

/// What came of a request.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    /// What is stated is wrong, or the device refuses.
    pub error: Option<String>,
    /// The mistake of a kernel.
    pub fault: Option<Fault>,
    /// The profile of each launch, as `gpu profile --json` has it.
    pub launches: Vec<Value>,
    /// The buffers behind the launches.
    pub buffers: Vec<Buffer>,
    /// Where buffers are not what the file states.
    pub mismatches: Vec<String>,
    /// What the kernels printed.
    pub printed: String,
    /// The recorded steps of the first launch.
    pub trace: Option<Recording>,
}

/// A fault.
#[derive(Debug, Serialize)]
pub struct Fault {
    /// The report.
    pub report: String,
    /// The source lines that it names: file and number.
    pub places: Vec<(String, u32)>,
}

/// A buffer.
#[derive(Debug, Serialize)]
pub struct Buffer {
    /// The argument, or the field of one.
    pub position: String,
    /// The type of its elements.
    pub ty: String,
    /// Number of its elements.
    pub count: usize,
    /// The first elements.
    pub values: Vec<String>,
}

/// Answers a [`Request`] in JSON.
pub fn answer(simulator: &mut Simulator, request: &str) -> Answer {
    let request: Request = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => return Answer::of_error(error),
    };
    simulator.reset();
    cuda_sim::set_seed(request.seed);
    cuda_sim::set_budget(request.budget);
    let mut answer = Answer::default();
    if let Err(error) = answer.run(simulator, &request) {
        answer.add(error);
    }
    answer.printed = printed();
    answer
}

type RunError = LaunchError<SimulatorError>;

impl Answer {
    fn of_error(error: impl ToString) -> Answer {
        Answer {
            error: Some(error.to_string()),
            ..Answer::default()
        }
    }

    fn add(&mut self, error: RunError) {
        let fault = match &error {
            LaunchError::Device { error, .. } => error.fault(),
            LaunchError::Stated(_) => None,
        };
        let Some(fault) = fault else {
            self.error = Some(error.to_string());
            return;
        };
        self.fault = Some(Fault {
            report: readable_report(&fault.to_string(), &fault.kernel),
            places: fault.places().into_iter().cloned().collect(),
        });
    }

    fn run(&mut self, simulator: &Simulator, request: &Request) -> Result<(), RunError> {
        let invocation = Invocation::parse(&request.launch, Path::new(""))?;
        let device = WebDevice { simulator };
        let prepared = invocation.prepare(&device, &request.ptx)?;
        let profiles = match &request.trace {
            None => prepared.launch()?,
            Some(asked) => self.traced(asked, &prepared, request)?,
        };
        let sources = |file: &str| request.sources.get(file).map(String::as_str);
        let stated = prepared.kernels().zip(&invocation.launches);
        let reports = profiles
            .iter()
            .zip(stated)
            .map(|(profile, (kernel, stated))| {
                Report::new(stated.title(kernel, &request.name), profile, &sources).json()
            });
        self.launches = reports.collect();
        let buffers = prepared.read_all()?;
        let compared = invocation.expectations.iter();
        let mismatches = compared.filter_map(|stated| stated.compare(&buffers).err());
        self.mismatches = mismatches.map(|mismatch| mismatch.to_string()).collect();
        let shown = buffers
            .iter()
            .map(|buffer| Buffer::new(buffer, request.values));
        self.buffers = shown.collect();
        Ok(())
    }

    /// Launches, and keeps the steps of the first launch.
    fn traced(
        &mut self,
        asked: &TraceRequest,
        prepared: &Prepared<'_, WebDevice<'_>>,
        request: &Request,
    ) -> Result<Vec<LaunchProfile>, RunError> {
        let selection = Selection {
            lines: asked.lines.clone(),
            block: asked.block,
            warp: asked.warp,
            steps: asked.steps,
        };
        let (profiles, traces) = trace::record(selection, || prepared.launch());
        let sources = |file: &str| request.sources.get(file).map(String::as_str);
        match traces.into_iter().next() {
            Some(Ok(trace)) => self.trace = Some(recording(&trace, &sources)),
            Some(Err(error)) => self.error = Some(error.to_string()),
            None => {}
        }
        profiles
    }
}

impl Buffer {
    fn new((position, values): &(Position, Values), shown: usize) -> Buffer {
        let ty = values.ty();
        Buffer {
            position: position.to_string(),
            ty: ty.to_string(),
            count: values.len(),
            values: values
                .bits()
                .take(shown)
                .map(|bits| ty.show(bits))
                .collect(),
        }
    }
}

/// What kernels have printed; a program's own output has it already.
#[cfg(not(target_arch = "wasm32"))]
fn printed() -> String {
    String::new()
}

#[cfg(target_arch = "wasm32")]
fn printed() -> String {
    String::from_utf8_lossy(&cuda_sim::take_output()).into_owned()
}
