//! Exchange between the lanes of a warp. All lanes that an operation names are there: the warp sees
//! to it.

use crate::exec::host_simd::HostSimd;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::predicate::condition;
use crate::exec::registers::{Raw, Registers};
use crate::program::op::{
    Op, P, R, Reduction, Shuffle, Type, Vote, matrix_operations, on_registers, warp_operations,
};

/// The lanes that an operation names.
pub(crate) enum Members {
    /// Every lane names the same ones.
    All(u32),
    /// Each lane has its own mask.
    Each([u32; 32]),
}

impl Members {
    /// The masks in a register, without lanes that are not `live`.
    #[inline(always)]
    pub(crate) fn new(masks: &[u32; 32], live: u32) -> Members {
        let differences = masks.iter().fold(0, |bits, mask| bits | (mask ^ masks[0]));
        if differences == 0 {
            Members::All(masks[0] & live)
        } else {
            Members::Each(masks.map(|mask| mask & live))
        }
    }

    /// The lanes that `lane` names.
    pub(crate) fn group(&self, lane: u32) -> u32 {
        match self {
            Members::All(members) => *members,
            Members::Each(members) => members[lane as usize],
        }
    }

    /// A lane of `mask` that does not name itself.
    #[inline(always)]
    pub(crate) fn stranger(&self, mask: u32) -> Option<u32> {
        match self {
            Members::All(members) => {
                (mask & !members != 0).then(|| (mask & !members).trailing_zeros())
            }
            Members::Each(members) => {
                (0..32).find(|&l| mask >> l & 1 != 0 && members[l as usize] >> l & 1 == 0)
            }
        }
    }

    /// The lanes of `mask` that can run the operation: all that they name are in `mask` and name
    /// the same lanes.
    #[inline(always)]
    pub(crate) fn complete_in(&self, mask: u32) -> u32 {
        match self {
            Members::All(members) if members & !mask == 0 => mask,
            Members::All(_) => 0,
            Members::Each(members) => complete_groups(members, mask),
        }
    }

    /// A lane of `mask` that names another one of `mask` that names different lanes, and that other
    /// lane.
    pub(crate) fn disagreement(&self, mask: u32) -> Option<(u32, u32)> {
        let Members::Each(members) = self else {
            return None;
        };
        lanes(mask).find_map(|lane| {
            let mut others = lanes(members[lane] & mask);
            let other = others.find(|&other| members[other] != members[lane])?;
            Some((lane as u32, other as u32))
        })
    }

    fn each(&self) -> [u32; 32] {
        match self {
            Members::All(members) => [*members; 32],
            Members::Each(members) => *members,
        }
    }
}

/// As [`Members::complete_in`], where the lanes may name different ones. Each lane names itself.
fn complete_groups(members: &[u32; 32], mask: u32) -> u32 {
    let mut complete = 0;
    let mut left = mask;
    while left != 0 {
        let first = left.trailing_zeros();
        let group = members[first as usize];
        if group & !mask == 0 && lanes(group).all(|lane| members[lane] == group) {
            complete |= group;
        }
        left &= !(complete | 1 << first);
    }
    complete
}

/// Runs `op` on the lanes of `mask`. `members` are without the lanes that left. If a shuffle reads
/// a lane that does not take part, nothing is done: the lane that reads, and the one that it reads.
#[inline(always)]
pub(crate) fn execute<V: HostSimd>(
    registers: &mut Registers,
    op: &Op,
    mask: u32,
    members: &Members,
) -> Option<(u32, u32)> {
    if let Op::Shuffle {
        op, d, p, a, b, c, ..
    } = *op
    {
        return shuffle::<V>(registers, mask, members, op, d, p, [a, b, c]);
    }
    exchange(registers, op, mask, &members.each());
    None
}

