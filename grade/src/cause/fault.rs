//! What the simulator's report on a fault says.

use super::Cause;

/// The cause that a fault report names in its first line, such as `race: store of 4 bytes at 0x100 in shared memory, …`. Threads that
/// returned early are named further down.
pub fn of_fault(report: &str) -> Option<Cause> {
    let what = report.lines().find(|line| !line.trim().is_empty())?;
    let has = |words: &str| what.contains(words);
    let cause = match () {
        () if has("copy in flight: ") => Cause::CopyInFlight,
        () if has("race: ") && has("shared memory") => Cause::UnsynchronisedTile,
        () if has("race: ") => Cause::RaceInDeviceMemory,
        () if has("out-of-bounds ") => Cause::OutOfBounds,
        () if has("misaligned ") => Cause::Misaligned,
        () if report.contains("returned before the last barrier") => Cause::DivergentBarrier,
        () if has("read of memory that nobody wrote") && has("shared memory") => {
            Cause::UnsynchronisedTile
        }
        () if has("read of memory that nobody wrote") => Cause::UninitialisedRead,
        () if has("divergent barrier") || has("different barriers") || has("deadlock") => {
            Cause::DivergentBarrier
        }
        () if has("endless loop") => Cause::EndlessLoop,
        () => return None,
    };
    Some(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells() {
        let of = |first: &str| {
            of_fault(&format!(
                "{first}\n  kernel  softmax\n  cause   a race: shared memory"
            ))
        };
        let race = "race: load of 4 bytes at 0x20 in shared memory, and an earlier write that nothing orders";
        assert_eq!(of(race), Some(Cause::UnsynchronisedTile));
        let race = "race: store of 4 bytes at 0x7f20 in global memory, and an earlier write that nothing orders";
        assert_eq!(of(race), Some(Cause::RaceInDeviceMemory));
        let copy = "copy in flight: load of 4 bytes at 0x20 in shared memory, to which a copy writes that its thread has not \
                    waited for";
        assert_eq!(of(copy), Some(Cause::CopyInFlight));
        let unwritten =
            "read of memory that nobody wrote: load of 4 bytes at 0x100 in shared memory";
        assert_eq!(of(unwritten), Some(Cause::UnsynchronisedTile));
        let early = "\n  cause   8 threads of the block returned before the last barrier, and did not fill their part";
        let early = format!("{unwritten}{early}");
        assert_eq!(of_fault(&early), Some(Cause::DivergentBarrier));
        let outside = "out-of-bounds load of 4 bytes at 0x7f20 in global memory";
        assert_eq!(of(outside), Some(Cause::OutOfBounds));
        let endless = "endless loop: one warp ran more than 100 instructions";
        assert_eq!(of(endless), Some(Cause::EndlessLoop));
        assert_eq!(of("the kernel ran a trap instruction"), None);
        assert_eq!(of(""), None);
    }
}
