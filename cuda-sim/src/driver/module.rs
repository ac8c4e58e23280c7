//! Loaded modules and their kernels.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, atomic::AtomicU32},
};

use crate::{
    device::{MAX_THREADS_PER_BLOCK, SHARED_PER_BLOCK, device},
    driver::{ffi::Handle, ptx_target::PtxTarget},
    program::{Kernel, Module},
};

/// A loaded module.
pub(crate) struct LoadedModule {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    pub(crate) module: Module,
    /// Address and size in bytes of each variable, by name. Sorted: variables are freed in the same order on every run, so
    /// that later allocations have the same addresses.
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
    /// Dynamic shared memory that a launch may ask for, in bytes.
    pub(crate) max_dynamic_shared: AtomicU32,
    pub(crate) carveout: Mutex<i32>,
}

impl Function {
    pub(crate) fn new(handle: Handle, module: &LoadedModule, kernel: Arc<Kernel>) -> Self {
        let free = SHARED_PER_BLOCK.saturating_sub(kernel.shared_bytes);
        Self {
            handle,
            context: module.context,
            module: module.handle,
            kernel,
            target: module.target,
            max_dynamic_shared: AtomicU32::new(free),
            carveout: Mutex::new(-1),
        }
    }

    /// Maximum threads per block, by the kernel's `__launch_bounds__` and the device.
    pub(crate) fn bound(&self) -> u32 {
        match self.kernel.max_threads {
            0 => MAX_THREADS_PER_BLOCK,
            bound => bound.min(MAX_THREADS_PER_BLOCK),
        }
    }

    /// Maximum threads per block, by the kernel's registers too.
    pub(crate) fn max_threads(&self) -> u32 {
        self.bound()
            .min(device().max_threads(self.kernel.registers()))
    }
}
