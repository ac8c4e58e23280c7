//! Integer and bit operations.

use super::registers::{Registers, Value};
use crate::program::op::{Bits, CarryOp, Count, IntBinary, IntTernary, IntUnary, Op, R, Type};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(super) fn execute(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::IntUnary { op, ty, d, a } => match ty {
            Type::U32 | Type::S32 if op == IntUnary::Not => {
                registers.unary(mask, d, a, |a: u32| !a);
            }
            Type::U32 | Type::S32 if op == IntUnary::Neg => {
                registers.unary(mask, d, a, u32::wrapping_neg);
            }
            Type::U16 => unary::<u16>(registers, mask, op, d, a),
            Type::S16 => unary::<i16>(registers, mask, op, d, a),
            Type::U32 => unary::<u32>(registers, mask, op, d, a),
            Type::S32 => unary::<i32>(registers, mask, op, d, a),
            Type::U64 => unary::<u64>(registers, mask, op, d, a),
            Type::S64 => unary::<i64>(registers, mask, op, d, a),
            Type::U8 | Type::S8 | Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => {}
        },
        Op::IntBinary { op, ty, d, a, b } => {
            use IntBinary::{Add, And, Max, Min, MulLow, Or, ShiftLeft, ShiftRight, Sub, Xor};
            match (op, ty) {
                // Where the sign does not matter, signed types run as unsigned ones.
                (Add | Sub | MulLow | And | Or | Xor | ShiftLeft, Type::U32 | Type::S32) => {
                    common::<u32>(registers, mask, op, d, a, b);
                }
                (Add | Sub | MulLow | And | Or | Xor | ShiftLeft, Type::U64 | Type::S64) => {
                    common::<u64>(registers, mask, op, d, a, b);
                }
                (Min | Max | ShiftRight, Type::U32) => ordered::<u32>(registers, mask, op, d, a, b),
                (Min | Max | ShiftRight, Type::S32) => ordered::<i32>(registers, mask, op, d, a, b),
                (Min | Max | ShiftRight, Type::U64) => ordered::<u64>(registers, mask, op, d, a, b),
                (Min | Max | ShiftRight, Type::S64) => ordered::<i64>(registers, mask, op, d, a, b),
                (_, Type::U16) => rare::<u16>(registers, mask, op, d, a, b),
                (_, Type::S16) => rare::<i16>(registers, mask, op, d, a, b),
                (_, Type::U32) => rare::<u32>(registers, mask, op, d, a, b),
                (_, Type::S32) => rare::<i32>(registers, mask, op, d, a, b),
                (_, Type::U64) => rare::<u64>(registers, mask, op, d, a, b),
                (_, Type::S64) => rare::<i64>(registers, mask, op, d, a, b),
                (_, Type::U8 | Type::S8 | Type::F16 | Type::Bf16 | Type::F32 | Type::F64) => {}
            }
        }
        Op::IntTernary { op, ty, d, a, b, c } => match (op, ty) {
            (IntTernary::MadLow, Type::U32 | Type::S32) => {
                registers.ternary(mask, d, [a, b, c], |a: u32, b: u32, c: u32| {
                    a.mul_low(b).add(c)
                });
            }
            (IntTernary::MadLow, Type::U64 | Type::S64) => {
                registers.ternary(mask, d, [a, b, c], |a: u64, b: u64, c: u64| {
                    a.mul_low(b).add(c)
                });
            }
            (_, Type::U16) => ternary::<u16>(registers, mask, op, d, [a, b, c]),
            (_, Type::S16) => ternary::<i16>(registers, mask, op, d, [a, b, c]),
            (_, Type::U32) => ternary::<u32>(registers, mask, op, d, [a, b, c]),
            (_, Type::S32) => ternary::<i32>(registers, mask, op, d, [a, b, c]),
            (_, Type::U64) => ternary::<u64>(registers, mask, op, d, [a, b, c]),
            (_, Type::S64) => ternary::<i64>(registers, mask, op, d, [a, b, c]),
            (_, Type::U8 | Type::S8 | Type::F16 | Type::Bf16 | Type::F32 | Type::F64) => {}
        },
        Op::MadWide { ty, d, a, b, c } => {
            let r = [a, b, c];
            match ty {
                Type::U16 => registers.ternary_by(mask, d, r, &|a: u16, b: u16, c: u32| {
                    (u32::from(a) * u32::from(b)).wrapping_add(c)
                }),
                Type::S16 => registers.ternary_by(mask, d, r, &|a: i16, b: i16, c: i32| {
                    (i32::from(a) * i32::from(b)).wrapping_add(c)
                }),
                Type::U32 => registers.ternary(mask, d, r, |a: u32, b: u32, c: u64| {
                    (u64::from(a) * u64::from(b)).wrapping_add(c)
                }),
                Type::S32 => registers.ternary(mask, d, r, |a: i32, b: i32, c: i64| {
                    (i64::from(a) * i64::from(b)).wrapping_add(c)
                }),
                _ => {}
            }
        }
        Op::Count { op, ty, d, a } => match ty {
            Type::U32 => count::<u32>(registers, mask, op, d, a),
            Type::S32 => count::<i32>(registers, mask, op, d, a),
            Type::U64 => count::<u64>(registers, mask, op, d, a),
            Type::S64 => count::<i64>(registers, mask, op, d, a),
            _ => {}
        },
        Op::Bits { op, d, a, b, c } => bits(registers, mask, op, d, [a, b, c]),
        Op::BitExtract {
            ty,
            d,
            a,
            start,
            length,
        } => {
            let r = [a, start, length];
            let signed = ty.is_signed();
            if ty.is_wide() {
                registers.ternary_by(mask, d, r, &|a: u64, s: u32, n: u32| {
                    extract(a, 64, signed, s, n)
                });
            } else {
                registers.ternary_by(mask, d, r, &|a: u32, s: u32, n: u32| {
                    extract(u64::from(a), 32, signed, s, n) as u32
                });
            }
        }
        Op::BitInsert {
            wide,
            d,
            a,
            b,
            start,
            length,
        } => {
            // Field position and length are one value per lane, so that three sources are enough.
            let (s, n): (&[u32; 32], &[u32; 32]) = (registers.read(start), registers.read(length));
            let mut field = [(0, 0); 32];
            for lane in 0..32 {
                field[lane] = (s[lane] & 0xff, n[lane] & 0xff);
            }
            if wide {
                let (a, b): (&[u64; 32], &[u64; 32]) = (registers.read(a), registers.read(b));
                let out = std::array::from_fn(|lane| insert(a[lane], b[lane], 64, field[lane]));
                registers.write::<u64>(d, mask, &out);
            } else {
                let (a, b): (&[u32; 32], &[u32; 32]) = (registers.read(a), registers.read(b));
                let out = std::array::from_fn(|lane| {
                    insert(u64::from(a[lane]), u64::from(b[lane]), 32, field[lane]) as u32
                });
                registers.write::<u32>(d, mask, &out);
            }
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
        Op::Carry {
            op,
            wide,
            carry_in,
            carry_out,
            d,
            a,
            b,
            c,
        } => {
            if wide {
                carry(
                    registers,
                    mask,
                    (op, carry_in, carry_out),
                    d,
                    [a, b, c],
                    &Wide,
                );
            } else {
                carry(
                    registers,
                    mask,
                    (op, carry_in, carry_out),
                    d,
                    [a, b, c],
                    &Narrow,
                );
            }
        }
        _ => unreachable!("not an integer operation"),
    }
}

