//! Registers that products of warpgroups have as operands, and copies of them.
//!
//! Which instruction may touch them is checked while products run
//! ([`crate::exec::warp`], `products`). Such a register shares its plane with no other, so that a
//! plane tells the register.

use crate::program::instruction::{Instruction, VirtualRegister};
use crate::program::op::{LeftFactor, Op};

/// Marks the instructions that access one of these registers. By register: whether it is one.
pub(crate) fn mark(code: &mut [Instruction], registers: &[VirtualRegister]) -> Vec<bool> {
    let mut found = vec![false; registers.len()];
    for instruction in code.iter() {
        match &instruction.op {
            Op::Accumulators(list) => list
                .registers()
                .iter()
                .for_each(|r| found[r.0 as usize] = true),
            Op::WarpgroupProduct(product) => {
                if let LeftFactor::Registers(a) = product.a {
                    a.iter().for_each(|r| found[r.0 as usize] = true);
                }
            }
            _ => {}
        }
    }
    if !found.contains(&true) {
        return found;
    }
    let is_free = |r: usize| !registers[r].pinned;
    loop {
        let mut spread = false;
        for instruction in code.iter() {
            if let Op::Move { wide: false, d, a } = instruction.op {
                let (d, a) = (d.0 as usize, a.0 as usize);
                if is_free(a) && found[d] != found[a] {
                    (found[d], found[a]) = (true, true);
                    spread = true;
                }
            }
        }
        if !spread {
            break;
        }
    }
    for (r, found) in found.iter_mut().enumerate() {
        *found &= is_free(r);
    }
    for instruction in code {
        let mut concerned = false;
        let mut op = instruction.op;
        op.for_each_register(&mut |_, r| concerned |= found[r.0 as usize]);
        let is_operand = matches!(
            op,
            Op::Accumulators(_) | Op::WarpgroupProduct(_) | Op::Track(_)
        );
        instruction.concerns_products = concerned && !is_operand;
    }
    found
}
