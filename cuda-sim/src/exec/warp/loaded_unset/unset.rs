//! Unset bytes of one register.

use crate::exec::checks::unwritten_bytes::UnsetLoad;
use crate::exec::lane_mask::lanes;
use crate::program::op::MemorySpace;

/// Unset lanes of a register, for each byte; of a predicate, in the first.
#[derive(Debug, Clone)]
pub(super) struct Unset {
    pub bytes: [u32; 8],
    /// Of the lanes with an unset byte.
    pub origins: [UnsetLoad; 32],
}

impl Unset {
    pub const NONE: Unset = Unset {
        bytes: [0; 8],
        origins: [UnsetLoad {
            pc: 0,
            space: MemorySpace::Global,
            at: 0,
            bytes: 0,
            computed: false,
        }; 32],
    };

    /// The lanes in which a byte is unset.
    pub fn lanes(&self) -> u32 {
        self.bytes.iter().fold(0, |all, lanes| all | lanes)
    }

    /// Byte `to` is unset in `new` lanes, which come from `origins`.
    pub fn add(&mut self, to: usize, new: u32, origins: &[UnsetLoad; 32]) {
        for lane in lanes(new & !self.lanes()) {
            self.origins[lane] = origins[lane];
        }
        for lane in lanes(new) {
            self.origins[lane].computed |= origins[lane].computed;
        }
        self.bytes[to] |= new;
    }

    /// The same bytes of a result of arithmetic.
    pub fn computed(mut self) -> Unset {
        self.origins
            .iter_mut()
            .for_each(|load| load.computed = true);
        self
    }

    /// All bytes are unset in the lanes of `mask` in which a byte of `other` is.
    pub fn add_all(&mut self, mask: u32, other: Option<&Unset>) {
        let Some(other) = other else { return };
        (0..8).for_each(|to| self.add(to, other.lanes() & mask, &other.origins));
    }

    /// Takes over the lanes of `mask`.
    pub fn update(&mut self, mask: u32, new: &Unset) {
        for (byte, new) in self.bytes.iter_mut().zip(new.bytes) {
            *byte = *byte & !mask | new & mask;
        }
        for lane in lanes(mask & new.lanes()) {
            self.origins[lane] = new.origins[lane];
        }
    }
}
/// A use of an unset byte by a lane.
pub(super) type Found = (u32, UnsetLoad);
/// The first lane of `mask` in which a register is unset, and its load.
pub(super) fn first_use(unset: Option<&Unset>, mask: u32) -> Result<(), Found> {
    let used = unset.map_or(0, |unset| unset.lanes() & mask);
    match unset {
        Some(unset) if used != 0 => {
            let lane = used.trailing_zeros();
            Err((lane, unset.origins[lane as usize]))
        }
        _ => Ok(()),
    }
}
pub(super) fn slot(slots: &mut Vec<Option<Box<Unset>>>, number: u32) -> &mut Option<Box<Unset>> {
    let number = number as usize;
    if slots.len() <= number {
        slots.resize(number + 1, None);
    }
    &mut slots[number]
}

pub(super) fn set(slot: &mut Option<Box<Unset>>, mask: u32, new: &Unset) {
    if slot.is_none() && new.lanes() & mask == 0 {
        return;
    }
    let old = slot.get_or_insert_with(|| Box::new(Unset::NONE));
    old.update(mask, new);
    if old.lanes() == 0 {
        *slot = None;
    }
}
