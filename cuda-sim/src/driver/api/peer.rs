//! Access between devices: there is one device, so there are no peers.

use crate::driver::{
    api::device::check_device,
    context,
    ffi::{Code, Error, Handle, Out, Result, Status, guard},
    state::driver,
};

/// Queries whether a device can access another's memory: false, because a device is no peer of
/// itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) -> Code {
    guard(|| {
        driver()?;
        check_device(device)?;
        check_device(peer)?;
        can.set("canAccessPeer", 0)
    })
}

/// Attribute of the link between two devices: an error, because there is one device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(
    value: Out<i32>,
    attribute: u32,
    device: i32,
    peer: i32,
) -> Code {
    guard(|| {
        driver()?;
        value.check("value")?;
        if !(1..=4).contains(&attribute) {
            return Err(Error::value(format!(
                "{attribute} is no CUdevice_P2PAttribute"
            )));
        }
        check_device(device)?;
        check_device(peer)?;
        Err(Status::InvalidDevice.error("srcDevice and dstDevice are the same device"))
    })
}

/// An error unless `peer` is a live context other than the current one.
fn check_peer(peer: Handle) -> Result {
    let driver = driver()?;
    driver.current()?;
    driver.context(peer)?;
    if context::current() == Some(peer) {
        return Err(Status::InvalidContext.error("peerContext is the current context"));
    }
    Ok(())
}

/// Enables access to another device's context: an error, because contexts of one device share its
/// memory anyway.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) -> Code {
    guard(|| {
        check_peer(peer)?;
        match flags {
            0 => Err(Status::PeerAccessUnsupported
                .error("both contexts are of device 0, and a device is no peer of itself")),
            _ => Err(Error::value(format!("flags are {flags:#x}, must be 0"))),
        }
    })
}

/// Disables access to another device's context: an error, because none can be enabled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDisablePeerAccess(peer: Handle) -> Code {
    guard(|| {
        check_peer(peer)?;
        Err(Status::PeerAccessNotEnabled.error("no access to this context was enabled"))
    })
}
