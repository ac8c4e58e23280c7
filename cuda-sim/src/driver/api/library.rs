//! Libraries and their kernels, which belong to no context.

use std::ffi::c_char;

use crate::driver::{
    api::{
        context::check_cache_config,
        device::check_device,
        image::{text_at, text_of_file},
        jit_log::JitLog,
        module::{function_attribute, param_info, set_function_attribute, unload},
    },
    ffi::{Code, Handle, In, Out, Result, Status, Text, guard},
    library::Library,
    state::driver,
};

/// Loads a library from PTX in memory, which ends with a zero byte. Of its options, the buffers for
/// text are used.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // CUDA's own.
pub unsafe extern "C" fn cuLibraryLoadData(
    library: Out<Handle>,
    code: In<[u8; 4]>,
    options: In<u32>,
    values: In<u64>,
    count: u32,
    _library_options: In<u32>,
    _library_values: In<u64>,
    _library_count: u32,
) -> Code {
    guard(|| {
        let log = JitLog::from_options(count, &options, &values)?;
        log.keeping(|| load(library, || text_at("code", &code)))
    })
}

/// Loads a library from a file of PTX. Of its options, the buffers for text are used.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // CUDA's own.
pub unsafe extern "C" fn cuLibraryLoadFromFile(
    library: Out<Handle>,
    path: Text,
    options: In<u32>,
    values: In<u64>,
    count: u32,
    _library_options: In<u32>,
    _library_values: In<u64>,
    _library_count: u32,
) -> Code {
    guard(|| {
        let log = JitLog::from_options(count, &options, &values)?;
        log.keeping(|| load(library, || text_of_file(&path.get("fileName")?)))
    })
}

fn load(library: Out<Handle>, ptx: impl FnOnce() -> Result<String>) -> Result {
    let driver = driver()?;
    library.check("library")?;
    let ptx = ptx()?;
    let new = driver
        .libraries
        .try_insert(|handle| Library::load(handle, &ptx))?;
    library.set("library", new.handle)
}

/// Unloads a library, after all work of the contexts that use it: its kernels and variables are
/// gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryUnload(library: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let library = driver.libraries.remove(library)?;
        driver
            .kernels
            .drain(|kernel| kernel.library == library.handle);
        for module in library.take_modules() {
            // It may have gone with its context.
            if let Ok(module) = driver.modules.remove(module) {
                unload(driver, &module)?;
            }
        }
        Ok(())
    })
}

/// The library's module in the current context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetModule(module: Out<Handle>, library: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        module.check("pMod")?;
        let found = driver.module_of(&*driver.libraries.get(library)?)?;
        module.set("pMod", found.handle)
    })
}

/// A kernel of a library, by name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetKernel(
    kernel: Out<Handle>,
    library: Handle,
    name: Text,
) -> Code {
    guard(|| {
        let driver = driver()?;
        kernel.check("pKernel")?;
        let library = driver.libraries.get(library)?;
        let found = driver.library_kernel(&library, &name.get("name")?)?;
        kernel.set("pKernel", found)
    })
}

/// Number of kernels of a library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetKernelCount(count: Out<u32>, library: Handle) -> Code {
    guard(|| {
        let library = driver()?.libraries.get(library)?;
        count.set("count", library.module.kernels().len() as u32)
    })
}

/// The first `count` kernels of a library, by name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryEnumerateKernels(
    kernels: Out<Handle>,
    count: u32,
    library: Handle,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let library = driver.libraries.get(library)?;
        let named = library.module.kernels().into_iter().take(count as usize);
        let found: Result<Vec<_>> = named
            .map(|kernel| driver.library_kernel(&library, &kernel.name))
            .collect();
        kernels.set_list("kernels", found?)
    })
}

/// Address and size of a library's variable in the current context, by name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetGlobal(
    addr: Out<u64>,
    bytes: Out<usize>,
    library: Handle,
    name: Text,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let library = driver.libraries.get(library)?;
        let (start, size) = driver
            .module_of(&library)?
            .placed
            .variable(&name.get("name")?)?;
        addr.set_if_given(start);
        bytes.set_if_given(size as usize);
        Ok(())
    })
}

/// A managed variable of a library: none, because PTX variables are not managed here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetManaged(
    _addr: Out<u64>,
    _bytes: Out<usize>,
    library: Handle,
    name: Text,
) -> Code {
    guard(|| {
        driver()?.libraries.get(library)?;
        let name = name.get("name")?;
        Err(Status::NotFound.error(format!("the library has no managed variable `{name}`")))
    })
}

/// A function of a library that host code may call: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetUnifiedFunction(
    _function: Out<u64>,
    library: Handle,
    symbol: Text,
) -> Code {
    guard(|| {
        driver()?.libraries.get(library)?;
        let symbol = symbol.get("symbol")?;
        Err(Status::NotFound.error(format!("the library has no unified function `{symbol}`")))
    })
}

/// The function of a kernel in the current context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetFunction(function: Out<Handle>, kernel: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        function.check("pFunc")?;
        let found = driver.function_of(&*driver.kernels.get(kernel)?)?;
        function.set("pFunc", found.handle)
    })
}

/// The library of a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetLibrary(library: Out<Handle>, kernel: Handle) -> Code {
    guard(|| library.set("pLib", driver()?.kernels.get(kernel)?.library))
}

/// Value of a `CUfunction_attribute` of a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetAttribute(
    value: Out<i32>,
    attribute: u32,
    kernel: Handle,
    device: i32,
) -> Code {
    guard(|| {
        let kernel = driver()?.kernels.get(kernel)?;
        check_device(device)?;
        let found = function_attribute(&kernel.kernel, kernel.target, &kernel.settings, attribute)?;
        value.set("pi", found)
    })
}

/// Sets the maximum dynamic shared memory of launches, or the carveout, which has no effect, in all
/// contexts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelSetAttribute(
    attribute: u32,
    value: i32,
    kernel: Handle,
    device: i32,
) -> Code {
    guard(|| {
        let kernel = driver()?.kernels.get(kernel)?;
        check_device(device)?;
        set_function_attribute(&kernel.kernel, &kernel.settings, attribute, value)
    })
}

/// Sets a kernel's cache preference (`CUfunc_cache`): no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelSetCacheConfig(kernel: Handle, config: u32, device: i32) -> Code {
    guard(|| {
        driver()?.kernels.get(kernel)?;
        check_device(device)?;
        check_cache_config(config)
    })
}

/// Name of a kernel. It stays until the library is unloaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetName(name: Out<*const c_char>, kernel: Handle) -> Code {
    guard(|| {
        let kernel = driver()?.kernels.get(kernel)?;
        name.set("name", kernel.settings.name().as_ptr())
    })
}

/// Offset and size of a parameter in the parameter block of a kernel, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetParamInfo(
    kernel: Handle,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Code {
    guard(|| param_info(&driver()?.kernels.get(kernel)?.kernel, index, offset, bytes))
}

/// Number of parameters of a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetParamCount(kernel: Handle, count: Out<usize>) -> Code {
    guard(|| {
        count.set(
            "paramCount",
            driver()?.kernels.get(kernel)?.kernel.params.len(),
        )
    })
}
