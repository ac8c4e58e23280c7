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
        ffi::{Code, Error, Handle, In, Out, Result, Status, guard},
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
    /// Blocks of a cluster, if the launch states it.
    pub(super) cluster: Option<[u32; 3]>,
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

/// Blocks that a cluster of the kernel may have.
fn max_cluster(function: &Function) -> u32 {
    match function.settings.large_clusters.load(Relaxed) {
        true => device::MAX_CLUSTER,
        false => device::PORTABLE_CLUSTER,
    }
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
            cluster: _,
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
        self.cluster(function)?;
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

    /// Blocks of a cluster: what the launch or the kernel states.
    fn cluster(&self, function: &Function) -> Result<[u32; 3]> {
        let name = &function.kernel.name;
        let own = function.kernel.cluster;
        let cluster = self.cluster.or(own).unwrap_or([1; 3]);
        let size = cluster
            .iter()
            .fold(1, |size: u64, &n| size.saturating_mul(n.into()));
        let most = max_cluster(function);
        let divides = |(&blocks, &of): (&u32, &u32)| of > 0 && blocks.is_multiple_of(of);
        if own.is_some_and(|own| own != cluster)
            || !(1..=u64::from(most)).contains(&size)
            || !self.grid.iter().zip(&cluster).all(divides)
        {
            let own = own.map_or(String::new(), |own| {
                format!(", and is compiled for {own:?}")
            });
            return Err(Status::InvalidClusterSize.error(format!(
                "launch of `{name}`: clusters of {cluster:?} blocks in a grid of {:?}; a cluster has at most {most} \
                 blocks, and divides the grid{own}",
                self.grid
            )));
        }
        if size > 1 && device().capability.number < 90 {
            return Err(Error::unsupported(
                "clusters of blocks below compute capability 9.0",
            ));
        }
        Ok(cluster)
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
    let cluster = shape.cluster(function)?;
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
        cluster: _,
    } = shape;
    Ok(PreparedLaunch {
        context: function.context,
        kernel: Arc::clone(kernel),
        grid,
        cluster,
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
        cluster: None,
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
            cluster: None,
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
    const CLUSTER_DIMENSION: u32 = 4;

    /// An error for what is not simulated.
    fn check(&self) -> Result {
        /// Attributes without effect here: none, access policy, cooperative (the launch asks for
        /// it), synchronisation policy, cluster scheduling, programmatic serialisation (a launch
        /// waits for the one before), priority, domains of fences, carveout.
        const NO_EFFECT: [u32; 10] = [0, 1, 2, 3, 5, 6, 8, 9, 10, 14];
        match self.id {
            id if NO_EFFECT.contains(&id) => Ok(()),
            Self::CLUSTER_DIMENSION => Ok(()),
            id => Err(Error::unsupported(&format!("launch attribute {id}"))),
        }
    }
}

/// The blocks of a cluster that attributes state.
fn cluster(attributes: &[LaunchAttribute]) -> Option<[u32; 3]> {
    let mut stated = attributes.iter().rev();
    let stated = stated.find(|attribute| attribute.id == LaunchAttribute::CLUSTER_DIMENSION)?;
    let [x, y, z, ..] = stated.value;
    Some([x, y, z])
}

impl LaunchConfig {
    /// The shape of the launch.
    fn shape(&self) -> Result<Shape> {
        // SAFETY: the caller passed the address of so many attributes.
        let attributes = unsafe { In::at(self.attributes) };
        let attributes = attributes.list("attrs", self.count as usize)?;
        attributes.iter().try_for_each(LaunchAttribute::check)?;
        let cooperative = |attribute: &LaunchAttribute| {
            attribute.id == LaunchAttribute::COOPERATIVE && attribute.value[0] != 0
        };
        Ok(Shape {
            cluster: cluster(&attributes),
            ..self.dimensions.shape(attributes.iter().any(cooperative))
        })
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
        launch(function, config.shape()?, config.stream, params, extra)
    })
}

/// Clusters of a launch that the device runs at the same time, as if each block could be on any
/// multiprocessor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveClusters(
    clusters: Out<i32>,
    function: Handle,
    config: In<LaunchConfig>,
) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        let shape = config.get("config")?.shape()?;
        shape.check(&function)?;
        let size = shape.cluster(&function)?.iter().product::<u32>();
        let resident = shape.resident_blocks(&function.kernel) / u64::from(size);
        clusters.set("numClusters", resident as i32)
    })
}

/// The largest cluster that a launch may have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxPotentialClusterSize(
    size: Out<i32>,
    function: Handle,
    config: In<LaunchConfig>,
) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        config.get("config")?.shape()?.check(&function)?;
        let most = match device().capability.number < 90 {
            true => 1,
            false => max_cluster(&function),
        };
        size.set("clusterSize", most as i32)
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
        cluster: None,
    };
    guard(|| launch(function, shape, stream, params, ptr::null()))
}
