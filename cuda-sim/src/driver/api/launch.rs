//! Kernel launches and their parameters.

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
        streams::Operation,
    },
    launch::{Limits, PreparedLaunch, Shape, check_block},
    settings::device,
};

impl Function {
    /// Limits of its launches.
    fn limits(&self) -> Limits {
        Limits {
            dynamic_shared: self.settings.max_dynamic_shared.load(Relaxed),
            cluster: match self.settings.large_clusters.load(Relaxed) {
                true => device::MAX_CLUSTER,
                false => device::PORTABLE_CLUSTER,
            },
        }
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
    let kernel = &function.kernel;
    shape.check(kernel, function.limits())?;
    shape.check_local_memory(kernel, driver.arena.usage().0)?;
    let cluster = shape.cluster(kernel, function.limits())?;
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
        check_block(&function.kernel, block).map(drop)
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
        let limits = function.limits();
        shape.check(&function.kernel, limits)?;
        let size = shape
            .cluster(&function.kernel, limits)?
            .iter()
            .product::<u32>();
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
        let shape = config.get("config")?.shape()?;
        shape.check(&function.kernel, function.limits())?;
        let most = match device().capability.number < 90 {
            true => 1,
            false => function.limits().cluster,
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
