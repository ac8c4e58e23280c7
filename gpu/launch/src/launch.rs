//! Kernels and buffers on a device, with arguments that fit.

use crate::argument::{Argument, Init};
use crate::comments::Invocation;
use crate::content::Content;
use crate::device::Device;
use crate::error::{InvocationError, LaunchError};
use crate::fields::Position;
use crate::fit::Chosen;
use crate::layout::Layout;
use crate::names::readable;
use crate::tensor_map::TensorMap;
use crate::values::{Type, Values};

impl Invocation {
    /// Makes the buffers, launches the kernels of `ptx`, and reads the buffers back, in the order
    /// of the arguments.
    ///
    /// # Errors
    ///
    /// Those of [`Invocation::prepare`] and [`Prepared::launch`].
    pub fn run<D: Device>(
        &self,
        device: &D,
        ptx: &str,
    ) -> Result<Vec<(Position, Values)>, LaunchError<D::Error>> {
        let prepared = self.prepare(device, ptx)?;
        prepared.launch()?;
        prepared.read_all()
    }

    /// Loads the kernels and makes the buffers. The arguments' sizes are held against the kernels'
    /// parameters, because a driver reads what lies behind a missing argument.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]: what is not stated or does not fit the kernel, files that cannot be read,
    /// the device's refusal.
    pub fn prepare<'d, D: Device>(
        &self,
        device: &'d D,
        ptx: &str,
    ) -> Result<Prepared<'d, D>, LaunchError<D::Error>> {
        if let Some(line) = gpu_reading::zero_byte(ptx) {
            return Err(InvocationError::ZeroByteInPtx { line }.into());
        }
        let chosen = self.launches.iter().map(|launch| self.choose(launch, ptx));
        let chosen: Vec<Chosen> = chosen.collect::<Result<_, _>>()?;
        // One module, so that all launches have the same `__device__` variables.
        let mut module = None;
        let mut launches = Vec::new();
        for chosen in chosen {
            let loading = || format!("loading kernel {}", readable(&chosen.kernel));
            let module: &D::Module = match module {
                Some(ref module) => module,
                None => module.insert(device.load(ptx).map_err(LaunchError::of(loading))?),
            };
            let kernel = device.kernel(module, &chosen.kernel, chosen.config);
            let kernel = kernel.map_err(LaunchError::of(loading))?;
            launches.push((chosen, kernel));
        }
        let mut buffers = Vec::new();
        let mut parameters = Vec::new();
        for (number, argument) in self.arguments.iter().enumerate() {
            let mut parameter = vec![0; Layout::new(argument).bytes];
            argument.encode(
                &number.into(),
                &mut parameter,
                &mut |position, ty, count, init| {
                    let buffer = Buffer::new(device, position, ty, count, init)?;
                    let address = buffer.address(device);
                    buffers.push(buffer);
                    Ok::<u64, LaunchError<D::Error>>(address)
                },
            )?;
            parameters.push(parameter);
        }
        for (number, argument) in self.arguments.iter().enumerate() {
            if let Argument::TensorMap(map) = argument {
                let bytes = self.encode(number, map, device, &buffers)?;
                parameters[number].copy_from_slice(&bytes);
            }
        }
        Ok(Prepared {
            device,
            launches,
            parameters,
            buffers,
        })
    }

    /// Argument `number`, a tensor map, as it is passed.
    fn encode<D: Device>(
        &self,
        number: usize,
        map: &TensorMap,
        device: &D,
        buffers: &[Buffer<D>],
    ) -> Result<[u8; TensorMap::BYTES], LaunchError<D::Error>> {
        let argument = self.arguments[number].to_string();
        let bad = |reason| InvocationError::BadTensorMap {
            number,
            argument: argument.clone(),
            reason,
        };
        let memory = &map.memory;
        if Argument::at(&self.arguments, memory).is_none() {
            return Err(bad(format!("there is no argument {memory}")).into());
        }
        let buffer = buffers.iter().find(|buffer| buffer.position == *memory);
        let buffer = buffer.ok_or_else(|| {
            let positions = buffers.iter().map(|buffer| &buffer.position);
            bad(memory.no_buffer(positions))
        })?;
        let tensor = map.tensor(buffer.ty, buffer.address(device)).map_err(bad)?;
        let making = || format!("making argument {number} ({argument})");
        device.tensor_map(&tensor).map_err(LaunchError::of(making))
    }
}

