//! The simulated device without a driver around it: text in, results and reports out.

use std::{cell::Cell, error, fmt, marker::PhantomData, sync::Arc};

use crate::{
    InstallError, LaunchProfile,
    device::PORTABLE_CLUSTER,
    fault::Fault,
    launch::{Limits, PlacedModule, PreparedLaunch, Shape, Submission},
    memory::arena::{Arena, Kind, Owner},
    program::{Kernel, kernel::Param},
    settings::device,
    status::{Error, Result},
    tensor_map::{TENSOR_MAP_BYTES, TensorDescription},
};

/// A device of its own: memory, and the kernels of PTX text. It runs them as the driver does, with
/// the same checks, counters and modelled times, in the thread that calls.
///
/// Addresses are those of this device. Whatever a kernel does with them, it reads and writes
/// nothing but the memory allocated here.
///
/// ```
/// use cuda_sim::{LaunchShape, Simulator};
///
/// let simulator = Simulator::new(1 << 20)?;
/// let module = simulator.load(include_str!("../../gpu/ptx/vector_add.ptx"))?;
/// let ones: Vec<u8> = [1f32; 256].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let [a, b, c] = [(); 3].map(|()| simulator.allocate(1024));
/// let (a, b, c) = (a?, b?, c?);
/// simulator.write(a, &ones)?;
/// simulator.write(b, &ones)?;
/// let shape = LaunchShape::new([1, 1, 1], [256, 1, 1]);
/// let [a, b, at_c] = [a, b, c].map(u64::to_le_bytes);
/// let parameters: [&[u8]; 4] = [&a, &b, &at_c, &256u32.to_le_bytes()];
/// let profile = simulator.launch(&module, "vector_add", &shape, &parameters)?;
/// assert_eq!(profile.total.flops_f32, 256);
/// let mut sums = [0; 1024];
/// simulator.read(c, &mut sums)?;
/// assert_eq!(sums[..4], 2f32.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`set_seed`](crate::set_seed), [`set_checks`](crate::set_checks),
/// [`set_budget`](crate::set_budget), [`set_mma`](crate::set_mma) and
/// [`trace::record`](crate::trace::record) are for these launches, too.
pub struct Simulator {
    arena: Arena,
    /// Not to be shared between threads: a copy must not meet a launch.
    of_one_thread: PhantomData<Cell<()>>,
}

/// A module whose variables lie in the memory of a [`Simulator`]. Dropping it frees them.
pub struct LoadedModule<'a> {
    arena: &'a Arena,
    placed: PlacedModule,
}

impl Drop for LoadedModule<'_> {
    fn drop(&mut self) {
        self.placed.free(self.arena);
    }
}

/// Grid and blocks of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks (x, y, z).
    pub grid: [u32; 3],
    /// Threads of a block (x, y, z).
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes: as much as the device has for a block that asks
    /// for it.
    pub dynamic_shared: u32,
    /// All blocks run at the same time, and may wait for each other by `grid.sync()`.
    pub cooperative: bool,
    /// Blocks of a cluster; `None` for what the kernel states.
    pub cluster: Option<[u32; 3]>,
}

impl LaunchShape {
    /// A launch without dynamic shared memory.
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> LaunchShape {
        LaunchShape {
            grid,
            block,
            dynamic_shared: 0,
            cooperative: false,
            cluster: None,
        }
    }
}

/// Why a call failed: CUDA's code, a sentence, and the fault if a kernel had one.
#[derive(Clone, Debug)]
pub struct SimulatorError(Error);

impl SimulatorError {
    /// CUDA's name of the error: `CUDA_ERROR_INVALID_VALUE`.
    pub fn code(&self) -> &'static str {
        self.0.status.name().to_str().unwrap_or_default()
    }

    /// The fault of the kernel.
    pub fn fault(&self) -> Option<&Fault> {
        self.0.fault.as_deref()
    }
}

impl fmt::Display for SimulatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl error::Error for SimulatorError {}

impl<E: Into<Error>> From<E> for SimulatorError {
    fn from(error: E) -> SimulatorError {
        SimulatorError(error.into())
    }
}

/// Owner of what is allocated here.
const fn owner(kind: Kind) -> Owner {
    Owner {
        kind,
        context: 0,
        pool: 0,
    }
}

impl Simulator {
    /// Bytes of text that a launch may print: CUDA's default.
    const PRINTED: usize = 1 << 20;

    /// A device with so many bytes of memory. Records of accesses take up to nine times as many.
    ///
    /// # Errors
    /// [`InstallError`]: a variable `CUDA_SIM_…` with a wrong value, or too little memory.
    pub fn new(bytes: u64) -> Result<Simulator, InstallError> {
        crate::settings::chosen()?;
        let arena = Arena::reserve(bytes..=bytes).map_err(|error| InstallError::Memory {
            reason: error.to_string(),
        })?;
        Ok(Simulator {
            arena,
            of_one_thread: PhantomData,
        })
    }

