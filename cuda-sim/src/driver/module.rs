//! Loaded modules and their kernels.

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32},
    },
};

use crate::{
    device::SHARED_PER_BLOCK,
    driver::ffi::Handle,
    launch::{PlacedModule, PtxTarget},
    program::Kernel,
};

/// A loaded module.
pub(crate) struct LoadedModule {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    /// The library that it was loaded for, and goes with.
    pub(crate) library: Option<Handle>,
    pub(crate) placed: PlacedModule,
    /// Handles of the functions that `cuModuleGetFunction` returned, by name.
    pub(crate) functions: Mutex<HashMap<String, Handle>>,
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
            target: module.placed.target,
            settings,
        }
    }
}
