//! Device memory that a program has not freed when its context ends.

use std::cell::Cell;
use std::fmt;

use crate::driver::{driver, report};
use crate::exec;
use crate::memory::arena::Arena;

/// Memory that a context which ended left behind. Module variables and what a graph owns do not
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaks {
    /// Allocations of device or managed memory that were never freed.
    pub allocations: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// Number of the largest, as faults name it: `allocation 3`. Of equals, the oldest.
    pub largest: u64,
    /// Its size in bytes.
    pub largest_bytes: u64,
}

impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Leaks {
            allocations,
            bytes,
            largest,
            largest_bytes,
        } = self;
        let s = if *allocations == 1 { "" } else { "s" };
        write!(
            f,
            "{allocations} allocation{s} with {bytes} bytes of device memory not freed when the context ended; the \
             largest is allocation {largest} with {largest_bytes} bytes. Usual cause: a pointer taken out of its owner \
             (`leak`, `upgrade_device_ptr`), or an allocation without its free."
        )
    }
}

thread_local! {
    static LAST: Cell<Option<Leaks>> = const { Cell::new(None) };
}

/// Returns what the context that this thread ended last left behind: `None` if nothing, if no
/// context has ended in this thread, or if checks are off (`set_checks`, `CUDA_SIM_CHECK=off`).
pub fn last_leaks() -> Option<Leaks> {
    LAST.get()
}

/// Returns the bytes of device and managed memory that the program has allocated in this thread's
/// context and not freed: 0 without a context. Module variables and what a graph owns do not count.
pub fn held() -> u64 {
    let allocations = driver().ok().and_then(|driver| {
        let context = driver.current().ok()?;
        Some(driver.arena.held_by(context.handle))
    });
    let allocations = allocations.unwrap_or_default().into_iter();
    allocations.map(|(_, bytes)| bytes).sum()
}

/// Reports, and keeps for [`last_leaks`], what `context` has not freed. For a context that is about
/// to free it.
pub(crate) fn note(arena: &Arena, context: u64) {
    let found = exec::settings()
        .checks
        .then(|| summary(arena.held_by(context)))
        .flatten();
    if let Some(leaks) = &found {
        report::leaks(leaks);
    }
    // A call from another thread-local's destructor may come after ours is gone.
    let _ = LAST.try_with(|last| last.set(found));
}

/// Sums up allocations, given as number and bytes.
fn summary(allocations: Vec<(u64, u64)>) -> Option<Leaks> {
    let &(largest, largest_bytes) = allocations
        .iter()
        .min_by_key(|&&(id, bytes)| (std::cmp::Reverse(bytes), id))?;
    Some(Leaks {
        allocations: allocations.len(),
        bytes: allocations.iter().map(|&(_, bytes)| bytes).sum(),
        largest,
        largest_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_and_oldest_is_named() {
        assert_eq!(summary(Vec::new()), None);
        let leaks = summary(vec![(9, 100), (4, 100), (5, 7)]).expect("leaks");
        assert_eq!(
            (
                leaks.allocations,
                leaks.bytes,
                leaks.largest,
                leaks.largest_bytes
            ),
            (3, 207, 4, 100)
        );
        assert!(
            leaks
                .to_string()
                .starts_with("3 allocations with 207 bytes")
        );
    }
}
