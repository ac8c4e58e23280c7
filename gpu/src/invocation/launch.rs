//! The launch, with arguments that fit the kernel: plain cudarc.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

use super::buffer::Buffer;
use super::layout::Layout;
use super::names::readable;
use super::{Argument, Entry, Invocation, InvocationError, Position, Values, entry};
use crate::Error;
use crate::device::refused;
use crate::ptx_file::zero_byte;

/// The size, in bytes, up to which a parameter is passed: CUDA's limit for all parameters of a kernel, before Volta.
pub(super) const MAX_PARAMETER: usize = 4096;

/// The size, in bytes, that all parameters of a kernel may have together: CUDA's limit.
const MAX_PARAMETERS: usize = 32_764;

/// Dynamic shared memory beyond this, in bytes, must be asked for before the launch.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

impl Invocation {
    /// Makes the buffers, launches the kernel of `ptx`, and reads the buffers back, in the order of the arguments.
    ///
    /// # Errors
    ///
    /// Those of [`Invocation::prepare`] and [`Prepared::launch`].
    pub fn run(
        &self,
        ctx: &Arc<CudaContext>,
        ptx: &str,
    ) -> Result<Vec<(Position, Values)>, InvocationError> {
        let prepared = self.prepare(ctx, ptx)?;
        prepared.launch()?;
        prepared.read_all()
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
        if let Some(line) = zero_byte(ptx) {
            return Err(InvocationError::ZeroByteInPtx { line });
        }
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
        let function = load().map_err(|error| {
            refused(&format!("loading kernel {}", readable(&entry.name)), error)
        })?;
        let stream = ctx.default_stream();
        let mut buffers = Vec::new();
        let mut parameters = Vec::new();
        for (number, argument) in self.arguments.iter().enumerate() {
            let mut parameter = Parameter([0; MAX_PARAMETER]);
            argument.encode(
                &number.into(),
                &mut parameter.0,
                &mut |position, ty, count, init| {
                    let buffer = Buffer::new(&stream, position, ty, count, init)?;
                    let address = buffer.address(&stream);
                    buffers.push(buffer);
                    Ok::<u64, InvocationError>(address)
                },
            )?;
            parameters.push(parameter);
        }
        Ok(Prepared {
            stream,
            function,
            config,
            kernel: entry.name,
            parameters,
            buffers,
        })
    }

    /// Holds the arguments against the kernel's parameters.
    fn fits(&self, entry: &Entry) -> Result<(), InvocationError> {
        if entry.parameters.len() != self.arguments.len() {
            return Err(InvocationError::ArgumentCount {
                kernel: readable(&entry.name),
                parameters: entry.parameters.len(),
                arguments: self.arguments.len(),
            });
        }
        let pairs = self.arguments.iter().zip(&entry.parameters).enumerate();
        for (number, (argument, parameter)) in pairs {
            let given = Layout::of(argument);
            // What fits but for its padding lacks an alignment, maybe that of a field: its offsets are in doubt.
            let is_struct = matches!(argument, Argument::Struct { .. });
            let padded = given.bytes.checked_next_multiple_of(parameter.align);
            if given.bytes != parameter.bytes && !(is_struct && padded == Some(parameter.bytes)) {
                return Err(InvocationError::ArgumentSize {
                    kernel: readable(&entry.name),
                    number,
                    argument: argument.to_string(),
                    given: given.bytes,
                    needed: parameter.bytes,
                });
            }
            let float = match argument {
                // A 16-bit float is an unsigned short in kernels that have no type for it.
                Argument::Scalar { ty, .. } if ty.bytes() > 2 => Some(ty.is_float()),
                Argument::Buffer { .. } => Some(false),
                _ => None,
            };
            if let (Some(given), Some(needed)) = (float, parameter.float)
                && given != needed
            {
                return Err(InvocationError::ArgumentKind {
                    kernel: readable(&entry.name),
                    number,
                    argument: argument.to_string(),
                    float: needed,
                });
            }
            if given.align != parameter.align {
                return Err(InvocationError::ArgumentAlignment {
                    kernel: readable(&entry.name),
                    number,
                    argument: argument.to_string(),
                    given: given.align,
                    needed: parameter.align,
                });
            }
            if given.bytes > MAX_PARAMETER {
                return Err(InvocationError::ParameterTooLarge {
                    kernel: readable(&entry.name),
                    number,
                    bytes: given.bytes,
                    most: MAX_PARAMETER,
                });
            }
        }
        let sizes = entry.parameters.iter().map(|parameter| parameter.bytes);
        let bytes = sizes.fold(0, usize::saturating_add);
        if bytes > MAX_PARAMETERS {
            return Err(InvocationError::TooManyParameters {
                kernel: readable(&entry.name),
                bytes,
                most: MAX_PARAMETERS,
            });
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
    parameters: Vec<Parameter>,
    buffers: Vec<Buffer>,
}

/// An argument as it is passed, and zeros: the driver reads as many bytes as the kernel's parameter has.
#[derive(Debug)]
#[repr(C)]
struct Parameter([u8; MAX_PARAMETER]);

// SAFETY: plain bytes, which the device may read as anything.
unsafe impl DeviceRepr for Parameter {}

impl Prepared {
    /// The kernel's name in the PTX; see [`readable`].
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Launches the kernel and waits for its end.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`]: the driver refuses the launch, or the kernel faults.
    pub fn launch(&self) -> Result<(), InvocationError> {
        let mut launch = self.stream.launch_builder(&self.function);
        for parameter in &self.parameters {
            launch.arg(parameter);
        }
        // SAFETY: number and sizes of the arguments were held against the kernel's parameters. What the kernel does
        // with them is for the one who asked to run it.
        unsafe { launch.launch(self.config) }
            .and_then(|_| self.stream.synchronize())
            .map_err(|error| self.failed(error))?;
        Ok(())
    }

    /// The error of a launch, in which the kernel is called as in its source.
    fn failed(&self, error: DriverError) -> Error {
        let name = readable(&self.kernel);
        let mut error = refused(&format!("launching kernel {name}"), error);
        if let Error::Driver { message, .. } = &mut error {
            let line = |name: &str| format!("\n  kernel  {name}\n");
            *message = message.replace(&line(&self.kernel), &line(&name));
        }
        error
    }

    /// What each buffer holds now, in the order of the arguments.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`].
    pub fn read_all(&self) -> Result<Vec<(Position, Values)>, InvocationError> {
        let read = |buffer: &Buffer| Ok((buffer.position.clone(), buffer.read(&self.stream)?));
        self.buffers.iter().map(read).collect()
    }
}
