//! Libraries: PTX that belongs to no context, and is loaded into each one in which a kernel of it
//! is used.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{
    driver::{
        ffi::{Handle, Result, Status},
        module::FunctionSettings,
    },
    launch::PtxTarget,
    program::{Kernel, Module},
    sync::lock,
};

/// A library.
pub(crate) struct Library {
    pub(crate) handle: Handle,
    pub(super) ptx: String,
    /// The PTX decoded, with variables that have no place in device memory: what is known without a
    /// context.
    pub(crate) module: Module,
    pub(crate) target: PtxTarget,
    /// Handles of its modules, by context.
    pub(super) modules: Mutex<HashMap<Handle, Handle>>,
    /// Handles of its kernels that `cuLibraryGetKernel` returned, by name.
    pub(super) kernels: Mutex<HashMap<String, Handle>>,
}

/// A kernel of a library.
pub(crate) struct LibraryKernel {
    pub(crate) handle: Handle,
    pub(crate) library: Handle,
    /// The kernel as it is without a context. It cannot run.
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) target: PtxTarget,
    pub(crate) settings: Arc<FunctionSettings>,
    /// Handles of its functions, by context.
    pub(super) functions: Mutex<HashMap<Handle, Handle>>,
}

impl Library {
    /// Checks and decodes PTX.
    pub(crate) fn load(handle: Handle, ptx: &str) -> Result<Self> {
        let target = PtxTarget::declared_in(ptx);
        target.check()?;
        let module =
            Module::load(ptx).map_err(|error| Status::InvalidPtx.error(error.to_string()))?;
        Ok(Self {
            handle,
            ptx: ptx.to_owned(),
            module,
            target,
            modules: Mutex::default(),
            kernels: Mutex::default(),
        })
    }

    /// The modules of the library in all contexts.
    pub(crate) fn take_modules(&self) -> Vec<Handle> {
        std::mem::take(&mut *lock(&self.modules))
            .into_values()
            .collect()
    }
}
