//! 16-bit floats, tf32 and 8-bit floats: arithmetic, comparison of pairs, and conversions that only
//! such types have.

use super::modifiers::{comparison, logic};
use super::operands::{Mods, Operands};
use crate::program::lower::Lowering;
use crate::program::op::{
    ByteConversion, ByteType, BytesFrom, Clamp, HalfMode, HalfOp, NarrowType, Narrowing, Op,
    Rounding, Type,
};

/// 1.0 as f16 and as bf16.
pub(super) const ONE_F16: u32 = 0x3c00;
pub(super) const ONE_BF16: u32 = 0x3f80;

impl<'a> Lowering<'a> {
    /// Arithmetic on `ty`, or on pairs of it.
    pub(super) fn half(
        &mut self,
        base: &str,
        (ty, pair): (Type, bool),
        approx: bool,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let propagate = mods.take("NaN");
        let ftz = mods.take("ftz");
        let clamp = match (mods.take("sat"), mods.take("relu")) {
            (false, false) => Clamp::None,
            (true, false) => Clamp::Saturate,
            (false, true) => Clamp::Relu,
            (true, true) => return None,
        };
        let (op, count) = match base {
            "neg" => (HalfOp::Neg, 1),
            "abs" => (HalfOp::Abs, 1),
            "ex2" => (HalfOp::Exp2, 1),
            "tanh" => (HalfOp::Tanh, 1),
            "add" => (HalfOp::Add, 2),
            "sub" => (HalfOp::Sub, 2),
            "mul" => (HalfOp::Mul, 2),
            "fma" => (HalfOp::Fma, 3),
            "min" if propagate => (HalfOp::MinNan, 2),
            "max" if propagate => (HalfOp::MaxNan, 2),
            "min" => (HalfOp::Min, 2),
            "max" => (HalfOp::Max, 2),
            _ => return None,
        };
        let bf16 = ty == Type::Bf16;
        let fits = match op {
            // bf16 is always flushed, f16 never.
            HalfOp::Exp2 => ftz == bf16 && clamp == Clamp::None,
            HalfOp::Tanh => !ftz && clamp == Clamp::None,
            HalfOp::Neg
            | HalfOp::Abs
            | HalfOp::Min
            | HalfOp::Max
            | HalfOp::MinNan
            | HalfOp::MaxNan => clamp == Clamp::None && !(bf16 && ftz),
            HalfOp::Add | HalfOp::Sub | HalfOp::Mul => {
                mods.take("rn");
                clamp != Clamp::Relu && !(bf16 && (ftz || clamp == Clamp::Saturate))
            }
            HalfOp::Fma => mods.take("rn") && !(bf16 && (ftz || clamp == Clamp::Saturate)),
        };
        let is_approximate = matches!(op, HalfOp::Exp2 | HalfOp::Tanh);
        let takes_nan = matches!(op, HalfOp::MinNan | HalfOp::MaxNan);
        if approx != is_approximate || propagate != takes_nan || !fits {
            return None;
        }
        let held = if pair { Type::U32 } else { ty };
        let d = self.target(operands.get(0)?, false)?;
        let first = self.source(operands.get(1)?, held)?;
        let mut r = [first; 3];
        for (at, r) in r.iter_mut().enumerate().take(count).skip(1) {
            *r = self.source(operands.get(at + 1)?, held)?;
        }
        let [a, b, c] = r;
        let mode = HalfMode {
            bf16,
            pair,
            ftz,
            clamp,
        };
        Some(Op::Half {
            op,
            mode,
            d,
            a,
            b,
            c,
        })
    }

