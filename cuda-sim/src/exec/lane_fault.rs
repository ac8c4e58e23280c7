//! Fault of one lane, on its way from an access or an operation to the warp that runs it.

use crate::fault::FaultKind;

/// What an instruction did wrong, and the first lane that it concerns.
pub(crate) struct LaneFault {
    pub kind: FaultKind,
    pub lane: u32,
    /// The other side of a race.
    pub other: Option<OtherSide>,
}

/// Where else: an instruction, and who ran it, if that is one.
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
    pub write: bool,
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
