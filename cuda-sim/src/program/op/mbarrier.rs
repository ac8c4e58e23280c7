//! Arrival barriers in shared memory: `mbarrier`.

use super::memory::{Access, AccessKind, Address};
use super::operands::{P, R};

/// An operation on the barrier at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    pub op: MbarrierOp,
    /// Eight bytes.
    pub access: Access,
    pub address: Address,
    /// Gets the state before an arrival.
    pub d: Option<R>,
    /// Count of threads, phase or parity to wait for; of `expect_tx` and `complete_tx`, the bytes.
    pub a: R,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MbarrierOp {
    /// For `a` arrivals in each phase.
    Init,
    Inval,
    /// `a` arrivals, or one that expects `a` bytes more.
    Arrive(Arrival),
    /// The phase waits for `a` more bytes.
    ExpectBytes,
    /// `a` of them have come.
    CompleteBytes,
    /// True if a phase is over.
    Wait {
        p: P,
        /// `a` is the parity of the phase, not the state of an arrival in it.
        parity: bool,
        /// `try_wait`: the thread may rest until the phase is over.
        rests: bool,
    },
    /// `cp.async.mbarrier.arrive`: an arrival when the thread's copies have ended.
    CopiesArrive {
        /// `.noinc`: the barrier's count includes it.
        counted: bool,
    },
}

impl MbarrierOp {
    /// A wait only reads the phase.
    pub(crate) fn access_kind(self) -> AccessKind {
        match self {
            MbarrierOp::Wait { .. } => AccessKind::Load,
            _ => AccessKind::Atomic,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// `arrive_drop`: later phases wait for so many fewer.
    pub drops: bool,
    /// `.noComplete`: it must not end the phase.
    pub is_never_last: bool,
    /// `.expect_tx`: one arrival, and `a` is a number of bytes.
    pub expects_bytes: bool,
    /// All accesses of its thread so far come before what waits for the phase; otherwise those
    /// before its last fence.
    pub releases: bool,
}
