//! A tensor of another library, read where it lies.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use ndarray::{ArrayView, Axis, Dimension, ShapeBuilder};
use pyo3::exceptions::{PyAttributeError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule};

use super::Element;
use super::abi::{self, DataType, Device, RawTensor};

/// A tensor that another library has lent, of any type. It is given back when this is dropped.
pub struct Managed {
    /// The argument's name, for errors.
    argument: &'static str,
    owner: Owner,
}

/// The struct that the library gave, by its kind.
enum Owner {
    Unversioned(NonNull<abi::Unversioned>),
    Versioned(NonNull<abi::Versioned>),
}

// SAFETY: this has the only pointer to the struct, and DLPack lets any thread call a deleter. Other
// threads may write the elements, as those of any array that Python code shares among threads.
unsafe impl Send for Managed {}

impl Managed {
    /// The tensor of `object`: a DLPack capsule, or an array that gives one.
    ///
    /// # Errors
    ///
    /// `TypeError` if it gives none; `ValueError` with the library's own text if it refuses.
    pub fn new(argument: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = match object.cast::<PyCapsule>() {
            Ok(capsule) => capsule.clone(),
            Err(_) => lend(argument, object)?,
        };
        let owner = if let Some(pointer) = take(&capsule, abi::UNVERSIONED)? {
            Owner::Unversioned(pointer)
        } else if let Some(pointer) = take(&capsule, abi::VERSIONED)? {
            Owner::Versioned(pointer)
        } else {
            let text = format!("`{argument}` gave a capsule without a DLPack tensor");
            return Err(PyTypeError::new_err(text));
        };
        let managed = Self { argument, owner };
        if let Owner::Versioned(pointer) = &managed.owner {
            // SAFETY: the pointer is valid until `managed` is dropped.
            let major = unsafe { pointer.as_ref() }.major;
            if major != abi::MAJOR {
                let text = format!(
                    "`{argument}` speaks DLPack {major}, expected {}",
                    abi::MAJOR
                );
                return Err(PyValueError::new_err(text));
            }
        }
        Ok(managed)
    }

    /// The type of its elements.
    pub fn data_type(&self) -> DataType {
        self.raw().dtype
    }

    /// The error of an element type that a function does not take.
    pub fn refuse_type(&self, expected: &str) -> PyErr {
        let (argument, actual) = (self.argument, self.data_type());
        PyTypeError::new_err(format!("`{argument}` is {actual}, expected {expected}"))
    }

    /// The tensor with elements of type `T` and the axes of `D` in the CPU's memory, checked.
    ///
    /// # Errors
    ///
    /// Those of [`Managed::check`].
    pub fn typed<T: Element, D: Dimension>(self) -> PyResult<Tensor<T, D>> {
        self.check::<T>(Device::CPU, D::NDIM.unwrap_or(0))?;
        Ok(Tensor {
            managed: self,
            elements: PhantomData,
        })
    }

    /// Checks that the tensor has elements of type `T` and this many axes, and lies on a device of
    /// this kind.
    ///
    /// # Errors
    ///
    /// `TypeError` of another element type; `ValueError` of another device or number of axes, of
    /// sizes beyond the address space, and of a tensor whose memory is gone.
    pub fn check<T: Element>(&self, device: i32, axes: usize) -> PyResult<()> {
        let raw = self.raw();
        let refuse = |reason: String| Err(self.refuse(&reason));
        if raw.device.kind != device {
            let (actual, expected) = (raw.device, abi::kind_name(device));
            return refuse(format!("is on {actual}, expected {expected}"));
        }
        if raw.dtype != T::TYPE {
            return Err(self.refuse_type(&T::TYPE.to_string()));
        }
        if usize::try_from(raw.ndim) != Ok(axes) {
            return refuse(format!("has {} axes, expected {axes}", raw.ndim));
        }
        let shape = self.shape();
        let lengths = shape.iter().map(|&length| isize::try_from(length).ok());
        let Some(lengths) = lengths.collect::<Option<Vec<isize>>>() else {
            return refuse(format!("has shape {shape:?}"));
        };
        if lengths.iter().any(|&length| length < 0) {
            return refuse(format!("has shape {shape:?}"));
        }
        // ndarray's condition: the product of the axes that are not empty fits `isize`.
        let mut filled = lengths.iter().filter(|&&length| length > 0);
        let bytes = filled.try_fold(size_of::<T>() as isize, |bytes, &length| {
            bytes.checked_mul(length)
        });
        if bytes.is_none() {
            return refuse(format!(
                "has shape {shape:?}, which is beyond the address space"
            ));
        }
        let data = self.data::<T>();
        if !lengths.contains(&0) {
            if data.is_null() {
                return refuse("has no memory: was it freed?".to_owned());
            }
            if !data.is_aligned() {
                return refuse("does not begin at a multiple of its elements' size".to_owned());
            }
        }
        Ok(())
    }

