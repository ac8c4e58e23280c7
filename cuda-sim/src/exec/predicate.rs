//! Comparisons and logic on predicates.

use super::registers::{Registers, Value};
use super::rounding::Float;
use crate::program::op::{Comparison, Condition, Logic, Op, R, Type};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(super) fn execute(registers: &mut Registers, op: &Op, mask: u32) {
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
            let bits = compare(registers, op, ty, ftz, a, b);
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
            float,
            d,
            a,
            b,
            with,
        } => {
            let bits = compare(registers, op, ty, ftz, a, b);
            let bits = combine(registers, with, bits);
            let yes = if float { 1f32.to_bits() } else { u32::MAX };
            let mut out = [0u32; 32];
            for lane in 0..32 {
                out[lane] = if bits >> lane & 1 != 0 { yes } else { 0 };
            }
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

/// The lanes for which `condition` holds.
#[inline(always)]
pub(super) fn condition(registers: &Registers, condition: Condition) -> u32 {
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
fn compare(registers: &Registers, op: Comparison, ty: Type, ftz: bool, a: R, b: R) -> u32 {
    match ty {
        Type::U8 => ordered::<u8>(registers, op, a, b),
        Type::S8 => ordered::<i8>(registers, op, a, b),
        Type::U16 => ordered::<u16>(registers, op, a, b),
        Type::S16 => ordered::<i16>(registers, op, a, b),
        Type::U32 => ordered::<u32>(registers, op, a, b),
        Type::S32 => ordered::<i32>(registers, op, a, b),
        Type::U64 => ordered::<u64>(registers, op, a, b),
        Type::S64 => ordered::<i64>(registers, op, a, b),
        Type::F32 => float::<f32>(registers, op, ftz, a, b),
        Type::F64 => float::<f64>(registers, op, ftz, a, b),
        Type::F16 | Type::Bf16 => 0,
    }
}

/// Integers: the unordered comparisons are the ordered ones.
#[inline(always)]
fn ordered<T: Value + Ord>(registers: &Registers, op: Comparison, a: R, b: R) -> u32 {
    match op {
        Comparison::Eq | Comparison::EqU => registers.test(a, b, |a: T, b: T| a == b),
        Comparison::Ne | Comparison::NeU => registers.test(a, b, |a: T, b: T| a != b),
        Comparison::Lt | Comparison::LtU => registers.test(a, b, |a: T, b: T| a < b),
        Comparison::Le | Comparison::LeU => registers.test(a, b, |a: T, b: T| a <= b),
        Comparison::Gt | Comparison::GtU => registers.test(a, b, |a: T, b: T| a > b),
        Comparison::Ge | Comparison::GeU => registers.test(a, b, |a: T, b: T| a >= b),
        Comparison::Num => u32::MAX,
        Comparison::Nan => 0,
    }
}

#[inline(always)]
fn float<T: Value + Float>(registers: &Registers, op: Comparison, ftz: bool, a: R, b: R) -> u32 {
    let test =
        |f: fn(T, T) -> bool| registers.test(a, b, |a: T, b: T| f(a.flushed(ftz), b.flushed(ftz)));
    match op {
        Comparison::Eq => test(|a, b| a == b),
        Comparison::Ne => test(|a, b| a < b || a > b),
        Comparison::Lt => test(|a, b| a < b),
        Comparison::Le => test(|a, b| a <= b),
        Comparison::Gt => test(|a, b| a > b),
        Comparison::Ge => test(|a, b| a >= b),
        Comparison::EqU => test(|a, b| !(a < b || a > b)),
        Comparison::NeU => test(|a, b| a != b),
        Comparison::LtU => test(|a, b| !(a >= b)),
        Comparison::LeU => test(|a, b| !(a > b)),
        Comparison::GtU => test(|a, b| !(a <= b)),
        Comparison::GeU => test(|a, b| !(a < b)),
        Comparison::Num => test(|a, b| a == a && b == b),
        Comparison::Nan => test(|a, b| a != a || b != b),
    }
}
