//! Host memory of the program that it has registered (`cuMemHostRegister`).

use std::collections::BTreeMap;

use crate::driver::ffi::{Result, Status};

/// Registered ranges, which never overlap.
#[derive(Default)]
pub(crate) struct Registered {
    /// By first address: the end, and the flags.
    ranges: BTreeMap<u64, (u64, u32)>,
}

impl Registered {
    /// Registers `start..end`; an error if part of it is registered.
    pub(crate) fn add(&mut self, start: u64, end: u64, flags: u32) -> Result {
        let before = self.ranges.range(..end).next_back();
        if before.is_some_and(|(_, &(other, _))| other > start) {
            return Err(Status::HostMemoryAlreadyRegistered.error(format!(
                "part of {start:#x}..{end:#x} is registered already"
            )));
        }
        self.ranges.insert(start, (end, flags));
        Ok(())
    }

    /// Ends the registration that begins at `start`.
    pub(crate) fn remove(&mut self, start: u64) -> Result {
        let removed = self.ranges.remove(&start).map(drop);
        removed.ok_or_else(|| {
            Status::HostMemoryNotRegistered
                .error(format!("no registered memory begins at {start:#x}"))
        })
    }

    /// The flags of the range that holds `addr`.
    pub(crate) fn holding(&self, addr: u64) -> Option<u32> {
        let (_, &(end, flags)) = self.ranges.range(..=addr).next_back()?;
        (addr < end).then_some(flags)
    }

    /// Whether all of `start..start + bytes` is registered, in one range.
    pub(crate) fn covers(&self, start: u64, bytes: usize) -> bool {
        let before = self.ranges.range(..=start).next_back();
        before.is_some_and(|(_, &(end, _))| {
            start
                .checked_add(bytes as u64)
                .is_some_and(|last| last <= end)
        })
    }
}
