//! The launch, with arguments that fit the kernel: plain cudarc.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute_enum::{
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg,
};
use cudarc::nvrtc::Ptx;

use super::argument::{Argument, MAX_PARAMETER};
use super::buffer::Buffer;
use super::comments::{Invocation, Launch};
use super::entry::{self, Entry};
use super::error::InvocationError;
use super::fields::Position;
use super::layout::Layout;
use super::names::readable;
use super::tensor_map::{self, TensorMap};
use super::values::Values;
use gpu::{Error, refused};

/// The size, in bytes, that all parameters of a kernel may have together: CUDA's limit.
const MAX_PARAMETERS: usize = 32_764;

/// If a block has more shared memory than this, in bytes, the dynamic part must be asked for before
/// the launch.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

impl Invocation {
    /// Makes the buffers, launches the kernels of `ptx`, and reads the buffers back, in the order
    /// of the arguments.
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

    /// Loads the kernels and makes the buffers. The arguments' sizes are held against the kernels'
    /// parameters, because a driver reads what lies behind a missing argument.
    ///
    /// # Errors
    ///
    /// [`InvocationError`]: what is not stated or does not fit the kernel, files that cannot be
    /// read, the driver's refusal.
    pub fn prepare(&self, ctx: &Arc<CudaContext>, ptx: &str) -> Result<Prepared, InvocationError> {
        if let Some(line) = gpu_reading::zero_byte(ptx) {
            return Err(InvocationError::ZeroByteInPtx { line });
        }
        let chosen = self.launches.iter().map(|launch| self.choose(launch, ptx));
        let chosen: Vec<Chosen> = chosen.collect::<Result<_, _>>()?;
        // One module, so that all launches have the same `__device__` variables.
        let mut module = None;
        let mut launches = Vec::new();
        for chosen in chosen {
            let kernel = readable(&chosen.kernel);
            let launch = chosen.load(ctx, ptx, &mut module);
            launches
                .push(launch.map_err(|error| refused(&format!("loading kernel {kernel}"), error))?);
        }
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
        for (number, argument) in self.arguments.iter().enumerate() {
            if let Argument::TensorMap(map) = argument {
                let bytes = self.encode(number, map, &stream, &buffers)?;
                parameters[number].0[..bytes.len()].copy_from_slice(&bytes);
            }
        }
        Ok(Prepared {
            stream,
            launches,
            parameters,
            buffers,
        })
    }

    /// Argument `number`, a tensor map, as it is passed.
    fn encode(
        &self,
        number: usize,
        map: &TensorMap,
        stream: &Arc<CudaStream>,
        buffers: &[Buffer],
    ) -> Result<[u8; tensor_map::BYTES], InvocationError> {
        let argument = self.arguments[number].to_string();
        let bad = |reason| InvocationError::BadTensorMap {
            number,
            argument: argument.clone(),
            reason,
        };
        let memory = &map.memory;
        if Argument::at(&self.arguments, memory).is_none() {
            return Err(bad(format!("there is no argument {memory}")));
        }
        let buffer = buffers.iter().find(|buffer| buffer.position == *memory);
        let buffer = buffer.ok_or_else(|| {
            let positions = buffers.iter().map(|buffer| &buffer.position);
            bad(memory.no_buffer(positions))
        })?;
        let element = map.element(buffer.ty).map_err(bad)?;
        let encoded = map.encode(element, buffer.ty.bytes(), buffer.address(stream));
        let failed = |error| refused(&format!("making argument {number} ({argument})"), error);
        Ok(encoded.map_err(failed)?)
    }

    /// The kernel of a launch, which fits its arguments.
    fn choose(&self, launch: &Launch, ptx: &str) -> Result<Chosen, InvocationError> {
        let unstated = |what| InvocationError::Unstated { what };
        let config = LaunchConfig {
            grid_dim: launch.grid.ok_or_else(|| unstated("grid"))?.into(),
            block_dim: launch.block.ok_or_else(|| unstated("block"))?.into(),
            shared_mem_bytes: launch.shared,
        };
        let entry = entry::choose(ptx, launch.kernel.as_deref())?;
        let all = || (0..self.arguments.len()).collect();
        let passed = launch.pass.clone().unwrap_or_else(all);
        self.fits(&entry, &passed)?;
        Ok(Chosen {
            config,
            cooperative: launch.cooperative,
            kernel: entry.name,
            passed,
        })
    }

