//! Allocation, in all its forms, and memory pools.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    driver::{
        context::current,
        device::check_device,
        ffi::{In, Out},
        handle::Handle,
        operation::Operation,
        state::{Driver, driver},
        status::{Code, Error, Result, guard},
        stream::find,
    },
    memory::arena::{Kind, Owner},
    sync::lock,
};

/// `CUmemPool_attribute`: three reuse switches (int), the release threshold (u64), and four counters (u64).
const POOL_SWITCHES: std::ops::RangeInclusive<u32> = 1..=3;
const POOL_RELEASE_THRESHOLD: u32 = 4;
const POOL_RESERVED: std::ops::RangeInclusive<u32> = 5..=6;
const POOL_USED_CURRENT: u32 = 7;
const POOL_USED_HIGH: u32 = 8;

/// A memory pool. All pools allocate from the same arena; a pool is an owner and a set of remembered attributes.
pub(crate) struct Pool {
    pub(crate) handle: Handle,
    switches: Mutex<[i32; 3]>,
    release_threshold: AtomicU64,
    used_high: AtomicU64,
}

impl Pool {
    pub(crate) fn new(handle: Handle) -> Self {
        Self {
            handle,
            switches: Mutex::new([1; 3]),
            release_threshold: AtomicU64::new(0),
            used_high: AtomicU64::new(0),
        }
    }

    /// Bytes in use now, which also updates the highest value seen.
    fn used(&self, driver: &Driver) -> u64 {
        let used = driver.arena.used_by_pool(self.handle);
        self.used_high.fetch_max(used, Ordering::Relaxed);
        used
    }
}

/// Allocates `bytes`, at least 1, for the current context.
fn allocate(addr: Out<u64>, bytes: usize, kind: Kind) -> Result {
    let driver = driver()?;
    let context = current(driver)?.handle;
    addr.check("dptr")?;
    if bytes == 0 {
        return Err(Error::value("an allocation of 0 bytes"));
    }
    addr.set(
        "dptr",
        driver.arena.allocate(
            bytes as u64,
            Owner {
                kind,
                context,
                pool: 0,
            },
        )?,
    )
}

/// Allocates in stream order, from a pool. 0 bytes are the null pointer, as for `cuMemFreeAsync`.
fn allocate_async(addr: Out<u64>, bytes: usize, pool: &Pool, stream: Handle) -> Result {
    let driver = driver()?;
    let stream = find(driver, stream)?;
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

/// The device's address of pinned host memory: the same.
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
        driver
            .arena
            .check_range("cuMemHostGetDevicePointer", host, 1)?;
        addr.set("pdptr", host)
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

/// Frees device or managed memory, after all work of the context. Null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(addr: u64) -> Code {
    guard(|| free(addr, &[Kind::Device, Kind::Managed]))
}

/// Frees pinned host memory, after all work of the context. Null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(addr: u64) -> Code {
    guard(|| free(addr, &[Kind::Host]))
}

fn free(addr: u64, kinds: &[Kind]) -> Result {
    let driver = driver()?;
    let context = current(driver)?;
    if addr == 0 {
        return Ok(());
    }
    for stream in context.streams(driver) {
        stream.settle();
    }
    Ok(driver.arena.free(addr, kinds)?)
}

/// Frees device memory in stream order. Null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(addr: u64, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = find(driver, stream)?;
        if addr == 0 {
            return Ok(());
        }
        driver
            .arena
            .check_freeable(addr, &[Kind::Device, Kind::Managed])?;
        match stream.capture() {
            None => stream.submit(driver, Operation::Free { addr }),
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
        current(driver)?;
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
    fn check(self) -> Result {
        match self.kind {
            1 => check_device(self.id),
            2..=4 => Ok(()),
            kind => Err(Error::value(format!("{kind} is no CUmemLocationType"))),
        }
    }
}

/// Advises about managed memory, which changes nothing here.
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

