//! A decoded instruction, and the registers and constants that it names.

use super::op::{Condition, Form, Op};

/// A decoded operation and its guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    pub op: Op,
    pub guard: Option<Condition>,
    /// Operations that are counted with this one, because the same threads run them; 0 if it is
    /// counted with another, or not at all.
    pub counts: u32,
    /// Its handler form; `None` if it does more than change registers.
    pub form: Option<Form>,
    /// Length of the run of operations from this one on that have a form and that the same threads
    /// run.
    pub run: u32,
    /// Number of these, from this one on, that have its form.
    pub alike: u32,
    /// It accesses an operand of a product of a warpgroup, or a copy of one, and is no such
    /// product.
    pub concerns_products: bool,
}

impl Instruction {
    /// An instruction before [`crate::program::analysis::straight_line`] has counted and grouped
    /// it.
    pub(crate) fn new(op: Op, guard: Option<Condition>) -> Instruction {
        Instruction {
            op,
            guard,
            counts: 0,
            form: None,
            run: 0,
            alike: 0,
            concerns_products: false,
        }
    }
}

/// A register before allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtualRegister {
    pub wide: bool,
    /// Holds a constant or special value for the whole run.
    pub pinned: bool,
}

/// Value of a constant register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Narrow(u32),
    Wide(u64),
    /// Address of a module variable, known once the driver has placed it.
    Variable {
        index: usize,
        offset: i64,
        wide: bool,
    },
    /// An address in the static shared array that starts at `start`.
    StaticShared {
        start: u64,
        offset: i64,
        wide: bool,
    },
    /// Offset of dynamic shared memory, known once all static shared memory is laid out.
    DynamicShared {
        offset: i64,
        wide: bool,
    },
}

impl Constant {
    /// An address, in a register of either width.
    pub(crate) fn address(address: u64, wide: bool) -> Constant {
        match wide {
            true => Constant::Wide(address),
            false => Constant::Narrow(address as u32),
        }
    }

    /// Its bits, if they do not depend on where something is placed.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Constant::Narrow(value) => Some(u64::from(value)),
            Constant::Wide(value) => Some(value),
            Constant::StaticShared { start, offset, .. } => Some(start.wrapping_add_signed(offset)),
            Constant::Variable { .. } | Constant::DynamicShared { .. } => None,
        }
    }
}
