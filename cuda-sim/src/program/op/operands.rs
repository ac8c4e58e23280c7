//! Registers, predicates and conditions.

/// A register: the index of its first 32-lane plane in a warp's register file. 64-bit registers own
/// two planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct R(pub u32);

/// A predicate register: one bit per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct P(pub u32);

/// A predicate that is read, maybe negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub p: P,
    pub negate: bool,
}