    /// `setp` and `set` of `f16x2` or `bf16x2`.
    pub(super) fn compare_pair(
        &mut self,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let ftz = mods.take("ftz");
        let op = mods.choose(comparison)?;
        let logic = mods.choose(logic);
        let yes = match base {
            "set" if mods.take("u32") || mods.take("s32") => 0xffff,
            "set" => match mods.half()? {
                (Type::F16, true) if mods.parts == ["f16x2"] => ONE_F16,
                (Type::Bf16, true) if mods.parts == ["bf16x2"] => ONE_BF16,
                _ => return None,
            },
            _ => 0,
        };
        let (ty, _) = mods.half()?;
        if ftz && ty == Type::Bf16 {
            return None;
        }
        let [a, b] = self.sources(operands, [Type::U32; 2])?;
        let with = self.combined(operands, logic)?;
        let target = operands.get(0)?;
        if base == "set" {
            return Some(Op::ComparePairValue {
                op,
                ty,
                ftz,
                yes: yes as u16,
                d: self.target(target, false)?,
                a,
                b,
                with,
            });
        }
        let (low, high) = self.pair(target);
        Some(Op::ComparePair {
            op,
            ty,
            ftz,
            d: self.predicate(low)?,
            q: self.predicate(high?)?,
            a,
            b,
            with,
        })
    }

    /// `cvt` of the forms that [`is_narrowing`] says.
    pub(super) fn narrowing(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        // The type of the source comes last.
        let source = mods.parts.pop()?;
        if source != "f32" {
            return None;
        }
        let relu = mods.take("relu");
        let finite = mods.take("satfinite");
        let ties_away = mods.take("rna");
        let rounding = match ties_away {
            true => Rounding::Nearest,
            false => mods.rounding()?,
        };
        let (to, pair) = match mods.half() {
            Some((Type::F16, pair)) => (NarrowType::F16, pair),
            Some((_, pair)) => (NarrowType::Bf16, pair),
            None => (mods.take("tf32").then_some(NarrowType::Tf32)?, false),
        };
        let fits = match rounding {
            Rounding::Nearest => !ties_away || (to == NarrowType::Tf32 && !relu),
            Rounding::Zero => true,
            Rounding::Up | Rounding::Down => false,
        };
        if !fits {
            return None;
        }
        let how = Narrowing {
            to,
            rounding,
            ties_away,
            relu,
            finite,
        };
        let d = self.target(operands.get(0)?, false)?;
        let a = self.source(operands.get(1)?, Type::F32)?;
        if !pair {
            return Some(Op::Narrow { how, d, a });
        }
        let b = self.source(operands.get(2)?, Type::F32)?;
        Some(Op::ConvertPair { how, d, a, b })
    }

    /// `cvt` from or to pairs of 8-bit floats.
    pub(super) fn byte_conversion(
        &mut self,
        ty: ByteType,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let nearest = mods.take("rn");
        let relu = mods.take("relu");
        let finite = mods.take("satfinite");
        let (source, target) = (mods.parts.pop()?, mods.parts.pop()?);
        let (from, width) = match (target, source) {
            ("f16x2", _) => (BytesFrom::Bytes, Type::U16),
            (_, "f16x2") => (BytesFrom::Halves, Type::U32),
            (_, "f32") => (BytesFrom::Floats, Type::F32),
            _ => return None,
        };
        if !nearest || finite != (from != BytesFrom::Bytes) {
            return None;
        }
        let d = self.target(operands.get(0)?, false)?;
        let a = self.source(operands.get(1)?, width)?;
        let b = match from {
            BytesFrom::Floats => self.source(operands.get(2)?, width)?,
            BytesFrom::Bytes | BytesFrom::Halves => a,
        };
        let how = ByteConversion { ty, from, relu };
        Some(Op::ConvertBytes { how, d, a, b })
    }
}

/// The 8-bit floats that a `cvt` has on one side.
pub(super) fn byte_floats(mods: &Mods<'_>) -> Option<ByteType> {
    mods.parts.iter().find_map(|&part| match part {
        "e4m3x2" => Some(ByteType::E4m3),
        "e5m2x2" => Some(ByteType::E5m2),
        _ => None,
    })
}

/// True if a `cvt` makes a pair or tf32, or has `.relu` or `.satfinite`.
pub(super) fn is_narrowing(mods: &Mods<'_>) -> bool {
    let special = |p: &&str| matches!(*p, "f16x2" | "bf16x2" | "tf32" | "relu" | "satfinite");
    mods.parts.iter().any(special)
}