#[inline(always)]
fn shuffle<V: HostSimd>(
    registers: &mut Registers,
    mask: u32,
    members: &Members,
    op: Shuffle,
    d: R,
    p: Option<P>,
    [a, b, c]: [R; 3],
) -> Option<(u32, u32)> {
    let (a, b, c): (&[u32; 32], &[u32; 32], &[u32; 32]) =
        (registers.read(a), registers.read(b), registers.read(c));
    let mut sources = [0u32; 32];
    let mut in_range = [0u32; 32];
    // One loop per kind of shuffle, so that none has a branch in it.
    macro_rules! find_sources {
        ($($op:ident)*) => {
            match op {
                $(Shuffle::$op => {
                    for lane in 0..32u32 {
                        let at = lane as usize;
                        let (source, fits) = shuffle_source(Shuffle::$op, lane, b[at], c[at]);
                        sources[at] = if fits { source } else { lane };
                        in_range[at] = u32::from(fits);
                    }
                })*
            }
        };
    }
    find_sources!(Up Down Butterfly Index);
    // Lanes that ask one that does not take part. Whoever asks a lane of a whole warp asks one that
    // is there.
    let mut asks = [0u32; 32];
    match members {
        Members::All(u32::MAX) => {}
        Members::All(members) => {
            for lane in 0..32 {
                asks[lane] = in_range[lane] & !(members >> sources[lane]) & 1;
            }
        }
        Members::Each(members) => {
            for lane in 0..32 {
                asks[lane] = in_range[lane] & !(members[lane] >> sources[lane]) & 1;
            }
        }
    }
    // SAFETY: the handlers of an instruction set run only where it is there.
    let inactive = unsafe { V::nonzero(&asks) } & mask;
    if inactive != 0 {
        let lane = inactive.trailing_zeros();
        return Some((lane, sources[lane as usize]));
    }
    // SAFETY: the handlers of an instruction set run only where it is there.
    let out = unsafe { V::permute(a, &sources) };
    registers.write(d, mask, &out);
    if let Some(p) = p {
        // SAFETY: as above.
        let bits = unsafe { V::nonzero(&in_range) };
        registers.write_predicate(p, mask, bits);
    }
    None
}

/// The operations that are not a shuffle.
#[inline(never)]
fn exchange(registers: &mut Registers, op: &Op, mask: u32, members: &[u32; 32]) {
    match *op {
        Op::Vote { op, d, p, .. } => {
            let yes = condition(registers, p);
            let bits = bits_of(members, |group| match op {
                Vote::All => yes & group == group,
                Vote::Any => yes & group != 0,
                Vote::Uniform => yes & group == group || yes & group == 0,
            });
            registers.write_predicate(d, mask, bits);
        }
        Op::Ballot { d, p, .. } => {
            let yes = condition(registers, p);
            registers.write(d, mask, &members.map(|group| yes & group));
        }
        Op::MatchAny {
            wide: true, d, a, ..
        } => match_any::<u64>(registers, mask, members, d, a),
        Op::MatchAny {
            wide: false, d, a, ..
        } => match_any::<u32>(registers, mask, members, d, a),
        Op::MatchAll { wide, d, p, a, .. } => {
            let equal = if wide {
                equal_lanes::<u64>(registers, a)
            } else {
                equal_lanes::<u32>(registers, a)
            };
            let mut out = [0; 32];
            let mut all = 0;
            for lane in 0..32 {
                if equal[lane] & members[lane] == members[lane] {
                    out[lane] = members[lane];
                    all |= 1 << lane;
                }
            }
            registers.write(d, mask, &out);
            if let Some(p) = p {
                registers.write_predicate(p, mask, all);
            }
        }
        Op::Reduce { op, ty, d, a, .. } => {
            let a: &[u32; 32] = registers.read(a);
            let mut out = [0; 32];
            for lane in 0..32 {
                let values = (0..32)
                    .filter(|other| members[lane] >> other & 1 != 0)
                    .map(|other| a[other]);
                out[lane] = values.reduce(|x, y| reduce(op, ty, x, y)).unwrap_or(0);
            }
            registers.write(d, mask, &out);
        }
        Op::Elect { d, p, .. } => {
            let leader = members.map(|group| group.trailing_zeros());
            let mut elected = 0;
            for lane in 0..32 {
                elected |= u32::from(leader[lane] == lane as u32) << lane;
            }
            registers.write_predicate(p, mask, elected);
            if let Some(d) = d {
                registers.write(d, mask, &leader);
            }
        }
        Op::WarpBarrier { .. } => {}
        _ => unreachable!("not an operation between lanes"),
    }
}

