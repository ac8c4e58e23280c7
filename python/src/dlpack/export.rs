//! An array of this library, handed to another one without a copy.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use ndarray::{Array, Dimension};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Element;
use super::abi::{self, DataType, Device, RawTensor, Versioned};

/// A result. `numpy.from_dlpack` and `torch.from_dlpack` take its memory, once.
#[pyclass(frozen, module = "attention_kernels._native")]
pub struct Exported(Mutex<Option<Box<Memory>>>);

/// The elements of an array, and what a DLPack tensor points to.
struct Memory {
    first: *mut c_void,
    kind: DataType,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// Frees the elements.
    _elements: Box<dyn Send>,
}

// SAFETY: `first` points into the elements, which are `Send` and move with it.
unsafe impl Send for Memory {}

impl Exported {
    /// Takes over an array, without a copy if it is row-major.
    pub fn new<T: Element, D: Dimension + 'static>(array: Array<T, D>) -> Self {
        let mut array = match array.is_standard_layout() {
            true => array,
            false => array.as_standard_layout().into_owned(),
        };
        let memory = Memory {
            first: array.as_mut_ptr().cast(),
            kind: T::TYPE,
            shape: array.shape().iter().map(|&length| length as i64).collect(),
            strides: array
                .strides()
                .iter()
                .map(|&stride| stride as i64)
                .collect(),
            _elements: Box::new(array),
        };
        Self(Mutex::new(Some(Box::new(memory))))
    }
}

#[pymethods]
impl Exported {
    /// The DLPack capsule, with writable memory.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream; // of a CUDA device
        if max_version.is_none_or(|(major, _)| major < abi::MAJOR) {
            return Err(PyBufferError::new_err(
                "only DLPack 1.0 and later is spoken",
            ));
        }
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) || copy == Some(true)
        {
            return Err(PyBufferError::new_err(
                "only memory of the CPU is handed over, uncopied",
            ));
        }
        // It is replaced in one step, so a panic elsewhere has left it whole.
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let memory = memory.ok_or_else(|| PyBufferError::new_err("it was handed over before"))?;
        capsule(py, memory)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (Device::CPU, 0)
    }
}

/// A capsule that owns the memory until a library takes it.
fn capsule(py: Python<'_>, mut memory: Box<Memory>) -> PyResult<Bound<'_, PyAny>> {
    let tensor = RawTensor {
        data: memory.first,
        device: Device {
            kind: Device::CPU,
            ordinal: 0,
        },
        ndim: memory.shape.len() as i32,
        dtype: memory.kind,
        shape: memory.shape.as_mut_ptr(),
        strides: memory.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let managed = Box::into_raw(Box::new(Versioned {
        major: abi::MAJOR,
        minor: 0,
        context: Box::into_raw(memory).cast(),
        deleter: Some(free),
        flags: 0,
        tensor,
    }));
    let name = abi::VERSIONED[0].as_ptr();
    // SAFETY: the pointer is not null, the name lives forever, and `free_unused` takes what is in
    // the capsule.
    let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), name, Some(free_unused)) };
    if capsule.is_null() {
        // SAFETY: nobody else has the pointer.
        unsafe { free(managed) };
    }
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// The deleter of a tensor that [`capsule`] made.
///
/// # Safety
///
/// It is called once for each of them, and nobody uses the tensor afterwards.
unsafe extern "C" fn free(managed: *mut Versioned) {
    // SAFETY: both pointers came from `Box::into_raw` in `capsule`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Memory>()));
    }
}

/// The destructor of a capsule: frees a tensor that no library has taken.
///
/// # Safety
///
/// The interpreter calls it with a capsule that [`capsule`] made.
unsafe extern "C" fn free_unused(capsule: *mut ffi::PyObject) {
    let name = abi::VERSIONED[0].as_ptr();
    // SAFETY: a library that takes the tensor renames the capsule, so under this name it is ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, name) != 0 {
            free(ffi::PyCapsule_GetPointer(capsule, name).cast());
        }
    }
}
