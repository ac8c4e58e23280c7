//! Choice of the CUDA driver, and opening one of its devices.

use std::env;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_sim::InstallError;
use cudarc::driver::{CudaContext, DriverError, sys};
use libloading::Library;

use crate::Error;
use crate::error::with_causes;

/// Opens device `ordinal` (from 0): an NVIDIA GPU where there is one, otherwise the simulated
/// device.
///
/// Call it before any other use of cudarc, because cudarc loads a driver library only once. Set
/// `GPU=cuda` or `GPU=sim` to choose the driver. Two calls return two context objects, which share
/// the device's primary context and its memory but not cudarc's record of errors.
///
/// # Errors
///
/// [`Error::UnknownBackend`], [`Error::NoGpu`], [`Error::Simulator`], [`Error::WrongDriver`]: no
/// driver. [`Error::NoSuchDevice`]: the driver has no device of that number. [`Error::Driver`]: it
/// refuses to open it.
pub fn context(ordinal: usize) -> Result<Arc<CudaContext>, Error> {
    let label = backend()?.label();
    let count =
        CudaContext::device_count().map_err(|source| refused("counting devices", source))?;
    let count = usize::try_from(count).unwrap_or(0);
    if ordinal >= count {
        return Err(Error::NoSuchDevice {
            ordinal,
            count,
            label,
        });
    }
    CudaContext::new(ordinal)
        .map_err(|source| refused(&format!("opening device {ordinal}"), source))
}

/// The device's name, for reports: `NVIDIA H200`, or the simulated device's.
///
/// # Errors
///
/// [`Error::Driver`] if the driver refuses to tell it.
pub fn device_label(ctx: &CudaContext) -> Result<String, Error> {
    ctx.name()
        .map_err(|source| refused("asking for the device's name", source))
}

/// Bytes of the device's memory: a GPU's, or those of the product that is simulated, whatever
/// memory the simulator has.
///
/// # Errors
///
/// [`Error::Driver`] if the driver refuses to tell it; those of [`backend`].
pub fn device_memory(ctx: &CudaContext) -> Result<u64, Error> {
    match backend()? {
        Backend::Cuda => ctx
            .total_mem()
            .map(|bytes| bytes as u64)
            .map_err(|source| refused("asking for the size of its memory", source)),
        Backend::Simulator => Ok(cuda_sim::product_memory()),
    }
}

/// Whose driver runs the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// NVIDIA's: `libcuda.so.1`.
    Cuda,
    /// The simulated one, `cuda-sim`.
    Simulator,
}

impl Backend {
    /// `the NVIDIA driver` or `the simulator`.
    pub fn label(self) -> &'static str {
        match self {
            Backend::Cuda => "the NVIDIA driver",
            Backend::Simulator => "the simulator",
        }
    }
}

/// Chooses the driver, once in a process, and puts it in place for cudarc.
///
/// # Errors
///
/// [`Error::UnknownBackend`], [`Error::NoGpu`], [`Error::Simulator`], [`Error::WrongDriver`].
/// Nothing is chosen then, and the next call tries anew.
pub fn backend() -> Result<Backend, Error> {
    let mut chosen = lock_choice();
    if let Some(backend) = *chosen {
        return Ok(backend);
    }
    let forced = env::var_os("GPU").unwrap_or_default();
    let backend = match forced.to_str() {
        Some("") => match probe() {
            Ok(driver) => take(driver)?,
            Err(_) => install_simulator()?,
        },
        Some("cuda") => take(probe().map_err(|reason| Error::NoGpu { reason })?)?,
        Some("sim") => install_simulator()?,
        _ => {
            return Err(Error::UnknownBackend {
                value: forced.to_string_lossy().into_owned(),
            });
        }
    };
    *chosen = Some(backend);
    Ok(backend)
}

/// Chooses the simulator, regardless of the environment.
///
/// # Errors
///
/// [`Error::WrongDriver`] if this process uses a GPU already; [`Error::Simulator`].
pub fn simulate() -> Result<(), Error> {
    let mut chosen = lock_choice();
    match *chosen {
        Some(Backend::Simulator) => {}
        Some(Backend::Cuda) => {
            return Err(Error::WrongDriver {
                expected: Backend::Simulator.label(),
            });
        }
        None => *chosen = Some(install_simulator()?),
    }
    Ok(())
}

