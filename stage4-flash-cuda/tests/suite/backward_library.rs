//! The library's backward pass, and the naive one: the suite, exactness, hidden scores, devices.

use std::cell::Cell;

use conformance::dense::Dense;
use conformance::device::{Device, alone, on_host_threads};
use conformance::inputs::{normal, tensor, uniform};
use conformance::layout::Layout;
use conformance::problems::attention;
use conformance::problems::{Problem, gradients};
use conformance::suites::stage4::{attend, backward, solve_backward};
use conformance::{Card, Dtype, Element, Implementation, Judge, Part, Report};
use half::{bf16, f16};
use ndarray::{Array4, Axis, s};
use rstest::rstest;
use stage1_reference::{Options, Output};
use stage4_flash_cuda::{Attention, BackwardMode, Fused, FusedBackward, Stage4, Stage4Backward};

use super::backward::{count, own, problem};

const PACKED: [Layout; 4] = [Layout::Packed; 4];

/// dq, dk and dv in host memory.
type Gradients = <gradients::Problem as Problem>::Output;

fn forward(device: &Device) -> Stage4 {
    Stage4 {
        stream: device.stream.clone(),
        attention: Attention::new(device.stream.context()).unwrap(),
    }
}

/// The problems that are judged.
#[derive(Clone, Copy, PartialEq)]
enum Choice {
    /// All of the table, and so many random ones.
    All(u64),
    /// Of the table, one of so many from that one on, without the longest; and a few random ones.
    Sample(usize, usize),
}

/// One part of the suite on tensors of `T`.
fn judge<T: Element>(mode: BackwardMode, part: Part, choice: Choice) -> Report
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    let who = Implementation {
        name: &format!("stage 4, backward by {mode}"),
        device: &device.name,
        lacks: mode.lacks(),
    };
    let seen = Cell::new(0);
    let chosen = |card: &Card<'_>| {
        let index = seen.replace(seen.get() + 1);
        match choice {
            Choice::Sample(of, first) if part == Part::Table => {
                index % of == first && card.extent.length < 300
            }
            _ => true,
        }
    };
    let most = match choice {
        Choice::All(most) => most,
        Choice::Sample(..) => 8,
    };
    let parts = [part];
    let judge = Judge::new(&who, &parts).only(&chosen);
    let mut judge = judge.seeded(0, most);
    backward::<T>(&mut judge, &device, &forward(&device), &own(&device, mode));
    judge.report()
}

#[rstest]
fn passes_the_suite(
    #[values(
        Part::Table,
        Part::Strided,
        Part::Random,
        Part::Arguments,
        Part::Counted
    )]
    part: Part,
) -> Result<(), Report> {
    judge::<f32>(BackwardMode::Library, part, Choice::Sample(4, 0)).into_result()
}

#[rstest]
fn passes_the_suite_in_f16(
    #[values(Part::Table, Part::Arguments, Part::Counted)] part: Part,
) -> Result<(), Report> {
    judge::<f16>(BackwardMode::Library, part, Choice::Sample(5, 1)).into_result()
}

#[test]
fn solves_random_problems_in_bf16() -> Result<(), Report> {
    judge::<bf16>(BackwardMode::Library, Part::Random, Choice::All(8)).into_result()
}

#[rstest]
fn the_naive_way_passes_the_suite(
    #[values(Part::Table, Part::Random, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    judge::<f32>(BackwardMode::Naive, part, Choice::Sample(8, 2)).into_result()
}

/// The whole table, and the random problems of the suite.
#[rstest]
#[ignore = "a sweep"]
fn passes_the_whole_suite(#[values(Part::Table, Part::Strided, Part::Random)] part: Part) {
    const ALL: Choice = Choice::All(u64::MAX);
    for report in [
        judge::<f32>(BackwardMode::Library, part, ALL),
        judge::<f16>(BackwardMode::Library, part, ALL),
        judge::<bf16>(BackwardMode::Library, part, ALL),
        judge::<f32>(BackwardMode::Naive, part, ALL),
    ] {
        report.into_result().unwrap();
    }
}

#[test]
fn no_bit_depends_on_the_schedule() {
    let name = "backward_library::no_bit_depends_on_the_schedule";
    on_host_threads(name, || {
        judge::<f32>(BackwardMode::Library, Part::Schedules, Choice::All(1))
    });
}

