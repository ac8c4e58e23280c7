//! The buffer in which a program asks for the text of an error of the compiler or linker.

use crate::driver::ffi::{Error, In, Out, Result};

/// `CUjit_option`.
const ERROR_LOG_BUFFER: u32 = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;

/// Options that a linker or a module may be given.
const MOST_OPTIONS: u32 = 64;

/// Where the text of an error goes: address and size in bytes, 0 for none.
#[derive(Clone, Copy, Default)]
pub(crate) struct JitLog {
    buffer: u64,
    bytes: u64,
}

impl JitLog {
    /// The buffer among the options of a call.
    pub(super) fn of(count: u32, options: &In<u32>, values: &In<u64>) -> Result<Self> {
        if count > MOST_OPTIONS {
            return Err(Error::value(format!("{count} options")));
        }
        let mut log = JitLog::default();
        let options = options.list("options", count as usize)?;
        for (option, value) in options
            .into_iter()
            .zip(values.list("optionValues", count as usize)?)
        {
            match option {
                ERROR_LOG_BUFFER => log.buffer = value,
                // CUDA passes a number of 32 bits in place of the pointer.
                ERROR_LOG_BUFFER_SIZE_BYTES => log.bytes = value & u64::from(u32::MAX),
                _ => {}
            }
        }
        Ok(log)
    }

    /// Does `work`, and writes the text of its error to the buffer.
    pub(super) fn keeping<T>(self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let outcome = work();
        if let Err(error) = &outcome
            && self.buffer != 0
            && self.bytes > 0
        {
            let room = i32::try_from(self.bytes).unwrap_or(i32::MAX);
            Out::at(self.buffer as *mut u8).set_text(
                "the buffer for errors",
                error.text(),
                room,
            )?;
        }
        outcome
    }
}
