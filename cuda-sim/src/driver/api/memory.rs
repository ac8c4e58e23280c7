//! Allocation and deallocation of device, managed and pinned host memory.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    driver::{
        api::device::check_device,
        ffi::{Code, Error, Handle, Out, Result, Status, guard},
        pool::Pool,
        registered::Registration,
        state::driver,
        streams::Operation,
    },
    memory::arena::{Kind, Owner},
    recorder,
    sync::lock,
};

/// Allocates `bytes`, at least 1, for the current context.
fn allocate(addr: Out<u64>, bytes: usize, kind: Kind) -> Result {
    let driver = driver()?;
    let context = driver.current()?.handle;
    addr.check("dptr")?;
    if bytes == 0 {
        return Err(Error::value("an allocation of 0 bytes"));
    }
    let owner = Owner {
        kind,
        context,
        pool: 0,
    };
    let start = driver.arena.allocate(bytes as u64, owner)?;
    recorder::count(|memory| memory.allocations.add(bytes));
    addr.set("dptr", start)
}

/// Allocates in stream order, from a pool. 0 bytes are the null pointer, as for `cuMemFreeAsync`.
fn allocate_async(addr: Out<u64>, bytes: usize, pool: &Pool, stream: Handle) -> Result {
    let driver = driver()?;
    let stream = driver.stream(stream)?;
    addr.check("dptr")?;
    if bytes == 0 {
        return addr.set("dptr", 0);
    }
    let owner = Owner {
        kind: Kind::Device,
        context: stream.context,
        pool: pool.handle,
    };
    let start = driver.arena.allocate(bytes as u64, owner)?;
    recorder::count(|memory| memory.allocations.add(bytes));
    pool.used_high
        .fetch_max(driver.arena.used_by_pool(pool.handle), Ordering::Relaxed);
    if let Some(capture) = stream.capture() {
        capture.own(start);
    }
    addr.set("dptr", start)
}

/// Allocates device memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(addr: Out<u64>, bytes: usize) -> Code {
    guard(|| allocate(addr, bytes, Kind::Device))
}

/// Allocates memory for device and host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(addr: Out<u64>, bytes: usize, flags: u32) -> Code {
    guard(|| match flags {
        1 | 2 => allocate(addr, bytes, Kind::Managed),
        _ => Err(Error::value(format!(
            "{flags:#x} is neither CU_MEM_ATTACH_GLOBAL nor CU_MEM_ATTACH_HOST"
        ))),
    })
}

/// Allocates host memory that the device may use too, at the same address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(addr: Out<u64>, bytes: usize, flags: u32) -> Code {
    guard(|| match flags {
        0..8 => allocate(addr, bytes, Kind::Host),
        _ => Err(Error::value(format!(
            "{flags:#x} are no CU_MEMHOSTALLOC flags"
        ))),
    })
}

/// Allocates host memory that the device may use too, at the same address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(addr: Out<u64>, bytes: usize) -> Code {
    guard(|| allocate(addr, bytes, Kind::Host))
}

/// Multiple of the distance of rows that `cuMemAllocPitch` chooses, in bytes.
const PITCH_GRAIN: usize = 512;

/// Allocates rows of `width` bytes, the distance of which is a multiple of 512 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocPitch_v2(
    addr: Out<u64>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: u32,
) -> Code {
    guard(|| {
        pitch.check("pPitch")?;
        if !matches!(element, 4 | 8 | 16) {
            return Err(Error::value(format!(
                "ElementSizeBytes is {element}, must be 4, 8 or 16"
            )));
        }
        let distance = width.checked_next_multiple_of(PITCH_GRAIN);
        let bytes = distance.and_then(|distance| distance.checked_mul(height));
        let (Some(distance), Some(bytes)) = (distance, bytes) else {
            return Err(Error::value(format!("{height} rows of {width} bytes")));
        };
        allocate(addr, bytes, Kind::Device)?;
        pitch.set("pPitch", distance)
    })
}

/// Device address of pinned host memory, which is the host address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    addr: Out<u64>,
    host: u64,
    flags: u32,
) -> Code {
    guard(|| {
        let driver = driver()?;
        if flags != 0 {
            return Err(Error::value(format!("flags are {flags:#x}, must be 0")));
        }
        if lock(&driver.registered).holding(host).is_some() {
            return Err(Error::unsupported(
                "kernels that use registered host memory: allocate it with cuMemHostAlloc",
            ));
        }
        driver
            .arena
            .check_range("cuMemHostGetDevicePointer", host, 1)?;
        addr.set("pdptr", host)
    })
}

/// Flags of pinned host memory: portable and mapped, which all of it is here, or those of its
/// registration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetFlags(flags: Out<u32>, host: u64) -> Code {
    const PORTABLE: u32 = 1;
    const MAPPED: u32 = 2;
    guard(|| {
        let driver = driver()?;
        if let Some(registered) = lock(&driver.registered).holding(host) {
            return flags.set("pFlags", registered.flags);
        }
        let found = driver.arena.find("cuMemHostGetFlags", host)?;
        match found.owner.kind {
            Kind::Host => flags.set("pFlags", PORTABLE | MAPPED),
            kind => Err(Error::value(format!(
                "{host:#x} is in {}, not in pinned host memory",
                kind.name()
            ))),
        }
    })
}

