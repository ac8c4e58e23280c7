//! Operations on bits, bytes and fields of bits.

use crate::exec::registers::Registers;
use crate::program::op::{Bits, Op};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::Bits { op, d, a, b, c } => {
            let f = |a: u32, b: u32, c: u32| bits(op, a, b, c);
            registers.ternary_by(mask, d, [a, b, c], &f);
        }
        Op::BitExtract {
            ty,
            d,
            a,
            start,
            length,
        } => {
            let (wide, signed) = (ty.is_wide(), ty.is_signed());
            let a = registers.read_either(a, wide);
            let (start, n): (&[u32; 32], &[u32; 32]) =
                (registers.read(start), registers.read(length));
            let out = std::array::from_fn(|lane| {
                extract(a[lane], ty.bytes() * 8, signed, start[lane], n[lane])
            });
            registers.write_either(d, wide, mask, &out);
        }
        Op::BitInsert {
            wide,
            d,
            a,
            b,
            start,
            length,
        } => {
            let [a, b] = [a, b].map(|r| registers.read_either(r, wide));
            let (start, n): (&[u32; 32], &[u32; 32]) =
                (registers.read(start), registers.read(length));
            let width = if wide { 64 } else { 32 };
            let out =
                std::array::from_fn(|lane| insert(a[lane], b[lane], width, start[lane], n[lane]));
            registers.write_either(d, wide, mask, &out);
        }
        Op::SignExtend {
            signed,
            wrap,
            d,
            a,
            bits,
        } => registers.binary_by(mask, d, a, bits, &|a: u32, n: u32| {
            let n = if wrap { n & 31 } else { n.min(32) };
            match (n, signed) {
                (0, _) => 0,
                (32, _) => a,
                (n, true) => ((a << (32 - n)) as i32 >> (32 - n)) as u32,
                (n, false) => a & ((1 << n) - 1),
            }
        }),
        _ => unreachable!("not an operation on bits"),
    }
}

/// PTX says that the low 8 bits of a place or length count. On GPUs, where fields of 64 bits take
/// several instructions, all bits of theirs do.
fn counted(width: u32, count: u32) -> u32 {
    if width == 64 { count } else { count & 0xff }
}

/// `bfe`: `n` bits of `a` from bit `start`, extended by zeros or by the sign of the field.
fn extract(a: u64, width: u32, signed: bool, start: u32, n: u32) -> u64 {
    let [start, n] = [start, n].map(|count| counted(width, count));
    if n == 0 {
        return 0;
    }
    let sign_at = start.saturating_add(n - 1).min(width - 1);
    let sign = signed && a >> sign_at & 1 == 1;
    let mut out = if start < width { a >> start } else { 0 };
    let kept = n.min(width.saturating_sub(start));
    if kept < 64 {
        out &= (1 << kept) - 1;
        if sign {
            out |= u64::MAX << kept;
        }
    }
    out
}

/// `bfi`: the low `n` bits of `a` put into `b` at `start`.
fn insert(a: u64, b: u64, width: u32, start: u32, n: u32) -> u64 {
    let [start, n] = [start, n].map(|count| counted(width, count));
    let kept = n.min(width.saturating_sub(start));
    if kept == 0 {
        return b;
    }
    let field = (u64::MAX >> (64 - kept)) << start;
    (b & !field) | (a << start & field)
}

