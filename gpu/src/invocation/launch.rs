//! Buffers on the device, the launch, and the buffers' contents after it: plain cudarc.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

use super::{Argument, Entry, Init, Invocation, InvocationError, Type, Values, entry, npy};
use crate::device::refused;

/// Dynamic shared memory beyond this, in bytes, must be asked for before the launch.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

impl Invocation {
    /// Makes the buffers, launches the kernel of `ptx`, and reads the buffers back: an element for each argument,
    /// `None` for scalars.
    ///
    /// # Errors
    ///
    /// Those of [`Invocation::prepare`] and [`Prepared::launch`].
    pub fn run(
        &self,
        ctx: &Arc<CudaContext>,
        ptx: &str,
    ) -> Result<Vec<Option<Values>>, InvocationError> {
        let prepared = self.prepare(ctx, ptx)?;
        prepared.launch()?;
        (0..self.arguments.len())
            .map(|argument| prepared.read(argument))
            .collect()
    }

    /// Loads the kernel and makes the buffers. The arguments' sizes are held against the kernel's parameters, because a
    /// driver reads what lies behind a missing argument.
    ///
    /// # Errors
    ///
    /// [`InvocationError`]: what is not stated or does not fit the kernel, files that cannot be read, the driver's
    /// refusal.
    pub fn prepare(&self, ctx: &Arc<CudaContext>, ptx: &str) -> Result<Prepared, InvocationError> {
        let unstated = |what| InvocationError::Unstated { what };
        let config = LaunchConfig {
            grid_dim: self.grid.ok_or_else(|| unstated("grid"))?.into(),
            block_dim: self.block.ok_or_else(|| unstated("block"))?.into(),
            shared_mem_bytes: self.shared,
        };
        let entry = entry::choose(ptx, self.kernel.as_deref())?;
        self.fits(&entry)?;
        let load = || -> Result<CudaFunction, DriverError> {
            let function = ctx
                .load_module(Ptx::from_src(ptx))?
                .load_function(&entry.name)?;
            if self.shared > SHARED_WITHOUT_ASKING {
                let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let bytes = i32::try_from(self.shared).unwrap_or(i32::MAX); // refused either way
                function.set_attribute(attribute, bytes)?;
            }
            Ok(function)
        };
        let function =
            load().map_err(|error| refused(&format!("loading kernel {}", entry.name), error))?;
        let stream = ctx.default_stream();
        let numbered = self.arguments.iter().enumerate();
        let arguments = numbered
            .map(|(number, argument)| passed(&stream, number, argument))
            .collect::<Result<_, _>>()?;
        Ok(Prepared {
            stream,
            function,
            config,
            kernel: entry.name,
            arguments,
        })
    }

    fn fits(&self, entry: &Entry) -> Result<(), InvocationError> {
        if entry.parameters.len() != self.arguments.len() {
            return Err(InvocationError::ArgumentCount {
                kernel: entry.name.clone(),
                parameters: entry.parameters.len(),
                arguments: self.arguments.len(),
            });
        }
        let pairs = self.arguments.iter().zip(&entry.parameters).enumerate();
        for (number, (argument, &needed)) in pairs {
            let given = match argument {
                Argument::Scalar { ty, .. } => ty.bytes(),
                Argument::Buffer { .. } => size_of::<u64>(),
            };
            if given != needed {
                return Err(InvocationError::ArgumentSize {
                    kernel: entry.name.clone(),
                    number,
                    argument: argument.to_string(),
                    given,
                    needed,
                });
            }
        }
        Ok(())
    }
}

/// A kernel and its arguments, ready to be launched.
#[derive(Debug)]
pub struct Prepared {
    stream: Arc<CudaStream>,
    function: CudaFunction,
    config: LaunchConfig,
    kernel: String,
    arguments: Vec<Passed>,
}

/// An argument as it is passed.
#[derive(Debug)]
enum Passed {
    Scalar(u64),
    /// The address of no elements is null.
    Empty(Type),
    Buffer(Type, CudaSlice<u8>),
}

