//! Attributes of an address and of its allocation.

use std::ffi::c_void;

use crate::{
    driver::{
        ffi::{Code, Error, In, Out, Result, guard},
        state::{Driver, driver},
    },
    memory::arena::{Found, Kind, Owner},
    sync::lock,
};

/// `CUpointer_attribute`.
mod attribute {
    pub(super) const CONTEXT: u32 = 1;
    pub(super) const MEMORY_TYPE: u32 = 2;
    pub(super) const DEVICE_POINTER: u32 = 3;
    pub(super) const HOST_POINTER: u32 = 4;
    pub(super) const SYNC_MEMOPS: u32 = 6;
    pub(super) const BUFFER_ID: u32 = 7;
    pub(super) const IS_MANAGED: u32 = 8;
    pub(super) const DEVICE_ORDINAL: u32 = 9;
    pub(super) const IS_LEGACY_CUDA_IPC_CAPABLE: u32 = 10;
    pub(super) const RANGE_START_ADDR: u32 = 11;
    pub(super) const RANGE_SIZE: u32 = 12;
    pub(super) const MAPPED: u32 = 13;
    pub(super) const ALLOWED_HANDLE_TYPES: u32 = 14;
    pub(super) const IS_GPU_DIRECT_RDMA_CAPABLE: u32 = 15;
    pub(super) const ACCESS_FLAGS: u32 = 16;
    pub(super) const MEMPOOL_HANDLE: u32 = 17;
    pub(super) const MAX: u32 = 21;
}

/// `CUmemorytype`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// `CU_POINTER_ATTRIBUTE_ACCESS_FLAGS`: read and write.
const READ_WRITE: u32 = 3;

/// Value of an attribute, by the width in which it is written.
enum Value {
    Byte(bool),
    Word(u32),
    Long(u64),
}

impl Value {
    fn write(self, to: Out<c_void>) -> Result {
        match self {
            Value::Byte(value) => to.cast::<u8>().set("data", value.into()),
            Value::Word(value) => to.cast::<u32>().set("data", value),
            Value::Long(value) => to.cast::<u64>().set("data", value),
        }
    }
}

/// Memory that this driver knows.
struct Known {
    memory: Found,
    /// Kernels can use it: it is allocated, not only registered.
    is_mapped: bool,
}

impl Known {
    /// The allocated or registered memory that holds an address. An error names the function `what`
    /// if there is none.
    fn find(driver: &Driver, what: &'static str, addr: u64) -> Result<Self> {
        let Some(range) = lock(&driver.registered).holding(addr) else {
            let memory = driver.arena.find(what, addr)?;
            let is_mapped = true;
            return Ok(Self { memory, is_mapped });
        };
        let owner = Owner {
            kind: Kind::Host,
            context: range.context,
            pool: 0,
        };
        let memory = Found {
            // Allocations are counted, and no address is as small as a count.
            id: range.start,
            start: range.start,
            bytes: range.end - range.start,
            owner,
        };
        let is_mapped = false;
        Ok(Self { memory, is_mapped })
    }
}

/// The value of `attribute` for an address in memory that is `known`; without it, what CUDA gives
/// for host memory that it does not know.
fn value(attribute: u32, addr: u64, known: Option<&Known>) -> Result<Value> {
    let (long, word) = (Value::Long, Value::Word);
    let found = known.map(|known| &known.memory);
    let is_mapped = known.is_some_and(|known| known.is_mapped);
    let property = |value: fn(&Found) -> u64| long(found.map_or(0, value));
    Ok(match attribute {
        attribute::CONTEXT => property(|found| found.owner.context),
        attribute::MEMORY_TYPE => word(match found.map(|found| found.owner.kind) {
            None => 0,
            Some(Kind::Host) => HOST,
            Some(Kind::Device | Kind::Managed | Kind::Variable) => DEVICE,
        }),
        attribute::DEVICE_POINTER => long(if is_mapped { addr } else { 0 }),
        attribute::HOST_POINTER => match found.map(|found| found.owner.kind) {
            Some(Kind::Host | Kind::Managed) => long(addr),
            _ => long(0),
        },
        attribute::BUFFER_ID => property(|found| found.id),
        attribute::IS_MANAGED => {
            let managed = found.is_some_and(|found| found.owner.kind == Kind::Managed);
            Value::Byte(managed)
        }
        // -2: CUDA's ordinal of what is on no device.
        attribute::DEVICE_ORDINAL => word(found.map_or(-2i32 as u32, |_| 0)),
        attribute::RANGE_START_ADDR => property(|found| found.start),
        attribute::RANGE_SIZE => property(|found| found.bytes),
        attribute::MAPPED => Value::Byte(is_mapped),
        attribute::SYNC_MEMOPS
        | attribute::IS_LEGACY_CUDA_IPC_CAPABLE
        | attribute::IS_GPU_DIRECT_RDMA_CAPABLE => Value::Byte(false),
        attribute::ALLOWED_HANDLE_TYPES => long(0),
        attribute::ACCESS_FLAGS => word(if is_mapped { READ_WRITE } else { 0 }),
        attribute::MEMPOOL_HANDLE => property(|found| found.owner.pool),
        known if (1..=attribute::MAX).contains(&known) => {
            return Err(Error::unsupported(&format!(
                "attribute {attribute} of a pointer"
            )));
        }
        _ => {
            return Err(Error::value(format!(
                "{attribute} is no CUpointer_attribute"
            )));
        }
    })
}

/// Reads one attribute of an address, which must lie in allocated or registered memory. Registered
/// memory has no address for kernels here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(
    data: Out<c_void>,
    attribute: u32,
    addr: u64,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let known = Known::find(driver, "cuPointerGetAttribute", addr)?;
        value(attribute, addr, Some(&known))?.write(data)
    })
}

/// Reads several attributes of an address, which may be host memory that CUDA does not know.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttributes(
    count: u32,
    attributes: In<u32>,
    data: In<Out<c_void>>,
    addr: u64,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let known = Known::find(driver, "cuPointerGetAttributes", addr).ok();
        let attributes = attributes.list("attributes", count as usize)?;
        let places = data.places("data", count as usize)?;
        for (attribute, place) in attributes.into_iter().zip(places) {
            value(attribute, addr, known.as_ref())?.write(place)?;
        }
        Ok(())
    })
}

/// Sets an attribute of an address: that its copies be synchronous, which changes nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerSetAttribute(value: In<i32>, attribute: u32, addr: u64) -> Code {
    guard(|| {
        let driver = driver()?;
        value.get("value")?;
        Known::find(driver, "cuPointerSetAttribute", addr)?;
        match attribute {
            attribute::SYNC_MEMOPS => Ok(()),
            _ => Err(Error::value(format!(
                "attribute {attribute} of a pointer cannot be set"
            ))),
        }
    })
}

/// First address and size of the allocation that holds an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(
    start: Out<u64>,
    bytes: Out<usize>,
    addr: u64,
) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.current()?;
        let found = driver.arena.find("cuMemGetAddressRange", addr)?;
        start.set_if_given(found.start);
        bytes.set_if_given(found.bytes as usize);
        Ok(())
    })
}
