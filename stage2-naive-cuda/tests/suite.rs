//! The suite of the stage with both matrix products, and that of stage 1 on host arrays.

use conformance::device::{Device, on_host_threads};
use conformance::{Implementation, Judge, Part, Report, suites};
use rstest::rstest;
use stage2_naive_cuda::{Kernels, LACKS, Stage2, Variant};

fn judge(variant: Variant, part: Part, on_host_arrays: bool) -> Report {
    let device = Device::open();
    let kernels = Kernels::new(&device.stream).unwrap_or_else(|error| panic!("{error}"));
    let own = Stage2 { kernels, variant };
    let who = Implementation {
        name: &format!("stage 2, {variant:?}"),
        device: &device.name,
        lacks: &LACKS,
    };
    if on_host_arrays {
        let parts = [part];
        let mut judge = Judge::new(&who, &parts);
        suites::stage1::attention(&mut judge, &own);
        return judge.report();
    }
    suites::stage2::judge(&who, &[part], &device, &own)
}

#[rstest]
fn passes_the_suite(
    #[values(Variant::Naive, Variant::Tiled)] variant: Variant,
    #[values(Part::Table, Part::Strided, Part::Random, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    judge(variant, part, false).into_result()
}

#[test]
fn tiled_products_move_and_compute_what_they_must() -> Result<(), Report> {
    judge(Variant::Tiled, Part::Counted, false).into_result()
}

#[test]
fn no_bit_depends_on_the_schedule() {
    on_host_threads("no_bit_depends_on_the_schedule", || {
        judge(Variant::Tiled, Part::Schedules, false)
    });
}

/// The table is above; here it is the copying, the broadcasting and the empty cases.
#[rstest]
fn passes_the_suite_on_host_arrays(
    #[values(Part::Strided, Part::Random, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    judge(Variant::Naive, part, true).into_result()
}
