//! Libraries: PTX that belongs to no context, and is loaded into each one in which a kernel of it is used.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{
    driver::{
        ffi::{Handle, Result, Status},
        module::{Function, FunctionSettings, LoadedModule},
        ptx_target::PtxTarget,
        state::Driver,
    },
    program::{Kernel, Module},
    sync::lock,
};

/// A library.
pub(crate) struct Library {
    pub(crate) handle: Handle,
    ptx: String,
    /// The PTX decoded, with variables that have no place in device memory: what is known without a context.
    pub(crate) module: Module,
    pub(crate) target: PtxTarget,
    /// Handles of its modules, by context.
    modules: Mutex<HashMap<Handle, Handle>>,
    /// Handles of its kernels that `cuLibraryGetKernel` returned, by name.
    kernels: Mutex<HashMap<String, Handle>>,
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
    functions: Mutex<HashMap<Handle, Handle>>,
}

impl Library {
    /// Checks and decodes PTX.
    pub(crate) fn load(handle: Handle, ptx: &str) -> Result<Self> {
        let target = PtxTarget::of(ptx);
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

impl Driver {
    /// The module of a library in the current context, which is loaded if need be.
    pub(crate) fn module_of(&self, library: &Library) -> Result<Arc<LoadedModule>> {
        let context = self.current()?.handle;
        let mut modules = lock(&library.modules);
        if let Some(&known) = modules.get(&context)
            && let Ok(module) = self.modules.get(known)
        {
            return Ok(module);
        }
        // None yet, or it went with what the context owned.
        let module = self.load_module(&library.ptx, Some(library.handle))?;
        modules.insert(context, module.handle);
        Ok(module)
    }

    /// The kernel of a library, by name.
    pub(crate) fn library_kernel(&self, library: &Library, name: &str) -> Result<Handle> {
        let mut known = lock(&library.kernels);
        if let Some(&handle) = known.get(name) {
            return Ok(handle);
        }
        let kernel = library.module.kernel(name).ok_or_else(|| {
            Status::NotFound.error(format!(
                "the library has no kernel `{name}` (is it `extern \"C\" __global__`?)"
            ))
        })?;
        let new = self.kernels.insert(|handle| LibraryKernel {
            handle,
            library: library.handle,
            settings: FunctionSettings::of(&kernel),
            kernel,
            target: library.target,
            functions: Mutex::default(),
        });
        known.insert(name.to_owned(), new.handle);
        Ok(new.handle)
    }

    /// The function of a library's kernel in the current context.
    pub(crate) fn function_of(&self, kernel: &LibraryKernel) -> Result<Arc<Function>> {
        let context = self.current()?.handle;
        let mut functions = lock(&kernel.functions);
        if let Some(&known) = functions.get(&context)
            && let Ok(function) = self.functions.get(known)
        {
            return Ok(function);
        }
        let module = self.module_of(&*self.libraries.get(kernel.library)?)?;
        let name = &kernel.kernel.name;
        let placed = module
            .module
            .kernel(name)
            .ok_or_else(|| Status::NotFound.error(format!("the library has no kernel `{name}`")))?;
        let settings = Arc::clone(&kernel.settings);
        let new = self
            .functions
            .insert(|handle| Function::new(handle, &module, placed, settings));
        functions.insert(context, new.handle);
        Ok(new)
    }
}
