//! Modelled time, which is what events measure here.
//!
//! Each stream has a clock. Kernels, copies and fills advance it by what the model says they take (`MODEL.md`); waiting
//! takes it to the time of what was waited for. The host has a clock per thread: it takes no time itself, but what it
//! submits after it has waited for something starts no earlier.

use std::cell::Cell;

/// A moment of modelled time. In whole picoseconds, so that the same work takes the same time whenever it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Moves on by so many seconds.
    pub(crate) fn advance(&mut self, seconds: f64) {
        self.0 = self.0.saturating_add((seconds * 1e12).round() as u64);
    }

    /// Seconds since `earlier`; negative if that is later.
    pub(crate) fn since(self, earlier: Moment) -> f64 {
        self.0.wrapping_sub(earlier.0) as i64 as f64 * 1e-12
    }
}

thread_local! {
    /// The latest moment that this thread knows to have passed.
    static HOST: Cell<Moment> = const { Cell::new(Moment(0)) };
}

/// This thread has seen the end of what ended at `moment`.
pub(crate) fn host_sees(moment: Moment) {
    // A call from another thread-local's destructor may come after ours is gone.
    let _ = HOST.try_with(|host| host.set(host.get().max(moment)));
}

/// When this thread submits.
pub(crate) fn host() -> Moment {
    HOST.try_with(Cell::get).unwrap_or_default()
}
