//! Registers of 128 bits. Each is a pair of 64-bit registers, because PTX only moves, loads and
//! stores them.

use super::operands::{Operands, items, unpacked};
use crate::program::lower::{Binding, Lowering};
use crate::program::op::{Op, R, Type};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    /// The low and the high half of a register of 128 bits.
    pub(in crate::program) fn halves(&mut self, operand: &Operand<'a>) -> Option<[R; 2]> {
        let Operand::Name(name) = *operand else {
            return None;
        };
        match self.find(name)? {
            Binding::B128 { low } => Some([low, R(low.0 + 1)]),
            _ => None,
        }
    }

    /// `mov.b128`: a register of 128 bits, or two of 64 or four of 32 bits, to another such.
    pub(super) fn mov_b128(&mut self, operands: Operands<'_, 'a>) -> Option<Op> {
        let (to, from) = (operands.get(0)?, operands.get(1)?);
        let whole = |a, d| Op::Move { wide: true, d, a };
        let [low, high] = match (to, from) {
            (Operand::Vector(_), _) => {
                let sources = self.halves(from)?;
                let [low, high] = parts(to)?;
                [(low, sources[0]), (high, sources[1])].map(|(to, a)| match to {
                    [d] => Some(whole(a, self.target(d, true)?)),
                    [low, high] => {
                        let parts = [self.target(low, false)?, self.target(high, false)?];
                        Some(unpacked(parts, 32, a))
                    }
                    _ => None,
                })
            }
            (_, Operand::Vector(_)) => {
                let targets = self.halves(to)?;
                let [low, high] = parts(from)?;
                [(low, targets[0]), (high, targets[1])].map(|(from, d)| match from {
                    [a] => Some(whole(self.source(a, Type::U64)?, d)),
                    [low, high] => {
                        let [low, high] = [low, high].map(|part| self.source(part, Type::U32));
                        Some(Op::Pack {
                            bits: 32,
                            count: 2,
                            d,
                            parts: [low?, high?, d, d],
                        })
                    }
                    _ => None,
                })
            }
            _ => {
                let (from, to) = (self.halves(from)?, self.halves(to)?);
                [0, 1].map(|half| Some(whole(from[half], to[half])))
            }
        };
        let high = high?;
        self.emit_before(low?);
        Some(high)
    }
}

/// The elements of the low and of the high half of a vector.
fn parts<'o, 'a>(vector: &'o Operand<'a>) -> Option<[&'o [Operand<'a>]; 2]> {
    let items = items(vector);
    let (low, high) = items.split_at(items.len() / 2);
    (low.len() == high.len()).then_some([low, high])
}
