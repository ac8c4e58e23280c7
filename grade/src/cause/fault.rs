//! What the simulator's report on a fault says.

use super::Cause;

/// The cause that a fault report names in its first line, such as `race: store of 4 bytes at 0x100 in shared memory, …`.
pub fn of_fault(report: &str) -> Option<Cause> {
    let what = report.lines().find(|line| !line.trim().is_empty())?;
    let has = |words: &str| what.contains(words);
    let cause = match () {
        () if has("race: ") && has("shared memory") => Cause::UnsynchronisedTile,
        () if has("race: ") => Cause::RaceInDeviceMemory,
        () if has("out-of-bounds ") => Cause::OutOfBounds,
        () if has("misaligned ") => Cause::Misaligned,
        () if has("read of memory that nobody wrote") && has("shared memory") => Cause::UnsynchronisedTile,
        () if has("read of memory that nobody wrote") => Cause::UninitialisedRead,
        () if has("divergent barrier") || has("different barriers") || has("deadlock") => {
            Cause::DivergentBarrier
        }
        () if has("endless loop") || has("long launch") => Cause::EndlessLoop,
        () => return None,
    };
    Some(cause)
}
