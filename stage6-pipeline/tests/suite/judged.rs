//! The suite of the stage.

use conformance::device::Device;
use conformance::{Card, Implementation, Judge, Part, Report, suites};
use rstest::rstest;
use stage6_pipeline::Stage6;

/// The stories of the table that take longest.
const LONG: [&str; 3] = ["storyteller_1", "storyteller_3", "storyteller_4"];

fn judge(part: Part, chosen: impl Fn(&Card<'_>) -> bool) -> Report {
    let device = Device::open();
    let who = Implementation {
        name: "stage 6",
        device: &device.name,
        lacks: &[],
    };
    let parts = [part];
    let mut judge = Judge::new(&who, &parts).only(&chosen);
    suites::stage6::all(&mut judge, &Stage6);
    judge.report()
}

#[rstest]
fn passes_the_suite(
    #[values(Part::Table, Part::Random, Part::Arguments, Part::Schedules)] part: Part,
) -> Result<(), Report> {
    judge(part, |card| !LONG.contains(&card.name)).into_result()
}

#[test]
#[ignore = "takes several seconds"]
fn continues_long_stories() -> Result<(), Report> {
    let report = judge(Part::Table, |card| LONG.contains(&card.name));
    assert_eq!(report.cases.len(), LONG.len());
    report.into_result()
}
