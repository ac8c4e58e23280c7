//! Exchange between the lanes of a warp. All lanes that an operation names are there: the warp sees to it.

use super::predicate::condition;
use super::registers::{Raw, Registers};
use crate::program::op::{Op, R, Reduction, Shuffle, Type, Vote};

/// Runs `op` on the lanes of `mask`. `members` has each lane's own mask, without the lanes that left.
pub(super) fn execute(registers: &mut Registers, op: &Op, mask: u32, members: &[u32; 32]) {
    match *op {
        Op::Shuffle {
            op, d, p, a, b, c, ..
        } => {
            let (a, b, c): (&[u32; 32], &[u32; 32], &[u32; 32]) =
                (registers.read(a), registers.read(b), registers.read(c));
            let mut out = [0; 32];
            let mut in_range = 0;
            for lane in 0..32u32 {
                let at = lane as usize;
                let source = shuffle_source(op, lane, b[at], c[at]);
                in_range |= u32::from(source.is_some()) << lane;
                out[at] = a[source.unwrap_or(lane) as usize];
            }
            registers.write(d, mask, &out);
            if let Some(p) = p {
                registers.write_predicate(p, mask, in_range);
            }
        }
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
pub(super) fn members_of(op: &Op) -> Option<R> {
    match *op {
        Op::Shuffle { members, .. }
        | Op::Vote { members, .. }
        | Op::Ballot { members, .. }
        | Op::MatchAny { members, .. }
        | Op::MatchAll { members, .. }
        | Op::Reduce { members, .. }
        | Op::Elect { members, .. }
        | Op::WarpBarrier { members } => Some(members),
        _ => None,
    }
}

/// The lane that `lane` reads, or `None` if it is out of range and the lane keeps its own value.
pub(super) fn shuffle_source(op: Shuffle, lane: u32, b: u32, c: u32) -> Option<u32> {
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let b = b & 31;
    let max = (lane & segment) | (clamp & !segment);
    let min = lane & segment;
    let (source, in_range) = match op {
        Shuffle::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= max as i32),
        Shuffle::Down => (lane + b, lane + b <= max),
        Shuffle::Butterfly => (lane ^ b, lane ^ b <= max),
        Shuffle::Index => {
            let source = min | (b & !segment);
            (source, source <= max)
        }
    };
    in_range.then_some(source & 31)
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
