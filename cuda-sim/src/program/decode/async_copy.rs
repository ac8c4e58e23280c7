//! Asynchronous copies: `cp.async` and its groups.

use super::operands::{Mods, Operands};
use crate::program::lower::{FALSE, Lowering};
use crate::program::op::{Address, AsyncCopy, Condition, CopySide, MemorySpace, Op, Type};
use crate::ptx::{Literal, Operand};

impl<'a> Lowering<'a> {
    pub(super) fn async_copy(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let reduces = mods.take("reduce");
        mods.take("async").then_some(())?;
        if mods.take("bulk") {
            return self.bulk_copy(mods, operands, reduces);
        }
        if reduces {
            return None;
        }
        if mods.take("mbarrier") {
            return self.copies_arrive(mods, operands);
        }
        if mods.take("commit_group") {
            return Some(Op::CopyCommit);
        }
        if mods.take("wait_all") {
            return Some(Op::CopyWait { newest: None });
        }
        if mods.take("wait_group") {
            let newest = Some(number(operands.get(0)?)?);
            return Some(Op::CopyWait { newest });
        }
        let operands = match mods.take("L2::cache_hint") {
            true => operands.without_last()?,
            false => operands,
        };
        let through_l1 = mods.take("ca");
        let bytes = match number(operands.get(2)?)? {
            bytes @ (4 | 8) if through_l1 => bytes as u8,
            16 if through_l1 || mods.take("cg") => 16,
            _ => return None,
        };
        // The target's space is named first.
        let target = self.address(mods, operands.get(0)?)?;
        let source = self.address(mods, operands.get(1)?)?;
        if target.space != MemorySpace::Shared || source.space != MemorySpace::Global {
            return None;
        }
        let _ = mods.choose(prefetch_size);
        let never = Condition {
            p: FALSE,
            negate: false,
        };
        let (size, ignore) = match operands.get(3) {
            None => (self.number(bytes.into()), never),
            Some(size @ Operand::Literal(_)) => (self.source(size, Type::U32)?, never),
            Some(last) => match self.condition(last) {
                Some(ignore) => (self.number(bytes.into()), ignore),
                None => (self.source(last, Type::U32)?, never),
            },
        };
        Some(Op::CopyAsync(AsyncCopy {
            source: side(source),
            target: side(target),
            bytes,
            size,
            ignore,
            through_l1,
            sites: [0; 2],
        }))
    }
}

/// Prefetch size of the second-level cache. It has no effect here.
fn prefetch_size(name: &str) -> Option<()> {
    matches!(name, "L2::64B" | "L2::128B" | "L2::256B").then_some(())
}

pub(super) fn number(operand: &Operand<'_>) -> Option<u32> {
    match operand {
        Operand::Literal(Literal::Int(n)) => u32::try_from(*n).ok(),
        _ => None,
    }
}

fn side(address: Address) -> CopySide {
    CopySide {
        base: address.base,
        wide: address.wide,
        offset: address.offset,
    }
}