/// The integers that PTX computes with.
trait Int: Value + Ord {
    const BITS: u32;
    /// All bits set: what division by zero gives.
    const ONES: Self;
    fn add(self, o: Self) -> Self;
    fn add_saturating(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn sub_saturating(self, o: Self) -> Self;
    fn mul_low(self, o: Self) -> Self;
    fn mul_high(self, o: Self) -> Self;
    fn div(self, o: Self) -> Self;
    fn rem(self, o: Self) -> Self;
    fn and(self, o: Self) -> Self;
    fn or(self, o: Self) -> Self;
    fn xor(self, o: Self) -> Self;
    fn shift_left(self, n: u32) -> Self;
    fn shift_right(self, n: u32) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn not(self) -> Self;
    fn is_zero(self) -> Self;
    fn reverse(self) -> Self;
    fn ones(self) -> u32;
    fn leading_zeros(self) -> u32;
    /// Leading bits that only repeat the sign; for unsigned types, leading zeros.
    fn redundant_bits(self) -> u32;
}

macro_rules! int {
    ($($ty:ident, $double:ident, $signed:expr;)*) => {$(
        impl Int for $ty {
            const BITS: u32 = $ty::BITS;
            const ONES: Self = !0;
            #[inline(always)]
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline(always)]
            fn add_saturating(self, o: Self) -> Self { self.saturating_add(o) }
            #[inline(always)]
            fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
            #[inline(always)]
            fn sub_saturating(self, o: Self) -> Self { self.saturating_sub(o) }
            #[inline(always)]
            fn mul_low(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline(always)]
            fn mul_high(self, o: Self) -> Self { ((self as $double * o as $double) >> $ty::BITS) as $ty }
            #[inline(always)]
            fn div(self, o: Self) -> Self { if o == 0 { Self::ONES } else { self.wrapping_div(o) } }
            #[inline(always)]
            fn rem(self, o: Self) -> Self { if o == 0 { self } else { self.wrapping_rem(o) } }
            #[inline(always)]
            fn and(self, o: Self) -> Self { self & o }
            #[inline(always)]
            fn or(self, o: Self) -> Self { self | o }
            #[inline(always)]
            fn xor(self, o: Self) -> Self { self ^ o }
            #[inline(always)]
            fn shift_left(self, n: u32) -> Self { if n < $ty::BITS { self << n } else { 0 } }
            #[inline(always)]
            fn shift_right(self, n: u32) -> Self {
                if n < $ty::BITS { self >> n } else if $signed { self >> ($ty::BITS - 1) } else { 0 }
            }
            #[inline(always)]
            fn neg(self) -> Self { (0 as $ty).wrapping_sub(self) }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(self) -> Self { if self < 0 { (0 as $ty).wrapping_sub(self) } else { self } }
            #[inline(always)]
            fn not(self) -> Self { !self }
            #[inline(always)]
            fn is_zero(self) -> Self { (self == 0) as $ty }
            #[inline(always)]
            fn reverse(self) -> Self { self.reverse_bits() }
            #[inline(always)]
            fn ones(self) -> u32 { self.count_ones() }
            #[inline(always)]
            fn leading_zeros(self) -> u32 { $ty::leading_zeros(self) }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn redundant_bits(self) -> u32 { $ty::leading_zeros(if $signed && self < 0 { !self } else { self }) }
        }
    )*};
}

