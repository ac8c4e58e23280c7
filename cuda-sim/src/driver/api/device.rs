//! Initialisation, versions and the device.

use crate::{
    device::DRIVER_VERSION,
    driver::{
        ffi::{Code, Error, Out, Result, Status, guard},
        state::{Driver, driver},
    },
};

/// An error unless `device` is 0.
pub(crate) fn check_device(device: i32) -> Result {
    match device {
        0 => Ok(()),
        _ => Err(Status::InvalidDevice.error(format!(
            "there is no device {device}: cuda-sim has one device, 0"
        ))),
    }
}

/// Starts the driver. Must come before any other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> Code {
    guard(|| match flags {
        0 => Driver::initialise(),
        _ => Err(Error::value(format!(
            "cuInit takes no flags, not {flags:#x}"
        ))),
    })
}

/// The CUDA version this driver stands for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: Out<i32>) -> Code {
    guard(|| version.set("driverVersion", DRIVER_VERSION))
}

/// The number of devices: 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: Out<i32>) -> Code {
    guard(|| {
        driver()?;
        count.set("count", 1)
    })
}

/// The device of an ordinal: only 0 exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(out: Out<i32>, ordinal: i32) -> Code {
    guard(|| {
        driver()?;
        check_device(ordinal)?;
        out.set("device", 0)
    })
}

/// The device's name, cut to `length` bytes with its zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: Out<u8>, length: i32, device: i32) -> Code {
    guard(|| {
        driver()?;
        check_device(device)?;
        name.set_text("name", &crate::device::device().full_name(), length)
    })
}

/// The device's UUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) -> Code {
    guard(|| {
        driver()?;
        check_device(device)?;
        uuid.set("uuid", crate::device::device().uuid())
    })
}

/// The device's UUID, by the function's newer name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

/// Bytes of device memory that can be allocated, not those of the product.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        bytes.set("bytes", driver.arena.usage().1 as usize)
    })
}

/// Value of a `CUdevice_attribute`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: Out<i32>,
    attribute: u32,
    device: i32,
) -> Code {
    guard(|| {
        driver()?;
        check_device(device)?;
        let found = crate::device::device().attribute(attribute);
        value.set(
            "pi",
            found.ok_or_else(|| Error::value(format!("{attribute} is no CUdevice_attribute")))?,
        )
    })
}

/// Starts a profiler: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuProfilerStart() -> Code {
    guard(|| driver().map(drop))
}

/// Stops a profiler: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuProfilerStop() -> Code {
    guard(|| driver().map(drop))
}
