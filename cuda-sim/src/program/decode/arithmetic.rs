//! Integer, bit and floating-point arithmetic.

use super::operands::{Mods, Operands};
use crate::program::lower::Lowering;
use crate::program::op::{
    Bits, CarryOp, Count, FloatBinary, FloatTest, FloatUnary, IntBinary, IntTernary, IntUnary,
};
use crate::program::op::{Op, Type};
use crate::ptx::{Literal, Operand};

impl<'a> Lowering<'a> {
    pub(super) fn arithmetic(
        &mut self,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        match base {
            "addc" | "subc" | "madc" => return self.carry(base, mods, operands),
            "add" | "sub" | "mad" if mods.parts.contains(&"cc") => {
                return self.carry(base, mods, operands);
            }
            "mul24" | "mad24" | "bfe" | "bfi" | "prmt" | "lop3" | "shf" | "dp4a" | "dp2a"
            | "bmsk" | "szext" | "fns" | "vabsdiff2" | "vabsdiff4" => {
                return self.bits(base, mods, operands);
            }
            "and" | "or" | "xor" | "not" if mods.take("pred") => {
                return self.predicate_logic(base, operands);
            }
            _ => {}
        }
        let full = mods.take("full");
        let approx = mods.take("approx");
        if let Some(half) = mods.half() {
            if full {
                return None;
            }
            return self.half(base, half, approx, mods, operands);
        }
        if let Some(op) = lanes16(base, mods) {
            return self.three(op, operands);
        }
        let shift_wide = mods.take("wide");
        let ty = mods.ty()?;
        match ty {
            Type::F32 | Type::F64 => self.float(base, ty, (approx, full), mods, operands),
            Type::U16 | Type::S16 | Type::U32 | Type::S32 | Type::U64 | Type::S64 => {
                if shift_wide {
                    self.wide(base, ty, operands)
                } else {
                    self.integer(base, ty, mods, operands)
                }
            }
            Type::U8 | Type::S8 | Type::F16 | Type::Bf16 => None,
        }
    }

    fn integer(
        &mut self,
        base: &str,
        ty: Type,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let high = mods.take("hi");
        let low = mods.take("lo");
        let saturate = mods.take("sat");
        if saturate && ty != Type::S32 {
            return None;
        }
        let d = operands.get(0)?;
        let a = self.source(operands.get(1)?, ty)?;
        let unary = match base {
            "neg" => Some(IntUnary::Neg),
            "abs" => Some(IntUnary::Abs),
            "not" => Some(IntUnary::Not),
            "cnot" => Some(IntUnary::Cnot),
            "brev" => Some(IntUnary::Reverse),
            _ => None,
        };
        if let Some(op) = unary {
            return Some(Op::IntUnary {
                op,
                ty,
                d: self.target(d, ty.is_wide())?,
                a,
            });
        }
        let count = match base {
            "popc" => Some(Count::Ones),
            "clz" => Some(Count::LeadingZeros),
            "bfind" if mods.take("shiftamt") => Some(Count::HighestBitShift),
            "bfind" => Some(Count::HighestBit),
            _ => None,
        };
        if let Some(op) = count {
            return Some(Op::Count {
                op,
                ty,
                d: self.target(d, false)?,
                a,
            });
        }
        let b = operands.get(2)?;
        let binary = match base {
            "add" if saturate => Some(IntBinary::AddSaturating),
            "sub" if saturate => Some(IntBinary::SubSaturating),
            "mad" if saturate && high => None,
            _ if saturate => return None,
            "add" => Some(IntBinary::Add),
            "sub" => Some(IntBinary::Sub),
            "mul" if high => Some(IntBinary::MulHigh),
            "mul" if low => Some(IntBinary::MulLow),
            "div" => Some(IntBinary::Div),
            "rem" => Some(IntBinary::Rem),
            "min" => Some(IntBinary::Min),
            "max" => Some(IntBinary::Max),
            "and" => Some(IntBinary::And),
            "or" => Some(IntBinary::Or),
            "xor" => Some(IntBinary::Xor),
            "shl" => Some(IntBinary::ShiftLeft),
            "shr" => Some(IntBinary::ShiftRight),
            _ => None,
        };
        let d = self.target(d, ty.is_wide())?;
        if let Some(op) = binary {
            let shift = matches!(op, IntBinary::ShiftLeft | IntBinary::ShiftRight);
            let b = self.source(b, if shift { Type::U32 } else { ty })?;
            return Some(Op::IntBinary { op, ty, d, a, b });
        }
        let op = match base {
            "mad" if high && saturate => IntTernary::MadHighSaturating,
            "mad" if high => IntTernary::MadHigh,
            "mad" if low => IntTernary::MadLow,
            "sad" => IntTernary::Sad,
            _ => return None,
        };
        let b = self.source(b, ty)?;
        let c = self.source(operands.get(3)?, ty)?;
        Some(Op::IntTernary { op, ty, d, a, b, c })
    }

