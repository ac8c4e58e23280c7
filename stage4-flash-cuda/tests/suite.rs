//! The suite of the stage with every strategy, and that of stage 1 on host arrays.

use conformance::device::{Device, on_host_threads};
use conformance::{Implementation, Judge, Part, Report, suites};
use rstest::rstest;
use stage2_naive_cuda::LACKS;
use stage4_flash_cuda::{Attention, Error, Fused, Inputs, Mode, Outputs, Shape, Stage4, Strategy};

fn judge(mode: Mode, part: Part, on_host_arrays: bool) -> Report {
    let device = Device::open();
    let attention =
        Attention::new(device.stream.context()).unwrap_or_else(|error| panic!("{error}"));
    let own = Stage4 {
        stream: device.stream.clone(),
        attention: attention.with_mode(mode),
    };
    let who = Implementation {
        name: &format!("stage 4, {mode}"),
        device: &device.name,
        lacks: match mode {
            Mode::Naive | Mode::Tiled => &LACKS,
            Mode::Fused => &[],
            Mode::FusedBy(strategy) => strategy.lacks(),
        },
    };
    if on_host_arrays {
        let parts = [part];
        let mut judge = Judge::new(&who, &parts);
        suites::stage1::attention(&mut judge, &own);
        return judge.report();
    }
    suites::stage4::judge(&who, &[part], &device, &own)
}

const FLASH: Mode = Mode::FusedBy(Strategy::Flash);
const PADDED: Mode = Mode::FusedBy(Strategy::Padded);
const EXACT: Mode = Mode::FusedBy(Strategy::Exact);
const SPLIT: Mode = Mode::FusedBy(Strategy::Split);

/// And no further from f64 than PyTorch by more than a factor.
#[rstest]
fn solves_the_table(
    #[values(FLASH, EXACT, SPLIT, Mode::Fused)] mode: Mode,
) -> Result<(), Box<dyn std::error::Error>> {
    let report = judge(mode, Part::Table, false);
    let beside_torch = report.beside_torch();
    report.into_result()?;
    Ok(beside_torch.into_result()?)
}

#[rstest]
fn passes_the_suite(
    #[values(FLASH, PADDED, EXACT, SPLIT, Mode::Fused)] mode: Mode,
    #[values(Part::Random, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    judge(mode, part, false).into_result()
}

#[rstest]
fn takes_strides(#[values(EXACT, SPLIT, Mode::Fused)] mode: Mode) -> Result<(), Report> {
    judge(mode, Part::Strided, false).into_result()
}

#[rstest]
fn moves_and_computes_what_it_must(
    #[values(FLASH, EXACT, Mode::Fused)] mode: Mode,
) -> Result<(), Report> {
    judge(mode, Part::Counted, false).into_result()
}

/// Stage 2 has its own suite; here it is what the dispatcher refuses.
#[rstest]
fn refuses_by_stage_2(#[values(Mode::Naive, Mode::Tiled)] mode: Mode) -> Result<(), Report> {
    judge(mode, Part::Arguments, false).into_result()
}

#[test]
fn no_bit_of_rung_1_depends_on_the_schedule() {
    on_host_threads("no_bit_of_rung_1_depends_on_the_schedule", || {
        judge(FLASH, Part::Schedules, false)
    });
}

#[test]
fn no_bit_of_rung_2_depends_on_the_schedule() {
    on_host_threads("no_bit_of_rung_2_depends_on_the_schedule", || {
        judge(EXACT, Part::Schedules, false)
    });
}

#[test]
fn no_bit_of_rung_3_depends_on_the_schedule() {
    on_host_threads("no_bit_of_rung_3_depends_on_the_schedule", || {
        judge(
            Mode::FusedBy(Strategy::RegisterTiled),
            Part::Schedules,
            false,
        )
    });
}

/// The dispatcher, the copying, the broadcasting and the empty cases.
#[rstest]
fn passes_the_suite_on_host_arrays(
    #[values(Part::Table, Part::Strided, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    judge(Mode::Fused, part, true).into_result()
}

/// Takes a causal mask for one that is aligned top-left, and does not look at its arguments.
struct TopLeft(Stage4);

impl Fused for TopLeft {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let mut shape = *shape;
        let own = shape.sizes.nk.saturating_sub(shape.sizes.nq);
        if let (true, None) = (shape.causal, shape.window) {
            shape.causal = false;
            shape.window = Some(stage1_reference::Window {
                left: usize::MAX,
                right: 0,
            });
            // The diagonal of a bottom-right alignment, less the distance between the two.
            shape.sizes.nk -= own;
        }
        self.0.forward(inputs, outputs, &shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        self.0.has_head_dim(head_dim)
    }

    fn argument_of(_: &Error) -> Option<&str> {
        None
    }
}

#[test]
fn a_wrong_attention_fails_the_problems_that_it_gets_wrong() {
    let device = Device::open();
    let wrong = TopLeft(Stage4 {
        stream: device.stream.clone(),
        attention: Attention::new(device.stream.context()).unwrap(),
    });
    let who = Implementation {
        name: "top-left",
        device: &device.name,
        lacks: &[],
    };
    let parts = [Part::Table, Part::Arguments];
    let report = suites::stage4::judge(&who, &parts, &device, &wrong);
    let text = report.to_string();
    let failed = Vec::from_iter(report.failures().map(|case| &*case.name));
    println!("{text}");
    for name in &failed {
        assert!(text.contains(name), "{name}: {text}");
    }
    let causal = |name: &&str| name.contains("causal");
    assert!(failed.iter().any(causal), "{text}");
    assert!(failed.contains(&"refuses_short_q"), "{text}");
    // Only where queries and keys are not as many.
    let table = report.cases.iter().filter(|case| case.part == Part::Table);
    let passed = table.filter(|case| case.passed()).count();
    assert!(passed > 50, "{passed} passed: {text}");
    assert!(report.into_result().is_err());
}
