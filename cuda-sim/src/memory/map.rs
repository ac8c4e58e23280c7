//! Map of device memory as a launch sees it: the allocations, by address.

/// One device allocation, live or recently freed. Addresses are those that kernels and the host
/// both use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number of the allocation, counted from 1 in the order of allocation. Never reused.
    pub id: u64,
    /// Address of the first byte.
    pub start: u64,
    /// Size in bytes, as asked for.
    pub bytes: u64,
    /// False once freed: any access is a use after free.
    pub live: bool,
}

impl Allocation {
    /// Address of the first byte after the allocation.
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// The allocations of a moment, sorted by address and disjoint: the live ones and those freed a
/// short while ago.
#[derive(Clone, Debug, Default)]
pub struct MemoryMap {
    allocations: Vec<Allocation>,
}

impl MemoryMap {
    /// A map of `allocations`, which must not overlap; their order does not matter.
    pub fn new(mut allocations: Vec<Allocation>) -> Self {
        allocations.sort_unstable_by_key(|allocation| allocation.start);
        debug_assert!(
            allocations
                .windows(2)
                .all(|pair| pair[0].end() <= pair[1].start)
        );
        Self { allocations }
    }

    /// The allocation, live or freed, that holds the byte at `addr`.
    pub fn containing(&self, addr: u64) -> Option<&Allocation> {
        let after = self
            .allocations
            .partition_point(|allocation| allocation.start <= addr);
        let candidate = &self.allocations[after.checked_sub(1)?];
        (addr < candidate.end()).then_some(candidate)
    }

    /// The allocation, live or freed, whose bytes lie closest to `addr`, and the one on the other
    /// side. If one holds `addr`, it is the only one; there may be fewer.
    pub fn around(&self, addr: u64) -> [Option<&Allocation>; 2] {
        let after = self
            .allocations
            .partition_point(|allocation| allocation.start <= addr);
        let below = after.checked_sub(1).map(|i| &self.allocations[i]);
        let above = self.allocations.get(after);
        match (below, above) {
            (Some(holder), _) if addr < holder.end() => [Some(holder), None],
            (Some(below), Some(above)) if above.start - addr <= addr - below.end() => {
                [Some(above), Some(below)]
            }
            (Some(below), above) => [Some(below), above],
            (None, above) => [above, None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(id: u64, start: u64, bytes: u64) -> Allocation {
        Allocation {
            id,
            start,
            bytes,
            live: true,
        }
    }

    fn id(found: Option<&Allocation>) -> Option<u64> {
        found.map(|allocation| allocation.id)
    }

    #[test]
    fn containing_knows_first_and_last_byte_and_nothing_outside() {
        let map = MemoryMap::new(vec![allocation(2, 0x200, 1), allocation(1, 0x100, 0x40)]);
        let found: Vec<_> = [0, 0xff, 0x100, 0x13f, 0x140, 0x200, 0x201, u64::MAX]
            .into_iter()
            .map(|addr| id(map.containing(addr)))
            .collect();
        assert_eq!(
            found,
            [None, None, Some(1), Some(1), None, Some(2), None, None]
        );
    }

    #[test]
    fn around_is_by_distance_to_the_bytes() {
        let map = MemoryMap::new(vec![allocation(1, 0x100, 0x40), allocation(2, 0x200, 0x10)]);
        let found: Vec<_> = [0, 0x120, 0x13f, 0x140, 0x19f, 0x1a0, 0x1ff, 0x20f, u64::MAX]
            .into_iter()
            .map(|addr| map.around(addr).map(id))
            .collect();
        assert_eq!(
            found,
            [
                [Some(1), None],
                [Some(1), None],
                [Some(1), None],
                [Some(1), Some(2)],
                [Some(1), Some(2)],
                [Some(2), Some(1)],
                [Some(2), Some(1)],
                [Some(2), None],
                [Some(2), None],
            ]
        );
        assert_eq!(MemoryMap::default().around(0x100), [None, None]);
    }
}
