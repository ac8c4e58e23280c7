//! Copies and fills.
//!
//! Host memory that this driver did not allocate is pageable: as in CUDA, an `Async` function
//! copies it before it returns. Pinned and managed memory is read or written when the stream runs
//! the operation.

use std::{ffi::c_void, slice};

use crate::{
    driver::{
        ffi::{Code, Error, Handle, Result, guard},
        state::{Driver, driver},
        streams::{HostAddress, Operation, Rows, Source, Stream},
    },
    memory::arena::NOW,
};

/// The default stream, for copies without a stream.
pub(super) const DEFAULT: Handle = 0;

fn upload(
    driver: &'static Driver,
    stream: &Stream,
    to: u64,
    from: *const c_void,
    bytes: usize,
) -> Result {
    let from = Source::Host(check_host("srcHost", from.cast_mut(), bytes)?);
    let rows = Rows::one(bytes);
    check_and_submit(driver, stream, Operation::Upload { to, from, rows })
}

fn download(
    driver: &'static Driver,
    stream: &Stream,
    to: *mut c_void,
    from: u64,
    bytes: usize,
) -> Result {
    let to = check_host("dstHost", to, bytes)?;
    let rows = Rows::one(bytes);
    check_and_submit(driver, stream, Operation::Download { to, from, rows })
}

fn copy(driver: &'static Driver, stream: &Stream, to: u64, from: u64, bytes: usize) -> Result {
    let rows = Rows::one(bytes);
    check_and_submit(driver, stream, Operation::Copy { to, from, rows })
}

fn fill(
    driver: &'static Driver,
    stream: &Stream,
    to: u64,
    value: u32,
    width: usize,
    count: usize,
) -> Result {
    let bytes = count.checked_mul(width);
    if bytes.is_none() || !to.is_multiple_of(width as u64) {
        return Err(Error::value(format!(
            "memset of {count} elements of {width} bytes at {to:#x}"
        )));
    }
    let operation = Operation::Fill {
        to,
        value,
        width,
        count,
    };
    check_and_submit(driver, stream, operation)
}

/// Checks addresses and sizes of a copy or a fill before any byte is read, and before it waits in a
/// queue or a graph, and submits it, unless it is one of no bytes. It checks again when it runs,
/// because memory may be freed meanwhile.
fn check_and_submit(driver: &'static Driver, stream: &Stream, operation: Operation) -> Result {
    if !operation.is_empty() {
        operation.check_ranges(&driver.arena, NOW)?;
    }
    submit(driver, stream, operation)
}

/// Submits a copy or a fill whose ranges have been checked, unless it is one of no bytes.
pub(super) fn submit(driver: &'static Driver, stream: &Stream, operation: Operation) -> Result {
    if operation.is_empty() {
        return Ok(());
    }
    let is_captured = stream.capture().is_some();
    match operation {
        Operation::Upload {
            to,
            from: Source::Host(from),
            rows,
        } if stream.is_queued()
            && !is_captured
            && driver.is_pageable(from.0 as u64, rows.extent(rows.from)) =>
        {
            let operation = Operation::Upload {
                to,
                from: staged(from, &rows),
                rows: rows.with_dense_source(),
            };
            driver.submit(stream, operation)
        }
        Operation::Download { to, rows, .. } => {
            driver.submit(stream, operation)?;
            let is_pageable = driver.is_pageable(to.0 as u64, rows.extent(rows.to));
            match is_pageable && !is_captured {
                true => stream.progress.drain(),
                false => Ok(()),
            }
        }
        _ => driver.submit(stream, operation),
    }
}

/// A copy of rows in host memory, without gaps.
fn staged(from: HostAddress, rows: &Rows) -> Source {
    let mut staged = Vec::with_capacity(rows.total());
    for (_, behind) in rows.starts() {
        // SAFETY: the caller of the copy promises readable bytes in each row; the operation was
        // checked, so that as many fit into an allocation.
        let row = unsafe { slice::from_raw_parts(from.0.cast::<u8>().add(behind), rows.bytes) };
        staged.extend_from_slice(row);
    }
    Source::Staged(staged.into())
}