    /// Forgets all allocations: addresses and numbers begin anew.
    pub fn reset(&mut self) {
        self.arena.reset();
    }

    /// Loads PTX text and puts its variables into device memory.
    ///
    /// # Errors
    /// Text that is not PTX, or for another device; too little memory.
    pub fn load(&self, ptx: &str) -> Result<LoadedModule<'_>, SimulatorError> {
        Ok(LoadedModule {
            arena: &self.arena,
            placed: PlacedModule::load(&self.arena, 0, ptx)?,
        })
    }

    /// Allocates memory that nobody has written, and gives its address.
    ///
    /// # Errors
    /// 0 bytes, or more than are free.
    pub fn allocate(&self, bytes: u64) -> Result<u64, SimulatorError> {
        if bytes == 0 {
            return Err(Error::value("0 bytes asked for").into());
        }
        Ok(self.arena.allocate(bytes, owner(Kind::Device))?)
    }

    /// Frees what [`Simulator::allocate`] gave.
    ///
    /// # Errors
    /// An address that it did not give, or that was freed before.
    pub fn free(&self, address: u64) -> Result<(), SimulatorError> {
        Ok(self.arena.free(address, &[Kind::Device])?)
    }

    /// Writes bytes to device memory.
    ///
    /// # Errors
    /// A range that is not within one allocation.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), SimulatorError> {
        let length = bytes.len() as u64;
        self.arena.check_range("write", address, length)?;
        // SAFETY: the range lies in a live allocation, whose memory stays mapped, and no launch is
        // running: they run within calls, which threads cannot make at the same time.
        unsafe { std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        self.arena.shadow().bytes.set_written(address, length);
        Ok(())
    }

    /// Reads bytes from device memory.
    ///
    /// # Errors
    /// A range that is not within one allocation.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), SimulatorError> {
        self.arena
            .check_range("read", address, bytes.len() as u64)?;
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// The tensor map, an argument of 128 bytes, that describes a tensor and the box of it that one
    /// copy moves.
    ///
    /// # Errors
    /// Those of `cuTensorMapEncodeTiled`.
    pub fn tensor_map(
        &self,
        tensor: &TensorDescription<'_>,
        box_sizes: &[u32],
    ) -> Result<[u8; TENSOR_MAP_BYTES], SimulatorError> {
        Ok(tensor.tiled(box_sizes)?.to_bytes())
    }

    /// Runs a kernel to its end. `parameters` are its arguments in order, each with as many bytes
    /// as the kernel's parameter has.
    ///
    /// # Errors
    /// No such kernel, a launch beyond the limits of the device or of the kernel, arguments that do
    /// not fit; and [`SimulatorError::fault`], what the kernel did wrong.
    pub fn launch(
        &self,
        module: &LoadedModule<'_>,
        kernel: &str,
        shape: &LaunchShape,
        parameters: &[&[u8]],
    ) -> Result<LaunchProfile, SimulatorError> {
        let kernel = module.placed.kernel(kernel)?;
        let params = block_of(&kernel, parameters)?;
        let LaunchShape {
            grid,
            block,
            dynamic_shared,
            cooperative,
            cluster,
        } = *shape;
        let shape = Shape {
            grid,
            block,
            dynamic_shared,
            cooperative,
            cluster,
        };
        let most = device().capability.shared_per_block_optin;
        let limits = Limits {
            dynamic_shared: most.saturating_sub(kernel.shared_bytes),
            cluster: PORTABLE_CLUSTER,
        };
        shape.check(&kernel, limits)?;
        shape.check_local_memory(&kernel, self.arena.usage().0)?;
        let prepared = PreparedLaunch {
            context: 0,
            grid,
            cluster: shape.cluster(&kernel, limits)?,
            block,
            dynamic_shared,
            params,
            printf_bytes: Self::PRINTED,
            cooperative,
            kernel,
        };
        let operation = self.arena.begin_operation();
        let submission = Submission::by_this_thread(operation);
        let record = prepared.run(&submission, &self.arena);
        self.arena.end_operation(operation);
        Ok(record?.profile())
    }
}

/// The parameter block of a kernel.
fn block_of(kernel: &Arc<Kernel>, parameters: &[&[u8]]) -> Result<Vec<u8>> {
    let name = &kernel.name;
    let (given, wanted) = (parameters.len(), kernel.params.len());
    if given != wanted {
        return Err(Error::value(format!(
            "launch of `{name}`: {given} arguments for {wanted} parameters"
        )));
    }
    let mut block = vec![0; kernel.param_bytes];
    for (number, (bytes, param)) in parameters.iter().zip(&kernel.params).enumerate() {
        let &Param {
            offset,
            bytes: size,
            ..
        } = param;
        if bytes.len() != size {
            return Err(Error::value(format!(
                "launch of `{name}`: argument {number} has {} bytes, its parameter {size}",
                bytes.len()
            )));
        }
        block[offset..offset + size].copy_from_slice(bytes);
    }
    Ok(block)
}