int! {
    u16, u32, false;
    i16, i32, true;
    u32, u64, false;
    i32, i64, true;
    u64, u128, false;
    i64, i128, true;
}

fn unary<T: Int>(registers: &mut Registers, mask: u32, op: IntUnary, d: R, a: R) {
    let f: fn(T) -> T = match op {
        IntUnary::Neg => T::neg,
        IntUnary::Abs => T::abs,
        IntUnary::Not => T::not,
        IntUnary::Cnot => T::is_zero,
        IntUnary::Reverse => T::reverse,
    };
    registers.unary_by(mask, d, a, &f);
}

/// Operations that index arithmetic is made of.
#[inline(always)]
fn common<T: Int>(registers: &mut Registers, mask: u32, op: IntBinary, d: R, a: R, b: R) {
    match op {
        IntBinary::Add => registers.binary(mask, d, a, b, T::add),
        IntBinary::Sub => registers.binary(mask, d, a, b, T::sub),
        IntBinary::MulLow => registers.binary(mask, d, a, b, T::mul_low),
        IntBinary::And => registers.binary(mask, d, a, b, T::and),
        IntBinary::Or => registers.binary(mask, d, a, b, T::or),
        IntBinary::Xor => registers.binary(mask, d, a, b, T::xor),
        _ => registers.binary(mask, d, a, b, T::shift_left),
    }
}

/// Common operations for which the sign matters.
#[inline(always)]
fn ordered<T: Int>(registers: &mut Registers, mask: u32, op: IntBinary, d: R, a: R, b: R) {
    match op {
        IntBinary::Min => registers.binary(mask, d, a, b, |a: T, b: T| a.min(b)),
        IntBinary::Max => registers.binary(mask, d, a, b, |a: T, b: T| a.max(b)),
        _ => registers.binary(mask, d, a, b, T::shift_right),
    }
}

fn rare<T: Int>(registers: &mut Registers, mask: u32, op: IntBinary, d: R, a: R, b: R) {
    let f: fn(T, T) -> T = match op {
        IntBinary::ShiftLeft => return registers.binary_by(mask, d, a, b, &T::shift_left),
        IntBinary::ShiftRight => return registers.binary_by(mask, d, a, b, &T::shift_right),
        IntBinary::Add => T::add,
        IntBinary::AddSaturating => T::add_saturating,
        IntBinary::Sub => T::sub,
        IntBinary::SubSaturating => T::sub_saturating,
        IntBinary::MulLow => T::mul_low,
        IntBinary::MulHigh => T::mul_high,
        IntBinary::Div => T::div,
        IntBinary::Rem => T::rem,
        IntBinary::Min => |a, b| a.min(b),
        IntBinary::Max => |a, b| a.max(b),
        IntBinary::And => T::and,
        IntBinary::Or => T::or,
        IntBinary::Xor => T::xor,
    };
    registers.binary_by(mask, d, a, b, &f);
}

