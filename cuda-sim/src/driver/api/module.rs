//! Modules, their variables and their kernels.

use std::{
    ffi::c_char,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
};

use crate::{
    driver::{
        api::{
            context::{check_bank_config, check_cache_config},
            image::{text_at, text_of_file},
            jit_log::JitLog,
        },
        ffi::{Code, Error, Handle, In, Out, Result, Status, Text, guard},
        module::{Function, FunctionSettings, LoadedModule},
        state::{Driver, driver},
    },
    launch::{PlacedModule, PtxTarget},
    program::Kernel,
    settings::device,
    sync::lock,
};

impl Driver {
    /// Parses PTX, places its variables in device memory and writes their initial values. If it is
    /// that of a library, the module goes with the library.
    pub(crate) fn load_module(
        &self,
        ptx: &str,
        library: Option<Handle>,
    ) -> Result<Arc<LoadedModule>> {
        load(self, ptx, library)
    }
}

/// See [`Driver::load_module`].
fn load(driver: &Driver, ptx: &str, library: Option<Handle>) -> Result<Arc<LoadedModule>> {
    let context = driver.current()?.handle;
    let placed = PlacedModule::load(&driver.arena, context, ptx)?;
    Ok(driver.modules.insert(|handle| LoadedModule {
        handle,
        context,
        library,
        placed,
        functions: Mutex::default(),
    }))
}

/// Loads a module from a file of PTX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoad(module: Out<Handle>, path: Text) -> Code {
    guard(|| {
        let driver = driver()?;
        module.check("module")?;
        let ptx = text_of_file(&path.get("fname")?)?;
        module.set("module", driver.load_module(&ptx, None)?.handle)
    })
}

/// Loads a module from PTX in memory, which ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: Out<Handle>, image: In<[u8; 4]>) -> Code {
    guard(|| {
        let driver = driver()?;
        module.check("module")?;
        let ptx = text_at("image", &image)?;
        module.set("module", driver.load_module(&ptx, None)?.handle)
    })
}

/// Loads a module from a fat binary: from PTX in memory, because machine code is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadFatBinary(module: Out<Handle>, image: In<[u8; 4]>) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuModuleLoadData(module, image) }
}

/// Loads a module from PTX in memory. Of its options, the buffers for text are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: Out<Handle>,
    image: In<[u8; 4]>,
    count: u32,
    options: In<u32>,
    values: In<u64>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        module.check("module")?;
        let log = JitLog::from_options(count, &options, &values)?;
        let load = || driver.load_module(&text_at("image", &image)?, None);
        module.set("module", log.keeping(load)?.handle)
    })
}

/// Unloads a module, after all work of the context: its functions and variables are gone. A module
/// of a library is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.current()?;
        if driver.modules.get(module)?.library.is_some() {
            return Err(Status::NotPermitted
                .error("the module belongs to a library: cuLibraryUnload unloads it"));
        }
        unload(driver, &*driver.modules.remove(module)?)
    })
}

/// Frees what a module holds that is in no table any more, after all work of its context.
pub(super) fn unload(driver: &Driver, module: &LoadedModule) -> Result {
    let context = driver.contexts.get(module.context)?;
    for stream in driver.streams_of(&context) {
        stream.progress.settle();
    }
    driver
        .functions
        .drain(|function| function.module == module.handle);
    module.placed.free(&driver.arena);
    Ok(())
}

/// `CU_MODULE_EAGER_LOADING`.
const EAGER: u32 = 1;

/// When functions of a module are loaded: with the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetLoadingMode(mode: Out<u32>) -> Code {
    guard(|| mode.set("mode", EAGER))
}

/// A kernel of a module, by name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: Out<Handle>,
    module: Handle,
    name: Text,
) -> Code {
    guard(|| {
        let driver = driver()?;
        function.check("hfunc")?;
        let module = driver.modules.get(module)?;
        function.set("hfunc", named(driver, &module, &name.get("name")?)?)
    })
}

