//! A kernel of the caller's on a simulated device of its own.

use cuda_sim::{LaunchShape, Simulator, SimulatorError};
use gpu::compile::cached;
use gpu::sources::Sources;
use gpu::unit::{Folder, Unit};
use gpu_launch::report::Report;
use ndarray::{Array1, Ix1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use crate::dlpack::{Exported, Tensor};
use crate::error::Error;
use crate::job::{self, Place};

/// Bytes of device memory.
const MEMORY: u64 = 64 << 20;

/// Name of the source in reports.
const FILE: &str = "kernel.cu";

/// Runs a kernel of CUDA C++, or of PTX, on a new device. Returns the arrays as they are then, and
/// the profile as JSON. An argument is a float32 array of one axis, or a number:
/// Python's `int` is C's, and so is its `float`.
#[pyfunction]
pub fn sim_launch(
    py: Python<'_>,
    source: String,
    kernel: String,
    arguments: Vec<Bound<'_, PyAny>>,
    grid: [u32; 3],
    block: [u32; 3],
) -> PyResult<(Vec<Exported>, String)> {
    let arguments = arguments.iter().map(Argument::new);
    let arguments = arguments.collect::<PyResult<Vec<_>>>()?;
    let (arrays, profile) = job::run(py, Place::Thread, arguments, move |arguments| {
        let (ptx, sources) = compile(source)?;
        let shape = LaunchShape::new(grid, block);
        launch(&ptx, &kernel, arguments, &shape).map_err(|failure| failure.with(&sources))
    })??;
    Ok((arrays.into_iter().map(Exported::new).collect(), profile))
}

enum Argument {
    Array(Tensor<f32, Ix1>),
    /// A number's bytes.
    Number([u8; 4]),
}

impl Argument {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyInt>() {
            let bits = object.extract::<i32>().map(i32::to_le_bytes);
            let bits = bits.or_else(|_| object.extract::<u32>().map(u32::to_le_bytes));
            bits.map(Self::Number).map_err(|_| too_wide(object))
        } else if object.is_instance_of::<PyFloat>() {
            let number = object.extract::<f64>()?;
            let rounded = number as f32;
            match number.is_finite() && rounded.is_infinite() {
                true => Err(too_wide(object)),
                false => Ok(Self::Number(rounded.to_le_bytes())),
            }
        } else if object.hasattr("__dlpack__")? {
            let array = Tensor::new("arguments", object)?;
            array.check_room()?; // for its copy
            Ok(Self::Array(array))
        } else {
            let kind = object.get_type();
            let text = format!("`arguments` has {kind}, expected an array, an int or a float");
            Err(PyTypeError::new_err(text))
        }
    }
}

fn too_wide(number: &Bound<'_, PyAny>) -> PyErr {
    PyValueError::new_err(format!("`arguments` has {number}, expected 32 bits"))
}

/// The PTX of a source, and the texts that reports quote.
fn compile(source: String) -> Result<(String, Sources), Error> {
    if source
        .lines()
        .any(|line| line.trim_start().starts_with(".version"))
    {
        return Ok((source, Sources::new()));
    }
    let read = |folder: Folder<'_>, name: &str| {
        let is_own = folder == Folder::Own && name == FILE;
        Ok(is_own.then(|| source.clone()))
    };
    let unit = Unit::in_folder("", FILE, &[], read)?.expect("`read` gives the source");
    let ptx = cached(&unit, false, "", |nvrtc| Ok(nvrtc.compile(&unit)?.ptx))?;
    let mut sources = Sources::new();
    sources.add(&unit);
    Ok((ptx, sources))
}

/// The fault of a launch, or the error before it.
enum Failure {
    Device(cuda_sim::InstallError),
    Launch(SimulatorError),
}

impl Failure {
    /// The report, with the source lines of a fault.
    fn with(self, sources: &Sources) -> Error {
        match self {
            Self::Device(error) => Error::Load(error.to_string()),
            Self::Launch(error) => {
                let quotes = error.fault().map(|fault| sources.quotes(fault));
                Error::Device(format!("{error}\n{}", quotes.unwrap_or_default()))
            }
        }
    }
}

impl From<SimulatorError> for Failure {
    fn from(error: SimulatorError) -> Self {
        Self::Launch(error)
    }
}

fn launch(
    ptx: &str,
    kernel: &str,
    arguments: &[Argument],
    shape: &LaunchShape,
) -> Result<(Vec<Array1<f32>>, String), Failure> {
    let device = Simulator::new(MEMORY).map_err(Failure::Device)?;
    let module = device.load(ptx)?;
    let mut parameters = Vec::new();
    let mut places = Vec::new(); // address and length of each array
    for argument in arguments {
        match argument {
            Argument::Number(bytes) => parameters.push(bytes.to_vec()),
            Argument::Array(array) => {
                let view = array.view();
                let bytes = Vec::from_iter(view.iter().flat_map(|x| x.to_le_bytes()));
                let address = device.allocate((bytes.len() as u64).max(1))?;
                device.write(address, &bytes)?;
                places.push((address, bytes.len()));
                parameters.push(address.to_le_bytes().to_vec());
            }
        }
    }
    let parameters = Vec::from_iter(parameters.iter().map(Vec::as_slice));
    let profile = device.launch(&module, kernel, shape, &parameters)?;
    let mut arrays = Vec::new();
    for (address, length) in places {
        let mut bytes = vec![0; length];
        device.read(address, &mut bytes)?;
        let (floats, _) = bytes.as_chunks::<4>();
        arrays.push(
            floats
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect(),
        );
    }
    let report = Report::new(profile.kernel.clone(), &profile, &|_| None);
    Ok((arrays, report.json().to_string()))
}
