//! Initialisation, versions and the device.

use crate::{
    device::DRIVER_VERSION,
    driver::{
        ffi::{Code, Error, Out, Result, Status, Text, guard},
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
        name.set_text("name", &crate::settings::device().full_name(), length)
    })
}

/// The device's UUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) -> Code {
    guard(|| {
        driver()?;
        check_device(device)?;
        uuid.set("uuid", crate::settings::device().uuid())
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
        let found = crate::settings::device().attribute(attribute);
        value.set(
            "pi",
            found.ok_or_else(|| Error::value(format!("{attribute} is no CUdevice_attribute")))?,
        )
    })
}

/// Compute capability of the device: major and minor number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceComputeCapability(
    major: Out<i32>,
    minor: Out<i32>,
    device: i32,
) -> Code {
    guard(|| {
        driver()?;
        check_device(device)?;
        minor.check("minor")?;
        let number = crate::settings::device().capability.number as i32;
        major.set("major", number / 10)?;
        minor.set("minor", number % 10)
    })
}

/// Writes 0: contexts cannot be limited to some SMs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetExecAffinitySupport(
    supported: Out<i32>,
    kind: u32,
    device: i32,
) -> Code {
    const MULTIPROCESSORS: u32 = 0;
    guard(|| {
        driver()?;
        check_device(device)?;
        match kind {
            MULTIPROCESSORS => supported.set("pi", 0),
            _ => Err(Error::value(format!(
                "type {kind} is no CUexecAffinityType"
            ))),
        }
    })
}

/// The device's place on the bus: domain, bus and device, all of them 0 as in its attributes.
const PCI_BUS_ID: &str = "0000:00:00.0";

/// The device's place on the bus as text, cut to `length` bytes with its zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(id: Out<u8>, length: i32, device: i32) -> Code {
    guard(|| {
        driver()?;
        check_device(device)?;
        id.set_text("pciBusId", PCI_BUS_ID, length)
    })
}

/// The device at a place on the bus. The domain and the function may be left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetByPCIBusId(device: Out<i32>, id: Text) -> Code {
    guard(|| {
        driver()?;
        let id = id.get("pciBusId")?;
        if ["0000:00:00.0", "0000:00:00", "00:00.0"].contains(&id.as_str()) {
            return device.set("dev", 0);
        }
        Err(Status::InvalidDevice.error(format!(
            "there is no device at {id}: cuda-sim's is at {PCI_BUS_ID}"
        )))
    })
}

/// Prepares a profiler: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuProfilerInitialize(_config: Text, _output: Text, _mode: u32) -> Code {
    guard(|| driver().map(drop))
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