    /// Checks that a computation may write each of its elements.
    ///
    /// # Errors
    ///
    /// `ValueError` of read-only memory, and of a stride of 0, by which several elements have one
    /// place. An unversioned capsule does not tell read-only memory.
    pub fn check_writable(&self) -> PyResult<()> {
        if let Owner::Versioned(pointer) = &self.owner {
            // SAFETY: the pointer is valid until the deleter is called, which is in `drop`.
            let flags = unsafe { pointer.as_ref() }.flags;
            if flags & abi::READ_ONLY != 0 {
                return Err(self.refuse("is read-only, and the result would be written there"));
            }
        }
        let shape = self.shape();
        let mut axes = shape.iter().zip(self.strides());
        if !shape.contains(&0) && axes.any(|(&length, stride)| length > 1 && stride == 0) {
            let reason = "has a stride of 0: several elements of the result would have one place";
            return Err(self.refuse(reason));
        }
        Ok(())
    }

    /// The error of a tensor that a function does not take.
    pub fn refuse(&self, reason: &str) -> PyErr {
        PyValueError::new_err(format!("`{}` {reason}", self.argument))
    }

    /// The device that it lies on.
    pub fn device(&self) -> Device {
        self.raw().device
    }

    fn raw(&self) -> &RawTensor {
        // SAFETY: both pointers are valid until the deleter is called, which is in `drop`.
        unsafe {
            match &self.owner {
                Owner::Unversioned(pointer) => &(*pointer.as_ptr()).tensor,
                Owner::Versioned(pointer) => &(*pointer.as_ptr()).tensor,
            }
        }
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[i64] {
        let raw = self.raw();
        match usize::try_from(raw.ndim) {
            // SAFETY: `shape` has `ndim` elements. Without axes it may be null.
            Ok(axes) if axes > 0 => unsafe { slice::from_raw_parts(raw.shape, axes) },
            _ => &[],
        }
    }

    /// The stride of each axis, in elements.
    pub fn strides(&self) -> Vec<isize> {
        let (raw, shape) = (self.raw(), self.shape());
        if raw.strides.is_null() || shape.is_empty() {
            let mut stride = 1;
            let lengths = shape.iter().rev();
            let packed = lengths.map(|&length| {
                let this = stride;
                stride *= length as isize;
                this
            });
            let mut packed = Vec::from_iter(packed);
            packed.reverse();
            return packed;
        }
        // SAFETY: `strides`, if not null, has `ndim` elements, as `shape` has.
        let strides = unsafe { slice::from_raw_parts(raw.strides, shape.len()) };
        strides.iter().map(|&stride| stride as isize).collect()
    }

    /// The address of the first element, on its device.
    pub fn data<T>(&self) -> *const T {
        let raw = self.raw();
        let bytes = raw.data.cast::<u8>().cast_const();
        bytes.wrapping_add(raw.byte_offset as usize).cast()
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: the capsule was renamed when its tensor was taken, so this is the one call of the
        // deleter, and nothing refers to the tensor any more.
        unsafe {
            match self.owner {
                Owner::Unversioned(pointer) => {
                    if let Some(deleter) = pointer.as_ref().deleter {
                        deleter(pointer.as_ptr());
                    }
                }
                Owner::Versioned(pointer) => {
                    if let Some(deleter) = pointer.as_ref().deleter {
                        deleter(pointer.as_ptr());
                    }
                }
            }
        }
    }
}

/// A tensor in host memory with elements of type `T` and the axes of `D`.
pub struct Tensor<T, D> {
    managed: Managed,
    elements: PhantomData<fn() -> (T, D)>,
}

impl<T: Element, D: Dimension> Tensor<T, D> {
    /// The tensor of `object`: [`Managed::new`], then [`Managed::typed`].
    ///
    /// # Errors
    ///
    /// Those of both.
    pub fn new(argument: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Managed::new(argument, object)?.typed()
    }

