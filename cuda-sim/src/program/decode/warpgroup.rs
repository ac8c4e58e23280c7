//! Matrix operations of a warpgroup: `wgmma`.

use super::matrix::types;
use super::operands::{Mods, Operands, items};
use crate::program::lower::Lowering;
use crate::program::op::{Accumulators, Factors, LeftFactor, Op, R, Sums, Type, WarpgroupProduct};
use crate::ptx::{Literal, Operand};

impl<'a> Lowering<'a> {
    pub(super) fn warpgroup(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let saturate = mods.take("satfinite");
        let names = std::mem::take(&mut mods.parts);
        match names.as_slice() {
            _ if saturate && names.first() != Some(&"mma_async") => None,
            ["fence", "sync", "aligned"] => Some(Op::ProductFence),
            ["commit_group", "sync", "aligned"] => Some(Op::ProductCommit),
            ["wait_group", "sync", "aligned"] => Some(Op::ProductWait {
                newest: immediate(operands.get(0)?)?.try_into().ok()?,
            }),
            ["mma_async", "sync", "aligned", shape, d, a, b] => {
                let (factors, sums, _) = types(d, a, b, d, saturate)?;
                self.warpgroup_product(shape, factors, sums, operands)
            }
            _ => None,
        }
    }

    /// Emits the operations that list the accumulators.
    fn warpgroup_product(
        &mut self,
        shape: &str,
        factors: Factors,
        sums: Sums,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let (columns, depth) = shape.strip_prefix("m64n")?.split_once('k')?;
        let (columns, depth): (u16, usize) = (columns.parse().ok()?, depth.parse().ok()?);
        let is_integer = matches!(factors, Factors::Int8 { .. });
        let steps_of_16 = is_integer && columns > 24;
        if columns == 0 || columns > 256 || columns % if steps_of_16 { 16 } else { 8 } != 0 {
            return None;
        }
        let a = match operands.get(1)? {
            fragments @ Operand::Vector(_) => {
                let mut r = [R(0); 4];
                self.source_vector(&mut r, fragments, Type::U32)?;
                LeftFactor::Registers(r)
            }
            descriptor => LeftFactor::Shared(self.source(descriptor, Type::U64)?),
        };
        let b = self.source(operands.get(2)?, Type::U64)?;
        let adds = self.condition(operands.get(3)?)?;
        let mut product = WarpgroupProduct {
            number: 0,
            factors,
            sums,
            columns,
            a,
            b,
            adds,
            negated: [false; 2],
            transposed: [false; 2],
        };
        if depth != product.depth() {
            return None;
        }
        let mut next = 4;
        if !is_integer {
            for negated in &mut product.negated {
                *negated = match immediate(operands.get(next)?)? {
                    1 => false,
                    -1 => true,
                    _ => return None,
                };
                next += 1;
            }
        }
        if matches!(factors, Factors::F16 | Factors::Bf16) {
            let [of_a, of_b] = &mut product.transposed;
            let in_registers = matches!(a, LeftFactor::Registers(_));
            for transposed in (!in_registers).then_some(of_a).into_iter().chain([of_b]) {
                *transposed = match immediate(operands.get(next)?)? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                next += 1;
            }
        }
        self.emit_accumulators(&product, operands.get(0)?)?;
        Some(Op::WarpgroupProduct(product))
    }

    fn emit_accumulators(
        &mut self,
        product: &WarpgroupProduct,
        operand: &Operand<'a>,
    ) -> Option<()> {
        let d = items(operand);
        if d.len() != product.accumulators() {
            return None;
        }
        let mut lists = Vec::new();
        for items in d.chunks(Accumulators::MOST) {
            let mut list = Accumulators {
                count: items.len() as u8,
                d: [R(0); Accumulators::MOST],
                c: [R(0); Accumulators::MOST],
                adds: product.adds,
            };
            for (r, item) in list.d.iter_mut().zip(items) {
                *r = self.target(item, false)?;
            }
            list.c = list.d;
            lists.push(list);
        }
        for list in lists {
            self.emit_before(Op::Accumulators(list));
        }
        Some(())
    }
}

fn immediate(operand: &Operand<'_>) -> Option<i64> {
    match operand {
        Operand::Literal(Literal::Int(n)) => Some(*n as i64),
        _ => None,
    }
}