fn ternary<T: Int>(registers: &mut Registers, mask: u32, op: IntTernary, d: R, r: [R; 3]) {
    let f: fn(T, T, T) -> T = match op {
        IntTernary::MadLow => |a, b, c| a.mul_low(b).add(c),
        IntTernary::MadHigh => |a, b, c| a.mul_high(b).add(c),
        IntTernary::MadHighSaturating => |a, b, c| a.mul_high(b).add_saturating(c),
        IntTernary::Sad => |a, b, c| c.add(a.max(b).sub(a.min(b))),
    };
    registers.ternary_by(mask, d, r, &f);
}

fn count<T: Int>(registers: &mut Registers, mask: u32, op: Count, d: R, a: R) {
    let f: fn(T) -> u32 = match op {
        Count::Ones => T::ones,
        Count::LeadingZeros => T::leading_zeros,
        Count::HighestBit => |a| match a.redundant_bits() {
            n if n == T::BITS => u32::MAX,
            n => T::BITS - 1 - n,
        },
        Count::HighestBitShift => |a| match a.redundant_bits() {
            n if n == T::BITS => u32::MAX,
            n => n,
        },
    };
    registers.unary_by(mask, d, a, &f);
}

/// `bfe`: `n` bits of `a` from bit `start`, extended by zeros or by the sign of the field.
fn extract(a: u64, width: u32, signed: bool, start: u32, n: u32) -> u64 {
    let (start, n) = (start & 0xff, n & 0xff);
    if n == 0 {
        return 0;
    }
    let sign_at = (start + n - 1).min(width - 1);
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
fn insert(a: u64, b: u64, width: u32, (start, n): (u32, u32)) -> u64 {
    let kept = n.min(width.saturating_sub(start));
    if kept == 0 {
        return b;
    }
    let field = (u64::MAX >> (64 - kept)) << start;
    (b & !field) | (a << start & field)
}

fn bits(registers: &mut Registers, mask: u32, op: Bits, d: R, r: [R; 3]) {
    let funnel = |a: u32, b: u32| u64::from(b) << 32 | u64::from(a);
    match op {
        Bits::Permute => {
            registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| permute(a, b, c))
        }
        Bits::PermuteF4e => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            permute(a, b, 0x3210 + 0x1111 * (c & 3))
        }),
        Bits::PermuteB4e => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][c as usize & 3])
        }),
        Bits::PermuteRc8 => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            permute(a, b, 0x1111 * (c & 3))
        }),
        Bits::PermuteEcl => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            permute(a, b, [0x3210, 0x3211, 0x3222, 0x3333][c as usize & 3])
        }),
        Bits::PermuteEcr => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            permute(a, b, [0x0000, 0x1110, 0x2210, 0x3210][c as usize & 3])
        }),
        Bits::PermuteRc16 => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            permute(a, b, [0x1010, 0x3232, 0x1010, 0x3232][c as usize & 3])
        }),
        Bits::Lop3(table) => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            let mut out = 0;
            for row in 0..8 {
                let pick = |bit: u32, x: u32| if row >> bit & 1 == 1 { x } else { !x };
                let term = pick(2, a) & pick(1, b) & pick(0, c);
                out |= if table >> row & 1 == 1 { term } else { 0 };
            }
            out
        }),
        Bits::FunnelLeftClamp => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            (funnel(a, b) << c.min(32) >> 32) as u32
        }),
        Bits::FunnelLeftWrap => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            (funnel(a, b) << (c & 31) >> 32) as u32
        }),
        Bits::FunnelRightClamp => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            (funnel(a, b) >> c.min(32)) as u32
        }),
        Bits::FunnelRightWrap => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            (funnel(a, b) >> (c & 31)) as u32
        }),
        Bits::Dot4 { a_signed, b_signed } => {
            registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
                (0..4).fold(c, |sum, i| {
                    sum.wrapping_add(byte(a, i, a_signed).wrapping_mul(byte(b, i, b_signed)) as u32)
                })
            })
        }
        Bits::Dot2 {
            a_signed,
            b_signed,
            high,
        } => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            (0..2).fold(c, |sum, i| {
                let half = a >> (16 * i);
                let half = if a_signed {
                    i32::from(half as i16)
                } else {
                    i32::from(half as u16)
                };
                sum.wrapping_add(
                    half.wrapping_mul(byte(b, i + 2 * u32::from(high), b_signed)) as u32,
                )
            })
        }),
        Bits::Mad24Low { signed } => registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
            (product24(a, b, signed) as u32).wrapping_add(c)
        }),
        Bits::Mad24High { signed } => {
            registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
                ((product24(a, b, signed) >> 16) as u32).wrapping_add(c)
            })
        }
        Bits::Mad24HighSaturating => {
            registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: i32| {
                // The high half of a 48-bit product fits in 32 bits.
                ((product24(a, b, true) >> 16) as i32).saturating_add(c)
            })
        }
        Bits::FindNth => registers.ternary_by(mask, d, r, &find_nth),
        Bits::AbsoluteDifference { bits, sum } => {
            registers.ternary_by(mask, d, r, &|a: u32, b: u32, c: u32| {
                let lane = |x: u32, at: u32| x >> at & (u32::MAX >> (32 - u32::from(bits)));
                (0..32)
                    .step_by(usize::from(bits))
                    .map(|at| (at, lane(a, at).abs_diff(lane(b, at))))
                    .fold(if sum { c } else { 0 }, |all, (at, difference)| match sum {
                        true => all.wrapping_add(difference),
                        false => all | difference << at,
                    })
            })
        }
        Bits::AddHalves => registers.binary_by(mask, d, r[0], r[1], &|a: u32, b: u32| {
            halves(a, b, |a, b| a.wrapping_add(b))
        }),
        Bits::MinMaxHalves { max, signed, relu } => {
            registers.binary_by(mask, d, r[0], r[1], &|a: u32, b: u32| {
                halves(a, b, |a, b| {
                    let a_first = if signed { (a as i16) < b as i16 } else { a < b };
                    let picked = if a_first != max { a } else { b };
                    if relu && (picked as i16) < 0 {
                        0
                    } else {
                        picked
                    }
                })
            })
        }
        Bits::MinMaxRelu { max } => registers.binary_by(mask, d, r[0], r[1], &|a: i32, b: i32| {
            (if max { a.max(b) } else { a.min(b) }).max(0)
        }),
        Bits::MaskClamp => registers.binary_by(mask, d, r[0], r[1], &|a: u32, b: u32| {
            mask_of(a.min(32), b.min(32))
        }),
        Bits::MaskWrap => registers.binary_by(mask, d, r[0], r[1], &|a: u32, b: u32| {
            mask_of(a & 31, b & 31)
        }),
    }
}

