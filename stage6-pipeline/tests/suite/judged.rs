//! The suite of the stage.

use conformance::device::Device;
use conformance::{Card, Implementation, Judge, Part, Report, suites};
use rstest::rstest;
use stage6_pipeline::Stage6;

/// The stories of the table that take longest.
const LONG: [&str; 3] = ["storyteller_1", "storyteller_3", "storyteller_4"];

/// The suite, with at most so many random problems of a task.
fn judge(part: Part, most_random: u64, chosen: impl Fn(&Card<'_>) -> bool) -> Report {
    let device = Device::open();
    let who = Implementation {
        name: "stage 6",
        device: &device.name,
        lacks: &[],
    };
    let parts = [part];
    let judge = Judge::new(&who, &parts).only(&chosen);
    let mut judge = judge.seeded(0, most_random);
    suites::stage6::all(&mut judge, &Stage6);
    judge.report()
}

#[rstest]
fn passes_the_suite(
    #[values(Part::Table, Part::Random, Part::Arguments, Part::Schedules)] part: Part,
) -> Result<(), Report> {
    judge(part, 6, |card| !LONG.contains(&card.name)).into_result()
}

#[test]
#[ignore = "takes several seconds"]
fn continues_long_stories() -> Result<(), Report> {
    let report = judge(Part::Table, 0, |card| LONG.contains(&card.name));
    assert_eq!(report.cases.len(), LONG.len());
    report.into_result()
}

#[test]
#[ignore = "takes several seconds"]
fn solves_all_random_problems() -> Result<(), Report> {
    judge(Part::Random, u64::MAX, |_| true).into_result()
}
