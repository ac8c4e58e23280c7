//! Operations that track registers that may be used unset; see
//! [`crate::program::analysis::unset_registers`].

use super::memory::Address;
use super::operands::{Condition, R};
use super::warp::Shuffle;

/// Update or check of the unset bytes, by lane, of registers that may be used unset. Each such
/// register has a slot; `None` is a register that is always set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tracking {
    Set {
        slot: u32,
    },
    /// A fault if one of `lanes` has one of `bytes` unset, a bit each. With `computed`, only if it
    /// was computed from an unset one.
    Check {
        slot: u32,
        bytes: u8,
        computed: bool,
        lanes: UsingLanes,
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
    /// After a store of `count` elements: a fault if a lane has stored no set byte. Otherwise the
    /// unset bytes are padding, and that memory counts as not written.
    Stored {
        address: Address,
        count: u8,
        /// Of one element.
        bytes: u8,
        slots: [Option<u32>; 4],
    },
}

/// The lanes in which an operation uses a register.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum UsingLanes {
    Of(u32),
    /// Those in which a `cp.async` reads its source: `size` is above 0, and `ignore` does not hold.
    Reading {
        size: R,
        ignore: Condition,
    },
    /// Those in which a product of a warpgroup adds to its accumulators.
    Where(Condition),
}

/// Flow of unset bytes from the operands of an operation to its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    pub d: u32,
    /// For each byte of the result, the bytes of the operand on which it depends, a bit each.
    pub from: Vec<(u32, [u8; 8])>,
    /// True if the result is computed from an unset byte; otherwise it is that byte.
    pub computes: bool,
}