/// Moves managed memory ahead of its use, which changes nothing here.
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
        find(driver, stream)?;
        location.check()?;
        if flags != 0 {
            return Err(Error::value(format!("flags are {flags:#x}, must be 0")));
        }
        Ok(driver
            .arena
            .check_range("cuMemPrefetchAsync", addr, bytes as u64)?)
    })
}

/// The pool that a device has from the start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: i32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        pool.set("pool_out", driver.default_pool.handle)
    })
}

/// The pool that `cuMemAllocAsync` uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetMemPool(pool: Out<Handle>, device: i32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        pool.set("pool", lock(&driver.device_pool).handle)
    })
}

/// Sets the pool that `cuMemAllocAsync` uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceSetMemPool(device: i32, pool: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        *lock(&driver.device_pool) = driver.pools.get(pool)?;
        Ok(())
    })
}

/// The leading fields of `CUmemPoolProps`; the rest says nothing that matters here.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PoolProperties {
    allocation_type: u32,
    handle_types: u32,
    location: Location,
}

/// Creates a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolCreate(
    pool: Out<Handle>,
    properties: In<PoolProperties>,
) -> Code {
    const PINNED: u32 = 1;
    guard(|| {
        let driver = driver()?;
        pool.check("pool")?;
        let properties = properties.get("poolProps")?;
        if properties.allocation_type != PINNED {
            return Err(Error::value(
                "a pool's allocation type must be CU_MEM_ALLOCATION_TYPE_PINNED",
            ));
        }
        if properties.handle_types != 0 {
            return Err(Error::unsupported("pools shared between processes"));
        }
        properties.location.check()?;
        pool.set("pool", driver.pools.insert(Pool::new).handle)
    })
}

/// Destroys a pool. Its allocations live on; a device whose pool it was falls back to the default pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolDestroy(pool: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        if pool == driver.default_pool.handle {
            return Err(Error::value("the default pool cannot be destroyed"));
        }
        driver.pools.remove(pool)?;
        let mut device_pool = lock(&driver.device_pool);
        if device_pool.handle == pool {
            *device_pool = Arc::clone(&driver.default_pool);
        }
        Ok(())
    })
}

/// Gives unused memory of a pool back, which happens at each free here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolTrimTo(pool: Handle, _keep: usize) -> Code {
    guard(|| driver()?.pools.get(pool).map(drop))
}

/// Reads an attribute of a pool: an int for the three reuse switches, else 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolGetAttribute(
    pool: Handle,
    attribute: u32,
    value: Out<u64>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let pool = driver.pools.get(pool)?;
        let used = pool.used(driver);
        match attribute {
            _ if POOL_SWITCHES.contains(&attribute) => value
                .cast::<i32>()
                .set("value", lock(&pool.switches)[attribute as usize - 1]),
            POOL_RELEASE_THRESHOLD => {
                value.set("value", pool.release_threshold.load(Ordering::Relaxed))
            }
            _ if POOL_RESERVED.contains(&attribute) => value.set("value", used),
            POOL_USED_CURRENT => value.set("value", used),
            POOL_USED_HIGH => value.set("value", pool.used_high.load(Ordering::Relaxed)),
            _ => Err(Error::value(format!(
                "{attribute} is no CUmemPool_attribute"
            ))),
        }
    })
}

/// Sets an attribute of a pool: the reuse switches and the threshold are remembered, the high marks can be reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolSetAttribute(
    pool: Handle,
    attribute: u32,
    value: In<u64>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let pool = driver.pools.get(pool)?;
        match attribute {
            _ if POOL_SWITCHES.contains(&attribute) => {
                lock(&pool.switches)[attribute as usize - 1] = value.cast::<i32>().get("value")?;
            }
            POOL_RELEASE_THRESHOLD => pool
                .release_threshold
                .store(value.get("value")?, Ordering::Relaxed),
            6 | POOL_USED_HIGH if value.get("value")? == 0 => {
                pool.used_high.store(pool.used(driver), Ordering::Relaxed);
            }
            _ => {
                return Err(Error::value(format!(
                    "attribute {attribute} of a pool cannot be set so"
                )));
            }
        }
        Ok(())
    })
}
