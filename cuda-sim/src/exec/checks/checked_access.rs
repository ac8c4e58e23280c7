//! The access that the checks look at: its addresses, lane by lane, and the values that it stores.

use crate::exec::access::address_space;
use crate::exec::access::part::AccessPart;
use crate::exec::access::pattern::{AccessPattern, Run};
use crate::exec::access::word::Word;
use crate::exec::block_memory::BlockMemory;
use crate::exec::lane_mask::lanes;
use crate::exec::registers::Registers;
use crate::program::op::{Access, MemorySpace, R};

/// The access to check.
#[derive(Clone, Copy)]
pub(crate) struct CheckedAccess<'c> {
    pub memory: &'c BlockMemory<'c>,
    pub pattern: &'c AccessPattern,
    pub access: &'c Access,
    pub part: &'c AccessPart,
}

/// One lane's side of an access.
#[derive(Clone, Copy)]
pub(super) struct LaneAccess {
    pub space: MemorySpace,
    pub at: u64,
    pub bytes: u64,
    pub lane: u32,
    /// The lanes that access this place at once.
    pub sharers: u32,
    pub write: bool,
}

impl CheckedAccess<'_> {
    /// Bytes that one lane accesses.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.access.ty.bytes()) * u64::from(self.access.count)
    }

    /// Address of a lane within the space.
    pub(super) fn address(&self, lane: usize) -> u64 {
        let delta = self.pattern.deltas.0[lane & 31];
        self.part.first.wrapping_add_signed(i64::from(delta))
    }

    /// First address of a run of words within the space.
    #[inline(always)]
    pub(super) fn start_of(&self, run: &Run) -> u64 {
        self.part.first.wrapping_add_signed(i64::from(run.start))
    }

    pub(super) fn lane_access(&self, lane: u32, write: bool) -> LaneAccess {
        LaneAccess {
            space: self.part.space,
            at: self.address(lane as usize),
            bytes: self.bytes(),
            lane,
            sharers: 1 << lane,
            write,
        }
    }

    /// True if a store leaves word `i` of a run as it is. If several lanes write it, whether they
    /// agree is looked at after the store.
    pub(super) fn keeps_word(&self, registers: &Registers, a: &[R; 4], run: &Run, i: u32) -> bool {
        let at = run.start + 4 * i as i32;
        let lane = run.owners.owner(i as usize) as usize & 31;
        let word = (at - self.pattern.deltas.0[lane]) as u32 / 4;
        let value = stored_word(registers, self.access, a, lane, word);
        // SAFETY: `locate` found the whole access in bounds and aligned.
        unsafe { u32::load((self.part.host as i64 + i64::from(at)) as u64) == value }
    }

    /// True if word `i` of what a lane accesses holds what the store would write; of a store
    /// narrower than a word, its bytes.
    pub(super) fn holds(&self, registers: &Registers, a: &[R; 4], lane: usize, i: u32) -> bool {
        let host = self.part.place(self.pattern.deltas.0[lane], lane);
        let value = stored_word(registers, self.access, a, lane, i);
        // SAFETY: `locate` found the whole access in bounds and aligned.
        unsafe {
            match self.bytes() {
                1 => u8::load(host) == value as u8,
                2 => u16::load(host) == value as u16,
                _ => u32::load(host + 4 * u64::from(i)) == value,
            }
        }
    }

    /// The generic addresses of the words that the lanes access, each once.
    pub(super) fn flags(&self) -> Vec<u64> {
        let window = address_space::window(self.part.space);
        let bytes = u64::from(self.access.bytes());
        let mut addresses: Vec<u64> = lanes(self.part.mask)
            .map(|lane| self.address(lane).wrapping_add(window))
            .flat_map(|start| (start & !3..start + bytes).step_by(4))
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

/// The word that a store would write at word `i` of a lane; of a store narrower than a word, its
/// bits.
fn stored_word(registers: &Registers, access: &Access, a: &[R; 4], lane: usize, i: u32) -> u32 {
    let element = |i: u32| match access.wide {
        true => registers.read::<u64>(a[i as usize])[lane],
        false => u64::from(registers.read::<u32>(a[i as usize])[lane]),
    };
    match access.ty.bytes() {
        8 => (element(i / 2) >> (32 * (i % 2))) as u32,
        4 => element(i) as u32,
        bytes => {
            let bits = 8 * bytes;
            let here = (i * (4 / bytes)..u32::from(access.count)).take(4 / bytes as usize);
            here.enumerate().fold(0, |word, (at, i)| {
                let value = element(i) as u32 & (u32::MAX >> (32 - bits));
                word | value << (bits * at as u32)
            })
        }
    }
}