/// `fns`: the set bit of `a` that is `count` set bits away from position `base`, upward or downward; count 0 asks for
/// the bit at `base` itself. All ones if there is none.
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

/// The two widths of extended-precision arithmetic.
trait Width {
    type Raw: super::registers::Raw + Into<u128>;
    const BITS: u32;
    fn narrow(value: u128) -> Self::Raw;
}

struct Narrow;
struct Wide;

impl Width for Narrow {
    type Raw = u32;
    const BITS: u32 = 32;
    fn narrow(value: u128) -> u32 {
        value as u32
    }
}

impl Width for Wide {
    type Raw = u64;
    const BITS: u32 = 64;
    fn narrow(value: u128) -> u64 {
        value as u64
    }
}

fn carry<W: Width>(
    registers: &mut Registers,
    mask: u32,
    (op, carry_in, carry_out): (CarryOp, bool, bool),
    d: R,
    [a, b, c]: [R; 3],
    _: &W,
) {
    let a = registers.read::<W::Raw>(a);
    let b = registers.read::<W::Raw>(b);
    let c = registers.read::<W::Raw>(c);
    let low = (1u128 << W::BITS) - 1;
    let mut out = [W::Raw::default(); 32];
    let mut carries = 0;
    for lane in 0..32 {
        let (a, b, c): (u128, u128, u128) = (a[lane].into(), b[lane].into(), c[lane].into());
        let carried = u128::from(carry_in && registers.carry >> lane & 1 == 1);
        let half = |signed: bool, high: bool| {
            let extend = |x: u128| ((x << (128 - W::BITS)) as i128 >> (128 - W::BITS)) as u128;
            let product = if signed {
                extend(a).wrapping_mul(extend(b))
            } else {
                a * b
            };
            (if high { product >> W::BITS } else { product }) & low
        };
        let sum = match op {
            CarryOp::Add => a + b + carried,
            // The borrow is the bit that overflows.
            CarryOp::Sub => a.wrapping_sub(b).wrapping_sub(carried),
            CarryOp::MadLow { signed } => half(signed, false) + c + carried,
            CarryOp::MadHigh { signed } => half(signed, true) + c + carried,
        };
        out[lane] = W::narrow(sum);
        carries |= ((sum >> W::BITS & 1) as u32) << lane;
    }
    registers.write(d, mask, &out);
    if carry_out {
        registers.carry = (registers.carry & !mask) | (carries & mask);
    }
}
