//! Modelled time, which events measure.
//!
//! Each stream has a clock. Kernels, copies and fills advance it by the time that the model gives
//! them (`MODEL.md`). A wait advances it to the time of what the stream waited for. Each host
//! thread has a clock too: the host itself takes no time, but what it submits after a wait starts
//! no earlier than the end of that wait.

use std::cell::Cell;

/// A moment of modelled time. In whole picoseconds, so that the same work takes the same time
/// whenever it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Advances by `seconds`.
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

/// Advances this thread's clock to `moment`, the end of something that it waited for.
pub(crate) fn host_sees(moment: Moment) {
    // A call from another thread-local's destructor may come after ours is gone.
    let _ = HOST.try_with(|host| host.set(host.get().max(moment)));
}

/// This thread's clock: the modelled time at which it submits.
pub(crate) fn host() -> Moment {
    HOST.try_with(Cell::get).unwrap_or_default()
}
