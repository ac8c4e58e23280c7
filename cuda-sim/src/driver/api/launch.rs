//! Kernel launches: the checks that CUDA makes, and the parameters.

use std::{
    ffi::c_void,
    ptr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    device,
    driver::{
        api::parameters,
        ffi::{Code, Error, Handle, In, Result, Status, guard},
        module::Function,
        state::{Driver, driver},
        streams::{Operation, PreparedLaunch},
    },
    program::Kernel,
    settings::device,
};

/// The shape of a launch, as the exported functions get it.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    /// In bytes.
    pub(super) dynamic_shared: u32,
    /// All its blocks must be resident at the same time.
    pub(super) cooperative: bool,
}

fn fits(sizes: [u32; 3], limits: [u32; 3]) -> bool {
    sizes
        .iter()
        .zip(limits)
        .all(|(&size, limit)| (1..=limit).contains(&size))
}

/// Threads of a block of this shape, or an error if it exceeds the limits of the device or of the
/// kernel's `__launch_bounds__`.
fn check_block(function: &Function, block: [u32; 3]) -> Result<u64> {
    let threads = block.iter().map(|&size| u64::from(size)).product::<u64>();
    if !fits(block, device::MAX_BLOCK) || threads > u64::from(function.bound()) {
        return Err(Error::value(format!(
            "launch of `{}`: blocks of {block:?} threads; each must be at least 1 and at most {:?}, \
             and all together at most {}",
            function.kernel.name,
            device::MAX_BLOCK,
            function.bound()
        )));
    }
    Ok(threads)
}

impl Shape {
    /// An error if it exceeds the limits of the device or of the kernel.
    fn check(&self, function: &Function) -> Result {
        let name = &function.kernel.name;
        let Shape {
            grid,
            block,
            dynamic_shared,
            cooperative,
        } = *self;
        if !fits(grid, device::MAX_GRID) {
            return Err(Error::value(format!(
                "launch of `{name}`: a grid of {grid:?} blocks; each must be at least 1 and at most {:?}",
                device::MAX_GRID
            )));
        }
        let threads = check_block(function, block)?;
        let most = function.max_threads();
        if threads > u64::from(most) {
            let text = format!(
                "launch of `{name}`: blocks of {threads} threads with {} registers each; with so many, {} runs blocks \
                 of at most {most} threads ({} registers a multiprocessor): smaller blocks, or \
                 __launch_bounds__({threads}) so that the compiler uses fewer",
                function.kernel.registers(),
                device().full_name(),
                device::REGISTERS,
            );
            return Err(Status::LaunchOutOfResources.error(text));
        }
        let most = function.settings.max_dynamic_shared.load(Relaxed);
        if dynamic_shared > most {
            return Err(Error::value(format!(
                "launch of `{name}`: {dynamic_shared} bytes of dynamic shared memory; at most {most} unless \
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES is set to more"
            )));
        }
        let (blocks, resident) = (self.blocks(), self.resident_blocks(&function.kernel));
        if cooperative && blocks > resident {
            return Err(Status::CooperativeLaunchTooLarge.error(format!(
                "cooperative launch of `{name}`: {blocks} blocks; {} runs at most {resident} of {threads} threads, {} \
                 registers each and {} bytes of shared memory at the same time",
                device().full_name(),
                function.kernel.registers(),
                function.kernel.shared_bytes + dynamic_shared,
            )));
        }
        Ok(())
    }

    fn blocks(&self) -> u64 {
        self.grid.iter().map(|&blocks| u64::from(blocks)).product()
    }

    /// Blocks that the device runs at the same time.
    fn resident_blocks(&self, kernel: &Kernel) -> u64 {
        let threads: u32 = self.block.iter().product();
        let shared = u64::from(kernel.shared_bytes) + u64::from(self.dynamic_shared);
        let fit = device().resident_blocks(threads, kernel.registers(), shared);
        u64::from(fit) * u64::from(device().multiprocessors)
    }

    /// An error if local memory of the threads that the device runs at the same time exceeds the
    /// `free` bytes of device memory, where a GPU has it.
    fn check_local_memory(&self, kernel: &Kernel, free: u64) -> Result {
        let threads: u32 = self.block.iter().product();
        let fit = self.resident_blocks(kernel).min(self.blocks());
        let resident = fit * u64::from(threads.next_multiple_of(32));
        let needed = resident * u64::from(kernel.local_bytes);
        if needed <= free {
            return Ok(());
        }
        let text = format!(
            "launch of `{}`: {needed} bytes of local memory ({} for each of {resident} threads that run at the same \
             time), {free} bytes of simulated device memory are free",
            kernel.name, kernel.local_bytes
        );
        Err(Status::OutOfMemory.error(text))
    }
}