impl Prepared {
    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Launches the kernel and waits for its end.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver): the driver refuses the launch, or the kernel faults.
    pub fn launch(&self) -> Result<(), InvocationError> {
        let mut launch = self.stream.launch_builder(&self.function);
        for argument in &self.arguments {
            match argument {
                Passed::Scalar(bits) => launch.arg(bits), // little-endian: a narrower parameter is its low bytes
                Passed::Empty(_) => launch.arg(&0u64),
                Passed::Buffer(_, buffer) => launch.arg(buffer),
            };
        }
        // SAFETY: number and sizes of the arguments were held against the kernel's parameters. What the kernel does
        // with them is for the one who asked to run it.
        unsafe { launch.launch(self.config) }
            .and_then(|_| self.stream.synchronize())
            .map_err(|error| refused(&format!("launching kernel {}", self.kernel), error))?;
        Ok(())
    }

    /// What the buffer of an argument holds now; `None` for a scalar, or a number beyond the last argument.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn read(&self, argument: usize) -> Result<Option<Values>, InvocationError> {
        match self.arguments.get(argument) {
            None | Some(Passed::Scalar(_)) => Ok(None),
            Some(Passed::Empty(ty)) => Ok(Some(Values::new(*ty, Vec::new()))),
            Some(Passed::Buffer(ty, buffer)) => {
                let bytes = self
                    .stream
                    .clone_dtoh(buffer)
                    .and_then(|bytes| self.stream.synchronize().map(|()| bytes))
                    .map_err(|error| refused(&format!("reading argument {argument}"), error))?;
                Ok(Some(Values::new(*ty, bytes)))
            }
        }
    }
}

impl Values {
    /// Writes the elements into a `.npy` file of one dimension.
    ///
    /// # Errors
    ///
    /// [`InvocationError::Npy`] if the file cannot be written.
    pub fn write_npy(&self, path: &Path) -> Result<(), InvocationError> {
        fs::write(path, npy::write(self)).map_err(|error| InvocationError::Npy {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Reads a `.npy` file whose elements have type `ty`, of any shape, in row-major order.
    ///
    /// # Errors
    ///
    /// [`InvocationError::Npy`] if the file cannot be read or holds something else.
    pub fn read_npy(path: &Path, ty: Type) -> Result<Values, InvocationError> {
        let file = fs::read(path).map_err(|error| error.to_string());
        file.and_then(|file| npy::read(&file, ty))
            .map_err(|reason| InvocationError::Npy {
                path: path.to_owned(),
                reason,
            })
    }
}

fn passed(
    stream: &Arc<CudaStream>,
    number: usize,
    argument: &Argument,
) -> Result<Passed, InvocationError> {
    let (ty, count, init) = match argument {
        Argument::Scalar { bits, .. } => return Ok(Passed::Scalar(*bits)),
        Argument::Buffer { ty, count, init } => (*ty, *count, init),
    };
    let too_large = || InvocationError::TooLarge {
        number,
        argument: argument.to_string(),
    };
    let from_file = match init {
        Init::File(path) => Some((path, Values::read_npy(path, ty)?)),
        _ => None,
    };
    if let (Some((path, values)), Some(count)) = (&from_file, count)
        && values.len() != count
    {
        return Err(InvocationError::Npy {
            path: path.to_path_buf(),
            reason: format!("it has {} elements, not {count}", values.len()),
        });
    }
    let count = count
        .or_else(|| Some(from_file.as_ref()?.1.len()))
        .unwrap_or(0);
    if count == 0 {
        return Ok(Passed::Empty(ty));
    }
    let size = count
        .checked_mul(ty.bytes())
        .filter(|&size| isize::try_from(size).is_ok())
        .ok_or_else(too_large)?;
    let failed = |error| refused(&format!("making argument {number} ({argument})"), error);
    // SAFETY: what is read before it is written is what `uninit` asks for; all else is written below.
    let mut buffer = unsafe { stream.alloc::<u8>(size) }.map_err(failed)?;

    let fill = |element: &dyn Fn(u64) -> u64| -> Result<Values, InvocationError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| too_large())?;
        for index in 0..count as u64 {
            bytes.extend(&element(index).to_le_bytes()[..ty.bytes()]);
        }
        Ok(Values::new(ty, bytes))
    };
    let values = match init {
        Init::Uninit => None,
        Init::Zeros => Some(fill(&|_| 0)?),
        Init::Ones => Some(fill(&|_| ty.of_index(1))?),
        Init::Iota => Some(fill(&|index| ty.of_index(index))?),
        Init::Random(seed) => {
            let seed = seed.unwrap_or(number as u64);
            Some(fill(&|index| ty.of_random(random(seed, index)))?)
        }
        Init::List(values) => Some(values.clone()),
        Init::File(_) => from_file.map(|(_, values)| values),
    };
    if let Some(values) = values {
        stream
            .memcpy_htod(values.bytes(), &mut buffer)
            .and_then(|()| stream.synchronize()) // the values are dropped now
            .map_err(failed)?;
    }
    Ok(Passed::Buffer(ty, buffer))
}

/// The number at `index` of a sequence: SplitMix64 (Steele, Lea, Flood 2014), started far apart for each seed.
fn random(seed: u64, index: u64) -> u64 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = mix(seed.wrapping_add(1).wrapping_mul(STEP));
    mix(start.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
}
