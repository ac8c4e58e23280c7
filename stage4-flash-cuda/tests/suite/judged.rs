//! The suite of the stage with every fused kernel, and that of stage 1 on host arrays.

use conformance::device::{Device, alone, on_host_threads};
use conformance::{Card, Element, Implementation, Judge, Part, Report, suites};
use half::{bf16, f16};
use rstest::rstest;
use stage2_naive_cuda::{LACKS, LADDER_LACKS};
use stage4_flash_cuda::{
    Attention, Error, Format, Fused, Inputs, Kernel, Mode, Outputs, Rung, Shape, Sizes, Stage4,
};

use crate::runs_here;

/// In f32.
fn judge(mode: Mode, part: Part) -> Report {
    judge_in::<f32>(mode, part, false)
}

/// On tensors of `T`. `all` problems, or a sample: one mode shows that a grid takes more matrices
/// than its y and z dimensions reach, and the kernels of the library have a part of the random
/// problems.
fn judge_in<T: Element>(mode: Mode, part: Part, all: bool) -> Report
where
    Stage4: Fused<T>,
{
    judge_with(mode, part, all, |judge, device, own| {
        suites::stage4::attention::<T>(judge, device, own)
    })
}

/// One of so many problems is judged where not all are: a number without a common divisor with 3
/// and 15, the numbers of head dimensions that random problems have in turn.
const SAMPLE: usize = 4;

/// The same for [`Rung::HOPPER`], with 2 head dimensions. Their tiles are large and their blocks
/// slow to simulate, so there are fewer random problems.
const SAMPLE_ON_HOPPER: usize = 5;
const RANDOM_ON_HOPPER: u64 = 8;

fn judge_with(
    mode: Mode,
    part: Part,
    all: bool,
    suite: impl FnOnce(&mut Judge<'_>, &Device, &Stage4),
) -> Report {
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
            Mode::Naive => &LADDER_LACKS,
            Mode::Tiled => &LACKS,
            Mode::Library | Mode::Padded => &[],
            Mode::Rung(_) => &Rung::LACKS,
        },
    };
    let chosen = |card: &Card<'_>| all || mode == Mode::Library || card.extent.matrices < 65_536;
    let parts = [part];
    let (sample, most_random) = match mode {
        _ if all => (1, u64::MAX),
        Mode::Library | Mode::Padded => (SAMPLE, 15 * SAMPLE as u64),
        Mode::Rung(rung) if Rung::HOPPER.contains(&rung) => {
            (SAMPLE_ON_HOPPER, RANDOM_ON_HOPPER * SAMPLE_ON_HOPPER as u64)
        }
        _ => (SAMPLE, u64::MAX),
    };
    let judge = Judge::new(&who, &parts).only(&chosen);
    let mut judge = judge.seeded(0, most_random).sampled(sample);
    suite(&mut judge, &device, &own);
    judge.report()
}

const FLASH: Mode = Mode::Rung(Rung::Flash);
const TILES: Mode = Mode::Rung(Rung::RegisterTiles);
const COPIES: Mode = Mode::Rung(Rung::AsyncCopy);
const MMA: Mode = Mode::Rung(Rung::Mma);
const SWIZZLE: Mode = Mode::Rung(Rung::Swizzle);
const PIPELINE: Mode = Mode::Rung(Rung::Pipeline);
const REUSE: Mode = Mode::Rung(Rung::Reuse);
const TMA: Mode = Mode::Rung(Rung::Tma);
const WGMMA: Mode = Mode::Rung(Rung::Wgmma);
const PING_PONG: Mode = Mode::Rung(Rung::PingPong);

/// And no further from f64 than PyTorch by more than a factor. ([`Mode::Library`]
/// solves it on host arrays.)
#[rstest]
fn solves_the_table(
    #[values(FLASH, TILES, COPIES, Mode::Padded)] mode: Mode,
) -> Result<(), Box<dyn std::error::Error>> {
    let report = judge(mode, Part::Table);
    let beside_torch = report.beside_torch();
    report.into_result()?;
    Ok(beside_torch.into_result()?)
}

#[rstest]
fn passes_the_suite(
    #[values(FLASH, TILES, COPIES, Mode::Padded, Mode::Library)] mode: Mode,
    #[values(Part::Random, Part::Arguments, Part::Counted)] part: Part,
) -> Result<(), Report> {
    judge(mode, part).into_result()
}

#[rstest]
#[ignore = "takes a minute"]
fn passes_all_of_the_suite(
    #[values(FLASH, TILES, COPIES, Mode::Padded, Mode::Library)] mode: Mode,
    #[values(Part::Table, Part::Random)] part: Part,
) -> Result<(), Report> {
    judge_in::<f32>(mode, part, true).into_result()
}

