//! Loaded modules and their kernels.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{CStr, CString},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32},
    },
};

use crate::{
    device::{MAX_THREADS_PER_BLOCK, SHARED_PER_BLOCK},
    driver::{ffi::Handle, ptx_target::PtxTarget},
    program::{Kernel, Module},
    settings::device,
};

/// A loaded module.
pub(crate) struct LoadedModule {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    /// The library that it was loaded for, and goes with.
    pub(crate) library: Option<Handle>,
    pub(crate) module: Module,
    /// Address and size in bytes of each variable, by name. Sorted: variables are freed in the same
    /// order on every run, so that later allocations have the same addresses.
    pub(crate) variables: BTreeMap<String, (u64, u64)>,
    /// Handles of the functions that `cuModuleGetFunction` returned, by name.
    pub(crate) functions: Mutex<HashMap<String, Handle>>,
    pub(crate) target: PtxTarget,
}

/// A kernel that `cuModuleGetFunction` returned.
pub(crate) struct Function {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    pub(crate) module: Handle,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) target: PtxTarget,
    pub(crate) settings: Arc<FunctionSettings>,
}

/// Settings of a kernel by the program. The functions of a library's kernel in several contexts
/// share it.
pub(crate) struct FunctionSettings {
    /// The kernel's name, for C.
    name: CString,
    /// Dynamic shared memory that a launch may ask for, in bytes.
    pub(crate) max_dynamic_shared: AtomicU32,
    pub(crate) carveout: Mutex<i32>,
    /// Clusters may have more than the portable number of blocks.
    pub(crate) large_clusters: AtomicBool,
}

impl FunctionSettings {
    pub(crate) fn new(kernel: &Kernel) -> Arc<Self> {
        let free = SHARED_PER_BLOCK.saturating_sub(kernel.shared_bytes);
        Arc::new(Self {
            // Names are letters, digits and a few marks: none has a zero byte.
            name: CString::new(kernel.name.as_str()).unwrap_or_default(),
            max_dynamic_shared: AtomicU32::new(free),
            carveout: Mutex::new(-1),
            large_clusters: AtomicBool::new(false),
        })
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }
}

impl Function {
    pub(crate) fn new(
        handle: Handle,
        module: &LoadedModule,
        kernel: Arc<Kernel>,
        settings: Arc<FunctionSettings>,
    ) -> Self {
        Self {
            handle,
            context: module.context,
            module: module.handle,
            kernel,
            target: module.target,
            settings,
        }
    }

    /// Maximum threads per block, by the kernel's `__launch_bounds__` and the device.
    pub(crate) fn bound(&self) -> u32 {
        bound(&self.kernel)
    }

    /// Maximum threads per block, by the kernel's registers too.
    pub(crate) fn max_threads(&self) -> u32 {
        max_threads(&self.kernel)
    }
}

/// Maximum threads per block of a kernel, by its `__launch_bounds__` and the device.
fn bound(kernel: &Kernel) -> u32 {
    match kernel.max_threads {
        0 => MAX_THREADS_PER_BLOCK,
        bound => bound.min(MAX_THREADS_PER_BLOCK),
    }
}

/// Maximum threads per block of a kernel, by its registers too.
pub(crate) fn max_threads(kernel: &Kernel) -> u32 {
    bound(kernel).min(device().max_threads(kernel.registers()))
}
