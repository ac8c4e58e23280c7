//! The suite of the stage, with tiles of any size and on any number of threads. `src/fast/tests.rs`
//! holds the errors beside PyTorch's.

use conformance::problems::gradients;
use conformance::{Card, Implementation, Judge, Part, Report, suites};
use rstest::rstest;
use stage1_reference::Head;
use stage3_flash_cpu::{Attend, AttendBackward, Error, Flash, Stage3, Tiles, instruction_set};

/// Judges both passes, or one; with tiles of any size without the longest problems of the table.
fn judge(tiles: Option<Tiles>, part: Part, passes: impl Fn(&mut Judge<'_>, &Stage3)) -> Report {
    let name = tiles.map(|Tiles { queries, keys }| format!("stage 3, tiles {queries} × {keys}"));
    let who = Implementation {
        name: name.as_deref().unwrap_or("stage 3"),
        device: &format!("CPU ({})", instruction_set()),
        lacks: &[],
    };
    let parts = [part];
    let chosen = |card: &Card<'_>| tiles.is_none() || card.extent.length < 1000;
    let mut judge = Judge::new(&who, &parts).only(&chosen);
    passes(&mut judge, &Stage3 { tiles });
    judge.report()
}

fn both(judge: &mut Judge<'_>, own: &Stage3) {
    suites::stage3::forward(judge, own);
    suites::stage3::backward(judge, own);
    suites::stage3::dropout(judge, own);
}

fn tiles(queries: usize, keys: usize) -> Option<Tiles> {
    Some(Tiles { queries, keys })
}

#[rstest]
fn passes_the_suite(
    #[values(
        Part::Table,
        Part::Strided,
        Part::Random,
        Part::Arguments,
        Part::Schedules
    )]
    part: Part,
) -> Result<(), Report> {
    judge(None, part, both).into_result()
}

/// Algorithm 1 without options.
#[rstest]
fn the_plain_one_passes_the_suite(
    #[values(
        Part::Table,
        Part::Strided,
        Part::Random,
        Part::Arguments,
        Part::Schedules
    )]
    part: Part,
) -> Result<(), Report> {
    let who = Implementation {
        name: "stage 3, plain",
        device: "CPU",
        lacks: &Head::LACKS,
    };
    let parts = [part];
    let mut judge = Judge::new(&who, &parts);
    suites::stage3::forward(&mut judge, &Flash);
    suites::stage1::dropout(&mut judge, &Flash);
    judge.report().into_result()
}

#[rstest]
#[case(1, 1)]
#[case(3, 5)]
#[case(33, 31)]
#[case(65, 200)]
#[case(usize::MAX, usize::MAX)]
fn passes_the_suite_with_tiles_of(
    #[case] queries: usize,
    #[case] keys: usize,
    #[values(Part::Table, Part::Random)] part: Part,
) -> Result<(), Report> {
    judge(tiles(queries, keys), part, suites::stage3::forward).into_result()
}

#[rstest]
#[case(33, 31)]
#[case(usize::MAX, usize::MAX)]
fn passes_the_suite_backward_with_tiles_of(
    #[case] queries: usize,
    #[case] keys: usize,
) -> Result<(), Report> {
    judge(tiles(queries, keys), Part::Table, suites::stage3::backward).into_result()
}

#[test]
fn solves_the_problems_with_dropout_with_tiles_of_33_and_31() -> Result<(), Report> {
    judge(tiles(33, 31), Part::Table, suites::stage3::dropout).into_result()
}

/// Of the table those problems that do not take too long.
#[test]
fn solves_the_table_backward_with_tiles_of_1() -> Result<(), Report> {
    let small = |judge: &mut Judge<'_>, own: &Stage3| {
        let problems = gradients::problems().into_iter();
        let problems = problems.filter(|problem| problem.forward.q.len() < 1 << 13);
        judge.problems(Part::Table, problems, |problem, output| {
            let forward = &problem.forward;
            let (q, k, v) = (forward.q.view(), forward.k.view(), forward.v.view());
            let attended = Stage3::default().attend(q, k, v, &forward.options)?;
            let d_o = problem.d_o.view();
            *output = own.attend_backward(q, k, v, &forward.options, &attended, d_o)?;
            Ok::<_, Error>(())
        });
    };
    judge(tiles(1, 1), Part::Table, small).into_result()
}

#[test]
fn threads_that_share_small_tiles_change_nothing() -> Result<(), Report> {
    judge(tiles(16, 16), Part::Schedules, suites::stage3::backward).into_result()
}
