//! Faults on their way from an access or an operation to the launch: of a lane, and of its warp.

use crate::fault::FaultKind;

/// Fault of an instruction, and the first lane that it concerns.
pub(crate) struct LaneFault {
    pub kind: FaultKind,
    pub lane: u32,
    /// The other side of a race.
    pub other: Option<OtherSide>,
}

/// Another place: an instruction, and who ran it, if that is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OtherSide {
    pub pc: u32,
    pub thread: Option<u32>,
    /// Number of the block; `None` if it is this one or several.
    pub block: Option<u32>,
}

/// The other side of a race.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OtherAccess {
    pub side: OtherSide,
    /// Its warp; if there are several, that of one thread.
    pub warp: usize,
    pub write: bool,
}

/// Threads of the block that did not take part in a barrier.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Missing {
    /// A branch leads past the barrier at this instruction.
    Past(u32),
    /// So many had left when the others passed the last barrier.
    Returned(u32),
}

/// A fault of a lane; in a box, because it is large and rare.
pub(crate) type Trap = Box<LaneFault>;

impl LaneFault {
    pub(crate) fn new(kind: FaultKind, lane: u32) -> Trap {
        Box::new(LaneFault {
            kind,
            lane,
            other: None,
        })
    }
}

/// A fault with the instruction and the threads that ran it.
pub(crate) struct WarpFault {
    pub kind: FaultKind,
    pub pc: u32,
    pub lane: u32,
    pub mask: u32,
    /// Another instruction involved.
    pub other: Option<OtherSide>,
}

impl WarpFault {
    /// The fault of a lane of the threads in `mask`, at an instruction.
    pub(crate) fn new(fault: LaneFault, pc: u32, mask: u32) -> WarpFault {
        let LaneFault { kind, lane, other } = fault;
        WarpFault {
            kind,
            pc,
            lane,
            mask,
            other,
        }
    }
}
