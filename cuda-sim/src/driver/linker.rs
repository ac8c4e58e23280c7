//! Linkers.

use std::sync::Mutex;

use crate::driver::{api::JitLog, ffi::Handle};

/// PTX texts to be linked.
pub(crate) struct Linker {
    pub(crate) handle: Handle,
    pub(crate) log: JitLog,
    pub(crate) inputs: Mutex<Vec<String>>,
    /// The result, with its zero byte: it stays until the linker is destroyed.
    pub(crate) linked: Mutex<Option<Box<[u8]>>>,
}

impl Linker {
    pub(crate) fn new(handle: Handle, log: JitLog) -> Self {
        Self {
            handle,
            log,
            inputs: Mutex::default(),
            linked: Mutex::default(),
        }
    }
}