/// The register with the member mask of a `.sync` operation.
pub(crate) fn members_of(op: &Op) -> Option<R> {
    match *op {
        Op::Shuffle { members, .. }
        | Op::Vote { members, .. }
        | Op::Ballot { members, .. }
        | Op::MatchAny { members, .. }
        | Op::MatchAll { members, .. }
        | Op::Reduce { members, .. }
        | Op::Elect { members, .. }
        | Op::WarpBarrier { members } => Some(members),
        on_registers!()
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::Atomic { .. }
        | Op::CopyAsync(_)
        | Op::BulkCopy(_)
        | Op::Mbarrier(_)
        | matrix_operations!()
        | Op::WarpgroupProduct(_)
        | warp_operations!() => None,
    }
}

/// The lane that `lane` reads, and whether it is in range; if not, the lane keeps its own value.
#[inline(always)]
pub(crate) fn shuffle_source(op: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let b = b & 31;
    let max = (lane & segment) | (clamp & !segment);
    let (source, in_range) = match op {
        Shuffle::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= max as i32),
        Shuffle::Down => (lane + b, lane + b <= max),
        Shuffle::Butterfly => (lane ^ b, lane ^ b <= max),
        Shuffle::Index => {
            let source = (lane & segment) | (b & !segment);
            (source, source <= max)
        }
    };
    (source & 31, in_range)
}

fn bits_of(members: &[u32; 32], f: impl Fn(u32) -> bool) -> u32 {
    members
        .iter()
        .enumerate()
        .fold(0, |bits, (lane, &group)| bits | u32::from(f(group)) << lane)
}

/// For each lane, the lanes with the same value.
fn equal_lanes<T: Raw + PartialEq>(registers: &Registers, a: R) -> [u32; 32] {
    let a: &[T; 32] = registers.read(a);
    std::array::from_fn(|lane| {
        (0..32).fold(0, |bits, other| {
            bits | u32::from(a[other] == a[lane]) << other
        })
    })
}

fn match_any<T: Raw + PartialEq>(
    registers: &mut Registers,
    mask: u32,
    members: &[u32; 32],
    d: R,
    a: R,
) {
    let equal = equal_lanes::<T>(registers, a);
    registers.write(
        d,
        mask,
        &std::array::from_fn::<u32, 32, _>(|lane| equal[lane] & members[lane]),
    );
}

fn reduce(op: Reduction, ty: Type, x: u32, y: u32) -> u32 {
    let signed = ty == Type::S32;
    match op {
        Reduction::Add => x.wrapping_add(y),
        Reduction::Min if signed => (x as i32).min(y as i32) as u32,
        Reduction::Max if signed => (x as i32).max(y as i32) as u32,
        Reduction::Min => x.min(y),
        Reduction::Max => x.max(y),
        Reduction::And => x & y,
        Reduction::Or => x | y,
        Reduction::Xor => x ^ y,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_complete_when_all_their_lanes_are_there_and_name_the_same() {
        let mut masks = [0xff00_0000; 32];
        masks[..8].fill(0x0000_00ff);
        masks[8..24].fill(0x00ff_ff00);
        let groups = Members::new(&masks, u32::MAX);
        assert_eq!(groups.complete_in(u32::MAX), u32::MAX);
        assert_eq!(groups.complete_in(0x00ff_01ff), 0x0000_00ff);
        assert_eq!(groups.disagreement(u32::MAX), None);
        // Lane 9 names a group that it shares with lanes of two others.
        masks[9] = 0x0000_0201;
        let mixed = Members::new(&masks, u32::MAX);
        assert_eq!(mixed.complete_in(u32::MAX), 0xff00_00ff);
        assert_eq!(mixed.disagreement(u32::MAX), Some((8, 9)));
        assert_eq!(mixed.disagreement(0x0000_02ff), Some((9, 0)));
    }

    #[test]
    fn lanes_that_have_left_neither_miss_nor_disagree() {
        let mut masks = [u32::MAX; 32];
        masks[..16].fill(0x0000_ffff);
        let members = Members::new(&masks, 0x0000_ffff);
        assert_eq!(members.complete_in(0x0000_ffff), 0x0000_ffff);
        assert_eq!(members.disagreement(0x0000_ffff), None);
    }
}
