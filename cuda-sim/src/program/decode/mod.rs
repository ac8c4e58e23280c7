//! One PTX instruction to one operation.
//!
//! Each family takes the modifiers that it understands; an instruction with a modifier that nobody
//! took, or an operand that nobody read, is unknown, so that nothing is ever silently ignored.
//! `None` means unknown throughout.

mod arithmetic;
mod async_copy;
mod b128;
mod bulk_copy;
mod control;
mod data;
mod half;
mod lanes;
mod matrix;
mod mbarrier;
mod memory;
mod modifiers;
mod operands;
mod tensor_map;
mod warpgroup;
mod wmma;

use std::cell::Cell;

use self::operands::{Mods, Operands};
use super::lower::Lowering;
use super::op::Op;
use crate::ptx::Instruction;

impl<'a> Lowering<'a> {
    /// Decodes `instruction`; calls, returns and guards are handled by the caller.
    pub(super) fn decode(&mut self, instruction: &'a Instruction<'a>) -> Option<Op> {
        let mut parts = instruction.opcode.split('.');
        let base = parts.next()?;
        let mut mods = Mods {
            parts: parts.collect(),
        };
        let used = Cell::new(0);
        let operands = Operands {
            items: &instruction.operands,
            used: &used,
        };
        let op = match base {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "min" | "max" | "neg"
            | "abs" | "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "popc" | "clz"
            | "brev" | "bfind" | "bfe" | "bfi" | "prmt" | "lop3" | "shf" | "sad" | "dp4a"
            | "dp2a" | "mul24" | "mad24" | "bmsk" | "szext" | "addc" | "subc" | "madc" | "sqrt"
            | "rcp" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign" | "testp"
            | "fns" | "vabsdiff2" | "vabsdiff4" => self.arithmetic(base, &mut mods, operands),
            "mov" | "cvt" | "cvta" | "mapa" | "selp" | "slct" | "setp" | "set" | "isspacep"
            | "createpolicy" => self.data(base, &mut mods, operands),
            "ld" | "ldu" | "st" | "atom" | "red" => {
                let op = self.memory(base, &mut mods, operands);
                match instruction.used_bytes {
                    Some(mask) => op.map(|op| memory::with_used_bytes(op, mask)),
                    None => op,
                }
            }
            "mma" => self.matrix_product(&mut mods, operands),
            "ldmatrix" | "stmatrix" => self.matrix_rows(base, &mut mods, operands),
            "movmatrix" => self.matrix_transpose(&mut mods, operands),
            "wmma" => self.wmma(&mut mods, operands),
            "wgmma" => self.warpgroup(&mut mods, operands),
            "mbarrier" => self.mbarrier(&mut mods, operands),
            "cp" => self.async_copy(&mut mods, operands),
            "prefetch" if mods.take("tensormap") => self.prefetch_tensor_map(&mut mods, operands),
            "tensormap" => self.tensor_map(&mut mods, operands),
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => {
                self.lanes(base, &mut mods, operands)
            }
            _ => self.control(instruction, base, &mut mods, operands),
        }?;
        let all_used = mods.parts.is_empty() && used.get() >= instruction.operands.len();
        all_used.then_some(op)
    }
}
