//! Buffers in which a program asks for the texts of the compiler or linker.

use crate::driver::ffi::{Error, In, Out, Result};

/// `CUjit_option`s with a result.
mod option {
    pub(super) const WALL_TIME: u32 = 2;
    pub(super) const INFO_LOG_BUFFER: u32 = 3;
    pub(super) const INFO_LOG_BUFFER_SIZE_BYTES: u32 = 4;
    pub(super) const ERROR_LOG_BUFFER: u32 = 5;
    pub(super) const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
}

/// Options that a linker or a module may be given.
const MOST_OPTIONS: u32 = 64;

/// Buffer for the text of an error.
#[derive(Clone, Copy, Default)]
pub(crate) struct JitLog {
    error: Buffer,
}

/// A buffer of the program for a text. Addresses are 0 for none.
#[derive(Clone, Copy, Default)]
struct Buffer {
    address: u64,
    bytes: u64,
    /// Of the value of the option that gives the size: the length of the text takes its place.
    length: u64,
}

impl JitLog {
    /// The buffers among the options of a call. What the options return says that nothing was
    /// written, in no time.
    pub(super) fn from_options(count: u32, options: &In<u32>, values: &In<u64>) -> Result<Self> {
        if count > MOST_OPTIONS {
            return Err(Error::value(format!("{count} options")));
        }
        let (mut info, mut error) = (Buffer::default(), Buffer::default());
        let options = options.list("options", count as usize)?;
        let given = values.list("optionValues", count as usize)?;
        for (at, (option, value)) in options.into_iter().zip(given).enumerate() {
            let place = values.address().wrapping_add(at) as u64;
            match option {
                option::WALL_TIME => write_value(place, 0),
                option::INFO_LOG_BUFFER => info.address = value,
                option::INFO_LOG_BUFFER_SIZE_BYTES => info.set_bytes(value, place),
                option::ERROR_LOG_BUFFER => error.address = value,
                option::ERROR_LOG_BUFFER_SIZE_BYTES => error.set_bytes(value, place),
                _ => {}
            }
        }
        info.write("")?;
        error.write("")?;
        Ok(JitLog { error })
    }

    /// Does `work`, and writes the text of its error to the buffer.
    pub(super) fn keeping<T>(self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let outcome = work();
        if let Err(error) = &outcome {
            self.error.write(error.text())?;
        }
        outcome
    }
}

impl Buffer {
    /// The size, which CUDA passes as a number of 32 bits in place of a pointer.
    fn set_bytes(&mut self, value: u64, place: u64) {
        (self.bytes, self.length) = (value & u64::from(u32::MAX), place);
    }

    /// Writes `text`, cut to the size, and its length.
    fn write(self, text: &str) -> Result {
        let room = i32::try_from(self.bytes).unwrap_or(i32::MAX);
        let mut length = 0;
        if self.address != 0 && room > 0 {
            // SAFETY: the caller of the exported function passed the address of a buffer of that
            // size. A linker's is valid until the linker is destroyed.
            let buffer = unsafe { Out::at(self.address as *mut u8) };
            buffer.set_text("the buffer for errors", text, room)?;
            length = text.len().min(room as usize - 1);
        }
        write_value(self.length, length as u64);
        Ok(())
    }
}

/// Writes the value of an option, unless `place` is 0.
fn write_value(place: u64, value: u64) {
    // SAFETY: the place is that of an option's value, which CUDA takes for its result too. A
    // linker's is valid until the linker is destroyed.
    unsafe { Out::at(place as *mut u64) }.set_if_given(value);
}