#[test]
fn takes_strides() -> Result<(), Report> {
    judge(Mode::Library, Part::Strided).into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn takes_all_strides(#[values(Mode::Library, Mode::Padded)] mode: Mode) -> Result<(), Report> {
    judge_in::<f32>(mode, Part::Strided, true).into_result()
}

/// The refusals of the handle. (Stage 2 has its own suite.)
#[rstest]
fn refuses_arguments(#[values(Mode::Naive, Mode::Tiled)] mode: Mode) -> Result<(), Report> {
    judge(mode, Part::Arguments).into_result()
}

#[rstest]
fn passes_the_suite_in_f16(
    #[values(MMA, SWIZZLE, PIPELINE, REUSE, TMA, WGMMA, PING_PONG, Mode::Library)] mode: Mode,
    #[values(Part::Table, Part::Random, Part::Arguments, Part::Counted)] part: Part,
) -> Result<(), Report> {
    if !runs_here(mode) {
        return Ok(());
    }
    judge_in::<f16>(mode, part, false).into_result()
}

#[rstest]
fn passes_the_suite_in_bf16(
    #[values(Part::Table, Part::Random, Part::Arguments, Part::Counted)] part: Part,
) -> Result<(), Report> {
    judge_in::<bf16>(Mode::Library, part, false).into_result()
}

#[test]
fn pads_in_half_precision() -> Result<(), Report> {
    judge_in::<f16>(Mode::Padded, Part::Random, false).into_result()
}

/// Below compute capability 8.0 the library's kernel in f32 converts.
#[test]
fn passes_the_suite_in_half_precision_on_a_t4() {
    let name = "judged::passes_the_suite_in_half_precision_on_a_t4";
    let parts = [Part::Random];
    on("t4", Kernel::Converting, name, &parts, &[], false);
}

#[test]
#[ignore = "takes half a minute"]
fn passes_all_of_the_suite_in_half_precision_on_a_t4() {
    let name = "judged::passes_all_of_the_suite_in_half_precision_on_a_t4";
    let parts = [Part::Table, Part::Strided, Part::Arguments];
    let modes = [Mode::Library, Mode::Padded];
    on("t4", Kernel::Converting, name, &parts, &modes, true);
}

/// On devices of other compute capabilities than 9.0 the library's products are those of warps.
#[test]
fn passes_the_suite_in_half_precision_on_an_a100() {
    let name = "judged::passes_the_suite_in_half_precision_on_an_a100";
    let parts = [Part::Table, Part::Random, Part::Arguments, Part::Counted];
    on("a100", Kernel::TensorCores, name, &parts, &[], false);
}

#[test]
#[ignore = "takes minutes"]
fn passes_all_of_the_suite_in_half_precision_on_an_a100() {
    let name = "judged::passes_all_of_the_suite_in_half_precision_on_an_a100";
    let parts = [Part::Table, Part::Strided, Part::Random];
    on(
        "a100",
        Kernel::TensorCores,
        name,
        &parts,
        &[Mode::Library],
        true,
    );
}

/// Judges parts in f16, and modes in bf16 by random problems, on a device where the library has
/// this kernel. The test of this name runs again.
fn on(
    device: &str,
    kernel: fn(Format) -> Kernel,
    name: &str,
    parts: &[Part],
    modes_in_bf16: &[Mode],
    all: bool,
) {
    if alone(name, &[("GPU", "sim"), ("CUDA_SIM_DEVICE", device)]).is_some() {
        return;
    }
    let context = Device::open().stream.context().clone();
    let attention = Attention::new(&context).unwrap();
    for format in Format::ALL {
        let variant = attention
            .half_variant(format, &Shape::packed(SIZES))
            .unwrap();
        assert_eq!(variant.kernel, kernel(format));
    }
    for &part in parts {
        judge_in::<f16>(Mode::Library, part, all)
            .into_result()
            .unwrap();
    }
    for &mode in modes_in_bf16 {
        judge_in::<bf16>(mode, Part::Random, all)
            .into_result()
            .unwrap();
    }
}

/// Of a problem that every kernel in half precision takes.
const SIZES: Sizes = Sizes {
    batch: 1,
    heads: 2,
    kv_heads: 1,
    nq: 5,
    nk: 7,
    head_dim: 64,
};

#[rstest]
#[ignore = "takes a minute"]
fn passes_all_of_the_suite_in_f16(
    #[values(
        Mode::Library,
        Mode::Padded,
        MMA,
        SWIZZLE,
        PIPELINE,
        REUSE,
        TMA,
        WGMMA,
        PING_PONG
    )]
    mode: Mode,
    #[values(Part::Table, Part::Random)] part: Part,
) -> Result<(), Report> {
    if !runs_here(mode) {
        return Ok(());
    }
    judge_in::<f16>(mode, part, true).into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn takes_all_strides_in_f16(
    #[values(Mode::Library, Mode::Padded)] mode: Mode,
) -> Result<(), Report> {
    judge_in::<f16>(mode, Part::Strided, true).into_result()
}

#[rstest]
#[ignore = "takes half a minute"]
fn passes_all_of_the_suite_in_bf16(
    #[values(Part::Table, Part::Strided, Part::Random)] part: Part,
) -> Result<(), Report> {
    judge_in::<bf16>(Mode::Library, part, true).into_result()
}

/// The test runs itself again by its name, so each mode has a function.
#[test]
fn no_bit_of_rung_1_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_1_depends_on_the_schedule";
    on_host_threads(name, || judge(FLASH, Part::Schedules));
}

