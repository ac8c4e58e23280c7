//! The suite of the stage with each rung, that of the library, and that of stage 1 on host arrays.

use conformance::device::{Device, on_host_threads};
use conformance::{Card, Implementation, Judge, Part, Report, suites};
use rstest::rstest;
use stage2_naive_cuda::{GemmRung, Kernels, LACKS, LADDER_LACKS, Ladder, SoftmaxRung};

/// False for the problems that show that a grid takes more matrices than its
/// y and z dimensions reach.
fn few_matrices(card: &Card<'_>) -> bool {
    card.extent.matrices < 65_536
}

fn ladder(gemm: GemmRung, softmax: SoftmaxRung, part: Part) -> Report {
    ladder_within(gemm, softmax, part, false)
}

/// One of so many problems is judged where not all are.
const SAMPLE: usize = 4;

/// `all` problems, or a sample of those without many matrices.
fn ladder_within(gemm: GemmRung, softmax: SoftmaxRung, part: Part, all: bool) -> Report {
    let device = Device::open();
    let own = Ladder {
        stream: device.stream.clone(),
        gemm,
        softmax,
    };
    let who = Implementation {
        name: &format!("stage 2, gemm {gemm} and softmax {softmax}"),
        device: &device.name,
        lacks: &LADDER_LACKS,
    };
    let chosen = |card: &Card<'_>| all || few_matrices(card);
    let parts = [part];
    let judge = Judge::new(&who, &parts).only(&chosen);
    let mut judge = judge.sampled(if all { 1 } else { SAMPLE });
    suites::stage2::all(&mut judge, &device, &own);
    judge.report()
}

fn library(part: Part, on_host_arrays: bool) -> Report {
    library_within(part, on_host_arrays, false)
}

/// `all` problems, or a sample of those without many matrices, of the random ones on host arrays
/// among few.
fn library_within(part: Part, on_host_arrays: bool, all: bool) -> Report {
    let device = Device::open();
    let kernels = Kernels::new(&device.stream).unwrap_or_else(|error| panic!("{error}"));
    let who = Implementation {
        name: "stage 2, library",
        device: &device.name,
        lacks: &LACKS,
    };
    let parts = [part];
    let chosen = |card: &Card<'_>| all || few_matrices(card);
    let most_random = if on_host_arrays && !all { 30 } else { u64::MAX };
    let judge = Judge::new(&who, &parts).only(&chosen);
    let judge = judge.seeded(0, most_random);
    let mut judge = judge.sampled(if all { 1 } else { SAMPLE });
    match on_host_arrays {
        true => suites::stage1::attention(&mut judge, &kernels),
        false => suites::stage2::library(&mut judge, &device, &kernels),
    }
    judge.report()
}

/// Each rung is in one of the pairs.
#[rstest]
fn rungs_pass_the_suite(
    #[values(
        (GemmRung::Plain, SoftmaxRung::Tree),
        (GemmRung::Tiled, SoftmaxRung::Tree),
        (GemmRung::RegisterTiled, SoftmaxRung::Warp)
    )]
    (gemm, softmax): (GemmRung, SoftmaxRung),
    #[values(Part::Table, Part::Random, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    ladder(gemm, softmax, part).into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn rungs_solve_all_problems(
    #[values(
        (GemmRung::Plain, SoftmaxRung::Tree),
        (GemmRung::Tiled, SoftmaxRung::Tree),
        (GemmRung::RegisterTiled, SoftmaxRung::Warp)
    )]
    (gemm, softmax): (GemmRung, SoftmaxRung),
    #[values(Part::Table, Part::Random)] part: Part,
) -> Result<(), Report> {
    ladder_within(gemm, softmax, part, true).into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn the_library_solves_all_problems(
    #[values(
        (Part::Table, false),
        (Part::Strided, false),
        (Part::Random, false),
        (Part::Random, true)
    )]
    (part, on_host_arrays): (Part, bool),
) -> Result<(), Report> {
    library_within(part, on_host_arrays, true).into_result()
}

#[rstest]
fn tiled_products_move_and_compute_what_they_must(
    #[values(
        (GemmRung::Tiled, SoftmaxRung::Tree),
        (GemmRung::RegisterTiled, SoftmaxRung::Warp)
    )]
    (gemm, softmax): (GemmRung, SoftmaxRung),
) -> Result<(), Report> {
    ladder(gemm, softmax, Part::Counted).into_result()
}

#[test]
fn no_bit_of_the_ladder_depends_on_the_schedule() {
    on_host_threads(
        "judged::no_bit_of_the_ladder_depends_on_the_schedule",
        || {
            let report = ladder(GemmRung::Tiled, SoftmaxRung::Tree, Part::Schedules);
            match report.clone().into_result() {
                Ok(()) => ladder(GemmRung::RegisterTiled, SoftmaxRung::Warp, Part::Schedules),
                Err(_) => report,
            }
        },
    );
}

#[rstest]
fn the_library_passes_its_suite(
    #[values(
        Part::Table,
        Part::Strided,
        Part::Random,
        Part::Arguments,
        Part::Counted
    )]
    part: Part,
) -> Result<(), Report> {
    library(part, false).into_result()
}

#[test]
#[ignore = "a sweep"]
fn no_bit_of_the_library_depends_on_the_schedule() {
    on_host_threads(
        "judged::no_bit_of_the_library_depends_on_the_schedule",
        || library(Part::Schedules, false),
    );
}

/// The table is above; here it is the copying, the broadcasting and the empty cases.
#[rstest]
fn the_library_passes_the_suite_on_host_arrays(
    #[values(Part::Random, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    library(part, true).into_result()
}

#[test]
#[ignore = "takes several seconds"]
fn the_library_takes_strided_host_arrays() -> Result<(), Report> {
    library(Part::Strided, true).into_result()
}
