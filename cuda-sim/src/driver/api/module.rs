//! Modules, their variables and their kernels.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    fs::File,
    io::{self, Read},
    ptr,
    sync::{Mutex, atomic::Ordering::Relaxed},
};

use crate::{
    device::device,
    driver::{
        api::context::check_cache_config,
        ffi::{Code, Error, Handle, In, Out, Result, Status, Text, guard},
        module::{Function, LoadedModule},
        ptx_target::PtxTarget,
        state::{Driver, driver},
    },
    memory::arena::{Kind, Owner},
    program::Module,
    sync::lock,
};

/// First bytes of machine code: ELF (cubin), and CUDA's fat binary.
const MACHINE_CODE: [[u8; 4]; 2] = [*b"\x7fELF", 0xBA55_ED50_u32.to_le_bytes()];

/// Parses PTX, places its variables in device memory and writes their initial values.
fn load(driver: &Driver, ptx: &str) -> Result<Handle> {
    let context = driver.current()?.handle;
    let target = PtxTarget::of(ptx);
    target.check()?;
    let mut module =
        Module::load(ptx).map_err(|error| Status::InvalidPtx.error(error.to_string()))?;
    let owner = Owner {
        kind: Kind::Variable,
        context,
        pool: 0,
    };
    let mut variables = BTreeMap::new();
    let mut addresses = Vec::new();
    for variable in module.variables() {
        match driver.arena.allocate(variable.bytes.max(1), owner) {
            Ok(addr) => {
                addresses.push(addr);
                variables.insert(variable.name.clone(), (addr, variable.bytes));
            }
            Err(error) => {
                free_variables(driver, addresses);
                return Err(error.into());
            }
        }
    }
    for (addr, image) in module.place(&addresses) {
        driver
            .arena
            .check_range("a variable's initial value", addr, image.len() as u64)?;
        // SAFETY: the range was just allocated and checked, and no kernel has its address yet.
        unsafe { ptr::copy_nonoverlapping(image.as_ptr(), addr as *mut u8, image.len()) };
    }
    let loaded = driver.modules.insert(|handle| LoadedModule {
        handle,
        context,
        module,
        variables,
        functions: Mutex::default(),
        target,
    });
    Ok(loaded.handle)
}

fn free_variables(driver: &Driver, addresses: impl IntoIterator<Item = u64>) {
    for addr in addresses {
        // Each was allocated by `load`, and only this frees it: it cannot fail.
        let _ = driver.arena.free(addr, &[Kind::Variable]);
    }
}

/// An error if `image` begins like machine code, which cannot be simulated.
fn check_is_text(image: &[u8]) -> Result {
    if MACHINE_CODE.iter().any(|magic| image.starts_with(magic)) {
        let text = "the module is machine code; cuda-sim runs PTX text: compile for a virtual architecture (compute_…)";
        return Err(Status::NoBinaryForGpu.error(text));
    }
    Ok(())
}

fn not_text() -> Error {
    Status::InvalidImage.error("the module is neither PTX text nor machine code")
}

/// Contents of a file of less than 256 MiB.
fn read(path: &str) -> io::Result<Vec<u8>> {
    const MOST: u64 = 256 << 20;
    let mut image = Vec::new();
    let read = File::open(path)?.take(MOST).read_to_end(&mut image)?;
    if read as u64 == MOST {
        let text = format!("a module of {MOST} bytes or more");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(image)
}

/// Loads a module from a file of PTX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoad(module: Out<Handle>, path: Text) -> Code {
    guard(|| {
        let driver = driver()?;
        module.check("module")?;
        let path = path.get("fname")?;
        let image =
            read(&path).map_err(|error| Status::FileNotFound.error(format!("{path}: {error}")))?;
        check_is_text(&image)?;
        let text = std::str::from_utf8(&image).map_err(|_| not_text())?;
        module.set("module", load(driver, text.trim_end_matches('\0'))?)
    })
}

/// Loads a module from PTX in memory, which ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: Out<Handle>, image: In<[u8; 4]>) -> Code {
    guard(|| {
        let driver = driver()?;
        module.check("module")?;
        // Text of fewer than four bytes still has its zero byte, so it is read byte by byte.
        let start = image.cast::<u8>();
        start.get("image")?;
        // SAFETY: not null, and the caller promises an image: machine code of known length, or a zero-terminated
        // text. Machine code begins with four bytes that are not zero, text with a zero byte within its length.
        let head = unsafe {
            let bytes = start.address();
            let length = (0..4).take_while(|&i| *bytes.add(i) != 0).count();
            std::slice::from_raw_parts(bytes, length)
        };
        check_is_text(head)?;
        // SAFETY: not null and no machine code: a zero-terminated text.
        let text = unsafe { CStr::from_ptr(start.address().cast()) };
        module.set(
            "module",
            load(driver, text.to_str().map_err(|_| not_text())?)?,
        )
    })
}

