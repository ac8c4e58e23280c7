//! Host memory of the program that it has registered (`cuMemHostRegister`).

use std::collections::BTreeMap;

use crate::driver::ffi::{Handle, Result, Status};

/// A registered range.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) start: u64,
    /// Its end, exclusive.
    pub(crate) end: u64,
    pub(crate) flags: u32,
    /// The context with which it ends.
    pub(crate) context: Handle,
}

/// Registered ranges, which never overlap.
#[derive(Default)]
pub(crate) struct Registered {
    /// By first address.
    ranges: BTreeMap<u64, Registration>,
}

impl Registered {
    /// Registers a range; an error if part of it is registered.
    pub(crate) fn add(&mut self, new: Registration) -> Result {
        let Registration { start, end, .. } = new;
        let before = self.ranges.range(..end).next_back();
        if before.is_some_and(|(_, other)| other.end > start) {
            return Err(Status::HostMemoryAlreadyRegistered.error(format!(
                "part of {start:#x}..{end:#x} is registered already"
            )));
        }
        self.ranges.insert(start, new);
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

    /// Ends the registrations of a context.
    pub(crate) fn remove_context(&mut self, context: Handle) {
        self.ranges.retain(|_, range| range.context != context);
    }

    /// The range that holds `addr`.
    pub(crate) fn holding(&self, addr: u64) -> Option<Registration> {
        let (_, &range) = self.ranges.range(..=addr).next_back()?;
        (addr < range.end).then_some(range)
    }

    /// True if all of `start..start + bytes` is registered, in one range.
    pub(crate) fn covers(&self, start: u64, bytes: usize) -> bool {
        let before = self.ranges.range(..=start).next_back();
        before.is_some_and(|(_, range)| {
            start
                .checked_add(bytes as u64)
                .is_some_and(|last| last <= range.end)
        })
    }
}