/// The same with every tile.
#[test]
#[ignore = "a sweep"]
fn no_bit_of_any_tile_depends_on_the_schedule() {
    let name = "backward_library::no_bit_of_any_tile_depends_on_the_schedule";
    on_host_threads(name, || {
        judge::<f32>(BackwardMode::Library, Part::Schedules, Choice::All(4))
    });
}

#[test]
fn no_bit_depends_on_the_schedule_in_half_precision() {
    let name = "backward_library::no_bit_depends_on_the_schedule_in_half_precision";
    on_host_threads(name, || {
        judge::<f16>(BackwardMode::Library, Part::Schedules, Choice::All(1))
    });
}

/// The same with every tile.
#[test]
#[ignore = "a sweep"]
fn no_bit_of_any_tile_in_half_precision_depends_on_the_schedule() {
    let name = "backward_library::no_bit_of_any_tile_in_half_precision_depends_on_the_schedule";
    on_host_threads(name, || {
        judge::<bf16>(BackwardMode::Library, Part::Schedules, Choice::All(4))
    });
}

/// The gradients of a problem in device memory of `T`.
fn solve<T: Element>(device: &Device, mode: BackwardMode, problem: &gradients::Problem) -> Gradients
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let output = attend::<T>(device, &forward(device), problem).unwrap();
    solve_backward::<T>(device, &own(device, mode), problem, &output, PACKED)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A problem with grouped heads and every mask.
fn masked(heads: usize, nq: usize, nk: usize, head_dim: usize) -> gradients::Problem {
    let [q, k, v] = [(heads, nq, 1), (heads / 2, nk, 2), (heads / 2, nk, 3)]
        .map(|(heads, rows, seed)| tensor((2, heads, rows, head_dim), seed, normal));
    let mask = tensor((1, heads, nq, nk), 4, |seed, i| {
        match uniform(seed + 1, i) < -0.5 {
            true => f32::NEG_INFINITY,
            false => normal(seed, i),
        }
    });
    let options = Options::default().mask(mask).window(nk / 2, 3);
    let options = options.key_lengths([nk, nk - 2]).scale(0.7);
    let problem = attention::Problem::new("masked".to_owned(), q, k, v, options);
    gradients::Problem::new(problem.with_padding())
}

/// Differences of the loss in f64, for each element of q, k and v.
#[test]
fn it_agrees_with_central_differences() {
    const STEP: f64 = 1e-4;
    let device = Device::open();
    let problem = masked(4, 5, 7, 3);
    let found = solve::<f32>(&device, BackwardMode::Library, &problem);
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let d_o = problem.d_o.mapv(f64::from);
    let mut dense = Dense::new(q, k, v, options);
    type Tensor = for<'a, 'b> fn(&'a mut Dense<'b>) -> &'a mut Array4<f64>;
    let tensors: [(&str, &Array4<f32>, Tensor); 3] = [
        ("dq", &found.dq, |dense| &mut dense.q),
        ("dk", &found.dk, |dense| &mut dense.k),
        ("dv", &found.dv, |dense| &mut dense.v),
    ];
    for (name, found, tensor) in tensors {
        for (index, &x) in found.indexed_iter() {
            let mut loss = |step: f64| {
                tensor(&mut dense)[index] += step;
                let loss = dense.loss(&d_o);
                tensor(&mut dense)[index] -= step;
                loss
            };
            let difference = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            // Padding is NaN, and nothing depends on it.
            let expected = if difference.is_nan() { 0.0 } else { difference };
            let off = (f64::from(x) - expected).abs();
            assert!(off < 2e-6, "{name} {index:?}: {x}, not {expected}");
        }
    }
}

/// The largest error is at most three times that of the naive way in f32, and a floor.
#[rstest]
fn it_is_as_exact_as_the_naive_way(
    #[values((64, 200, 230), (40, 130, 100))] sizes: (usize, usize, usize),
) {
    let (head_dim, nq, nk) = sizes;
    let device = Device::open();
    let mut problem = problem(2, nq, nk, head_dim, true);
    problem.forward.options = Options::default().mask(tensor((1, 1, nq, nk), 9, normal));
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let exact = Dense::new(q, k, v, options).gradients(&problem.d_o.mapv(f64::from));
    let [own, naive] = [BackwardMode::Library, BackwardMode::Naive].map(|mode| {
        let found = solve::<f32>(&device, mode, &problem);
        [found.dq, found.dk, found.dv]
    });
    for ((own, naive), exact) in own.iter().zip(&naive).zip(&exact) {
        let error = |values: &Array4<f32>| {
            let errors = values.iter().zip(exact);
            let errors = errors.map(|(&x, exact)| (f64::from(x) - exact).abs());
            errors.fold(0.0, f64::max)
        };
        let (own, naive) = (error(own), error(naive));
        println!("D = {head_dim}: {own:.1e}, the naive way {naive:.1e}");
        assert!(own <= 3.0 * naive + 1e-7, "{own:.1e}, but {naive:.1e}");
    }
}

