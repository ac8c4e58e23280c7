//! Launches as before CUDA 4: block shape, shared memory and parameters of a function are set by
//! calls of their own.

use std::{ffi::c_void, ptr};

use crate::{
    driver::{
        api::{
            launch::{Shape, check_block, launch},
            parameters,
        },
        ffi::{Code, Error, Handle, In, Result, guard},
        module::Function,
        state::driver,
    },
    sync::lock,
};

/// Sets the shape of the blocks of later launches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetBlockShape(function: Handle, x: i32, y: i32, z: i32) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        let block = [x, y, z].map(|size| u32::try_from(size).unwrap_or(0));
        check_block(&function, block)?;
        lock(&function.next_launch).block = block;
        Ok(())
    })
}

/// Sets the dynamic shared memory of later launches, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetSharedSize(function: Handle, bytes: u32) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        lock(&function.next_launch).dynamic_shared = bytes;
        Ok(())
    })
}

/// Sets the size of all parameters of later launches, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuParamSetSize(function: Handle, bytes: u32) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        lock(&function.next_launch).param_bytes = bytes as usize;
        Ok(())
    })
}

/// Sets an integer parameter of later launches, at `offset` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuParamSeti(function: Handle, offset: i32, value: u32) -> Code {
    guard(|| {
        set(
            &*driver()?.function(function)?,
            offset,
            &value.to_ne_bytes(),
        )
    })
}

/// Sets an f32 parameter of later launches, at `offset` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuParamSetf(function: Handle, offset: i32, value: f32) -> Code {
    guard(|| {
        set(
            &*driver()?.function(function)?,
            offset,
            &value.to_ne_bytes(),
        )
    })
}

/// Sets `bytes` bytes of parameters of later launches, at `offset` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuParamSetv(
    function: Handle,
    offset: i32,
    value: In<u8>,
    bytes: u32,
) -> Code {
    guard(|| {
        let value = value.list("ptr", bytes as usize)?;
        set(&*driver()?.function(function)?, offset, &value)
    })
}

fn set(function: &Function, offset: i32, value: &[u8]) -> Result {
    let size = function.kernel.param_bytes;
    let range = usize::try_from(offset)
        .ok()
        .map(|start| start..start + value.len())
        .filter(|range| range.end <= size);
    let range = range.ok_or_else(|| {
        Error::value(format!(
            "{} bytes at offset {offset} of the parameters of `{}`, which take {size}",
            value.len(),
            function.kernel.name
        ))
    })?;
    let params = &mut lock(&function.next_launch).params;
    params.resize(size, 0);
    params[range].copy_from_slice(value);
    Ok(())
}

/// Launches one block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunch(function: Handle) -> Code {
    guard(|| launch_grid(function, 1, 1, 0))
}

/// Launches a grid of `width` by `height` blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchGrid(function: Handle, width: i32, height: i32) -> Code {
    guard(|| launch_grid(function, width, height, 0))
}

/// Launches a grid of `width` by `height` blocks in a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchGridAsync(
    function: Handle,
    width: i32,
    height: i32,
    stream: Handle,
) -> Code {
    guard(|| launch_grid(function, width, height, stream))
}

fn launch_grid(handle: Handle, width: i32, height: i32, stream: Handle) -> Result {
    let function = driver()?.function(handle)?;
    let mut next = lock(&function.next_launch);
    next.params.resize(function.kernel.param_bytes, 0); // none may be set
    let shape = Shape {
        grid: [width, height, 1].map(|size| u32::try_from(size).unwrap_or(0)),
        block: next.block,
        dynamic_shared: next.dynamic_shared,
        cooperative: false,
    };
    let extra = [
        parameters::BUFFER_POINTER as *const c_void,
        next.params.as_ptr().cast(),
        parameters::BUFFER_SIZE as *const c_void,
        (&raw const next.param_bytes).cast(),
        parameters::END as *const c_void,
    ];
    launch(handle, shape, stream, ptr::null(), extra.as_ptr())
}