    /// `mul.wide` and `mad.wide`: a product of twice the width.
    fn wide(&mut self, base: &str, ty: Type, operands: Operands<'_, 'a>) -> Option<Op> {
        let double = match ty {
            Type::U16 => Type::U32,
            Type::S16 => Type::S32,
            Type::U32 => Type::U64,
            Type::S32 => Type::S64,
            _ => return None,
        };
        let d = self.target(operands.get(0)?, double.is_wide())?;
        let [a, b] = self.sources(operands, [ty; 2])?;
        let c = match base {
            "mul" => self.literal(Literal::Int(0), double),
            "mad" => self.source(operands.get(3)?, double)?,
            _ => return None,
        };
        Some(Op::MadWide { ty, d, a, b, c })
    }

    fn carry(&mut self, base: &str, mods: &mut Mods<'a>, operands: Operands<'_, 'a>) -> Option<Op> {
        let carry_out = mods.take("cc");
        let (high, low) = (mods.take("hi"), mods.take("lo"));
        let ty = mods.ty()?;
        if !matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64) {
            return None;
        }
        let signed = ty.is_signed();
        let op = match base {
            "add" | "addc" => CarryOp::Add,
            "sub" | "subc" => CarryOp::Sub,
            "mad" | "madc" if high => CarryOp::MadHigh { signed },
            "mad" | "madc" if low => CarryOp::MadLow { signed },
            _ => return None,
        };
        let d = self.target(operands.get(0)?, ty.is_wide())?;
        let [a, b] = self.sources(operands, [ty; 2])?;
        let c = if high || low {
            self.source(operands.get(3)?, ty)?
        } else {
            a
        };
        let carry_in = base.ends_with('c');
        Some(Op::Carry {
            op,
            wide: ty.is_wide(),
            carry_in,
            carry_out,
            d,
            a,
            b,
            c,
        })
    }

    fn bits(&mut self, base: &str, mods: &mut Mods<'a>, operands: Operands<'_, 'a>) -> Option<Op> {
        let d = operands.get(0)?;
        match base {
            "bfe" => {
                let ty = mods.ty()?;
                let [a, start, length] = self.sources(operands, [ty, Type::U32, Type::U32])?;
                return Some(Op::BitExtract {
                    ty,
                    d: self.target(d, ty.is_wide())?,
                    a,
                    start,
                    length,
                });
            }
            "bfi" => {
                let ty = mods.ty()?;
                let [a, b, start, length] =
                    self.sources(operands, [ty, ty, Type::U32, Type::U32])?;
                let wide = ty.is_wide();
                return Some(Op::BitInsert {
                    wide,
                    d: self.target(d, wide)?,
                    a,
                    b,
                    start,
                    length,
                });
            }
            "szext" => {
                let wrap = mods.take("wrap");
                if !wrap && !mods.take("clamp") {
                    return None;
                }
                let signed = mods.ty()?.is_signed();
                let [a, bits] = self.sources(operands, [Type::U32; 2])?;
                return Some(Op::SignExtend {
                    signed,
                    wrap,
                    d: self.target(d, false)?,
                    a,
                    bits,
                });
            }
            _ => {}
        }
        let op = match base {
            "prmt" => mods
                .pick([
                    ("f4e", Bits::PermuteF4e),
                    ("b4e", Bits::PermuteB4e),
                    ("rc8", Bits::PermuteRc8),
                    ("ecl", Bits::PermuteEcl),
                    ("ecr", Bits::PermuteEcr),
                    ("rc16", Bits::PermuteRc16),
                ])
                .unwrap_or(Bits::Permute),
            "lop3" => match operands.get(4)? {
                Operand::Literal(Literal::Int(table @ 0..=255)) => Bits::Lop3(*table as u8),
                _ => return None,
            },
            "shf" => match (
                mods.take("l"),
                mods.take("r"),
                mods.take("wrap"),
                mods.take("clamp"),
            ) {
                (true, false, true, false) => Bits::FunnelLeftWrap,
                (true, false, false, true) => Bits::FunnelLeftClamp,
                (false, true, true, false) => Bits::FunnelRightWrap,
                (false, true, false, true) => Bits::FunnelRightClamp,
                _ => return None,
            },
            "dp4a" | "dp2a" => {
                let high = mods.take("hi");
                let low = mods.take("lo");
                let a_signed = mods.ty()?.is_signed();
                let b_signed = mods.ty()?.is_signed();
                match base {
                    "dp4a" if !high && !low => Bits::Dot4 { a_signed, b_signed },
                    "dp2a" if high != low => Bits::Dot2 {
                        a_signed,
                        b_signed,
                        high,
                    },
                    _ => return None,
                }
            }
            "mul24" | "mad24" => {
                let high = mods.take("hi");
                if !high && !mods.take("lo") {
                    return None;
                }
                let saturating = base == "mad24" && high && mods.take("sat");
                let signed = mods.ty()?.is_signed();
                if saturating {
                    signed.then_some(Bits::Mad24HighSaturating)?
                } else if high {
                    Bits::Mad24High { signed }
                } else {
                    Bits::Mad24Low { signed }
                }
            }
            "fns" => Bits::FindNth,
            "vabsdiff2" | "vabsdiff4" => {
                let unsigned = (0..3).all(|_| mods.take("u32"));
                let bits = if base == "vabsdiff4" { 8 } else { 16 };
                let sum = mods.take("add");
                unsigned.then_some(Bits::AbsoluteDifference { bits, sum })?
            }
            "bmsk" => {
                if mods.take("wrap") {
                    Bits::MaskWrap
                } else if mods.take("clamp") {
                    Bits::MaskClamp
                } else {
                    return None;
                }
            }
            _ => return None,
        };
        if !matches!(
            base,
            "dp4a" | "dp2a" | "mul24" | "mad24" | "vabsdiff2" | "vabsdiff4"
        ) && !mods.take("b32")
        {
            return None;
        }
        self.three(op, operands)
    }

    /// A 32-bit operation with two or three sources.
    fn three(&mut self, op: Bits, operands: Operands<'_, 'a>) -> Option<Op> {
        let d = self.target(operands.get(0)?, false)?;
        let [a, b] = self.sources(operands, [Type::U32; 2])?;
        let two = matches!(
            op,
            Bits::Mad24Low { .. }
                | Bits::Mad24High { .. }
                | Bits::Mad24HighSaturating
                | Bits::MaskClamp
                | Bits::MaskWrap
                | Bits::AddHalves
                | Bits::MinMaxHalves { .. }
                | Bits::MinMaxRelu { .. }
        );
        let c = match operands.get(3) {
            Some(c) => self.source(c, Type::U32)?,
            None if two => self.number(0),
            None => return None,
        };
        Some(Op::Bits { op, d, a, b, c })
    }

    fn float(
        &mut self,
        base: &str,
        ty: Type,
        (approx, full): (bool, bool),
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let wide = ty.is_wide();
        if base == "testp" {
            let op = mods.pick([
                ("finite", FloatTest::Finite),
                ("infinite", FloatTest::Infinite),
                ("number", FloatTest::Number),
                ("notanumber", FloatTest::NotANumber),
                ("normal", FloatTest::Normal),
                ("subnormal", FloatTest::Subnormal),
            ])?;
            let a = self.source(operands.get(1)?, ty)?;
            return Some(Op::FloatTest {
                op,
                wide,
                d: self.predicate(operands.get(0)?)?,
                a,
            });
        }
        let propagate = mods.take("NaN");
        let mode = mods.float_mode();
        let d = self.target(operands.get(0)?, wide)?;
        let a = self.source(operands.get(1)?, ty)?;
        let unary = match base {
            "neg" => Some(FloatUnary::Neg),
            "abs" => Some(FloatUnary::Abs),
            "sqrt" => Some(FloatUnary::Sqrt),
            "rcp" => Some(FloatUnary::Reciprocal),
            "rsqrt" => Some(FloatUnary::ReciprocalSqrt),
            "ex2" if !wide => Some(FloatUnary::Exp2),
            "lg2" if !wide => Some(FloatUnary::Log2),
            "sin" if !wide => Some(FloatUnary::Sin),
            "cos" if !wide => Some(FloatUnary::Cos),
            "tanh" if !wide => Some(FloatUnary::Tanh),
            _ => None,
        };
        if let Some(op) = unary {
            let approximated = !matches!(
                op,
                FloatUnary::Neg | FloatUnary::Abs | FloatUnary::Sqrt | FloatUnary::Reciprocal
            );
            let has_approx =
                approximated || matches!(op, FloatUnary::Sqrt | FloatUnary::Reciprocal);
            if full || propagate || (approx && !has_approx) || (approximated && !approx) {
                return None;
            }
            return Some(Op::FloatUnary {
                op,
                wide,
                mode,
                d,
                a,
            });
        }
        let b = self.source(operands.get(2)?, ty)?;
        let op = match base {
            "min" if propagate => FloatBinary::MinNan,
            "max" if propagate => FloatBinary::MaxNan,
            _ if propagate => return None,
            "div" if approx && !wide => FloatBinary::DivApprox,
            _ if approx => return None,
            "div" => FloatBinary::Div,
            _ if full => return None,
            "add" => FloatBinary::Add,
            "sub" => FloatBinary::Sub,
            "mul" => FloatBinary::Mul,
            "min" => FloatBinary::Min,
            "max" => FloatBinary::Max,
            "copysign" => FloatBinary::CopySign,
            "fma" | "mad" => {
                let c = self.source(operands.get(3)?, ty)?;
                return Some(Op::Fma {
                    wide,
                    mode,
                    d,
                    a,
                    b,
                    c,
                });
            }
            _ => return None,
        };
        if operands.count() != 3 {
            return None;
        }
        Some(Op::FloatBinary {
            op,
            wide,
            mode,
            d,
            a,
            b,
        })
    }
}

/// Operations on two 16-bit lanes, and the forms that clamp to zero: compute capability 9.0.
fn lanes16(base: &str, mods: &mut Mods<'_>) -> Option<Bits> {
    let max = match base {
        "add" | "min" => false,
        "max" => true,
        _ => return None,
    };
    let has = |mods: &Mods<'_>, name: &str| mods.parts.contains(&name);
    if has(mods, "relu") && has(mods, "s32") && base != "add" {
        mods.parts.retain(|p| !matches!(*p, "relu" | "s32"));
        return Some(Bits::MinMaxRelu { max });
    }
    let signed = has(mods, "s16x2");
    if !mods.take("s16x2") && !mods.take("u16x2") {
        return None;
    }
    if base == "add" {
        return Some(Bits::AddHalves);
    }
    let relu = signed && mods.take("relu");
    Some(Bits::MinMaxHalves { max, signed, relu })
}
