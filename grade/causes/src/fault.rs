//! The causes of faults.

use exercise_kit::message::{Fault, FaultKind, Space};

use super::Cause;

/// The cause of a fault, if its kind has one.
pub fn fault_cause(fault: &Fault) -> Option<Cause> {
    let shared = fault.space == Some(Space::Shared);
    Some(match fault.kind {
        FaultKind::CopyInFlight => Cause::CopyInFlight,
        FaultKind::Race if shared => Cause::UnsynchronisedTile,
        FaultKind::Unwritten if shared => Cause::UnwrittenTile,
        FaultKind::Race => Cause::RaceInDeviceMemory,
        FaultKind::Unwritten => Cause::UninitialisedRead,
        FaultKind::OutOfBounds => Cause::OutOfBounds,
        FaultKind::Null => Cause::NullPointer,
        FaultKind::Misaligned => Cause::Misaligned,
        FaultKind::UnwrittenAfterReturn | FaultKind::Barrier => Cause::DivergentBarrier,
        FaultKind::AsynchronousRace => Cause::UnwaitedTile,
        FaultKind::UnfencedProduct => Cause::UnfencedProduct,
        FaultKind::ProductInFlight => Cause::ProductInFlight,
        FaultKind::Descriptor => Cause::Descriptor,
        FaultKind::Mbarrier => Cause::Mbarrier,
        FaultKind::EndlessLoop => Cause::EndlessLoop,
        FaultKind::LongLaunch | FaultKind::Other => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_memory_tell() {
        use FaultKind::*;
        for (kind, space, cause) in [
            (Race, Space::Shared, Some(Cause::UnsynchronisedTile)),
            (Race, Space::Other, Some(Cause::RaceInDeviceMemory)),
            (CopyInFlight, Space::Shared, Some(Cause::CopyInFlight)),
            (Unwritten, Space::Shared, Some(Cause::UnwrittenTile)),
            (Unwritten, Space::Other, Some(Cause::UninitialisedRead)),
            (
                UnwrittenAfterReturn,
                Space::Shared,
                Some(Cause::DivergentBarrier),
            ),
            (OutOfBounds, Space::Other, Some(Cause::OutOfBounds)),
            (Null, Space::Other, Some(Cause::NullPointer)),
            (AsynchronousRace, Space::Shared, Some(Cause::UnwaitedTile)),
            (UnfencedProduct, Space::Other, Some(Cause::UnfencedProduct)),
            (ProductInFlight, Space::Other, Some(Cause::ProductInFlight)),
            (Descriptor, Space::Other, Some(Cause::Descriptor)),
            (Mbarrier, Space::Other, Some(Cause::Mbarrier)),
            (LongLaunch, Space::Other, None),
            (Other, Space::Other, None),
        ] {
            let fault = Fault {
                kind,
                space: Some(space),
                kernel: "softmax".to_owned(),
                place: None,
                sentence: String::new(),
                report: String::new(),
            };
            assert_eq!(fault_cause(&fault), cause, "{fault:?}");
        }
    }
}
