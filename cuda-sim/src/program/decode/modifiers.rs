//! Words of modifiers that several families have: comparisons, logic, memory spaces.

use crate::program::op::{Comparison, Logic, MemorySpace};

pub(super) fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "eq" => Comparison::Eq,
        "ne" => Comparison::Ne,
        "lt" | "lo" => Comparison::Lt,
        "le" | "ls" => Comparison::Le,
        "gt" | "hi" => Comparison::Gt,
        "ge" | "hs" => Comparison::Ge,
        "equ" => Comparison::EqU,
        "neu" => Comparison::NeU,
        "ltu" => Comparison::LtU,
        "leu" => Comparison::LeU,
        "gtu" => Comparison::GtU,
        "geu" => Comparison::GeU,
        "num" => Comparison::Num,
        "nan" => Comparison::Nan,
        _ => return None,
    })
}

pub(super) fn logic(name: &str) -> Option<Logic> {
    Some(match name {
        "and" => Logic::And,
        "or" => Logic::Or,
        "xor" => Logic::Xor,
        _ => return None,
    })
}

/// `.global`, `.shared` … as a memory space; `.const` variables live in global memory here.
pub(super) fn memory_space(name: &str) -> Option<MemorySpace> {
    Some(match name {
        "global" | "const" => MemorySpace::Global,
        "shared" | "shared::cluster" => MemorySpace::Shared,
        "local" => MemorySpace::Local,
        "param" => MemorySpace::Param,
        _ => return None,
    })
}
