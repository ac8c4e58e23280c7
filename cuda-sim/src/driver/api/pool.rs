//! Memory pools and their attributes.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    driver::{
        api::{device::check_device, memory::Location},
        ffi::{Code, Error, Handle, In, Out, guard},
        pool::Pool,
        state::driver,
    },
    sync::lock,
};

/// `CUmemPool_attribute`: three reuse switches (int), the release threshold (u64), and four
/// counters (u64).
const POOL_SWITCHES: std::ops::RangeInclusive<u32> = 1..=3;

const POOL_RELEASE_THRESHOLD: u32 = 4;

const POOL_RESERVED: std::ops::RangeInclusive<u32> = 5..=6;

const POOL_USED_CURRENT: u32 = 7;

const POOL_USED_HIGH: u32 = 8;

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

/// The leading fields of `CUmemPoolProps`; the others have no effect.
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

/// Destroys a pool. Its allocations live on; a device whose pool it was falls back to the default
/// pool.
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

/// `CUmemAccessDesc`: a place and what it may do.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Access {
    location: Location,
    flags: u32,
}

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_WRITE: u32 = 3;

/// Sets which places may use a pool's memory. All may, so only read and write access can be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolSetAccess(
    pool: Handle,
    access: In<Access>,
    count: usize,
) -> Code {
    guard(|| {
        driver()?.pools.get(pool)?;
        for Access { location, flags } in access.list("map", count)? {
            location.check()?;
            if flags != READ_WRITE {
                return Err(Error::unsupported(
                    "pools that a place may not read and write",
                ));
            }
        }
        Ok(())
    })
}

/// Rights of a place to a pool's memory: read and write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolGetAccess(
    flags: Out<u32>,
    pool: Handle,
    location: In<Location>,
) -> Code {
    guard(|| {
        driver()?.pools.get(pool)?;
        location.get("location")?.check()?;
        flags.set("flags", READ_WRITE)
    })
}

/// Releases unused memory of a pool: no effect, because each free releases its memory.
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
        let used = pool.used(&driver.arena);
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

/// Sets an attribute of a pool: the reuse switches and the threshold are remembered, the high marks
/// can be reset.
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
                pool.used_high
                    .store(pool.used(&driver.arena), Ordering::Relaxed);
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
