//! Linkers: one PTX text made of several.
//!
//! The result is PTX too, in place of machine code: `cuModuleLoadData` and `cuLibraryLoadData` take it.

use std::{ffi::c_void, slice};

use crate::driver::{
    api::image::{file, text_in},
    api::jit_log::JitLog,
    ffi::{Code, Error, Handle, In, Out, Result, Status, Text, guard},
    library::Linker,
    ptx_target::PtxTarget,
    state::driver,
};
use crate::sync::lock;

/// Creates a linker. Of its options, the buffer for errors is used.
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
        let log = JitLog::of(count, &options, &values)?;
        let new = driver.linkers.insert(|handle| Linker::new(handle, log));
        linker.set("stateOut", new.handle)
    })
}

/// `CUjitInputType`.
const CUBIN: u32 = 0;
const PTX: u32 = 1;
const LIBRARY: u32 = 4;
const KINDS: u32 = 6;

/// NVIDIA's device runtime (`libcudadevrt.a`) is machine code. Where it is linked for the barrier of a grid, this takes its
/// place: each block adds to a word, the first one so much that the sign changes when the last has come.
const DEVICE_RUNTIME: &str = "
.global .align 4 .u32 cuda_sim_grid_barrier;
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .b64 %handle;
    mov.u64 %handle, 1;
    st.param.b64 [handle], %handle;
    ret;
}
.visible .func (.param .b32 code) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
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
    PtxTarget::of(text).check()?;
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

/// Links what was added. The result ends with a zero byte, which counts; it stays until the linker is destroyed.
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

/// File numbers of an input, which all inputs count from 1, begin at a multiple of this in the result.
const FILES: u32 = 10_000;

/// The head of a module, which the result has once.
const HEAD: [&str; 3] = [".version", ".target", ".address_size"];

/// One text of several: the head of the first, and all their functions and variables.
fn link(inputs: &[String]) -> Result<String> {
    // The device runtime has no head.
    let (runtime, headed): (Vec<&String>, Vec<_>) =
        inputs.iter().partition(|text| *text == DEVICE_RUNTIME);
    let Some((first, others)) = headed.split_first() else {
        return Err(Error::value("no PTX was added to the linker"));
    };
    let mut linked = String::clone(first);
    for (text, number) in others.iter().chain(&runtime).zip(1..) {
        linked.push('\n');
        for line in text.lines() {
            let trimmed = line.trim_start();
            if HEAD.iter().any(|directive| trimmed.starts_with(directive)) {
                continue;
            }
            if [".file", ".loc"]
                .iter()
                .any(|directive| trimmed.starts_with(directive))
            {
                linked.push_str(&renumbered(trimmed, number * FILES));
            } else {
                linked.push_str(line);
            }
            linked.push('\n');
        }
    }
    Ok(linked)
}

/// A `.file` or `.loc` directive with `by` added to its file numbers: the second word, and the one behind `inlined_at`.
fn renumbered(directive: &str, by: u32) -> String {
    let mut words: Vec<String> = directive.split_whitespace().map(String::from).collect();
    for at in 1..words.len() {
        if (at == 1 || words[at - 1] == "inlined_at")
            && let Ok(number) = words[at].parse::<u32>()
        {
            words[at] = number.saturating_add(by).to_string();
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_has_one_head_and_file_numbers_of_its_own() {
        let first = ".version 8.0\n.target sm_75\n.address_size 64\n.file\t1 \"a.cu\"\n.func f() { .loc 1 2 3; ret; }";
        let second = ".version 8.0\n.target sm_75\n.address_size 64\n.file 1 \"b c.cu\"\n.loc\t1 7 5, function_name $x, inlined_at 2 9 1";
        let linked = link(&[first.to_owned(), second.to_owned()]).expect("linked");
        assert!(linked.starts_with(first));
        assert_eq!(
            &linked[first.len()..],
            "\n.file 10001 \"b c.cu\"\n.loc 10001 7 5, function_name $x, inlined_at 10002 9 1\n"
        );
        assert_eq!(link(&[first.to_owned()]).expect("linked"), first);
        assert!(link(&[]).is_err());
    }
}
