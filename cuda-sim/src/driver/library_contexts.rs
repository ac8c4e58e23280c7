//! Libraries in contexts: their modules, kernels and functions, which are loaded when they are
//! first asked for.

use std::sync::{Arc, Mutex};

use super::{
    ffi::{Handle, Result, Status},
    library::{Library, LibraryKernel},
    module::{Function, FunctionSettings, LoadedModule},
    state::Driver,
};
use crate::sync::lock;

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
            settings: FunctionSettings::new(&kernel),
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
        let placed =
            module.placed.module.kernel(name).ok_or_else(|| {
                Status::NotFound.error(format!("the library has no kernel `{name}`"))
            })?;
        let settings = Arc::clone(&kernel.settings);
        let new = self
            .functions
            .insert(|handle| Function::new(handle, &module, placed, settings));
        functions.insert(context, new.handle);
        Ok(new)
    }
}