fn bits(op: Bits, a: u32, b: u32, c: u32) -> u32 {
    let funnel = u64::from(b) << 32 | u64::from(a);
    let choice = c as usize & 3;
    match op {
        Bits::Permute => permute(a, b, c),
        Bits::PermuteF4e => permute(a, b, 0x3210 + 0x1111 * (c & 3)),
        Bits::PermuteB4e => permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][choice]),
        Bits::PermuteRc8 => permute(a, b, 0x1111 * (c & 3)),
        Bits::PermuteEcl => permute(a, b, [0x3210, 0x3211, 0x3222, 0x3333][choice]),
        Bits::PermuteEcr => permute(a, b, [0x0000, 0x1110, 0x2210, 0x3210][choice]),
        Bits::PermuteRc16 => permute(a, b, [0x1010, 0x3232, 0x1010, 0x3232][choice]),
        Bits::Lop3(table) => (0..8)
            .filter(|row| table >> row & 1 == 1)
            .fold(0, |out, row| {
                let pick = |bit: u32, x: u32| if row >> bit & 1 == 1 { x } else { !x };
                out | pick(2, a) & pick(1, b) & pick(0, c)
            }),
        Bits::FunnelLeftClamp => (funnel << c.min(32) >> 32) as u32,
        Bits::FunnelLeftWrap => (funnel << (c & 31) >> 32) as u32,
        Bits::FunnelRightClamp => (funnel >> c.min(32)) as u32,
        Bits::FunnelRightWrap => (funnel >> (c & 31)) as u32,
        Bits::Dot4 { a_signed, b_signed } => (0..4).fold(c, |sum, i| {
            sum.wrapping_add(byte(a, i, a_signed).wrapping_mul(byte(b, i, b_signed)) as u32)
        }),
        Bits::Dot2 {
            a_signed,
            b_signed,
            high,
        } => (0..2).fold(c, |sum, i| {
            let half = a >> (16 * i);
            let half = if a_signed {
                i32::from(half as i16)
            } else {
                i32::from(half as u16)
            };
            let b = byte(b, i + 2 * u32::from(high), b_signed);
            sum.wrapping_add(half.wrapping_mul(b) as u32)
        }),
        Bits::Mad24Low { signed } => (product24(a, b, signed) as u32).wrapping_add(c),
        Bits::Mad24High { signed } => ((product24(a, b, signed) >> 16) as u32).wrapping_add(c),
        // The high half of a 48-bit product fits in 32 bits.
        Bits::Mad24HighSaturating => {
            ((product24(a, b, true) >> 16) as i32).saturating_add(c as i32) as u32
        }
        Bits::FindNth => find_nth(a, b, c),
        Bits::AbsoluteDifference { bits, sum } => {
            let lane = |x: u32, at: u32| x >> at & (u32::MAX >> (32 - u32::from(bits)));
            (0..32)
                .step_by(usize::from(bits))
                .map(|at| (at, lane(a, at).abs_diff(lane(b, at))))
                .fold(if sum { c } else { 0 }, |all, (at, difference)| match sum {
                    true => all.wrapping_add(difference),
                    false => all | difference << at,
                })
        }
        Bits::AddHalves => halves(a, b, u16::wrapping_add),
        Bits::MinMaxHalves { max, signed, relu } => halves(a, b, |a, b| {
            let a_first = if signed { (a as i16) < b as i16 } else { a < b };
            let picked = if a_first != max { a } else { b };
            if relu && (picked as i16) < 0 {
                0
            } else {
                picked
            }
        }),
        Bits::MinMaxRelu { max } => {
            let (a, b) = (a as i32, b as i32);
            (if max { a.max(b) } else { a.min(b) }).max(0) as u32
        }
        Bits::MaskClamp => mask_of(a.min(32), b.min(32)),
        Bits::MaskWrap => mask_of(a & 31, b & 31),
    }
}

/// `fns`: the set bit of `a` that is `count` set bits away from position `base`, upward or
/// downward; count 0 asks for the bit at `base` itself. All ones if there is none.
fn find_nth(a: u32, base: u32, count: u32) -> u32 {
    let set = |at: u32| a >> at & 1 == 1;
    let nth = (count as i32).unsigned_abs().saturating_sub(1) as usize;
    let found = match count as i32 {
        _ if base > 31 => None,
        0 => Some(base).filter(|&at| set(at)),
        1.. => (base..32).filter(|&at| set(at)).nth(nth),
        _ => (0..=base).rev().filter(|&at| set(at)).nth(nth),
    };
    found.unwrap_or(u32::MAX)
}

fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16 | u32::from(f(a as u16, b as u16))
}

/// `prmt`: four bytes picked from the eight of `b:a`, each maybe replaced by its sign.
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let pool = u64::from(b) << 32 | u64::from(a);
    let mut out = 0;
    for i in 0..4 {
        let pick = selector >> (4 * i) & 0xf;
        let byte = (pool >> (8 * (pick & 7))) as u8;
        let byte = if pick & 8 == 0 {
            byte
        } else {
            ((byte as i8) >> 7) as u8
        };
        out |= u32::from(byte) << (8 * i);
    }
    out
}

fn byte(x: u32, i: u32, signed: bool) -> i32 {
    let byte = (x >> (8 * i)) as u8;
    if signed {
        i32::from(byte as i8)
    } else {
        i32::from(byte)
    }
}

fn product24(a: u32, b: u32, signed: bool) -> i64 {
    let low24 = |x: u32| {
        if signed {
            i64::from((x << 8) as i32 >> 8)
        } else {
            i64::from(x & 0xff_ffff)
        }
    };
    low24(a) * low24(b)
}

fn mask_of(start: u32, length: u32) -> u32 {
    (((1u64 << length) - 1) << start) as u32
}
