//! Comparisons and logic on predicates.

use std::array;
use std::cmp::Ordering;

use crate::exec::half_float::{BF16, F16, flushed, widen};
use crate::exec::host_simd::HostSimd;
use crate::exec::operations::rounding::Float;
use crate::exec::registers::{Registers, Value};
use crate::program::op::{Comparison, Condition, Logic, Op, R, Type};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute<V: HostSimd>(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::Compare {
            op,
            ty,
            ftz,
            d,
            q,
            a,
            b,
            with,
        } => {
            let bits = compare::<V>(registers, op, ty, ftz, a, b);
            let first = combine(registers, with, bits);
            if let Some(q) = q {
                let second = combine(registers, with, !bits);
                registers.write_predicate(q, mask, second);
            }
            registers.write_predicate(d, mask, first);
        }
        Op::CompareValue {
            op,
            ty,
            ftz,
            yes,
            d,
            a,
            b,
            with,
        } => {
            let bits = compare::<V>(registers, op, ty, ftz, a, b);
            let bits = combine(registers, with, bits);
            let out: [u32; 32] = array::from_fn(|lane| value(bits, lane, yes));
            registers.write(d, mask, &out);
        }
        Op::ComparePair {
            op,
            ty,
            ftz,
            d,
            q,
            a,
            b,
            with,
        } => {
            let [low, high] = compare_pair(registers, op, ty, ftz, a, b)
                .map(|bits| combine(registers, with, bits));
            registers.write_predicate(d, mask, low);
            registers.write_predicate(q, mask, high);
        }
        Op::ComparePairValue {
            op,
            ty,
            ftz,
            yes,
            d,
            a,
            b,
            with,
        } => {
            let [low, high] = compare_pair(registers, op, ty, ftz, a, b)
                .map(|bits| combine(registers, with, bits));
            let yes = u32::from(yes);
            let out: [u32; 32] =
                array::from_fn(|lane| value(high, lane, yes) << 16 | value(low, lane, yes));
            registers.write(d, mask, &out);
        }
        Op::PredicateLogic { op, d, a, b } => {
            let bits = logic(op, condition(registers, a), condition(registers, b));
            registers.write_predicate(d, mask, bits);
        }
        Op::PredicateMove { d, a } => {
            let bits = condition(registers, a);
            registers.write_predicate(d, mask, bits);
        }
        _ => unreachable!("not a predicate operation"),
    }
}

/// Result of `set` for a lane: `yes` if its bit is set, else 0.
#[inline(always)]
fn value(bits: u32, lane: usize, yes: u32) -> u32 {
    if bits >> lane & 1 != 0 { yes } else { 0 }
}

/// The lanes for which `condition` holds.
#[inline(always)]
pub(crate) fn condition(registers: &Registers, condition: Condition) -> u32 {
    let bits = registers.predicate(condition.p);
    if condition.negate { !bits } else { bits }
}

#[inline(always)]
fn combine(registers: &Registers, with: Option<(Logic, Condition)>, bits: u32) -> u32 {
    match with {
        Some((op, c)) => logic(op, bits, condition(registers, c)),
        None => bits,
    }
}

#[inline(always)]
fn logic(op: Logic, a: u32, b: u32) -> u32 {
    match op {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
    }
}

#[inline(always)]
fn compare<V: HostSimd>(
    registers: &Registers,
    op: Comparison,
    ty: Type,
    ftz: bool,
    a: R,
    b: R,
) -> u32 {
    match ty {
        Type::U32 => ordered::<V, u32>(registers, op, a, b),
        Type::S32 => ordered::<V, i32>(registers, op, a, b),
        Type::U64 => ordered::<V, u64>(registers, op, a, b),
        Type::S64 => ordered::<V, i64>(registers, op, a, b),
        Type::F32 if !ftz => float::<V>(registers, op, a, b),
        Type::F32 => float_by::<f32>(registers, op, ftz, a, b),
        Type::F64 => float_by::<f64>(registers, op, ftz, a, b),
        Type::U8 => registers.test_by(a, b, &|a: u8, b: u8| holds(op, Some(a.cmp(&b)))),
        Type::S8 => registers.test_by(a, b, &|a: i8, b: i8| holds(op, Some(a.cmp(&b)))),
        Type::U16 => registers.test_by(a, b, &|a: u16, b: u16| holds(op, Some(a.cmp(&b)))),
        Type::S16 => registers.test_by(a, b, &|a: i16, b: i16| holds(op, Some(a.cmp(&b)))),
        Type::F16 | Type::Bf16 => halves(registers, op, ty, ftz, 0, a, b),
    }
}

