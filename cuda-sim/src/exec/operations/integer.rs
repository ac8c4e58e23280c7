//! Integer arithmetic.

use crate::exec::registers::{Registers, Value};
use crate::program::op::{CarryOp, Count, IntBinary, IntTernary, IntUnary, Op, R, Type};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute(registers: &mut Registers, op: &Op, mask: u32) {
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
            let kind = (op, carry_in, carry_out);
            carry(registers, mask, kind, wide, d, [a, b, c]);
        }
        _ => unreachable!("not an integer operation"),
    }
}

/// The integers that PTX computes with.
trait Int: Value + Ord {
    const BITS: u32;
    /// All bits set: what division by zero gives, and the remainder if there are at most 32.
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
            fn rem(self, o: Self) -> Self {
                if o != 0 {
                    self.wrapping_rem(o)
                } else if $ty::BITS <= 32 {
                    Self::ONES
                } else {
                    self
                }
             }
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

/// Extended-precision arithmetic.
fn carry(
    registers: &mut Registers,
    mask: u32,
    (op, carry_in, carry_out): (CarryOp, bool, bool),
    wide: bool,
    d: R,
    r: [R; 3],
) {
    let width = if wide { 64 } else { 32 };
    let [a, b, c] = r.map(|r| registers.read_either(r, wide).map(u128::from));
    let low = (1u128 << width) - 1;
    let mut out = [0; 32];
    let mut carries = 0;
    for lane in 0..32 {
        let (a, b, c) = (a[lane], b[lane], c[lane]);
        let carried = u128::from(carry_in && registers.carry >> lane & 1 == 1);
        let half = |signed: bool, high: bool| {
            let extend = |x: u128| ((x << (128 - width)) as i128 >> (128 - width)) as u128;
            let product = if signed {
                extend(a).wrapping_mul(extend(b))
            } else {
                a * b
            };
            (if high { product >> width } else { product }) & low
        };
        let sum = match op {
            CarryOp::Add => a + b + carried,
            // The borrow is the bit that overflows.
            CarryOp::Sub => a.wrapping_sub(b).wrapping_sub(carried),
            CarryOp::MadLow { signed } => half(signed, false) + c + carried,
            CarryOp::MadHigh { signed } => half(signed, true) + c + carried,
        };
        out[lane] = sum as u64;
        carries |= ((sum >> width & 1) as u32) << lane;
    }
    registers.write_either(d, wide, mask, &out);
    if carry_out {
        registers.carry = (registers.carry & !mask) | (carries & mask);
    }
}