fn check_host(argument: &str, at: *mut c_void, bytes: usize) -> Result<HostAddress> {
    if at.is_null() && bytes > 0 {
        return Err(Error::value(format!("{argument} is null")));
    }
    Ok(HostAddress(at))
}

/// Copies between addresses of which each may be the device's or the host's.
fn copy_unified(
    driver: &'static Driver,
    stream: &Stream,
    to: u64,
    from: u64,
    bytes: usize,
) -> Result {
    match (driver.arena.holds(to), driver.arena.holds(from)) {
        (true, true) => copy(driver, stream, to, from, bytes),
        (true, false) => upload(driver, stream, to, from as *const c_void, bytes),
        (false, true) => download(driver, stream, to as *mut c_void, from, bytes),
        (false, false) => Err(host_to_host()),
    }
}

/// Neither address is one that this driver has given out.
pub(super) fn host_to_host() -> Error {
    Error::unsupported("copies from the program's own memory to its own memory")
}

/// Runs `work` with the driver and a stream; `synchronous` functions wait for the stream then.
pub(super) fn in_stream(
    stream: Handle,
    synchronous: bool,
    work: impl FnOnce(&'static Driver, &Stream) -> Result,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = driver.stream(stream)?;
        work(driver, &stream)?;
        if synchronous {
            stream.progress.drain()
        } else {
            Ok(())
        }
    })
}

/// Copies host memory to the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> Code {
    in_stream(DEFAULT, true, |driver, stream| {
        upload(driver, stream, to, from, bytes)
    })
}

/// Copies host memory to the device, in stream order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: Handle,
) -> Code {
    in_stream(stream, false, |driver, stream| {
        upload(driver, stream, to, from, bytes)
    })
}

/// Copies device memory to the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> Code {
    in_stream(DEFAULT, true, |driver, stream| {
        download(driver, stream, to, from, bytes)
    })
}

/// Copies device memory to the host, in stream order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: Handle,
) -> Code {
    in_stream(stream, false, |driver, stream| {
        download(driver, stream, to, from, bytes)
    })
}

/// Copies device memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> Code {
    in_stream(DEFAULT, false, |driver, stream| {
        copy(driver, stream, to, from, bytes)
    })
}

/// Copies device memory, in stream order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: Handle,
) -> Code {
    in_stream(stream, false, |driver, stream| {
        copy(driver, stream, to, from, bytes)
    })
}

/// Copies between addresses of the device or the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> Code {
    in_stream(DEFAULT, true, |driver, stream| {
        copy_unified(driver, stream, to, from, bytes)
    })
}

/// Copies between addresses of the device or the host, in stream order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) -> Code {
    in_stream(stream, false, |driver, stream| {
        copy_unified(driver, stream, to, from, bytes)
    })
}

/// Copies device memory between contexts. All contexts share the one device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyPeer(
    to: u64,
    to_context: Handle,
    from: u64,
    from_context: Handle,
    bytes: usize,
) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, DEFAULT) }
}

/// Copies device memory between contexts, in stream order. All contexts share the one device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: Handle,
    from: u64,
    from_context: Handle,
    bytes: usize,
    stream: Handle,
) -> Code {
    in_stream(stream, false, |driver, stream| {
        driver.context(to_context)?;
        driver.context(from_context)?;
        copy(driver, stream, to, from, bytes)
    })
}

/// Defines two functions that set elements of a type: one in the default stream, one in the order
/// of a stream.
macro_rules! memset {
    ($($default:ident $in_order:ident: $value:ty;)*) => {$(
        /// Sets elements of this width.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $default(to: u64, value: $value, count: usize) -> Code {
            in_stream(DEFAULT, false, |driver, stream| {
                fill(driver, stream, to, value.into(), size_of::<$value>(), count)
            })
        }

        /// Sets elements of this width, in stream order.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $in_order(to: u64, value: $value, count: usize, stream: Handle) -> Code {
            in_stream(stream, false, |driver, stream| {
                fill(driver, stream, to, value.into(), size_of::<$value>(), count)
            })
        }
    )*};
}

memset! {
    cuMemsetD8_v2 cuMemsetD8Async: u8;
    cuMemsetD16_v2 cuMemsetD16Async: u16;
    cuMemsetD32_v2 cuMemsetD32Async: u32;
}
