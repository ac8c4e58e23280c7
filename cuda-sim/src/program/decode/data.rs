//! Moves, conversions, comparisons and selection.

use super::half::{ONE_BF16, ONE_F16, byte_floats, is_narrowing};
use super::modifiers::{comparison, logic, memory_space};
use super::operands::{Mods, Operands, given};
use crate::exec::cluster::RANK;
use crate::program::instruction::Constant;
use crate::program::lower::Lowering;
use crate::program::op::{Condition, Conversion, IntBinary, Logic, Op, Rounding, Type};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    pub(super) fn data(
        &mut self,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        match base {
            "mov" => self.mov(mods, operands),
            "cvt" => self.cvt(mods, operands),
            // Policies of the L2 cache have no effect here.
            "createpolicy" => {
                mods.take("b64").then_some(())?;
                mods.parts.clear();
                operands.ignore();
                Some(Op::Move {
                    wide: true,
                    d: self.target(operands.get(0)?, true)?,
                    a: self.constant(Constant::Wide(0)),
                })
            }
            "cvta" => {
                let to_space = mods.take("to");
                let space = mods.choose(memory_space)?;
                let ty = mods.ty()?;
                let d = self.target(operands.get(0)?, ty.is_wide())?;
                let a = self.source(operands.get(1)?, ty)?;
                Some(Op::Cvta {
                    space,
                    to_space,
                    wide: ty.is_wide(),
                    d,
                    a,
                })
            }
            "mapa" => {
                self.uses_clusters = true;
                mods.take("shared::cluster");
                let ty = mods.ty()?;
                let wide = ty.is_wide();
                let [a, rank] = self.sources(operands, [ty, Type::U32])?;
                let d = self.target(operands.get(0)?, wide)?;
                // The rank, and 1, in the bits that tell the block.
                let one = self.number(1);
                let b = self.scratch(wide);
                let next = match wide {
                    true => {
                        let c = self.constant(Constant::Wide(1));
                        Op::MadWide {
                            ty: Type::U32,
                            d: b,
                            a: rank,
                            b: one,
                            c,
                        }
                    }
                    false => Op::IntBinary {
                        op: IntBinary::Add,
                        ty: Type::U32,
                        d: b,
                        a: rank,
                        b: one,
                    },
                };
                self.emit_before(next);
                Some(Op::BitInsert {
                    wide,
                    d,
                    a: b,
                    b: a,
                    start: self.number(RANK),
                    length: self.number(32 - RANK),
                })
            }
            "isspacep" if mods.parts.contains(&"const") => None,
            "isspacep" => {
                let space = mods.choose(memory_space)?;
                let a = self.source(operands.get(1)?, Type::U64)?;
                Some(Op::IsSpace {
                    space,
                    d: self.predicate(operands.get(0)?)?,
                    a,
                })
            }
            "selp" => {
                let ty = mods.ty()?;
                let wide = ty.is_wide();
                let d = self.target(operands.get(0)?, wide)?;
                let [a, b] = self.sources(operands, [ty; 2])?;
                Some(Op::Select {
                    wide,
                    d,
                    a,
                    b,
                    p: self.condition(operands.get(3)?)?,
                })
            }
            "slct" => {
                let ftz = mods.take("ftz");
                let ty = mods.ty()?;
                let sign = mods.ty()?;
                if !matches!(sign, Type::S32 | Type::F32) {
                    return None;
                }
                let wide = ty.is_wide();
                let d = self.target(operands.get(0)?, wide)?;
                let [a, b, c] = self.sources(operands, [ty, ty, sign])?;
                Some(Op::SelectSign {
                    wide,
                    float: sign == Type::F32,
                    ftz,
                    d,
                    a,
                    b,
                    c,
                })
            }
            "setp" | "set" => self.compare(base, mods, operands),
            _ => None,
        }
    }

    fn mov(&mut self, mods: &mut Mods<'a>, operands: Operands<'_, 'a>) -> Option<Op> {
        let (to, from) = (operands.get(0)?, operands.get(1)?);
        if mods.take("pred") {
            return Some(Op::PredicateMove {
                d: self.predicate(to)?,
                a: self.condition(from)?,
            });
        }
        if mods.take("b128") {
            return self.mov_b128(operands);
        }
        let ty = mods.ty()?;
        let part = |count: usize| match (ty.bytes(), count) {
            (2, 2) | (4, 4) => Some(Type::U8),
            (4, 2) | (8, 4) => Some(Type::U16),
            (8, 2) => Some(Type::U32),
            _ => None,
        };
        match (to, from) {
            (Operand::Vector(items), source) => {
                let element = part(items.len())?;
                let a = self.source(source, ty)?;
                let mut parts = [None; 4];
                for (part, item) in parts.iter_mut().zip(items) {
                    *part = given(item.unless_sink(), |item| self.target(item, false))?;
                }
                Some(Op::Unpack {
                    bits: element.bytes() as u8 * 8,
                    count: items.len() as u8,
                    parts,
                    a,
                })
            }
            (target, Operand::Vector(items)) => {
                let element = part(items.len())?;
                let d = self.target(target, ty.is_wide())?;
                let mut parts = [d; 4];
                for (part, item) in parts.iter_mut().zip(items) {
                    *part = self.source(item, element)?;
                }
                Some(Op::Pack {
                    bits: element.bytes() as u8 * 8,
                    count: items.len() as u8,
                    d,
                    parts,
                })
            }
            (
                target,
                Operand::Name(name @ ("%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo")),
            ) => {
                let wide = matches!(*name, "%clock64" | "%globaltimer");
                Some(Op::Clock {
                    wide,
                    d: self.target(target, wide)?,
                })
            }
            (target, source) => {
                let wide = ty.is_wide();
                Some(Op::Move {
                    wide,
                    d: self.target(target, wide)?,
                    a: self.source(source, ty)?,
                })
            }
        }
    }

    /// The predicate that a comparison is combined with, if it has a logic operation.
    pub(super) fn combined(
        &mut self,
        operands: Operands<'_, 'a>,
        logic: Option<Logic>,
    ) -> Option<Option<(Logic, Condition)>> {
        given(logic, |logic| {
            Some((logic, self.condition(operands.get(3)?)?))
        })
    }

    fn cvt(&mut self, mods: &mut Mods<'a>, operands: Operands<'_, 'a>) -> Option<Op> {
        if let Some(ty) = byte_floats(mods) {
            return self.byte_conversion(ty, mods, operands);
        }
        if is_narrowing(mods) {
            return self.narrowing(mods, operands);
        }
        let integral = mods.pick([
            ("rni", Rounding::Nearest),
            ("rzi", Rounding::Zero),
            ("rmi", Rounding::Down),
            ("rpi", Rounding::Up),
        ]);
        let mut mode = mods.float_mode();
        if let Some(rounding) = integral {
            mode.rounding = rounding;
        }
        let to = mods.ty()?;
        let from = mods.ty()?;
        let (d, to_wide) = self.target_any(operands.get(0)?)?;
        let (a, from_wide) = self.source_any(operands.get(1)?, from)?;
        if (to.is_wide() && !to_wide) || (from.is_wide() && !from_wide) {
            return None;
        }
        let how = Conversion {
            to,
            from,
            mode,
            integral: integral.is_some(),
        };
        Some(Op::Convert {
            how,
            to_wide,
            from_wide,
            d,
            a,
        })
    }

    fn compare(
        &mut self,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        if mods.parts.last().is_some_and(|p| p.ends_with("16x2")) {
            return self.compare_pair(base, mods, operands);
        }
        let ftz = mods.take("ftz");
        let op = mods.choose(comparison)?;
        let logic = mods.choose(logic);
        let result = given((base == "set").then_some(()), |()| mods.ty())?;
        let ty = mods.ty()?;
        let half = matches!(ty, Type::F16 | Type::Bf16);
        let yes = match result {
            None | Some(Type::U32 | Type::S32) => u32::MAX,
            Some(Type::F32) if !half => 1f32.to_bits(),
            Some(Type::U16 | Type::S16) if half => 0xffff,
            Some(Type::F16) => ONE_F16,
            Some(Type::Bf16) => ONE_BF16,
            Some(_) => return None,
        };
        if ftz && !matches!(ty, Type::F16 | Type::F32) {
            return None;
        }
        let [a, b] = self.sources(operands, [ty; 2])?;
        let with = self.combined(operands, logic)?;
        let target = operands.get(0)?;
        if result.is_some() {
            return Some(Op::CompareValue {
                op,
                ty,
                ftz,
                yes,
                d: self.target(target, false)?,
                a,
                b,
                with,
            });
        }
        let (first, second) = self.pair(target);
        let d = self.predicate(first)?;
        let q = given(second, |q| self.predicate(q))?;
        Some(Op::Compare {
            op,
            ty,
            ftz,
            d,
            q,
            a,
            b,
            with,
        })
    }

    pub(super) fn predicate_logic(&mut self, base: &str, operands: Operands<'_, 'a>) -> Option<Op> {
        let d = self.predicate(operands.get(0)?)?;
        let a = self.condition(operands.get(1)?)?;
        if base == "not" {
            return Some(Op::PredicateMove {
                d,
                a: Condition {
                    negate: !a.negate,
                    ..a
                },
            });
        }
        Some(Op::PredicateLogic {
            op: logic(base)?,
            d,
            a,
            b: self.condition(operands.get(2)?)?,
        })
    }
}
