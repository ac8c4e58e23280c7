//! The CUDA devices of this process, in the contexts that its other libraries use.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, result, sys};
use pyo3::PyResult;
use stage4_flash_cuda::{Attention, Backward};

use crate::dlpack::{self, Managed};
use crate::error::Error;

/// A device's primary context, which CUDA's runtime uses too, and the kernels loaded in it.
pub struct Device {
    context: Arc<CudaContext>,
    pub attention: Attention,
    pub backward: Backward,
}

impl Device {
    /// The device that a tensor lies on.
    pub fn of(tensor: &Managed) -> Result<Arc<Self>, Error> {
        static DEVICES: Mutex<Option<HashMap<i32, Arc<Device>>>> = Mutex::new(None);
        let ordinal = tensor.device().ordinal;
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner); // set in one step
        let devices = devices.get_or_insert_default();
        if let Some(device) = devices.get(&ordinal) {
            return Ok(device.clone());
        }
        let device = Arc::new(Self::open(ordinal as usize)?);
        devices.insert(ordinal, device.clone());
        Ok(device)
    }

    fn open(ordinal: usize) -> Result<Self, Error> {
        let context = CudaContext::new(ordinal)?;
        // SAFETY: each `CudaSlice` is used on one stream, by the call that has made it.
        unsafe { context.disable_event_tracking() };
        Ok(Self {
            attention: Attention::new(&context)?,
            backward: Backward::new(&context)?,
            context,
        })
    }

    /// A stream of another library.
    pub fn stream(&self, stream: usize) -> Arc<CudaStream> {
        let stream = ptr::with_exposed_provenance_mut(stream);
        // SAFETY: the caller's library keeps its stream at least for the call, and what is
        // launched on it stands in its order.
        unsafe { self.context.wrap_borrowed_stream(stream) }
    }

    /// Checks that a tensor says to lie on this device.
    pub fn check_ordinal(&self, tensor: &Managed) -> PyResult<()> {
        let (actual, expected) = (tensor.device(), self.context.ordinal());
        if actual.ordinal as usize != expected {
            return Err(tensor.refuse(&format!(
                "is on {actual}, expected device {expected}, as `q`"
            )));
        }
        Ok(())
    }

    /// Checks that a tensor lies in memory that the driver of this process has allocated.
    pub fn check_memory(&self, tensor: &Managed) -> PyResult<()> {
        let (address, mut ordinal) = (tensor.data::<u8>().addr() as u64, -1i32);
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: the driver writes an int, and only looks the address up.
        let code =
            unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, address) };
        match code.result() {
            Ok(()) => Ok(()),
            Err(_) => Err(tensor.refuse(
                "is no memory of the driver that this process computes with: was it freed, or \
                 `device=\"sim\"` used before?",
            )),
        }
    }
}

/// The context that was current on this thread, and becomes so again: the runtime's functions take
/// the current one's device.
pub struct Current(sys::CUcontext);

impl Current {
    /// Remembers it, before the device of a tensor is opened.
    ///
    /// # Errors
    ///
    /// `ValueError` if the tensor lies on no CUDA device, and if this process has no driver.
    pub fn save(tensor: &Managed) -> PyResult<Self> {
        let device = tensor.device();
        if device.kind != dlpack::Device::CUDA {
            return Err(tensor.refuse(&format!("is on {device}, expected a CUDA device")));
        }
        // SAFETY: looking for the library loads it at most, as every CUDA program does.
        if !unsafe { sys::is_culib_present() } {
            return Err(tensor.refuse(&format!("is on {device}, and there is no CUDA driver")));
        }
        let current = result::init().and_then(|()| result::ctx::get_current());
        let current = current.map_err(Error::from)?;
        Ok(Self(current.unwrap_or(ptr::null_mut())))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: it was current before, or null for none. A failure leaves ours, as valid.
        let _ = unsafe { result::ctx::set_current(self.0) };
    }
}