    /// Checks that there is memory for a packed tensor of this shape. With strides of 0 the shape
    /// may be much larger than the tensor, and Rust ends a program that asks for too much.
    ///
    /// # Errors
    ///
    /// `MemoryError`.
    pub fn check_room(&self) -> PyResult<()> {
        let (argument, elements) = (self.managed.argument, self.view().len());
        let room = Vec::<T>::new().try_reserve_exact(elements);
        room.map_err(|_| {
            let shape = self.managed.shape();
            PyMemoryError::new_err(format!("`{argument}`: no memory for the shape {shape:?}"))
        })
    }

    /// Its elements, where they lie.
    pub fn view(&self) -> ArrayView<'_, T, D> {
        let mut shape = D::zeros(D::NDIM.unwrap_or(0));
        let mut steps = shape.clone();
        let mut first = self.managed.data::<T>();
        let lengths = self.managed.shape().iter().map(|&length| length as usize);
        let axes = lengths.zip(self.managed.strides());
        let mut reversed = Vec::new();
        for (axis, (length, stride)) in axes.enumerate() {
            shape[axis] = length;
            steps[axis] = stride.unsigned_abs();
            if stride < 0 && length > 0 {
                // ndarray's strides are not negative: it begins at the other end and turns round.
                first = first.wrapping_offset(stride * (length as isize - 1));
                reversed.push(Axis(axis));
            }
        }
        if shape.slice().contains(&0) {
            // Without elements the pointer may be null.
            first = NonNull::dangling().as_ptr();
        }
        // SAFETY: `typed` has checked type, axes, sizes, null and alignment. The library vouches
        // for the memory behind shape and strides until its deleter is called.
        let mut view = unsafe { ArrayView::from_shape_ptr(shape.strides(steps), first) };
        for axis in reversed {
            view.invert_axis(axis);
        }
        view
    }
}

/// Asks an array for a capsule: of version 1, which tells read-only memory, or of none if the
/// library is older.
fn lend<'py>(
    argument: &'static str,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = object.py();
    let refuse = |error: PyErr| {
        let refusal = PyValueError::new_err(format!("`{argument}`: {}", error.value(py)));
        refusal.set_cause(py, Some(error));
        refusal
    };
    let lend = object.getattr("__dlpack__").map_err(|error| {
        if !error.is_instance_of::<PyAttributeError>(py) {
            return refuse(error);
        }
        let kind = object.get_type();
        PyTypeError::new_err(format!(
            "`{argument}` is {kind}, expected an array: of NumPy, of PyTorch, or with `__dlpack__`"
        ))
    })?;
    let version = [("max_version", (abi::MAJOR, 0))].into_py_dict(py)?;
    let capsule = match lend.call((), Some(&version)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => lend.call0(),
        capsule => capsule,
    };
    let capsule = capsule.map_err(refuse)?;
    Ok(capsule.cast_into::<PyCapsule>()?)
}

/// Takes the struct out of a capsule of the first name, which gets the second, or of another name
/// none.
fn take<M>(
    capsule: &Bound<'_, PyCapsule>,
    [name, used]: [&'static CStr; 2],
) -> PyResult<Option<NonNull<M>>> {
    let capsule_pointer = capsule.as_ptr();
    // SAFETY: it is a capsule, the interpreter's lock is held, and the names live forever. By
    // DLPack a capsule of this name has a pointer to an `M`, and renaming it hands that over.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule_pointer, name.as_ptr()) == 0 {
            return Ok(None);
        }
        let pointer = ffi::PyCapsule_GetPointer(capsule_pointer, name.as_ptr());
        if ffi::PyCapsule_SetName(capsule_pointer, used.as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(NonNull::new(pointer.cast()))
    }
}
