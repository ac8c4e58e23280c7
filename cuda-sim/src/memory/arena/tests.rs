use std::collections::VecDeque;

use super::*;

const MIB: u64 = 1 << 20;
const OWNER: Owner = Owner {
    kind: Kind::Device,
    context: 7,
    pool: 0,
};

fn arena() -> Arena {
    Arena::reserve(64 * MIB..=64 * MIB).expect("address space")
}

#[test]
fn addresses_are_aligned_apart_and_repeatable() {
    let sizes = [1, 255, 256, 257, LARGE - 1, LARGE, LARGE + 1, 3];
    let offsets = |arena: &Arena| -> Vec<u64> {
        sizes
            .iter()
            .map(|&bytes| arena.allocate(bytes, OWNER).unwrap() - arena.base)
            .collect()
    };
    let (first, second) = (arena(), arena());
    let starts = offsets(&first);
    assert_eq!(starts, offsets(&second));
    for (index, (&start, &bytes)) in starts.iter().zip(&sizes).enumerate() {
        assert_eq!(start % GRAIN, 0);
        let gap = start + bytes..start + bytes + GRAIN;
        assert!(
            starts.iter().all(|other| !gap.contains(other)),
            "gap after allocation {index}"
        );
    }
}

#[test]
fn freed_memory_is_not_reused_soon_and_is_still_known() {
    let arena = arena();
    let freed = arena.allocate(100, OWNER).unwrap();
    arena.free(freed, &[Kind::Device]).unwrap();
    for _ in 0..QUARANTINE_RANGES / 2 {
        let other = arena.allocate(100, OWNER).unwrap();
        assert_ne!(other, freed);
        arena.free(other, &[Kind::Device]).unwrap();
    }
    let map = arena.map(NOW);
    let found = map.containing(freed + 99).expect("still in the map");
    assert!(!found.live && found.start == freed);
    let text = arena.check_range("copy", freed, 4).unwrap_err().to_string();
    assert!(text.contains("freed before"), "{text}");
}

#[test]
fn the_quarantine_is_bounded_and_gives_ranges_back() {
    let arena = arena();
    let mut seen = std::collections::HashSet::new();
    let mut reused = false;
    for _ in 0..QUARANTINE_RANGES * 3 {
        let addr = arena.allocate(1000, OWNER).unwrap();
        reused |= !seen.insert(addr);
        arena.free(addr, &[Kind::Device]).unwrap();
    }
    assert!(reused);
    assert_eq!(arena.usage(), (64 * MIB, 64 * MIB));
    assert!(lock(&arena.state).allocations.len() <= QUARANTINE_RANGES);
}

#[test]
fn the_large_range_freed_last_stays_known_and_others_are_reused() {
    let arena = Arena::reserve(1 << 30..=1 << 30).expect("address space");
    let churn = |bytes: u64| -> Vec<u64> {
        let once = |_| {
            let addr = arena.allocate(bytes, OWNER).unwrap();
            arena.free(addr, &[Kind::Device]).unwrap();
            let map = arena.map(NOW);
            assert!(map.containing(addr).is_some_and(|found| !found.live));
            addr
        };
        (0..20).map(once).collect()
    };
    for bytes in [QUARANTINE_BYTES / 8, QUARANTINE_BYTES * 2] {
        let seen = churn(bytes);
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
        let places: std::collections::HashSet<u64> = seen.into_iter().collect();
        assert!(
            places.len() <= 10,
            "{} places of {bytes} bytes",
            places.len()
        );
    }
}

#[test]
fn a_churn_of_mixed_sizes_never_overlaps_and_never_runs_out() {
    let arena = Arena::new(place(8 * MIB).unwrap(), 8 * MIB, MIB);
    let mut live: VecDeque<(u64, u64)> = VecDeque::new();
    let mut seed = 1u64;
    for _ in 0..20_000 {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let bytes = 1 + (seed >> 33) % if seed >> 62 == 0 { 200_000 } else { 2_000 };
        let addr = arena.allocate(bytes, OWNER).unwrap();
        for &(other, length) in &live {
            assert!(addr + bytes <= other || other + length <= addr);
        }
        live.push_back((addr, bytes));
        if live.len() > 4 {
            let (oldest, _) = live.pop_front().unwrap();
            arena.free(oldest, &[Kind::Device]).unwrap();
        }
    }
}

#[test]
fn the_limit_counts_live_device_memory_only() {
    let arena = arena();
    let host = Owner {
        kind: Kind::Host,
        ..OWNER
    };
    arena.allocate(32 * MIB, host).unwrap();
    let first = arena.allocate(40 * MIB, OWNER).unwrap();
    let refused = arena.allocate(24 * MIB + 1, OWNER).unwrap_err();
    assert!(matches!(refused, ArenaError::OutOfMemory(_)), "{refused}");
    arena.allocate(24 * MIB, OWNER).unwrap();
    assert_eq!(arena.usage(), (0, 64 * MIB));
    arena.free(first, &[Kind::Device]).unwrap();
    assert_eq!(arena.usage(), (40 * MIB, 64 * MIB));
    assert!(arena.allocate(u64::MAX, host).is_err());
}

#[test]
fn a_wrong_free_is_explained_and_changes_nothing() {
    let arena = arena();
    let addr = arena.allocate(64, OWNER).unwrap();
    for (bad, kinds, expected) in [
        (addr + 8, Kind::Device, "only its start"),
        (addr, Kind::Host, "another function"),
        (addr + 64, Kind::Device, "in no allocation"),
        (0, Kind::Device, "in no allocation"),
        (u64::MAX, Kind::Device, "in no allocation"),
    ] {
        let text = arena.free(bad, &[kinds]).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    arena.free(addr, &[Kind::Device]).unwrap();
    assert!(
        arena
            .free(addr, &[Kind::Device])
            .unwrap_err()
            .to_string()
            .contains("freed before")
    );
}

#[test]
fn ranges_are_checked_to_the_byte() {
    let arena = arena();
    let addr = arena.allocate(100, OWNER).unwrap();
    for (start, bytes, fits) in [
        (addr, 100, true),
        (addr + 99, 1, true),
        (addr, 101, false),
        (addr + 99, 2, false),
        (addr + 100, 1, false),
        (addr.wrapping_sub(1), 1, false),
        (addr + 1, u64::MAX, false),
    ] {
        assert_eq!(
            arena.check_range("copy", start, bytes).is_ok(),
            fits,
            "{start:#x} {bytes}"
        );
    }
    let text = arena
        .check_range("copy", addr + 90, 15)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("end 5 bytes past the end of allocation 1 (100 bytes"),
        "{text}"
    );
}

#[test]
fn device_memory_starts_as_nan_and_variables_as_zero() {
    let arena = arena();
    let device = arena.allocate(8, OWNER).unwrap();
    let variable = arena
        .allocate(
            8,
            Owner {
                kind: Kind::Variable,
                ..OWNER
            },
        )
        .unwrap();
    // SAFETY: both are live allocations of 8 bytes of this arena.
    let values = unsafe {
        (
            (device as *const f32).read(),
            (variable as *const u64).read(),
        )
    };
    assert!(values.0.is_nan());
    assert_eq!(values.1, 0);
}

#[test]
fn a_context_takes_its_memory_along() {
    let arena = arena();
    let gone = arena.allocate(8, OWNER).unwrap();
    let kept = arena
        .allocate(
            8,
            Owner {
                context: 8,
                ..OWNER
            },
        )
        .unwrap();
    arena.free_context(7);
    assert!(arena.check_range("copy", gone, 1).is_err());
    assert!(arena.check_range("copy", kept, 1).is_ok());
}
