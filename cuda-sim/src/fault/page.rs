//! The page of each class of faults: what a GPU does, and why the rule exists. A class without a
//! page does not compile.

use super::FaultKind;

/// Text on a class of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// File in the repository.
    pub file: &'static str,
    /// Its contents, in Markdown.
    pub text: &'static str,
}

macro_rules! page {
    ($name:literal) => {
        Page {
            file: concat!("cuda-sim/findings/", $name, ".md"),
            text: include_str!(concat!("../../findings/", $name, ".md")),
        }
    };
}

impl FaultKind {
    /// The page of its class.
    pub fn page(&self) -> Page {
        match self {
            FaultKind::OutOfBounds(_) | FaultKind::TensorOutOfBounds(_) => page!("out-of-bounds"),
            FaultKind::UseAfterFree(_) => page!("use-after-free"),
            FaultKind::Misaligned(_) => page!("misaligned"),
            FaultKind::UninitialisedRead(_) => page!("uninitialised-read"),
            FaultKind::UninitialisedRegister => page!("uninitialised-register"),
            FaultKind::Race(race) if race.is_asynchronous() => page!("asynchronous-race"),
            FaultKind::Race(_) => page!("race"),
            FaultKind::MissingProxyFence(_) => page!("proxy-fence"),
            FaultKind::UnfinishedBulkCopy => page!("unfinished-bulk-copy"),
            FaultKind::UnfinishedCopy(_) => page!("copy-in-flight"),
            FaultKind::InactiveLane { .. } => page!("inactive-lane"),
            FaultKind::Runaway { .. } => page!("endless-loop"),
            FaultKind::LongLaunch { .. } => page!("long-launch"),
            FaultKind::BadBranch { .. } => page!("bad-branch"),
            FaultKind::UnknownInstruction { .. } => page!("unknown-instruction"),
            FaultKind::UnknownCall { .. } => page!("unknown-call"),
            FaultKind::BadCall { .. } => page!("bad-call"),
            FaultKind::BadMbarrier { .. } => page!("bad-mbarrier"),
            FaultKind::BadBulkCopy { .. } => page!("bad-bulk-copy"),
            FaultKind::Trap => page!("trap"),
            FaultKind::Assertion { .. } => page!("assertion"),
            FaultKind::DivergentBarrier { .. } => page!("divergent-barrier"),
            FaultKind::DifferentBarriers { .. } => page!("different-barriers"),
            FaultKind::MissingLanes { .. } => page!("missing-lanes"),
            FaultKind::DifferentMasks { .. } => page!("different-masks"),
            FaultKind::Deadlock { .. } => page!("deadlock"),
            FaultKind::RegistersExhausted { .. } | FaultKind::BadRegisterCount { .. } => {
                page!("setmaxnreg")
            }
            FaultKind::BadCluster { .. } => page!("cluster"),
            FaultKind::WarpgroupOutOfStep { .. } => page!("warpgroup-out-of-step"),
            FaultKind::BadDescriptor { .. } => page!("bad-descriptor"),
            FaultKind::ProductInFlight(_) => page!("product-in-flight"),
            FaultKind::MissingProductFence { .. } => page!("missing-wgmma-fence"),
            FaultKind::GridDeadlock { .. } => page!("grid-deadlock"),
            FaultKind::BadBarrier { .. } => page!("bad-barrier"),
        }
    }
}