/// Keys whose scores are +inf, or NaN as a sum of infinities, and whose dO · v is infinite: hidden,
/// they change no bit.
#[rstest]
#[case::window(Options::default().window(60, 0))]
#[case::additive(Options::default().mask(Array4::from_shape_fn((1, 1, 10, 130), |(.., j)| {
    if j < 60 { f32::NEG_INFINITY } else { 0.5 }
})))]
fn a_hidden_score_has_no_influence(#[case] options: Options) {
    hidden_scores_change_no_bit::<f32>(&options, 1e37);
    hidden_scores_change_no_bit::<bf16>(&options, 5e37);
    // f16 has no numbers whose products are infinite, but some that take all its room.
    hidden_scores_change_no_bit::<f16>(&options, 6e3);
}

fn hidden_scores_change_no_bit<T: Element>(options: &Options, factor: f32)
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    let problem = |factor: f32| {
        let mut problem = problem(2, 10, 130, 16, false);
        let forward = &mut problem.forward;
        forward.options = options.clone();
        for x in [&mut forward.k, &mut forward.v] {
            // Products with values of about 1, whose signs differ.
            x.slice_mut(s![.., .., ..60, ..])
                .mapv_inplace(|x| x * factor);
        }
        // In half precision more, and a row sees one key alone, or its gradient is infinite too.
        let large = match T::DTYPE {
            Dtype::F32 => 1e3,
            Dtype::Bf16 => 30.0,
            Dtype::F16 => 1.0,
        };
        forward.q.mapv_inplace(|x| x * large);
        let mut problem = gradients::Problem::new(problem.forward.stored_in(T::DTYPE));
        problem.d_o.mapv_inplace(|x| T::DTYPE.round(x * large));
        solve::<T>(&device, BackwardMode::Library, &problem)
    };
    let (huge, small) = (problem(factor), problem(0.0));
    assert_eq!(huge.dq, small.dq);
    assert_eq!(huge.dk, small.dk);
    assert_eq!(huge.dv, small.dv);
    assert!(small.dq.iter().any(|&x| x != 0.0));
    let hidden = s![.., .., ..60, ..];
    let mut hidden = huge
        .dk
        .slice(hidden)
        .into_iter()
        .chain(huge.dv.slice(hidden));
    assert!(hidden.all(|&x| x == 0.0));
}

/// Queries that see no key, and keys that no query sees, as no query is there.
#[rstest]
fn rows_that_see_nothing_have_no_gradient(
    #[values(BackwardMode::Library, BackwardMode::Naive)] mode: BackwardMode,
) {
    let device = Device::open();
    // The first 40 of 70 queries stand before the first key.
    let found = solve::<f32>(&device, mode, &problem(2, 70, 30, 64, true));
    for (i, row) in found.dq.lanes(Axis(3)).into_iter().enumerate() {
        let zeros = row.iter().all(|&x| x == 0.0);
        // Query 40 sees one key, whose weight is 1 whatever its score.
        assert!(zeros == (i % 70 < 40) || i % 70 == 40, "query {i}: {row}");
    }
    assert!(found.dk.iter().chain(&found.dv).all(|x| x.is_finite()));
    let without_keys = solve::<f32>(&device, mode, &problem(2, 70, 0, 64, false));
    assert!(without_keys.dq.iter().all(|&x| x == 0.0));
    let without_queries = solve::<f32>(&device, mode, &problem(2, 0, 70, 64, true));
    let mut all = without_queries.dk.iter().chain(&without_queries.dv);
    assert!(all.all(|&x| x == 0.0));
}

/// An additive mask costs no bank conflicts: there are none but where results are stored.
#[test]
fn masks_cost_no_bank_conflicts() {
    let device = Device::open();
    let mut problem = problem(1, 128, 128, 64, false);
    problem.forward.options = Options::default().mask(tensor((1, 1, 128, 128), 9, normal));
    let Some(launches) = count::<f32>(&device, BackwardMode::Library, &problem) else {
        return;
    };
    for launch in &launches[1..] {
        let total = &launch.total;
        let degree = total.shared().conflict_degree();
        println!("{degree}");
        assert!(degree < 1.02, "{degree}");
        assert_eq!(total.local.requests, 0, "no array went to local memory");
    }
}