#[test]
fn no_bit_of_rung_2_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_2_depends_on_the_schedule";
    on_host_threads(name, || judge(TILES, Part::Schedules));
}

#[test]
fn no_bit_of_rung_3_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_3_depends_on_the_schedule";
    on_host_threads(name, || judge(COPIES, Part::Schedules));
}

#[test]
fn no_bit_of_rung_4_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_4_depends_on_the_schedule";
    on_host_threads(name, || judge_in::<f16>(MMA, Part::Schedules, false));
}

#[test]
fn no_bit_of_rung_5_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_5_depends_on_the_schedule";
    on_host_threads(name, || judge_in::<f16>(SWIZZLE, Part::Schedules, false));
}

#[test]
fn no_bit_of_rung_6_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_6_depends_on_the_schedule";
    on_host_threads(name, || judge_in::<f16>(PIPELINE, Part::Schedules, false));
}

#[test]
fn no_bit_of_rung_7_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_7_depends_on_the_schedule";
    on_host_threads(name, || judge_in::<f16>(REUSE, Part::Schedules, false));
}

#[test]
fn no_bit_of_rung_8_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_8_depends_on_the_schedule";
    on_host_threads(name, || judge_in::<f16>(TMA, Part::Schedules, false));
}

#[test]
fn no_bit_of_rung_9_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_9_depends_on_the_schedule";
    on_host_threads(name, || judge_in::<f16>(WGMMA, Part::Schedules, false));
}

#[test]
fn no_bit_of_rung_10_depends_on_the_schedule() {
    let name = "judged::no_bit_of_rung_10_depends_on_the_schedule";
    on_host_threads(name, || judge_in::<f16>(PING_PONG, Part::Schedules, false));
}

#[test]
fn no_bit_of_the_library_depends_on_the_schedule() {
    let name = "judged::no_bit_of_the_library_depends_on_the_schedule";
    on_host_threads(name, || judge(Mode::Library, Part::Schedules));
}

#[test]
fn no_bit_in_bf16_depends_on_the_schedule() {
    let name = "judged::no_bit_in_bf16_depends_on_the_schedule";
    on_host_threads(name, || {
        judge_in::<bf16>(Mode::Library, Part::Schedules, false)
    });
}

#[test]
fn no_bit_of_padding_in_bf16_depends_on_the_schedule() {
    let name = "judged::no_bit_of_padding_in_bf16_depends_on_the_schedule";
    on_host_threads(name, || {
        judge_in::<bf16>(Mode::Padded, Part::Schedules, false)
    });
}

#[test]
fn no_bit_of_padding_depends_on_the_schedule() {
    let name = "judged::no_bit_of_padding_depends_on_the_schedule";
    on_host_threads(name, || judge(Mode::Padded, Part::Schedules));
}

/// Exact kernels, the copying, the broadcasting and the empty cases.
#[rstest]
fn passes_the_suite_on_host_arrays(
    #[values(Part::Table, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    let report = judge_host_arrays(part, false);
    if part == Part::Table {
        report.beside_torch().into_result().unwrap();
    }
    report.into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn takes_all_host_arrays(#[values(Part::Table, Part::Strided)] part: Part) -> Result<(), Report> {
    judge_host_arrays(part, true).into_result()
}

fn judge_host_arrays(part: Part, all: bool) -> Report {
    judge_with(Mode::Library, part, all, |judge, _, own| {
        suites::stage1::attention(judge, own)
    })
}

/// Aligns the causal mask top-left where there are more keys than queries; its
/// errors name no argument.
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
            // With as many keys as queries, bottom-right is top-left.
            shape.sizes.nk -= own;
        }
        self.0.forward(inputs, outputs, &shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        Fused::<f32>::has_head_dim(&self.0, head_dim)
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
        attention: Attention::new(device.stream.context())
            .unwrap()
            .with_mode(Mode::Padded),
    });
    let who = Implementation {
        name: "top-left",
        device: &device.name,
        lacks: &[],
    };
    let parts = [Part::Table, Part::Arguments];
    let small = |card: &Card<'_>| card.extent.length < 1000; // to save time
    let mut judge = Judge::new(&who, &parts).only(&small);
    suites::stage4::attention::<f32>(&mut judge, &device, &wrong);
    let report = judge.report();
    let text = report.to_string();
    let failed = Vec::from_iter(report.failures().map(|case| &*case.name));
    for name in [
        "b1_h2_nq65_nk129_d16_causal",
        "b2_h6_hkv2_nq33_nk65_d16_causal",
        "b7_h2_nq33_nk129_d16_lengths_causal",
        "refuses_short_q",
    ] {
        assert!(
            failed.contains(&name) && text.contains(name),
            "{name}: {text}"
        );
    }
    assert!(!failed.contains(&"b1_h2_n65_d64_causal"), "{text}");
    // It is right where there are as many keys as queries.
    let table = report.cases.iter().filter(|case| case.part == Part::Table);
    let passed = table.filter(|case| case.passed()).count();
    assert!(passed > 50, "{passed} passed: {text}");
    assert!(report.into_result().is_err());
}
