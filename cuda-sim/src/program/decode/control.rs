//! Branches, barriers, fences, and calls of the CUDA runtime's device functions.

use super::async_copy::number;
use super::operands::{Mods, Operands, given};
use crate::program::lower::{Binding, Lowering};
use crate::program::op::{Access, Address, BarrierKind, Fence, MemorySpace, Order};
use crate::program::op::{Op, R, Type};
use crate::ptx::{Instruction, Literal, Operand};

/// `fence.proxy`. One for device memory alone orders nothing that is checked.
fn proxy_fence(mods: &mut Mods<'_>, operands: Operands<'_, '_>) -> Option<Op> {
    if mods.take("async") {
        let _ = mods.take("shared::cta") || mods.take("shared::cluster");
        let fence = match mods.take("global") {
            true => Op::Nothing,
            false => Op::Fence(Fence::AsyncProxy),
        };
        return Some(fence);
    }
    // Tensor maps that a kernel has changed: memory here is coherent.
    mods.take("tensormap::generic").then_some(())?;
    (mods.take("acquire") || mods.take("release")).then_some(())?;
    ["cta", "cluster", "gpu", "sys"]
        .into_iter()
        .any(|scope| mods.take(scope))
        .then_some(())?;
    operands.ignore();
    Some(Op::Nothing)
}