/// The scores of 2048 queries and keys take 16 MiB; all tensors of both passes take 1.1 MiB.
#[test]
fn scores_take_no_memory() {
    let variables = [("GPU", "sim"), ("CUDA_SIM_MEMORY", "4")]; // MiB
    if alone("backward_library::scores_take_no_memory", &variables).is_some() {
        return;
    }
    let device = Device::open();
    let mut problem = problem(1, 2048, 2048, 16, true);
    problem.forward.options = Options::default().window(100, 0);
    let gradients = solve::<f32>(&device, BackwardMode::Library, &problem);
    assert!(gradients.dq.iter().all(|x| x.is_finite()));
    problem.forward.options = Options::default();
    let output = gradients::Problem::poisoned(&problem);
    let output = Output {
        lse: output.dq.map_axis(Axis(3), |_| 0.0),
        o: output.dq,
    };
    let naive = own(&device, BackwardMode::Naive);
    let error = solve_backward::<f32>(&device, &naive, &problem, &output, PACKED).unwrap_err();
    assert!(error.to_string().contains("OUT_OF_MEMORY"), "{error}");
}

/// Without a compiler a head dimension is padded to the next that has committed kernels.
#[test]
fn it_needs_no_compiler() {
    let cache = env!("CARGO_TARGET_TMPDIR").to_owned() + "/no-compiler-backward";
    let variables = [("NVRTC_PATH", "none"), ("GPU_CACHE_DIR", &*cache)];
    if alone("backward_library::it_needs_no_compiler", &variables).is_some() {
        return;
    }
    for head_dim in [20, 100, 200] {
        solve_masked::<f32>(head_dim);
    }
    solve_masked::<f16>(200);
    solve_masked::<bf16>(20);
}

/// On a device whose blocks have less shared memory than the tiles for D = 64 and 128 take, those
/// for 256 columns serve.
#[test]
fn it_runs_on_a_small_device() {
    let variables = [("GPU", "sim"), ("CUDA_SIM_DEVICE", "t4")];
    if alone("backward_library::it_runs_on_a_small_device", &variables).is_some() {
        return;
    }
    solve_masked::<f32>(64);
    solve_masked::<f16>(128);
}

fn solve_masked<T: Element>(head_dim: usize)
where
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    let problem = masked(2, 17, 40, head_dim).forward.stored_in(T::DTYPE);
    let problem = gradients::Problem::new(problem);
    let (o, lse) = problem.forward.answer();
    let output = Output {
        o: o.mapv(|x| T::DTYPE.round(x as f32)),
        lse: lse.mapv(|x| x as f32),
    };
    let who = Implementation {
        name: "library, backward",
        device: &device.name,
        lacks: &[],
    };
    let own = own(&device, BackwardMode::Library);
    let report = conformance::run(&who, [problem], |problem, gradients| {
        *gradients = solve_backward::<T>(&device, &own, problem, &output, PACKED)?;
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    report.into_result().unwrap();
}

/// A mode computes in one type of elements, and refuses the others.
#[test]
fn a_mode_has_one_type() {
    let device = Device::open();
    let problem = problem(1, 5, 5, 16, false);
    let output = attend::<f32>(&device, &forward(&device), &problem).unwrap();
    let refusal = |mode, dtype| {
        let own = own(&device, mode);
        let error = match dtype {
            Dtype::F32 => solve_backward::<f32>(&device, &own, &problem, &output, PACKED),
            Dtype::F16 => solve_backward::<f16>(&device, &own, &problem, &output, PACKED),
            Dtype::Bf16 => solve_backward::<bf16>(&device, &own, &problem, &output, PACKED),
        };
        error.unwrap_err().to_string()
    };
    for (mode, dtype) in [
        (BackwardMode::Mma, Dtype::F32),
        (BackwardMode::Mma, Dtype::Bf16),
        (BackwardMode::Naive, Dtype::F16),
        (BackwardMode::Recompute, Dtype::F16),
    ] {
        let text = refusal(mode, dtype);
        let expected = format!("`mode`: expected one in {dtype}, got {mode}");
        assert!(text.contains(&expected), "{text}");
    }
}