/// Loads a module from PTX in memory. Options are for a compiler that this driver does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: Out<Handle>,
    image: In<[u8; 4]>,
    _options: u32,
    _names: In<u32>,
    _values: In<u64>,
) -> Code {
    // SAFETY: the same first two arguments, under the same promises.
    unsafe { cuModuleLoadData(module, image) }
}

/// Unloads a module, after all work of the context: its functions and variables are gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let context = driver.current()?;
        let module = driver.modules.remove(module)?;
        for stream in driver.streams_of(&context) {
            stream.progress.settle();
        }
        driver
            .functions
            .drain(|function| function.module == module.handle);
        free_variables(driver, module.variables.values().map(|&(addr, _)| addr));
        Ok(())
    })
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
        let name = name.get("name")?;
        let mut known = lock(&module.functions);
        if let Some(&handle) = known.get(&name) {
            return function.set("hfunc", handle);
        }
        let kernel = module.module.kernel(&name).ok_or_else(|| {
            Status::NotFound.error(format!(
                "the module has no kernel `{name}` (is it `extern \"C\" __global__`?)"
            ))
        })?;
        let new = driver
            .functions
            .insert(|handle| Function::new(handle, &module, kernel));
        known.insert(name, new.handle);
        function.set("hfunc", new.handle)
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
        let name = name.get("name")?;
        let found = module.variables.get(&name);
        let &(start, size) = found.ok_or_else(|| {
            Status::NotFound.error(format!(
                "the module has no variable `{name}` in global or constant memory"
            ))
        })?;
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
    pub(super) const MAX: u32 = 16;
}

/// Value of a `CUfunction_attribute`. Registers and spills come from the compiler's report above the PTX; without one, registers
/// are 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: Out<i32>,
    attribute: u32,
    function: Handle,
) -> Code {
    guard(|| {
        let function = driver()?.functions.get(function)?;
        let kernel = &function.kernel;
        let found = match attribute {
            attribute::MAX_THREADS_PER_BLOCK => function.max_threads() as i32,
            attribute::SHARED_SIZE_BYTES => kernel.shared_bytes as i32,
            attribute::LOCAL_SIZE_BYTES => {
                let spilled = kernel.resources.map_or(0, |report| report.spill_stores);
                kernel.local_bytes.saturating_add(spilled) as i32
            }
            attribute::NUM_REGS => kernel.registers() as i32,
            attribute::PTX_VERSION => function.target.capability as i32,
            attribute::BINARY_VERSION => device().capability.number as i32,
            attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                function.max_dynamic_shared.load(Relaxed) as i32
            }
            attribute::PREFERRED_SHARED_MEMORY_CARVEOUT => *lock(&function.carveout),
            _ if attribute < attribute::MAX => 0,
            _ => {
                return Err(Error::value(format!(
                    "{attribute} is no CUfunction_attribute"
                )));
            }
        };
        value.set("pi", found)
    })
}

/// Sets the maximum dynamic shared memory of launches, or the carveout, which has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(function: Handle, attribute: u32, value: i32) -> Code {
    guard(|| {
        let function = driver()?.functions.get(function)?;
        match attribute {
            attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let limit = device().capability.shared_per_block_optin;
                let most = limit.saturating_sub(function.kernel.shared_bytes);
                let value = u32::try_from(value).ok().filter(|&value| value <= most).ok_or_else(|| {
                    Error::value(format!(
                        "{value} bytes of dynamic shared memory: kernel `{}` may have 0 to {most} ({} less {} static)",
                        function.kernel.name,
                        limit,
                        function.kernel.shared_bytes
                    ))
                })?;
                function.max_dynamic_shared.store(value, Relaxed);
                Ok(())
            }
            attribute::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
                *lock(&function.carveout) = value;
                Ok(())
            }
            _ => Err(Error::value(format!(
                "attribute {attribute} of a function cannot be set to {value}"
            ))),
        }
    })
}

/// Sets a kernel's cache preference (`CUfunc_cache`): no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetCacheConfig(function: Handle, config: u32) -> Code {
    guard(|| {
        driver()?.functions.get(function)?;
        check_cache_config(config)
    })
}
