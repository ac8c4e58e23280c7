//! Memory beyond inputs and outputs: it grows with the sequence, not with its square.

use conformance::memory::Counting;
use conformance::{Implementation, Part, Report, suites};
use stage3_flash_cpu::Stage3;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test, because the counters are shared by all of a program.
#[test]
fn memory_grows_with_the_sequence() -> Result<(), Report> {
    let who = Implementation {
        name: "stage 3",
        device: "CPU",
        lacks: &[],
    };
    suites::stage3::judge(&who, &[Part::Counted], &Stage3::default()).into_result()
}
