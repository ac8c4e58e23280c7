//! Dropout: the suite, the weights that are dropped, and what happens without a compiler.

use conformance::device::{Device, alone, on_host_threads};
use conformance::inputs::{normal, tensor};
use conformance::layout::Layout;
use conformance::problems::attention::Problem;
use conformance::problems::gradients;
use conformance::suites::stage4::{attend, backward_dropout, dropout, solve, solve_backward};
use conformance::{AnyError, Element, Implementation, Judge, Part, Report};
use half::{bf16, f16};
use ndarray::Array4;
use rstest::rstest;
use stage1_reference::{Dropout, Feature, Options, Output};
use stage2_naive_cuda::{LACKS, LADDER_LACKS};
use stage4_flash_cuda::{
    Attention, BackwardMode, Error, Fused, FusedBackward, Mode, Rung, Stage4, Stage4Backward,
};

use super::backward::own as backward_by;

const PACKED: [Layout; 4] = [Layout::Packed; 4];

fn forward_by(device: &Device, mode: Mode) -> Stage4 {
    let attention = Attention::new(device.stream.context()).unwrap();
    Stage4 {
        stream: device.stream.clone(),
        attention: attention.with_mode(mode),
    }
}

/// The suite of dropout in the forward pass.
fn judge<T: Element>(mode: Mode, part: Part) -> Report
where
    Stage4: Fused<T>,
{
    let lacks: &[Feature] = match mode {
        Mode::Naive => &LADDER_LACKS,
        Mode::Tiled => &LACKS,
        Mode::Library | Mode::Padded => &[],
        Mode::Rung(_) => &Rung::LACKS,
    };
    let device = Device::open();
    judged(
        &device,
        &format!("dropout by {mode}"),
        lacks,
        part,
        |judge| {
            dropout::<T, _>(judge, &device, &forward_by(&device, mode));
        },
    )
}

/// That in the backward pass.
fn judge_backward<T: Element>(mode: BackwardMode, part: Part) -> Report
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    let name = format!("dropout, backward by {mode}");
    judged(&device, &name, mode.lacks(), part, |judge| {
        let forward = forward_by(&device, Mode::Library);
        backward_dropout::<T, _>(judge, &device, &forward, &backward_by(&device, mode));
    })
}

