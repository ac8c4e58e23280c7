//! What is known of registers that may be used unset; see [`crate::program::unset`].

use super::{Address, Condition, R, Shuffle};

/// What is done with what is known of the registers that may be used unset: which bytes are unset, in which lanes. Each
/// such register has a slot; `None` is one that is always set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tracking {
    Set {
        slot: u32,
    },
    /// A fault if a lane has one of `bytes` unset, a bit each. With `computed`, only if it was computed from an unset one.
    Check {
        slot: u32,
        bytes: u8,
        computed: bool,
    },
    /// The index of a [`Flow`].
    Flow {
        flow: u32,
    },
    Select {
        d: u32,
        a: Option<u32>,
        b: Option<u32>,
        p: Condition,
    },
    Shuffle {
        op: Shuffle,
        d: u32,
        a: Option<u32>,
        b: R,
        c: R,
    },
    /// Behind a store of `count` elements: a fault if a lane has stored nothing that was set. Otherwise what was unset is
    /// padding, and that memory counts as not written.
    Stored {
        address: Address,
        count: u8,
        /// Of one element.
        bytes: u8,
        slots: [Option<u32>; 4],
    },
}

/// How what is unset passes from the operands of an operation to its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    pub d: u32,
    /// For each byte of the result, the bytes of the operand on which it depends, a bit each.
    pub from: Vec<(u32, [u8; 8])>,
    /// What depends on an unset byte was computed from it; otherwise it is that byte.
    pub computes: bool,
}
