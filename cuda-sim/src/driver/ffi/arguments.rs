//! Arguments of the exported functions, as types that check for null before they read or write.
//!
//! Each type is one raw pointer of the C interface (`repr(transparent)`), null included. A value
//! exists as an argument of an exported function, or is made of an address that one got
//! ([`In::at`], [`Out::at`]). The caller promises, as the CUDA driver API asks, that a pointer
//! which is not null is valid for what the function's documentation says. That promise is what the
//! `SAFETY` comments below refer to. It holds for the call; CUDA extends it for the buffers of a
//! linker's options until the linker is destroyed.

use std::ffi::CStr;

use crate::status::{Error, Result};

fn null(argument: &str) -> Error {
    Error::value(format!("{argument} is null"))
}

/// Address to write a result to. Must not be null.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place at an address that the caller of an exported function has passed.
    ///
    /// # Safety
    /// The address is null, or valid for a `T` to be written until the last use of the place.
    pub(crate) unsafe fn at(address: *mut T) -> Out<T> {
        Out(address)
    }

    /// Writes `value`; an error that names `argument` if the address is null.
    pub(crate) fn set(self, argument: &str, value: T) -> Result {
        self.check(argument)?;
        // SAFETY: not null, and the caller of the exported function passed it as the place of a `T`
        // to write.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes `value` unless the address is null.
    pub(crate) fn set_if_given(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller passed it as the place of a `T` to write.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes `values` from the address on, if there are any.
    pub(crate) fn set_list(self, argument: &str, values: impl IntoIterator<Item = T>) -> Result {
        for (index, value) in values.into_iter().enumerate() {
            self.check(argument)?;
            // SAFETY: not null, and the caller passed it as the place of as many `T`s as it asked
            // for.
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Ok(())
    }

    /// The address itself.
    pub(crate) fn address(&self) -> *mut T {
        self.0
    }

    /// True if the address is not null: the caller wants the value.
    pub(crate) fn is_given(&self) -> bool {
        !self.0.is_null()
    }

    /// The same address, for a value of another type: where an argument's type depends on another
    /// argument.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// An error that names `argument` if the address is null: for functions that do work before
    /// they write.
    pub(crate) fn check(&self, argument: &str) -> Result {
        if self.0.is_null() {
            Err(null(argument))
        } else {
            Ok(())
        }
    }
}

impl Out<u8> {
    /// Writes `text` and a zero byte, cut to the `length` bytes that are there.
    pub(crate) fn set_text(self, argument: &str, text: &str, length: i32) -> Result {
        self.check(argument)?;
        let Some(room) = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_sub(1))
        else {
            return Err(Error::value(format!(
                "{argument} has room for {length} bytes"
            )));
        };
        let text = &text.as_bytes()[..text.len().min(room)];
        // SAFETY: the caller passed a buffer of `length` bytes, and text and zero byte take at most
        // that.
        unsafe {
            self.0.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.0.add(text.len()).write(0);
        }
        Ok(())
    }
}

/// A structure or value to read.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Values at an address that the caller of an exported function has passed.
    ///
    /// # Safety
    /// The address is null, or that of as many `T`s as are read, until the last use of the value.
    pub(crate) unsafe fn at(address: *const T) -> In<T> {
        In(address)
    }

    /// The value; an error that names `argument` if there is none.
    pub(crate) fn get(&self, argument: &str) -> Result<T> {
        if self.0.is_null() {
            return Err(null(argument));
        }
        // SAFETY: not null, and the caller of the exported function passed it as the address of a
        // `T`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// `count` values from the address on. An error that names `argument` if there are none, or
    /// more than 2²⁰.
    pub(crate) fn list(&self, argument: &str, count: usize) -> Result<Vec<T>> {
        const MOST: usize = 1 << 20;
        if count == 0 {
            return Ok(Vec::new());
        }
        self.get(argument)?;
        if count > MOST {
            return Err(Error::value(format!(
                "{argument} has {count} elements, more than {MOST}"
            )));
        }
        // SAFETY: not null, and the caller passed it as the address of `count` values.
        let value = |index| unsafe { self.0.add(index).read_unaligned() };
        Ok((0..count).map(value).collect())
    }

    /// The same address, for a value of another type: where an argument's type depends on another
    /// argument.
    pub(crate) fn cast<U>(&self) -> In<U> {
        In(self.0.cast())
    }

    /// The address itself.
    pub(crate) fn address(&self) -> *const T {
        self.0
    }
}

/// A structure or value to read, and to write a result to.
#[repr(transparent)]
pub(crate) struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    /// The value; an error that names `argument` if there is none.
    pub(crate) fn get(&self, argument: &str) -> Result<T> {
        In(self.0.cast_const()).get(argument)
    }

    /// Writes `value`; an error that names `argument` if the address is null.
    pub(crate) fn set(self, argument: &str, value: T) -> Result {
        Out(self.0).set(argument, value)
    }
}

impl<U> In<Out<U>> {
    /// `count` places to write to.
    pub(crate) fn places(&self, argument: &str, count: usize) -> Result<Vec<Out<U>>> {
        let places = self.cast_places().list(argument, count)?;
        Ok(places.into_iter().map(Out).collect())
    }

    fn cast_places(&self) -> In<*mut U> {
        In(self.0.cast())
    }
}

/// A zero-terminated string to read.
#[repr(transparent)]
pub(crate) struct Text(*const std::ffi::c_char);

impl Text {
    /// The string, copied; an error that names `argument` if it is null or not UTF-8.
    pub(crate) fn get(&self, argument: &str) -> Result<String> {
        if self.0.is_null() {
            return Err(null(argument));
        }
        // SAFETY: not null, and the caller of the exported function passed a zero-terminated
        // string.
        let text = unsafe { CStr::from_ptr(self.0) };
        let text = text
            .to_str()
            .map_err(|_| Error::value(format!("{argument} is not UTF-8")))?;
        Ok(text.to_owned())
    }
}