fn judged(
    device: &Device,
    name: &str,
    lacks: &[Feature],
    part: Part,
    suite: impl FnOnce(&mut Judge<'_>),
) -> Report {
    let who = Implementation {
        name,
        device: &device.name,
        lacks,
    };
    let parts = [part];
    let mut judge = Judge::new(&who, &parts);
    suite(&mut judge);
    judge.report()
}

#[rstest]
fn solves_the_problems(
    #[values(Mode::Tiled, Mode::Library, Mode::Padded)] mode: Mode,
    #[values(Part::Table, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    judge::<f32>(mode, part).into_result()
}

#[test]
fn takes_strides() -> Result<(), Report> {
    judge::<f32>(Mode::Library, Part::Strided).into_result()?;
    judge_backward::<f32>(BackwardMode::Library, Part::Strided).into_result()
}

#[rstest]
fn solves_the_problems_backward(
    #[values(BackwardMode::Naive, BackwardMode::Library)] mode: BackwardMode,
    #[values(Part::Table, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    judge_backward::<f32>(mode, part).into_result()
}

#[test]
fn rungs_refuse_it() {
    for mode in [Mode::Naive].into_iter().chain(Rung::F32.map(Mode::Rung)) {
        judge::<f32>(mode, Part::Arguments).into_result().unwrap();
    }
    for rung in Rung::F16 {
        let report = judge::<f16>(Mode::Rung(rung), Part::Arguments);
        report.into_result().unwrap();
    }
    let report = judge_backward::<f32>(BackwardMode::Recompute, Part::Arguments);
    report.into_result().unwrap();
    let report = judge_backward::<f16>(BackwardMode::Mma, Part::Arguments);
    report.into_result().unwrap();
}

#[test]
#[ignore = "a sweep"]
fn no_bit_depends_on_the_schedule() {
    let name = "dropout::no_bit_depends_on_the_schedule";
    on_host_threads(name, || judge::<f32>(Mode::Library, Part::Schedules));
}

#[test]
#[ignore = "takes half a minute"]
fn no_bit_of_a_gradient_depends_on_the_schedule() {
    let name = "dropout::no_bit_of_a_gradient_depends_on_the_schedule";
    on_host_threads(name, || {
        judge_backward::<f32>(BackwardMode::Library, Part::Schedules)
    });
}

fn needs_compiler(error: &AnyError) -> bool {
    matches!(
        error.downcast_ref(),
        Some(Error::Load(gpu::Error::NvrtcMissing { .. }))
    )
}

#[test]
#[ignore = "needs NVRTC"]
fn solves_the_problems_in_half_precision() -> Result<(), Report> {
    judge::<f16>(Mode::Library, Part::Table).into_result()?;
    judge::<bf16>(Mode::Library, Part::Strided).into_result()
}

#[test]
#[ignore = "needs NVRTC"]
fn solves_the_problems_backward_in_half_precision() -> Result<(), Report> {
    judge_backward::<f16>(BackwardMode::Library, Part::Table).into_result()?;
    judge_backward::<bf16>(BackwardMode::Library, Part::Strided).into_result()
}

/// A problem of two heads in two sequences, with dropout or without.
fn problem(probability: Option<f32>, nq: usize, nk: usize, head_dim: usize) -> Problem {
    let [q, k, v] = [(nq, 1), (nk, 2), (nk, 3)]
        .map(|(rows, seed)| tensor((2, 2, rows, head_dim), seed, normal));
    let mut options = Options::default();
    options.dropout = probability.map(|probability| Dropout {
        probability,
        seed: 77,
        offset: u64::MAX - 1,
    });
    Problem::new(format!("D = {head_dim}"), q, k, v, options)
}

/// `[2, 2, n, n]`: ones on the diagonals.
fn identity(n: usize) -> Array4<f32> {
    Array4::from_shape_fn((2, 2, n, n), |(.., i, j)| f32::from(i == j))
}

/// With `v` the identity, `o` has the weights.
#[rstest]
fn the_weights_of_the_reference_are_dropped(#[values(40, 64, 128)] n: usize) {
    let device = Device::open();
    let mut problem = problem(Some(0.4), 131, n, n);
    problem.v = identity(n);
    let dropout = problem.options.dropout.unwrap();
    for mode in [Mode::Tiled, Mode::Library, Mode::Padded] {
        let own = forward_by(&device, mode);
        let output = solve::<f32>(&device, &own, &problem, PACKED).unwrap();
        for ((b, h, i, j), &o) in output.o.indexed_iter() {
            let kept = dropout.keeps(2 * b + h, i, j);
            assert_eq!(o != 0.0, kept, "{mode}: {b}, {h}, {i}, {j}: {o}");
        }
    }
}

/// With `dO` the identity, `dv` has the weights.
#[rstest]
fn the_weights_of_the_reference_are_dropped_backward(#[values(40, 64, 128)] n: usize) {
    let device = Device::open();
    let mut problem = gradients::Problem::new(problem(Some(0.4), n, 131, n));
    problem.d_o = identity(n);
    let dropout = problem.forward.options.dropout.unwrap();
    let forward = forward_by(&device, Mode::Library);
    let output = attend::<f32>(&device, &forward, &problem).unwrap();
    for mode in [BackwardMode::Naive, BackwardMode::Library] {
        let own = backward_by(&device, mode);
        let found = solve_backward::<f32>(&device, &own, &problem, &output, PACKED).unwrap();
        for ((b, h, j, i), &dv) in found.dv.indexed_iter() {
            let kept = dropout.keeps(2 * b + h, i, j);
            assert_eq!(dv != 0.0, kept, "{mode}: {b}, {h}, {i}, {j}: {dv}");
        }
    }
}

/// With a probability of 2⁻³² the kernels with dropout run, and drop none of these weights.
#[rstest]
fn without_a_weight_that_is_dropped_no_bit_changes(#[values(64, 128)] head_dim: usize) {
    let device = Device::open();
    let solve = |probability| {
        let problem = gradients::Problem::new(problem(probability, 70, 131, head_dim));
        // As committed, so that the tiles are the same without a compiler.
        let forward = forward_by(&device, Mode::Padded);
        let output = attend::<f32>(&device, &forward, &problem).unwrap();
        let own = backward_by(&device, BackwardMode::Library);
        let found = solve_backward::<f32>(&device, &own, &problem, &output, PACKED).unwrap();
        let Output { o, lse } = output;
        (o, lse, [found.dq, found.dk, found.dv])
    };
    let plain = solve(None);
    for probability in [0.0, 2f32.powi(-32)] {
        assert_eq!(solve(Some(probability)), plain, "{probability}");
    }
    assert_ne!(solve(Some(0.1)).0, plain.0);
}

/// In f32 up to D = 128 the committed kernels pad; all else is refused.
#[test]
fn it_needs_no_compiler_up_to_128_columns() {
    let cache = env!("CARGO_TARGET_TMPDIR").to_owned() + "/no-compiler-dropout";
    let variables = [("NVRTC_PATH", "none"), ("GPU_CACHE_DIR", &*cache)];
    let name = "dropout::it_needs_no_compiler_up_to_128_columns";
    if alone(name, &variables).is_some() {
        return;
    }
    let device = Device::open();
    let forward = forward_by(&device, Mode::Library);
    let backward = backward_by(&device, BackwardMode::Library);
    for head_dim in [20, 90, 128] {
        let problem = gradients::Problem::new(problem(Some(0.4), 17, 40, head_dim));
        let output = attend::<f32>(&device, &forward, &problem).unwrap();
        solve_backward::<f32>(&device, &backward, &problem, &output, PACKED).unwrap();
    }
    let wide = gradients::Problem::new(problem(Some(0.4), 17, 40, 129));
    let output = Output {
        o: wide.forward.q.clone(),
        lse: ndarray::Array3::zeros((2, 2, 17)),
    };
    let error = solve::<f32>(&device, &forward, &wide.forward, PACKED).unwrap_err();
    assert!(needs_compiler(&error), "{error}");
    let error = solve_backward::<f32>(&device, &backward, &wide, &output, PACKED).unwrap_err();
    assert!(needs_compiler(&error), "{error}");
    let error = solve::<f16>(&device, &forward, &wide.forward, PACKED).unwrap_err();
    assert!(needs_compiler(&error), "{error}");
    let none = problem(Some(0.0), 17, 40, 129);
    solve::<f32>(&device, &forward, &none, PACKED).unwrap();
}