/// Registers host memory of the program, so that asynchronous copies need not read it at once,
/// until it is unregistered or the context ends. Kernels cannot use it here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostRegister_v2(host: u64, bytes: usize, flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        let context = driver.current()?.handle;
        let end = host.checked_add(bytes as u64);
        match (flags, end) {
            (0..16, Some(end)) if host != 0 && bytes > 0 => {
                if driver.arena.holds(host) {
                    return Err(Status::HostMemoryAlreadyRegistered.error(format!(
                        "{host:#x} is memory that this driver has allocated"
                    )));
                }
                lock(&driver.registered).add(Registration {
                    start: host,
                    end,
                    flags,
                    context,
                })
            }
            (0..16, _) => Err(Error::value(format!(
                "{bytes} bytes at {host:#x} cannot be registered"
            ))),
            _ => Err(Error::value(format!(
                "{flags:#x} are no CU_MEMHOSTREGISTER flags"
            ))),
        }
    })
}

/// Ends a registration, after all work of the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostUnregister(host: u64) -> Code {
    guard(|| {
        let driver = driver()?;
        let context = driver.current()?;
        for stream in driver.streams_of(&context) {
            stream.progress.settle();
        }
        lock(&driver.registered).remove(host)
    })
}

/// Allocates device memory in stream order, from the device's pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(addr: Out<u64>, bytes: usize, stream: Handle) -> Code {
    guard(|| {
        let pool = Arc::clone(&lock(&driver()?.device_pool));
        allocate_async(addr, bytes, &pool, stream)
    })
}

/// Allocates device memory in stream order, from a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocFromPoolAsync(
    addr: Out<u64>,
    bytes: usize,
    pool: Handle,
    stream: Handle,
) -> Code {
    guard(|| allocate_async(addr, bytes, &*driver()?.pools.get(pool)?, stream))
}

/// Frees device or managed memory, after all work of the context. A null pointer has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(addr: u64) -> Code {
    guard(|| free(addr, &[Kind::Device, Kind::Managed]))
}

/// Frees pinned host memory, after all work of the context. A null pointer has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(addr: u64) -> Code {
    guard(|| free(addr, &[Kind::Host]))
}

fn free(addr: u64, kinds: &[Kind]) -> Result {
    let driver = driver()?;
    let context = driver.current()?;
    if addr == 0 {
        return Ok(());
    }
    for stream in driver.streams_of(&context) {
        stream.progress.settle();
    }
    driver.arena.free(addr, kinds)?;
    recorder::count(|memory| memory.frees += 1);
    Ok(())
}

/// Frees device memory in stream order. A null pointer has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(addr: u64, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = driver.stream(stream)?;
        if addr == 0 {
            return Ok(());
        }
        driver
            .arena
            .check_freeable(addr, &[Kind::Device, Kind::Managed])?;
        match stream.capture() {
            None => driver.submit(&stream, Operation::Free { addr }),
            // The graph frees it when it is destroyed, so that every launch finds it.
            Some(capture) if capture.owns(addr) => Ok(()),
            Some(_) => Err(Error::value(
                "a graph cannot free memory that was allocated outside its capture",
            )),
        }
    })
}

/// Free and total device memory in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.current()?;
        let usage = driver.arena.usage();
        free.set_if_given(usage.0 as usize);
        total.set_if_given(usage.1 as usize);
        Ok(())
    })
}

/// `CUmemLocation`: a kind of place and its number. Passed by value in one register.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Location {
    kind: u32,
    id: i32,
}

impl Location {
    /// The place that older functions name by a device's number: -1 is the host.
    fn device(device: i32) -> Self {
        match device {
            -1 => Self { kind: 2, id: 0 },
            _ => Self {
                kind: 1,
                id: device,
            },
        }
    }

    pub(super) fn check(self) -> Result {
        match self.kind {
            1 => check_device(self.id),
            2..=4 => Ok(()),
            kind => Err(Error::value(format!("{kind} is no CUmemLocationType"))),
        }
    }
}

/// Gives advice on managed memory, for a device or -1, the host: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAdvise(addr: u64, bytes: usize, advice: u32, device: i32) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuMemAdvise_v2(addr, bytes, advice, Location::device(device)) }
}

/// Prefetches managed memory to a device or -1, the host: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPrefetchAsync(
    addr: u64,
    bytes: usize,
    device: i32,
    stream: Handle,
) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuMemPrefetchAsync_v2(addr, bytes, Location::device(device), 0, stream) }
}

/// Gives advice on managed memory: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAdvise_v2(
    addr: u64,
    bytes: usize,
    advice: u32,
    location: Location,
) -> Code {
    guard(|| {
        let driver = driver()?;
        if !(1..=6).contains(&advice) {
            return Err(Error::value(format!("{advice} is no CUmem_advise")));
        }
        if (3..=6).contains(&advice) {
            location.check()?;
        }
        Ok(driver
            .arena
            .check_range("cuMemAdvise", addr, bytes as u64)?)
    })
}

/// Prefetches managed memory: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPrefetchAsync_v2(
    addr: u64,
    bytes: usize,
    location: Location,
    flags: u32,
    stream: Handle,
) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.stream(stream)?;
        location.check()?;
        if flags != 0 {
            return Err(Error::value(format!("flags are {flags:#x}, must be 0")));
        }
        Ok(driver
            .arena
            .check_range("cuMemPrefetchAsync", addr, bytes as u64)?)
    })
}
