//! The suite of the stage.

use conformance::device::Device;
use conformance::{Implementation, Part, Report, suites};
use rstest::rstest;
use stage6_pipeline::Stage6;

#[rstest]
fn passes_the_suite(
    #[values(Part::Table, Part::Random, Part::Arguments, Part::Schedules)] part: Part,
) -> Result<(), Report> {
    let device = Device::open();
    let who = Implementation {
        name: "stage 6",
        device: &device.name,
        lacks: &[],
    };
    suites::stage6::judge(&who, &[part], &Stage6).into_result()
}