/// The driver of this process, once it is chosen.
fn lock_choice() -> MutexGuard<'static, Option<Backend>> {
    static CHOSEN: Mutex<Option<Backend>> = Mutex::new(None);
    CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) // it is set in one step
}

/// The error of a driver's call.
pub(crate) fn refused(operation: &str, code: DriverError) -> Error {
    Error::Driver {
        operation: operation.to_owned(),
        refusal: code.into(),
    }
}

/// The driver's own text for its error, to be read by people: on the simulator the whole report of
/// a fault, over several lines. cudarc's `Display` escapes it into one.
pub fn explanation(code: &DriverError) -> String {
    match code.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => "no explanation".to_owned(),
    }
}

type CuInit = unsafe extern "C" fn(u32) -> u32;
type CuDeviceGetCount = unsafe extern "C" fn(*mut i32) -> u32;
type CuDeviceGetName = unsafe extern "C" fn(*mut c_char, i32, i32) -> u32;

/// The NVIDIA driver, loaded, if it has a device; otherwise why not.
///
/// The name is exact: `libcuda.so`, which cudarc tries first, is absent from machines without a
/// toolkit, and may be a link-time stub or the simulator.
fn probe() -> Result<Library, String> {
    // SAFETY: loading the driver runs its initialisers, which is what every CUDA program does.
    let driver = unsafe { Library::new(NVIDIA_DRIVER) }.map_err(|error| with_causes(&error))?;
    // SAFETY: the types are those of cuda.h.
    let (init, get_count) = unsafe {
        let init = driver
            .get::<CuInit>(b"cuInit")
            .map_err(|error| with_causes(&error))?;
        let get_count = driver
            .get::<CuDeviceGetCount>(b"cuDeviceGetCount")
            .map_err(|error| with_causes(&error))?;
        (*init, *get_count)
    };
    // SAFETY: cuInit takes no pointer; 0 is the one flag it knows.
    let code = unsafe { init(0) };
    if code != 0 {
        return Err(format!("cuInit of {NVIDIA_DRIVER} returns error {code}"));
    }
    let mut count = 0;
    // SAFETY: `count` outlives the call.
    let code = unsafe { get_count(&mut count) };
    if code != 0 {
        return Err(format!(
            "cuDeviceGetCount of {NVIDIA_DRIVER} returns error {code}"
        ));
    }
    if count < 1 {
        return Err(format!("{NVIDIA_DRIVER} has no device"));
    }
    // A time by the simulator's clock must not be called measured.
    if device_name(&driver).is_some_and(|name| name.starts_with("cuda-sim")) {
        return Err(format!("{NVIDIA_DRIVER} is the simulator"));
    }
    Ok(driver)
}

/// The name of the first device.
fn device_name(driver: &Library) -> Option<String> {
    let mut name = [0 as c_char; 64];
    // SAFETY: the type is that of cuda.h, and no more than `name` has is written, a 0 at its end.
    unsafe {
        let get_name = driver.get::<CuDeviceGetName>(b"cuDeviceGetName").ok()?;
        let code = get_name(name.as_mut_ptr(), name.len() as i32, 0);
        (code == 0).then(|| CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
    }
}

const NVIDIA_DRIVER: &str = "libcuda.so.1";

/// Keeps the probed driver, after making sure that it is the one that cudarc calls.
fn take(driver: Library) -> Result<Backend, Error> {
    let wrong = || Error::WrongDriver {
        expected: NVIDIA_DRIVER,
    };
    // SAFETY: looking for the library loads it at most, as cudarc's first call would.
    if !unsafe { sys::is_culib_present() } {
        return Err(wrong());
    }
    // SAFETY: the type is that of cuda.h, and the addresses are only compared.
    let same = unsafe {
        let ours = driver.get::<CuInit>(b"cuInit").map(|f| *f as usize).ok();
        let cudarcs = sys::culib()
            .get::<CuInit>(b"cuInit")
            .map(|f| *f as usize)
            .ok();
        ours.is_some() && ours == cudarcs
    };
    if !same {
        return Err(wrong());
    }
    std::mem::forget(driver); // The driver stays for as long as the process, as cudarc's own handle does.
    Ok(Backend::Cuda)
}

fn install_simulator() -> Result<Backend, Error> {
    match cuda_sim::install() {
        Ok(()) => Ok(Backend::Simulator),
        Err(InstallError::AnotherDriver) => Err(Error::WrongDriver {
            expected: Backend::Simulator.label(),
        }),
        Err(error) => Err(Error::Simulator(error)),
    }
}