/// The handle of a module's kernel.
fn named(driver: &Driver, module: &LoadedModule, name: &str) -> Result<Handle> {
    let mut known = lock(&module.functions);
    if let Some(&handle) = known.get(name) {
        return Ok(handle);
    }
    let kernel = module.placed.kernel(name)?;
    let settings = FunctionSettings::new(&kernel);
    let new = driver
        .functions
        .insert(|handle| Function::new(handle, module, kernel, settings));
    known.insert(name.to_owned(), new.handle);
    Ok(new.handle)
}

/// Number of kernels of a module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunctionCount(count: Out<u32>, module: Handle) -> Code {
    guard(|| {
        let module = driver()?.modules.get(module)?;
        count.set("count", module.placed.module.kernels().len() as u32)
    })
}

/// The first `count` kernels of a module, by name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleEnumerateFunctions(
    functions: Out<Handle>,
    count: u32,
    module: Handle,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let module = driver.modules.get(module)?;
        let kernels = module
            .placed
            .module
            .kernels()
            .into_iter()
            .take(count as usize);
        let found: Result<Vec<_>> = kernels
            .map(|kernel| named(driver, &module, &kernel.name))
            .collect();
        functions.set_list("functions", found?)
    })
}

/// Address and size of a module's variable, by name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(
    addr: Out<u64>,
    bytes: Out<usize>,
    module: Handle,
    name: Text,
) -> Code {
    guard(|| {
        let module = driver()?.modules.get(module)?;
        let (start, size) = module.placed.variable(&name.get("name")?)?;
        addr.set_if_given(start);
        bytes.set_if_given(size as usize);
        Ok(())
    })
}

/// `CUfunction_attribute`s with a value of their own here; the others are 0.
mod attribute {
    pub(super) const MAX_THREADS_PER_BLOCK: u32 = 0;
    pub(super) const SHARED_SIZE_BYTES: u32 = 1;
    pub(super) const LOCAL_SIZE_BYTES: u32 = 3;
    pub(super) const NUM_REGS: u32 = 4;
    pub(super) const PTX_VERSION: u32 = 5;
    pub(super) const BINARY_VERSION: u32 = 6;
    pub(super) const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
    pub(super) const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
    pub(super) const REQUIRED_CLUSTER_WIDTH: u32 = 11;
    pub(super) const REQUIRED_CLUSTER_DEPTH: u32 = 13;
    pub(super) const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: u32 = 14;
    pub(super) const MAX: u32 = 16;
}

/// Value of a `CUfunction_attribute`. Registers and spills come from the compiler's report above
/// the PTX; without one, registers are 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: Out<i32>,
    attribute: u32,
    function: Handle,
) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        let Function {
            kernel,
            target,
            settings,
            ..
        } = &*function;
        value.set(
            "pi",
            function_attribute(kernel, *target, settings, attribute)?,
        )
    })
}

/// Value of a `CUfunction_attribute` of a kernel.
pub(super) fn function_attribute(
    kernel: &Kernel,
    target: PtxTarget,
    settings: &FunctionSettings,
    attribute: u32,
) -> Result<i32> {
    Ok(match attribute {
        attribute::MAX_THREADS_PER_BLOCK => kernel.threads_that_fit() as i32,
        attribute::SHARED_SIZE_BYTES => kernel.shared_bytes as i32,
        attribute::LOCAL_SIZE_BYTES => {
            let spilled = kernel.resources.map_or(0, |report| report.spill_stores);
            kernel.local_bytes.saturating_add(spilled) as i32
        }
        attribute::NUM_REGS => kernel.registers() as i32,
        attribute::PTX_VERSION => target.capability as i32,
        attribute::BINARY_VERSION => device().capability.number as i32,
        attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            settings.max_dynamic_shared.load(Relaxed) as i32
        }
        attribute::PREFERRED_SHARED_MEMORY_CARVEOUT => *lock(&settings.carveout),
        attribute::REQUIRED_CLUSTER_WIDTH..=attribute::REQUIRED_CLUSTER_DEPTH => {
            let axis = attribute - attribute::REQUIRED_CLUSTER_WIDTH;
            kernel
                .cluster
                .map_or(0, |sizes| sizes[axis as usize] as i32)
        }
        attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
            settings.large_clusters.load(Relaxed).into()
        }
        _ if attribute < attribute::MAX => 0,
        _ => {
            return Err(Error::value(format!(
                "{attribute} is no CUfunction_attribute"
            )));
        }
    })
}

