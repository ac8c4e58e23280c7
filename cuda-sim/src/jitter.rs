//! Random pauses of host threads, for tests that look for verdicts which depend on the host.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// State of the random numbers; 0 if there are no pauses.
static STATE: AtomicU64 = AtomicU64::new(0);

/// Turns random pauses on, or off again with `None`.
#[doc(hidden)]
pub fn set_jitter(seed: Option<u64>) {
    // Odd, and it stays odd.
    STATE.store(seed.map_or(0, |seed| seed << 1 | 1), Relaxed);
}

/// Pauses now and then, if that is wanted: called where another host thread may come between two
/// steps of this one.
#[inline(always)]
pub(crate) fn pause() {
    if STATE.load(Relaxed) != 0 {
        pause_sometimes();
    }
}

#[cold]
#[inline(never)]
fn pause_sometimes() {
    // SplitMix64, of which all threads draw.
    let mut z = STATE.fetch_add(0x3c6e_f372_fe94_f82a, Relaxed);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    match z % 256 {
        0 => std::thread::sleep(Duration::from_micros(z >> 32 & 63)),
        1..8 => std::thread::yield_now(),
        8..16 => (0..z >> 32 & 2047).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}
