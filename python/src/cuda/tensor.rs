//! A CUDA tensor of another library, used where it lies.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use gpu::arguments::Strides;
use pyo3::PyResult;

use super::device::Device;
use crate::dlpack::{self, Managed};
use crate::stage4::DeviceElement;

/// A tensor `[B, H, rows, columns]` whose rows have no gaps.
pub struct CudaTensor<T> {
    /// Not owned: it is leaked in `drop`, where it is taken out.
    memory: Option<CudaSlice<T>>,
    shape: [usize; 4],
    strides: Strides,
    /// Keeps the memory. It is given back after `memory` was leaked.
    _managed: Managed,
}

impl<T: DeviceElement> CudaTensor<T> {
    /// A tensor of four axes; of three, it has one row for each of the second.
    ///
    /// # Errors
    ///
    /// Those of [`Managed::check`], [`Device::check_ordinal`] and [`Device::check_memory`];
    /// `ValueError` of rows with gaps and of negative strides.
    pub fn new(
        device: &Device,
        stream: &Arc<CudaStream>,
        managed: Managed,
        axes: usize,
    ) -> PyResult<Self> {
        managed.check::<T>(dlpack::Device::CUDA, axes)?;
        device.check_ordinal(&managed)?;
        let shape = managed.shape().iter().map(|&length| length as usize);
        let axes = shape.zip(managed.strides());
        // An axis of one element has any stride.
        let axes = axes.map(|(length, stride)| (length, if length > 1 { stride } else { 1 }));
        let mut axes = Vec::from_iter(axes);
        if axes.len() == 3 {
            axes.insert(0, (1, 1));
        }
        let Ok([batch, head, row, column]) = <[_; 4]>::try_from(axes) else {
            return Err(managed.refuse("has neither three axes nor four"));
        };
        let mut extent = 1usize;
        for (length, stride) in [batch, head, row, column] {
            let Ok(stride) = usize::try_from(stride) else {
                return Err(managed.refuse("has a negative stride"));
            };
            extent = extent.saturating_add(length.saturating_sub(1).saturating_mul(stride));
        }
        let shape = [batch, head, row, column].map(|(length, _)| length);
        if shape.contains(&0) {
            extent = 0;
        } else if column.1 != 1 {
            return Err(managed.refuse(&format!(
                "has a stride of {} in its last axis, expected 1",
                column.1
            )));
        }
        if extent > 0 {
            device.check_memory(&managed)?;
        }
        let address = managed.data::<T>().addr() as u64;
        // SAFETY: its library vouches for the memory behind shape and strides until it is given
        // back. It is not freed here.
        let memory = unsafe { stream.upgrade_device_ptr(address, extent) };
        Ok(Self {
            memory: Some(memory),
            shape,
            strides: Strides {
                batch: batch.1 as usize,
                head: head.1 as usize,
                row: row.1 as usize,
            },
            _managed: managed,
        })
    }

    pub fn dim(&self) -> (usize, usize, usize, usize) {
        self.shape.into()
    }

    pub fn strides(&self) -> Strides {
        self.strides
    }

    pub fn view(&self) -> CudaView<'_, T> {
        self.memory.as_ref().expect(PRESENT).as_view()
    }

    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.memory.as_mut().expect(PRESENT).as_view_mut()
    }
}

const PRESENT: &str = "the memory is taken out in `drop`";

impl<T> Drop for CudaTensor<T> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            memory.leak();
        }
    }
}