/// Integers: the unordered comparisons are the ordered ones.
#[inline(always)]
fn ordered<V: HostSimd, T: Value + Ord>(registers: &Registers, op: Comparison, a: R, b: R) -> u32 {
    match op {
        Comparison::Eq | Comparison::EqU => registers.test::<V, _>(a, b, |a: T, b: T| a == b),
        Comparison::Ne | Comparison::NeU => !registers.test::<V, _>(a, b, |a: T, b: T| a == b),
        Comparison::Lt | Comparison::LtU => registers.test::<V, _>(a, b, |a: T, b: T| a < b),
        Comparison::Ge | Comparison::GeU => !registers.test::<V, _>(a, b, |a: T, b: T| a < b),
        Comparison::Gt | Comparison::GtU => registers.test::<V, _>(b, a, |b: T, a: T| b < a),
        Comparison::Le | Comparison::LeU => !registers.test::<V, _>(b, a, |b: T, a: T| b < a),
        Comparison::Num => u32::MAX,
        Comparison::Nan => 0,
    }
}

/// f32 without `.ftz`. An unordered comparison is the opposite of the opposite ordered one.
#[inline(always)]
fn float<V: HostSimd>(registers: &Registers, op: Comparison, a: R, b: R) -> u32 {
    let less = |a, b| registers.test::<V, _>(a, b, |a: f32, b: f32| a < b);
    let at_most = |a, b| registers.test::<V, _>(a, b, |a: f32, b: f32| a <= b);
    match op {
        Comparison::Eq => registers.test::<V, _>(a, b, |a: f32, b: f32| a == b),
        Comparison::NeU => !registers.test::<V, _>(a, b, |a: f32, b: f32| a == b),
        Comparison::Lt => less(a, b),
        Comparison::Gt => less(b, a),
        Comparison::Le => at_most(a, b),
        Comparison::Ge => at_most(b, a),
        Comparison::LtU => !at_most(b, a),
        Comparison::GtU => !at_most(a, b),
        Comparison::LeU => !less(b, a),
        Comparison::GeU => !less(a, b),
        Comparison::Ne | Comparison::EqU | Comparison::Num | Comparison::Nan => {
            float_by::<f32>(registers, op, false, a, b)
        }
    }
}

fn float_by<T: Value + Float>(registers: &Registers, op: Comparison, ftz: bool, a: R, b: R) -> u32 {
    registers.test_by(a, b, &|a: T, b: T| {
        holds(op, a.flushed(ftz).partial_cmp(&b.flushed(ftz)))
    })
}

/// Compares 16-bit floats, each from bit `first` of its register on.
fn halves(
    registers: &Registers,
    op: Comparison,
    ty: Type,
    ftz: bool,
    first: u32,
    a: R,
    b: R,
) -> u32 {
    let value = |x: u32| {
        let x = (x >> first) as u16;
        match ty {
            Type::F16 => widen::<F16>(flushed::<F16>(x, ftz)),
            _ => widen::<BF16>(flushed::<BF16>(x, ftz)),
        }
    };
    registers.test_by(a, b, &|a: u32, b: u32| {
        holds(op, value(a).partial_cmp(&value(b)))
    })
}

/// Compares pairs: the low halves, then the high ones.
fn compare_pair(
    registers: &Registers,
    op: Comparison,
    ty: Type,
    ftz: bool,
    a: R,
    b: R,
) -> [u32; 2] {
    [0, 16].map(|first| halves(registers, op, ty, ftz, first, a, b))
}

/// Truth of `op` for values in this order; `None` if one is NaN.
fn holds(op: Comparison, order: Option<Ordering>) -> bool {
    match op {
        Comparison::Eq => order == Some(Ordering::Equal),
        Comparison::Ne => matches!(order, Some(Ordering::Less | Ordering::Greater)),
        Comparison::Lt => order == Some(Ordering::Less),
        Comparison::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Gt => order == Some(Ordering::Greater),
        Comparison::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Comparison::EqU => matches!(order, None | Some(Ordering::Equal)),
        Comparison::NeU => order != Some(Ordering::Equal),
        Comparison::LtU => matches!(order, None | Some(Ordering::Less)),
        Comparison::LeU => order != Some(Ordering::Greater),
        Comparison::GtU => matches!(order, None | Some(Ordering::Greater)),
        Comparison::GeU => order != Some(Ordering::Less),
        Comparison::Num => order.is_some(),
        Comparison::Nan => order.is_none(),
    }
}
