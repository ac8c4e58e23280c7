//! Resident memory of a process, as the system counts it: whatever took it, and past whatever allocator.

use std::fs;

/// Forgets the peak of a process, and returns its resident memory in bytes; `None` where the system does not tell.
pub fn forget_peak(process: u32) -> Option<u64> {
    fs::write(format!("/proc/{process}/clear_refs"), "5").ok()?;
    peak(process)
}

/// The most resident memory since then, in bytes.
pub fn peak(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}

/// True if the system tells of this process, so that one of the same user that it does not tell of hides itself.
pub fn is_told() -> bool {
    forget_peak(std::process::id()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_allocator_is_resident_while_it_is_there() {
        let process = std::process::id();
        let Some(before) = forget_peak(process) else {
            return; // the system does not tell
        };
        let size = 256 << 20; // more than other tests of this program
        drop(std::hint::black_box(vec![1u8; size]));
        let after = peak(process).unwrap();
        assert!(after >= before + size as u64 / 2, "{before} {after}");
        let least = forget_peak(process).unwrap();
        assert!(least < after, "{least} {after}");
    }
}
