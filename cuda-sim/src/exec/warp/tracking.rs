//! Which lanes have set the registers that may be used unset.

use super::Warp;
use crate::exec::lanes;
use crate::exec::predicate::condition;
use crate::program::op::Tracking;

impl Warp {
    /// Updates what is known of registers that may be used unset. A lane that uses one, if there is one.
    pub(super) fn track(&mut self, tracking: &Tracking, mask: u32) -> Option<u32> {
        let bits = |set: &[u32], slot: Option<u32>| slot.map_or(u32::MAX, |s| set[s as usize]);
        let (slot, new) = match *tracking {
            Tracking::Check { slot } => {
                let unset = mask & !self.set[slot as usize];
                return (unset != 0).then(|| unset.trailing_zeros());
            }
            Tracking::Set { slot } => (slot, u32::MAX),
            Tracking::Copy { d, a } => (d, bits(&self.set, a)),
            Tracking::And { d, a } => (d, self.set[d as usize] & self.set[a as usize]),
            Tracking::Select { d, a, b, p } => {
                let p = condition(&self.registers, p);
                (d, bits(&self.set, a) & p | bits(&self.set, b) & !p)
            }
            Tracking::Shuffle { op, d, a, b, c } => {
                let a = bits(&self.set, a);
                let (b, c): (&[u32; 32], &[u32; 32]) =
                    (self.registers.read(b), self.registers.read(c));
                let from = |lane: u32| match lanes::shuffle_source(
                    op,
                    lane,
                    b[lane as usize],
                    c[lane as usize],
                ) {
                    (source, true) => source,
                    (_, false) => lane,
                };
                (
                    d,
                    (0..32).fold(0, |all, lane| all | (a >> from(lane) & 1) << lane),
                )
            }
        };
        let set = &mut self.set[slot as usize];
        *set = *set & !mask | new & mask;
        None
    }
}