fn launch(
    function: Handle,
    shape: Shape,
    stream: Handle,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> Result {
    let driver = driver()?;
    let stream = driver.stream(stream)?;
    let function = driver.function(function)?;
    if function.context != stream.context {
        return Err(Status::InvalidHandle
            .error("the kernel and the stream it is launched in belong to different contexts"));
    }
    let prepared = prepare(driver, &function, shape, params, extra)?;
    driver.submit(&stream, Operation::Launch(Arc::new(prepared)))
}

/// Checks a launch and copies its parameters.
pub(super) fn prepare(
    driver: &Driver,
    function: &Function,
    shape: Shape,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> Result<PreparedLaunch> {
    shape.check(function)?;
    shape.check_local_memory(&function.kernel, driver.arena.usage().0)?;
    let kernel = &function.kernel;
    let params = if extra.is_null() {
        parameters::from_pointers(kernel, params)?
    } else if params.is_null() {
        parameters::from_buffer(kernel, extra)?
    } else {
        return Err(Error::value("kernelParams and extra are both given"));
    };
    let Shape {
        grid,
        block,
        dynamic_shared,
        cooperative,
    } = shape;
    Ok(PreparedLaunch {
        context: function.context,
        kernel: Arc::clone(kernel),
        grid,
        block,
        dynamic_shared,
        params,
        printf_bytes: driver.context(function.context)?.printf_bytes(),
        cooperative,
    })
}

/// Launches a kernel.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // CUDA's own.
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    dynamic_shared: u32,
    stream: Handle,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> Code {
    let shape = Shape {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared,
        cooperative: false,
    };
    guard(|| launch(function, shape, stream, params, extra))
}

/// Checks the shape of the blocks of later launches as before CUDA 4, which are not simulated: it
/// has no effect on others. PyCUDA calls it before each launch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetBlockShape(function: Handle, x: i32, y: i32, z: i32) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        let block = [x, y, z].map(|size| u32::try_from(size).unwrap_or(0));
        check_block(&function, block).map(drop)
    })
}

/// The shape of a launch as CUDA's structures have it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Dimensions {
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
}

impl Dimensions {
    pub(super) fn shape(self, cooperative: bool) -> Shape {
        let Dimensions {
            grid,
            block,
            dynamic_shared,
        } = self;
        Shape {
            grid,
            block,
            dynamic_shared,
            cooperative,
        }
    }
}

/// `CUlaunchConfig`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LaunchConfig {
    dimensions: Dimensions,
    stream: Handle,
    attributes: *const LaunchAttribute,
    count: u32,
}

/// `CUlaunchAttribute`: its value begins with the numbers that matter here.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LaunchAttribute {
    id: u32,
    _reserved: u32,
    value: [u32; 16],
}

impl LaunchAttribute {
    const COOPERATIVE: u32 = 2;

    /// An error for what is not simulated.
    fn check(&self) -> Result {
        /// Attributes without effect here: none, access policy, cooperative (the launch asks for
        /// it), synchronisation policy, cluster scheduling, programmatic serialisation (a launch
        /// waits for the one before), priority, domains of fences, carveout.
        const NO_EFFECT: [u32; 10] = [0, 1, 2, 3, 5, 6, 8, 9, 10, 14];
        const CLUSTER_DIMENSION: u32 = 4;
        match self.id {
            id if NO_EFFECT.contains(&id) => Ok(()),
            CLUSTER_DIMENSION if self.value[..3] == [1, 1, 1] => Ok(()),
            CLUSTER_DIMENSION => Err(Error::unsupported("clusters of more than one block")),
            id => Err(Error::unsupported(&format!("launch attribute {id}"))),
        }
    }
}

/// Launches a kernel, with attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: In<LaunchConfig>,
    function: Handle,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> Code {
    guard(|| {
        let config = config.get("config")?;
        // SAFETY: the caller passed the address of so many attributes.
        let attributes = unsafe { In::at(config.attributes) };
        let attributes = attributes.list("attrs", config.count as usize)?;
        attributes.iter().try_for_each(LaunchAttribute::check)?;
        let cooperative = |attribute: &LaunchAttribute| {
            attribute.id == LaunchAttribute::COOPERATIVE && attribute.value[0] != 0
        };
        let shape = config.dimensions.shape(attributes.iter().any(cooperative));
        launch(function, shape, config.stream, params, extra)
    })
}

/// Launches a kernel whose blocks run at the same time, so that they may wait for each other.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // CUDA's own.
pub unsafe extern "C" fn cuLaunchCooperativeKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    dynamic_shared: u32,
    stream: Handle,
    params: *const *const c_void,
) -> Code {
    let shape = Shape {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared,
        cooperative: true,
    };
    guard(|| launch(function, shape, stream, params, ptr::null()))
}
