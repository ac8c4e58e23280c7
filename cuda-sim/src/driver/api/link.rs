//! Linkers: one PTX text made of several.
//!
//! The result is PTX too, in place of machine code: `cuModuleLoadData` and `cuLibraryLoadData` take
//! it. [`ptx::link`] makes it.

use std::{ffi::c_void, slice};

use crate::{
    driver::{
        api::{
            image::{file, text_in},
            jit_log::JitLog,
        },
        ffi::{Code, Error, Handle, In, Out, Result, Status, Text, guard},
        linker::Linker,
        state::driver,
    },
    launch::PtxTarget,
    program::Module,
    ptx,
    sync::lock,
};

/// Creates a linker. Of its options, the buffers for text are used. They stay in use until the
/// linker is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkCreate_v2(
    count: u32,
    options: In<u32>,
    values: In<u64>,
    linker: Out<Handle>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.current()?;
        linker.check("stateOut")?;
        let log = JitLog::from_options(count, &options, &values)?;
        let new = driver.linkers.insert(|handle| Linker::new(handle, log));
        linker.set("stateOut", new.handle)
    })
}

/// `CUjitInputType`.
const CUBIN: u32 = 0;
const PTX: u32 = 1;
const LIBRARY: u32 = 4;
const KINDS: u32 = 6;

/// NVIDIA's device runtime (`libcudadevrt.a`) is machine code. Where it is linked for the barrier
/// of a grid, this takes its place: each block adds to a word, the first one so much that the sign
/// changes when the last has come.
const DEVICE_RUNTIME: &str = "
.version 7.0
.target sm_50
.address_size 64
.global .align 4 .u32 cuda_sim_grid_barrier;
.weak .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .b64 %handle;
    mov.u64 %handle, 1;
    st.param.b64 [handle], %handle;
    ret;
}
.weak .func (.param .b32 code) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %other, %first, %waits;
    .reg .b32 %x, %y, %z, %blocks, %add, %before, %now, %sign;
    bar.sync 0;
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.ne.u32 %other, %x, 0;
    @%other bra behind;
    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mov.u32 %z, %nctaid.z;
    mul.lo.u32 %blocks, %x, %y;
    mul.lo.u32 %blocks, %blocks, %z;
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ctaid.y;
    mov.u32 %z, %ctaid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.eq.u32 %first, %x, 0;
    mov.u32 %add, 0x80000001;
    sub.u32 %add, %add, %blocks;
    selp.b32 %add, %add, 1, %first;
    membar.gl;
    atom.global.add.u32 %before, [cuda_sim_grid_barrier], %add;
again:
    ld.volatile.global.u32 %now, [cuda_sim_grid_barrier];
    xor.b32 %sign, %before, %now;
    setp.ge.s32 %waits, %sign, 0;
    @%waits bra again;
    membar.gl;
behind:
    bar.sync 0;
    mov.u32 %x, 0;
    st.param.b32 [code], %x;
    ret;
}
";

/// Adds an input of a kind: PTX, or what a linker has made.
fn add(linker: &Linker, kind: u32, input: &[u8]) -> Result {
    let defines = |name: &str| {
        input
            .windows(name.len())
            .any(|bytes| bytes == name.as_bytes())
    };
    let text = match kind {
        CUBIN | PTX => text_in(input)?,
        LIBRARY if defines("cuda_device_runtime") => DEVICE_RUNTIME,
        _ if kind <= KINDS => {
            return Err(Status::NoBinaryForGpu.error(format!(
                "input of kind {kind} to a linker: cuda-sim links PTX text only, no object, library, fat binary or NVVM"
            )));
        }
        _ => return Err(Error::value(format!("{kind} is no CUjitInputType"))),
    };
    PtxTarget::declared_in(text).check()?;
    lock(&linker.inputs).push(text.to_owned());
    Ok(())
}

/// Adds PTX in memory, or the device runtime.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // CUDA's own.
pub unsafe extern "C" fn cuLinkAddData_v2(
    linker: Handle,
    kind: u32,
    data: *const c_void,
    bytes: usize,
    _name: Text,
    _count: u32,
    _options: In<u32>,
    _values: In<u64>,
) -> Code {
    guard(|| {
        let linker = driver()?.linkers.get(linker)?;
        if data.is_null() {
            return Err(Error::value("data is null"));
        }
        // SAFETY: not null, and the caller promises so many bytes.
        let bytes = unsafe { slice::from_raw_parts(data.cast::<u8>(), bytes) };
        linker.log.keeping(|| add(&linker, kind, bytes))
    })
}

/// Adds a file of PTX, or the device runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddFile_v2(
    linker: Handle,
    kind: u32,
    path: Text,
    _count: u32,
    _options: In<u32>,
    _values: In<u64>,
) -> Code {
    guard(|| {
        let linker = driver()?.linkers.get(linker)?;
        let path = path.get("path")?;
        linker.log.keeping(|| add(&linker, kind, &file(&path)?))
    })
}

/// Links what was added. The result ends with a zero byte, which counts; it stays until the linker
/// is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkComplete(
    linker: Handle,
    image: Out<*const u8>,
    bytes: Out<usize>,
) -> Code {
    guard(|| {
        let linker = driver()?.linkers.get(linker)?;
        image.check("cubinOut")?;
        let mut linked = lock(&linker.linked);
        if linked.is_none() {
            let text = linker.log.keeping(|| link(&lock(&linker.inputs)))?;
            *linked = Some((text + "\0").into_bytes().into());
        }
        if let Some(linked) = &*linked {
            bytes.set_if_given(linked.len());
            image.set("cubinOut", linked.as_ptr())?;
        }
        Ok(())
    })
}

/// Destroys a linker, and what it has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkDestroy(linker: Handle) -> Code {
    guard(|| driver()?.linkers.remove(linker).map(drop))
}

/// One text of several, which can be loaded.
fn link(inputs: &[String]) -> Result<String> {
    let inputs = inputs.iter().map(String::as_str);
    // The head of the result is that of a program.
    let (runtime, mut texts): (Vec<&str>, Vec<&str>) =
        inputs.partition(|text| *text == DEVICE_RUNTIME);
    if texts.is_empty() {
        return Err(Error::value("no PTX was added to the linker"));
    }
    texts.extend(runtime);
    let invalid = |text: String| Status::InvalidPtx.error(text);
    let linked = ptx::link(&texts).map_err(|error| invalid(error.to_string()))?;
    // The result has the highest target of all.
    for (text, input) in texts.iter().zip(1..) {
        let checked = Module::check_target(text);
        checked.map_err(|error| invalid(format!("input {input} of the linker: {error}")))?;
    }
    Module::load(&linked).map_err(|error| invalid(format!("what was linked: {error}")))?;
    Ok(linked)
}