impl<'a> Lowering<'a> {
    pub(super) fn control(
        &mut self,
        instruction: &Instruction<'a>,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        match base {
            "bra" => {
                mods.take("uni");
                let Operand::Name(name) = operands.get(0)? else {
                    return None;
                };
                match self.find(name)? {
                    Binding::Label(label) => Some(Op::Branch {
                        target: label as u32,
                    }),
                    _ => None,
                }
            }
            "brx" => {
                mods.take("uni");
                mods.take("idx").then_some(())?;
                let index = self.source(operands.get(0)?, Type::U32)?;
                let Operand::Name(name) = operands.get(1)? else {
                    return None;
                };
                Some(Op::BranchTable {
                    table: self.branch_table(name)?,
                    index,
                })
            }
            "exit" => Some(Op::Exit),
            "bar" | "barrier" => self.barrier(instruction, mods, operands),
            "membar" | "fence" => {
                if mods.take("proxy") {
                    return proxy_fence(mods, operands);
                }
                if mods.take("mbarrier_init") {
                    (mods.take("release") && mods.take("cluster")).then_some(())?;
                    return Some(Op::Fence(Fence::MbarrierInit));
                }
                let block_only = mods.take("cta");
                for modifier in [
                    "gl", "sys", "sc", "acq_rel", "cluster", "gpu", "acquire", "release",
                ] {
                    mods.take(modifier);
                }
                Some(Op::Fence(match block_only {
                    true => Fence::Block,
                    false => Fence::Device,
                }))
            }
            "setmaxnreg" => {
                let increases = mods.take("inc");
                (increases || mods.take("dec")).then_some(())?;
                (mods.take("sync") && mods.take("aligned") && mods.take("u32")).then_some(())?;
                let count = number(operands.get(0)?)?;
                let count = u16::try_from(count).ok()?;
                Some(Op::SetMaxRegisters { increases, count })
            }
            "prefetch" | "prefetchu" | "griddepcontrol" | "pmevent" => {
                mods.parts.clear();
                operands.ignore();
                Some(Op::Nothing)
            }
            "nanosleep" => {
                mods.take("u32");
                operands.get(0)?;
                Some(Op::Yield)
            }
            "trap" | "brkpt" => Some(Op::Trap),
            _ => None,
        }
    }

    fn barrier(
        &mut self,
        instruction: &Instruction<'a>,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        if mods.take("warp") {
            mods.take("sync").then_some(())?;
            return Some(Op::WarpBarrier {
                members: self.source(operands.get(0)?, Type::U32)?,
            });
        }
        if mods.take("cluster") {
            self.uses_clusters = true;
            mods.take("aligned");
            let waits = mods.take("wait");
            if waits {
                mods.take("acquire");
                return Some(Op::ClusterBarrier {
                    waits,
                    relaxed: false,
                });
            }
            mods.take("arrive").then_some(())?;
            let relaxed = mods.take("relaxed");
            let _ = relaxed || mods.take("release");
            return Some(Op::ClusterBarrier { waits, relaxed });
        }
        mods.take("cta");
        mods.take("aligned");
        if mods.take("sync") {
            let id = self.source(operands.get(0)?, Type::U32)?;
            let count = given(operands.get(1), |count| self.source(count, Type::U32))?;
            let kind = if self.is_syncthreads(instruction) {
                BarrierKind::Threads
            } else {
                BarrierKind::Sync
            };
            return Some(Op::Barrier { kind, id, count });
        }
        if mods.take("arrive") {
            let id = self.source(operands.get(0)?, Type::U32)?;
            let count = Some(self.source(operands.get(1)?, Type::U32)?);
            return Some(Op::Barrier {
                kind: BarrierKind::Arrive,
                id,
                count,
            });
        }
        mods.take("red").then_some(())?;
        let p = self.condition(operands.get(operands.count().checked_sub(1)?)?)?;
        let kind = if mods.take("popc") {
            mods.take("u32").then_some(())?;
            BarrierKind::CountTrue {
                d: self.target(operands.get(0)?, false)?,
                p,
            }
        } else if mods.take("and") {
            mods.take("pred").then_some(())?;
            BarrierKind::AllTrue {
                d: self.predicate(operands.get(0)?)?,
                p,
            }
        } else {
            mods.take("or").then_some(())?;
            mods.take("pred").then_some(())?;
            BarrierKind::AnyTrue {
                d: self.predicate(operands.get(0)?)?,
                p,
            }
        };
        let id = self.source(operands.get(1)?, Type::U32)?;
        let count = match operands.count() {
            4 => Some(self.source(operands.get(2)?, Type::U32)?),
            _ => None,
        };
        Some(Op::Barrier { kind, id, count })
    }

    /// True if the compiler made the instruction of `__syncthreads()`. What an `asm` statement says
    /// is PTX, which asks for less: there, warps may come to one barrier in different places.
    fn is_syncthreads(&self, instruction: &Instruction<'a>) -> bool {
        let line = instruction.line;
        let before = self.ast.inline_asm.partition_point(|r| r.start <= line);
        let inline = self.ast.inline_asm[..before].last();
        instruction.opcode == "bar.sync"
            && instruction.operands == [Operand::Literal(Literal::Int(0))]
            && !inline.is_some_and(|range| range.contains(&line))
    }

    /// `printf` and `assert` of device code. Their arguments are parameters of the call, in local
    /// memory.
    pub(in crate::program) fn runtime_call(
        &mut self,
        name: &str,
        results: &[Operand<'a>],
        arguments: &[Operand<'a>],
    ) -> bool {
        match (name, results, arguments) {
            ("vprintf", [result], [format, values]) => self.print(result, format, values).is_some(),
            ("__assertfail", [], [message, file, line, _, _]) => {
                self.assert_fail(message, file, line).is_some()
            }
            _ => false,
        }
    }

    fn print(
        &mut self,
        result: &Operand<'a>,
        format: &Operand<'a>,
        values: &Operand<'a>,
    ) -> Option<()> {
        let format = self.argument(format, Type::U64)?;
        let arguments = self.argument(values, Type::U64)?;
        let d = Some(self.scratch(false));
        let print = Op::Print {
            d,
            format,
            arguments,
        };
        self.emit(print, None);
        let access = Access::one(Type::U32, Order::Weak);
        let (address, a) = (self.parameter(result)?, [d?; 4]);
        self.emit(Op::Store { access, address, a }, None);
        Some(())
    }

    fn assert_fail(
        &mut self,
        message: &Operand<'a>,
        file: &Operand<'a>,
        line: &Operand<'a>,
    ) -> Option<()> {
        let failed = Op::AssertFail {
            message: self.argument(message, Type::U64)?,
            file: self.argument(file, Type::U64)?,
            line: self.argument(line, Type::U32)?,
        };
        self.emit(failed, None);
        Some(())
    }

    fn argument(&mut self, operand: &Operand<'a>, ty: Type) -> Option<R> {
        let access = Access::one(ty, Order::Weak);
        let address = self.parameter(operand)?;
        let r = self.scratch(ty.is_wide());
        let d = [Some(r), None, None, None];
        self.emit(Op::Load { access, address, d }, None);
        Some(r)
    }

    fn parameter(&mut self, operand: &Operand<'a>) -> Option<Address> {
        match operand {
            Operand::Name(name) => {
                let base = self.address_of(name, 0, true)?;
                Some(Address::in_register(MemorySpace::Local, base))
            }
            _ => None,
        }
    }
}
