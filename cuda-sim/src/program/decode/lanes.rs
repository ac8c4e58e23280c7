//! Exchange between the lanes of a warp.

use super::operands::{Mods, Operands, given};
use crate::program::lower::Lowering;
use crate::program::op::{Op, Type};
use crate::program::op::{Reduction, Shuffle, Vote};

impl<'a> Lowering<'a> {
    pub(super) fn lanes(
        &mut self,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        if base == "activemask" {
            mods.take("b32").then_some(())?;
            let d = self.target(operands.get(0)?, false)?;
            return Some(Op::ActiveMask { d });
        }
        // Before Volta `shfl` and `vote` had no mask: they were for the threads that run them
        // together.
        let (members, last) = if mods.take("sync") {
            let last = operands.count().checked_sub(1)?;
            (self.source(operands.get(last)?, Type::U32)?, last)
        } else if matches!(base, "shfl" | "vote") {
            let d = self.scratch(false);
            self.emit_before(Op::ActiveMask { d });
            (d, operands.count())
        } else {
            return None;
        };
        match base {
            "shfl" => {
                let op = mods.pick([
                    ("up", Shuffle::Up),
                    ("down", Shuffle::Down),
                    ("bfly", Shuffle::Butterfly),
                    ("idx", Shuffle::Index),
                ])?;
                if !mods.take("b32") || last != 4 {
                    return None;
                }
                let (d, p) = self.pair(operands.get(0)?);
                let d = self.target(d, false)?;
                let p = given(p, |p| self.predicate(p))?;
                let [a, b, c] = self.sources(operands, [Type::U32; 3])?;
                Some(Op::Shuffle {
                    op,
                    d,
                    p,
                    a,
                    b,
                    c,
                    members,
                })
            }
            "vote" => {
                let p = self.condition(operands.get(1)?)?;
                if mods.take("ballot") {
                    mods.take("b32").then_some(())?;
                    let d = self.target(operands.get(0)?, false)?;
                    return Some(Op::Ballot { d, p, members });
                }
                let op = mods.pick([
                    ("all", Vote::All),
                    ("any", Vote::Any),
                    ("uni", Vote::Uniform),
                ])?;
                mods.take("pred").then_some(())?;
                Some(Op::Vote {
                    op,
                    d: self.predicate(operands.get(0)?)?,
                    p,
                    members,
                })
            }
            "match" => {
                let all = mods.take("all");
                if !all && !mods.take("any") {
                    return None;
                }
                let ty = mods.ty()?;
                let a = self.source(operands.get(1)?, ty)?;
                let (d, p) = self.pair(operands.get(0)?);
                let d = self.target(d, false)?;
                let wide = ty.is_wide();
                if !all {
                    return Some(Op::MatchAny {
                        wide,
                        d,
                        a,
                        members,
                    });
                }
                let p = given(p, |p| self.predicate(p))?;
                Some(Op::MatchAll {
                    wide,
                    d,
                    p,
                    a,
                    members,
                })
            }
            "redux" => {
                let op = mods.pick([
                    ("add", Reduction::Add),
                    ("min", Reduction::Min),
                    ("max", Reduction::Max),
                    ("and", Reduction::And),
                    ("or", Reduction::Or),
                    ("xor", Reduction::Xor),
                ])?;
                let ty = mods.ty()?;
                if !matches!(ty, Type::U32 | Type::S32) {
                    return None;
                }
                let a = self.source(operands.get(1)?, ty)?;
                Some(Op::Reduce {
                    op,
                    ty,
                    d: self.target(operands.get(0)?, false)?,
                    a,
                    members,
                })
            }
            "elect" => {
                let (d, p) = self.pair(operands.get(0)?);
                let p = self.predicate(p?)?;
                let d = given(d.unless_sink(), |d| self.target(d, false))?;
                Some(Op::Elect { d, p, members })
            }
            _ => None,
        }
    }
}