/// Sets the maximum dynamic shared memory of launches, or the carveout, which has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(function: Handle, attribute: u32, value: i32) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        set_function_attribute(&function.kernel, &function.settings, attribute, value)
    })
}

/// Sets a `CUfunction_attribute` of a kernel.
pub(super) fn set_function_attribute(
    kernel: &Kernel,
    settings: &FunctionSettings,
    attribute: u32,
    value: i32,
) -> Result {
    match attribute {
        attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            let limit = device().capability.shared_per_block_optin;
            let most = limit.saturating_sub(kernel.shared_bytes);
            let value = u32::try_from(value).ok().filter(|&value| value <= most).ok_or_else(|| {
                Error::value(format!(
                    "{value} bytes of dynamic shared memory: kernel `{}` may have 0 to {most} ({} less {} static)",
                    kernel.name, limit, kernel.shared_bytes
                ))
            })?;
            settings.max_dynamic_shared.store(value, Relaxed);
            Ok(())
        }
        attribute::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
            *lock(&settings.carveout) = value;
            Ok(())
        }
        attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED if (0..=1).contains(&value) => {
            settings.large_clusters.store(value == 1, Relaxed);
            Ok(())
        }
        _ => Err(Error::value(format!(
            "attribute {attribute} of a function cannot be set to {value}"
        ))),
    }
}

/// The module of a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetModule(module: Out<Handle>, function: Handle) -> Code {
    guard(|| module.set("hmod", driver()?.function(function)?.module))
}

/// Name of a function. It stays until the module is unloaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetName(name: Out<*const c_char>, function: Handle) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        name.set("name", function.settings.name().as_ptr())
    })
}

/// Offset and size of a parameter in the parameter block of a function, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetParamInfo(
    function: Handle,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Code {
    guard(|| param_info(&driver()?.function(function)?.kernel, index, offset, bytes))
}

/// Offset and size of a parameter in the parameter block of a kernel, in bytes. The size may be
/// left out.
pub(super) fn param_info(
    kernel: &Kernel,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Result {
    let param = kernel.params.get(index).ok_or_else(|| {
        let count = kernel.params.len();
        Error::value(format!(
            "parameter {index} of `{}`, which has {count}",
            kernel.name
        ))
    })?;
    bytes.set_if_given(param.bytes);
    offset.set("paramOffset", param.offset)
}

/// Number of parameters of a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetParamCount(function: Handle, count: Out<usize>) -> Code {
    guard(|| {
        count.set(
            "paramCount",
            driver()?.function(function)?.kernel.params.len(),
        )
    })
}

/// `CU_FUNCTION_LOADING_STATE_LOADED`.
const LOADED: u32 = 1;

/// Queries whether a function is loaded: always.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncIsLoaded(state: Out<u32>, function: Handle) -> Code {
    guard(|| {
        driver()?.function(function)?;
        state.set("state", LOADED)
    })
}

/// Loads a function: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncLoad(function: Handle) -> Code {
    guard(|| driver()?.function(function).map(drop))
}

/// Sets the width of the banks of shared memory (`CUsharedconfig`): no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetSharedMemConfig(function: Handle, config: u32) -> Code {
    guard(|| {
        driver()?.function(function)?;
        check_bank_config(config)
    })
}

/// Sets a kernel's cache preference (`CUfunc_cache`): no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetCacheConfig(function: Handle, config: u32) -> Code {
    guard(|| {
        driver()?.function(function)?;
        check_cache_config(config)
    })
}