    /// Holds the arguments that are passed against the kernel's parameters.
    fn fits(&self, entry: &Entry, passed: &[usize]) -> Result<(), InvocationError> {
        if entry.parameters.len() != passed.len() {
            return Err(InvocationError::ArgumentCount {
                kernel: readable(&entry.name),
                parameters: entry.parameters.len(),
                arguments: passed.len(),
            });
        }
        for (&number, parameter) in passed.iter().zip(&entry.parameters) {
            let Some(argument) = self.arguments.get(number) else {
                return Err(InvocationError::NoSuchArgument {
                    kernel: readable(&entry.name),
                    number,
                    arguments: self.arguments.len(),
                });
            };
            let misfit = |misfit: String| InvocationError::DoesNotFit {
                number,
                argument: argument.to_string(),
                misfit,
            };
            let kernel = readable(&entry.name);
            let given = Layout::new(argument);
            // An argument that fits but for its padding lacks an alignment, maybe that of a field:
            // its offsets are in doubt.
            let is_struct = matches!(argument, Argument::Struct { .. });
            let padded = given.bytes.checked_next_multiple_of(parameter.align);
            if given.bytes != parameter.bytes && !(is_struct && padded == Some(parameter.bytes)) {
                let (given, needed) = (given.bytes, parameter.bytes);
                return Err(misfit(format!(
                    "has {given} bytes, but the parameter of kernel {kernel} has {needed}{}",
                    hint_of_size(given, needed, parameter.align)
                )));
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
                return Err(misfit(format!(
                    "is {}, but the parameter of kernel {kernel} is {}; bits are written as 0x…",
                    kind(given),
                    kind(needed)
                )));
            }
            if given.align != parameter.align {
                let (given, needed) = (given.align, parameter.align);
                return Err(misfit(format!(
                    "is aligned to {given} bytes, but the parameter of kernel {kernel} to {needed}{}",
                    hint_of_alignment(given, needed)
                )));
            }
            if given.bytes > MAX_PARAMETER {
                return Err(InvocationError::ParameterTooLarge {
                    kernel,
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

/// Kernels and their arguments, ready to be launched.
#[derive(Debug)]
pub struct Prepared {
    stream: Arc<CudaStream>,
    launches: Vec<PreparedLaunch>,
    parameters: Vec<Parameter>,
    buffers: Vec<Buffer>,
}

/// A kernel that fits the arguments of its launch.
#[derive(Debug)]
struct Chosen {
    config: LaunchConfig,
    cooperative: bool,
    /// The kernel's name in the PTX.
    kernel: String,
    /// The numbers of its arguments.
    passed: Vec<usize>,
}

impl Chosen {
    /// Loads the kernel, from the module if that is loaded.
    fn load(
        self,
        ctx: &Arc<CudaContext>,
        ptx: &str,
        module: &mut Option<Arc<CudaModule>>,
    ) -> Result<PreparedLaunch, DriverError> {
        let module = match module {
            Some(module) => module,
            None => module.insert(ctx.load_module(Ptx::from_src(ptx))?),
        };
        let function = module.load_function(&self.kernel)?;
        let shared = self.config.shared_mem_bytes;
        let fixed = function.get_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        if shared.saturating_add_signed(fixed) > SHARED_WITHOUT_ASKING {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(shared).unwrap_or(i32::MAX); // refused either way
            function.set_attribute(attribute, bytes)?;
        }
        Ok(PreparedLaunch {
            function,
            chosen: self,
        })
    }
}

/// A kernel, ready to be launched.
#[derive(Debug)]
struct PreparedLaunch {
    function: CudaFunction,
    chosen: Chosen,
}

/// An argument as it is passed, and zeros: the driver reads as many bytes as the kernel's parameter
/// has.
#[derive(Debug)]
#[repr(C)]
struct Parameter([u8; MAX_PARAMETER]);

// SAFETY: plain bytes, which the device may read as anything.
unsafe impl DeviceRepr for Parameter {}

impl Prepared {
    /// The names in the PTX of the kernels, in the order of their launches; see [`readable`].
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.launches.iter().map(|launch| &*launch.chosen.kernel)
    }

    /// Launches the kernels, each after the end of the one before it, and waits for the last.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`]: the driver refuses a launch, or a kernel faults. Those behind it are not
    /// launched.
    pub fn launch(&self) -> Result<(), InvocationError> {
        for PreparedLaunch { function, chosen } in &self.launches {
            let mut launch = self.stream.launch_builder(function);
            for &number in &chosen.passed {
                launch.arg(&self.parameters[number]); // they fit, so it is there
            }
            // SAFETY: number and sizes of the arguments were held against the kernel's parameters.
            // What the kernel does with them is for the one who asked to run it.
            let launched = unsafe {
                match chosen.cooperative {
                    true => launch.launch_cooperative(chosen.config),
                    false => launch.launch(chosen.config),
                }
            };
            launched
                .and_then(|_| self.stream.synchronize())
                .map_err(|error| failed(&chosen.kernel, error))?;
        }
        Ok(())
    }

    /// Content of each buffer now, in the order of the arguments.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`].
    pub fn read_all(&self) -> Result<Vec<(Position, Values)>, InvocationError> {
        let read = |buffer: &Buffer| Ok((buffer.position.clone(), buffer.read(&self.stream)?));
        self.buffers.iter().map(read).collect()
    }
}

/// The error of a launch, in which the kernel is called as in its source.
fn failed(kernel: &str, error: DriverError) -> Error {
    let name = readable(kernel);
    let mut error = refused(&format!("launching kernel {name}"), error);
    if let Error::Driver { message, .. } = &mut error {
        let line = |name: &str| format!("\n  kernel  {name}\n");
        *message = message.replace(&line(kernel), &line(&name));
    }
    error
}

/// A parameter that is larger than any scalar is a struct, which a learner may not know how to
/// write.
fn hint_of_size(given: usize, needed: usize, align: usize) -> &'static str {
    let largest = size_of::<u64>();
    if (needed, align) == (tensor_map::BYTES, tensor_map::ALIGN) {
        ": a tensor map, written like tensormap{0,64x64,box=64x64,swizzle=128}"
    } else if given <= largest && needed > largest {
        ": a struct, written with its fields in braces, like {i64=4096,64,1,f32=0.5}"
    } else {
        ""
    }
}

/// More than the elements ask for is asked for by CUDA's vectors, or by the kernel's author.
fn hint_of_alignment(given: usize, needed: usize) -> String {
    if given >= needed {
        return String::new();
    }
    format!(
        ": CUDA's vectors are written like f32x4={{1,2,3,4}}, a struct with __align__({needed}) like \
         alignas({needed}){{f32=1,2}}"
    )
}

fn kind(float: bool) -> &'static str {
    if float {
        "a floating-point number"
    } else {
        "an integer or an address"
    }
}