/// Kernels and their arguments, ready to be launched.
pub struct Prepared<'d, D: Device> {
    device: &'d D,
    launches: Vec<(Chosen, D::Kernel)>,
    /// Each argument as it is passed.
    parameters: Vec<Vec<u8>>,
    buffers: Vec<Buffer<D>>,
}

impl<D: Device> Prepared<'_, D> {
    /// The names in the PTX of the kernels, in the order of their launches; see [`readable`].
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.launches.iter().map(|(chosen, _)| &*chosen.kernel)
    }

    /// Launches the kernels, each after the end of the one before it, and waits for the last.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Device`]: the device refuses a launch, or a kernel faults. Those behind it
    /// are not launched.
    pub fn launch(&self) -> Result<Vec<D::Launched>, LaunchError<D::Error>> {
        let launches = self.launches.iter().map(|(chosen, kernel)| {
            let passed = chosen.passed.iter();
            let passed: Vec<&[u8]> = passed.map(|&number| &*self.parameters[number]).collect();
            // SAFETY: number and sizes of the arguments were held against the kernel's parameters.
            // What the kernel does with them is for the one who asked to run it.
            let launched = unsafe { self.device.launch(kernel, &passed) };
            launched.map_err(LaunchError::of(|| {
                format!("launching kernel {}", readable(&chosen.kernel))
            }))
        });
        launches.collect()
    }

    /// Content of each buffer now, in the order of the arguments.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Device`].
    pub fn read_all(&self) -> Result<Vec<(Position, Values)>, LaunchError<D::Error>> {
        let read = |buffer: &Buffer<D>| Ok((buffer.position.clone(), buffer.read(self.device)?));
        self.buffers.iter().map(read).collect()
    }
}

/// A buffer of an argument, or of a field of one.
struct Buffer<D: Device> {
    position: Position,
    ty: Type,
    /// `None`: it has no elements.
    memory: Option<D::Memory>,
}

impl<D: Device> Buffer<D> {
    /// Makes the buffer of an [`Argument::Buffer`] and fills it.
    fn new(
        device: &D,
        position: &Position,
        ty: Type,
        count: Option<usize>,
        init: &Init,
    ) -> Result<Buffer<D>, LaunchError<D::Error>> {
        let content = Content::new(position, ty, count, init)?;
        let making = || format!("making argument {position} ({})", content.argument());
        let mut memory = None;
        if content.bytes() > 0 {
            let made = device.allocate(content.bytes());
            let made = memory.insert(made.map_err(LaunchError::of(making))?);
            // Filled once the device has room for it.
            if let Some(values) = content.values()? {
                let written = device.write(made, values.bytes());
                written.map_err(LaunchError::of(making))?;
            }
        }
        Ok(Buffer {
            position: position.clone(),
            ty,
            memory,
        })
    }

    /// Its address; null if it has no elements.
    fn address(&self, device: &D) -> u64 {
        let memory = self.memory.as_ref();
        memory.map_or(0, |memory| device.address(memory))
    }

    /// Its content now.
    fn read(&self, device: &D) -> Result<Values, LaunchError<D::Error>> {
        let Some(memory) = &self.memory else {
            return Ok(Values::new(self.ty, Vec::new()));
        };
        let reading = || format!("reading argument {}", self.position);
        let bytes = device.read(memory).map_err(LaunchError::of(reading))?;
        Ok(Values::new(self.ty, bytes))
    }
}
