//! The rungs of the backward pass: the suite, their traffic, their memory.

use conformance::dense::Dense;
use conformance::device::{Device, alone, on_host_threads, profiles};
use conformance::inputs::{normal, tensor};
use conformance::layout::Layout;
use conformance::problems::{Problem, attention, gradients};
use conformance::suites::stage4::{attend, backward, solve_backward};
use conformance::{Dtype, Element, Implementation, Judge, Part, Report};
use gpu::profile::{Class, LaunchProfile};
use half::f16;
use ndarray::{Array2, Axis, s};
use rstest::rstest;
use stage1_reference::{Options, Output};
use stage4_flash_cuda::{
    Attention, Backward, BackwardInputs, BackwardKernel, BackwardMode, Error, Format, Fused,
    FusedBackward, Gradients, Inputs, Mode, Rung, Shape, Stage4, Stage4Backward,
};

const PACKED: [Layout; 4] = [Layout::Packed; 4];

/// The forward pass, by a rung of the same arithmetic on tensors of `T`.
fn forward<T: Element>(device: &Device) -> Stage4 {
    let attention = Attention::new(device.stream.context()).unwrap();
    let rung = match T::DTYPE {
        Dtype::F32 => Rung::RegisterTiles,
        Dtype::F16 | Dtype::Bf16 => Rung::Reuse,
    };
    Stage4 {
        stream: device.stream.clone(),
        attention: attention.with_mode(Mode::Rung(rung)),
    }
}

/// The rung for tensors of `T`.
fn rung<T: Element>() -> BackwardMode {
    match T::DTYPE {
        Dtype::F32 => BackwardMode::Recompute,
        Dtype::F16 | Dtype::Bf16 => BackwardMode::Mma,
    }
}

pub(super) fn own(device: &Device, mode: BackwardMode) -> Stage4Backward {
    let backward = Backward::new(device.stream.context()).unwrap();
    Stage4Backward {
        stream: device.stream.clone(),
        backward: backward.with_mode(mode),
    }
}

/// By one of so many problems.
fn judge<T: Element>(part: Part, sample: usize) -> Report
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    judge_it::<T>(&device, &own(&device, rung::<T>()), part, sample)
}

fn judge_it<T: Element>(
    device: &Device,
    own: &impl FusedBackward<T>,
    part: Part,
    sample: usize,
) -> Report
where
    Stage4: Fused<T>,
{
    let who = Implementation {
        name: "stage 4, backward",
        device: &device.name,
        lacks: &Rung::LACKS,
    };
    let parts = [part];
    let mut judge = Judge::new(&who, &parts).sampled(sample);
    backward::<T>(&mut judge, device, &forward::<T>(device), own);
    judge.report()
}

#[rstest]
fn passes_the_suite(
    #[values(Part::Table, Part::Random, Part::Arguments, Part::Counted)] part: Part,
) -> Result<(), Report> {
    judge::<f32>(part, 4).into_result()
}

#[rstest]
fn passes_the_suite_in_f16(
    #[values(Part::Table, Part::Random, Part::Arguments, Part::Counted)] part: Part,
) -> Result<(), Report> {
    judge::<f16>(part, 4).into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn passes_the_whole_suite(#[values(Part::Table, Part::Random)] part: Part) -> Result<(), Report> {
    judge::<f32>(part, 1).into_result()?;
    judge::<f16>(part, 1).into_result()
}

#[test]
fn no_bit_depends_on_the_schedule() {
    let name = "backward::no_bit_depends_on_the_schedule";
    on_host_threads(name, || judge::<f32>(Part::Schedules, 1));
}

#[test]
fn no_bit_depends_on_the_schedule_in_f16() {
    let name = "backward::no_bit_depends_on_the_schedule_in_f16";
    on_host_threads(name, || judge::<f16>(Part::Schedules, 1));
}

/// Takes dO for o, so that each row has another delta.
struct AnotherDelta(Stage4Backward);

impl<T> FusedBackward<T> for AnotherDelta
where
    Stage4Backward: FusedBackward<T, Error = Error>,
{
    type Error = Error;

    fn backward(
        &self,
        mut inputs: BackwardInputs<'_, T>,
        gradients: Gradients<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        inputs.o = inputs.d_o.slice(..);
        self.0.backward(inputs, gradients, shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        self.0.has_head_dim(head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        <Stage4Backward as FusedBackward<T>>::argument_of(error)
    }
}

#[test]
fn a_wrong_delta_fails_the_table() {
    fails_the_table::<f32>(&AnotherDelta(own(&Device::open(), rung::<f32>())));
}

#[test]
fn a_wrong_delta_fails_the_table_in_f16() {
    fails_the_table::<f16>(&AnotherDelta(own(&Device::open(), rung::<f16>())));
}

fn fails_the_table<T: Element>(own: &impl FusedBackward<T>)
where
    Stage4: Fused<T>,
{
    let report = judge_it::<T>(&Device::open(), own, Part::Table, 6);
    let table = report.cases.iter().filter(|case| case.part == Part::Table);
    let judged = table.filter(|case| case.was_run()).count();
    let failed = report.failures().count();
    // Where a query sees one key, or one score is far above the others, delta changes nothing.
    assert!(failed * 4 >= judged * 3, "{failed} of {judged} failed");
}

pub(super) fn problem(
    heads: usize,
    nq: usize,
    nk: usize,
    head_dim: usize,
    causal: bool,
) -> gradients::Problem {
    let [q, k, v] = [(nq, 1), (nk, 2), (nk, 3)]
        .map(|(rows, seed)| tensor((1, heads, rows, head_dim), seed, normal));
    let mut options = Options::default();
    options.causal = causal;
    let name = format!("nq = {nq}, nk = {nk}, D = {head_dim}");
    gradients::Problem::new(attention::Problem::new(name, q, k, v, options))
}

/// The gradients of a problem by a rung, on tensors of `T`.
fn solve<T: Element>(
    device: &Device,
    problem: &gradients::Problem,
) -> <gradients::Problem as Problem>::Output
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let output = attend::<T>(device, &forward::<T>(device), problem).unwrap();
    let own = own(device, rung::<T>());
    solve_backward::<T>(device, &own, problem, &output, PACKED).unwrap()
}

#[test]
fn rows_that_see_nothing_have_no_gradient() {
    rows_without_gradient::<f32>();
    rows_without_gradient::<f16>();
}

/// Queries that see no key, and keys that no query sees, as no query is there.
fn rows_without_gradient<T: Element>()
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    let solve = |problem: &gradients::Problem| solve::<T>(&device, problem);
    // The first 100 of 130 queries stand before the first key.
    let found = solve(&problem(2, 130, 30, 64, true));
    for (i, row) in found.dq.lanes(Axis(3)).into_iter().enumerate() {
        let zeros = row.iter().all(|&x| x == 0.0);
        // Query 100 sees one key, whose weight is 1 whatever its score.
        let expected = i % 130 < 100;
        assert!(zeros == expected || i % 130 == 100, "query {i}: {row}");
    }
    assert!(found.dk.iter().chain(&found.dv).all(|x| x.is_finite()));
    let without_keys = solve(&problem(2, 70, 0, 64, false));
    assert!(without_keys.dq.iter().all(|&x| x == 0.0));
    let without_queries = solve(&problem(2, 0, 70, 64, true));
    let mut all = without_queries.dk.iter().chain(&without_queries.dv);
    assert!(all.all(|&x| x == 0.0));
}

/// The gradients of one head by whole matrices, in f32.
fn naive(problem: &gradients::Problem) -> [Array2<f32>; 3] {
    let forward = &problem.forward;
    let head = s![0, 0, .., ..];
    let [q, k, v] = [&forward.q, &forward.k, &forward.v].map(|x| x.slice(head));
    let d_o = problem.d_o.slice(head);
    let (ahead, scale) = (k.nrows() - q.nrows(), forward.sizes().default_scale());
    let mut p = q.dot(&k.t()) * scale;
    for (i, mut row) in p.rows_mut().into_iter().enumerate() {
        if forward.options.causal {
            row.slice_mut(s![i + ahead + 1..]).fill(f32::NEG_INFINITY);
        }
        let max = row.fold(f32::NEG_INFINITY, |max, &x| max.max(x));
        row.mapv_inplace(|x| (x - max).exp());
        row /= row.sum();
    }
    let mut ds = d_o.dot(&v.t()) * &p;
    for (mut ds, p) in ds.rows_mut().into_iter().zip(p.rows()) {
        let sum = ds.sum();
        ds.scaled_add(-sum, &p);
    }
    [ds.dot(&k) * scale, ds.t().dot(&q) * scale, p.t().dot(&d_o)]
}

/// The largest error is at most three times that of the naive way in f32, and a floor.
#[rstest]
fn it_is_as_exact_as_the_naive_way(
    #[values(16, 64, 128)] head_dim: usize,
    #[values(false, true)] causal: bool,
) {
    let device = Device::open();
    let problem = problem(1, 200, 230, head_dim, causal);
    let found = solve::<f32>(&device, &problem);
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let exact = Dense::new(q, k, v, options).gradients(&problem.d_o.mapv(f64::from));
    let found = [found.dq, found.dk, found.dv];
    for ((found, naive), exact) in found.iter().zip(naive(&problem)).zip(&exact) {
        let errors = |values: &mut dyn Iterator<Item = &f32>| {
            let errors = values
                .zip(exact)
                .map(|(&x, exact)| (f64::from(x) - exact).abs());
            errors.fold(0.0, f64::max)
        };
        let (own, naive) = (errors(&mut found.iter()), errors(&mut naive.iter()));
        println!("D = {head_dim}: {own:.1e}, the naive way {naive:.1e}");
        assert!(own <= 3.0 * naive + 1e-7, "{own:.1e}, but {naive:.1e}");
    }
}

/// The profiles of the three launches; `None` on a GPU, which the program cannot count on. Counts
/// do not depend on o and lse: they are zeros.
pub(super) fn count<T: Element>(
    device: &Device,
    mode: BackwardMode,
    problem: &gradients::Problem,
) -> Option<[LaunchProfile; 3]>
where
    Stage4Backward: FusedBackward<T>,
{
    let output = Output {
        o: problem.d_o.mapv(|_| 0.0),
        lse: problem.d_o.map_axis(Axis(3), |_| 0.0),
    };
    let own = own(device, mode);
    let profiled = profiles(|| solve_backward::<T>(device, &own, problem, &output, PACKED))?;
    let (_, launches) = profiled.unwrap_or_else(|error| panic!("{error}"));
    Some(launches.try_into().expect("three kernels"))
}

/// Each block loads what it owns once, and what passes by once; o and dO are loaded once more for
/// their dot products. Nothing as large as the scores is written.
#[rstest]
fn traffic_is_what_the_tiles_need(
    #[values((200, 64), (129, 128), (256, 16))] (n, head_dim): (usize, usize),
) {
    traffic::<f32>(
        BackwardMode::Recompute,
        BackwardKernel::RECOMPUTE,
        n,
        head_dim,
    );
    traffic::<f16>(BackwardMode::Mma, BackwardKernel::MMA, n, head_dim);
    let kernels = BackwardKernel::library(None);
    traffic::<f32>(BackwardMode::Library, kernels, n, head_dim);
    let kernels = BackwardKernel::tensor_cores(Format::F16);
    traffic::<f16>(BackwardMode::Library, kernels, n, head_dim);
}

fn traffic<T: Element>(mode: BackwardMode, kernels: [BackwardKernel; 3], n: usize, head_dim: usize)
where
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    let Some(launches) = count::<T>(&device, mode, &problem(2, n, n, head_dim, false)) else {
        return;
    };
    let tensor = 2 * n * head_dim * size_of::<T>(); // bytes of q, k, v, o or dO
    let rows = 2 * n * size_of::<f32>(); // bytes of lse or delta
    // Of each kernel: bytes that are loaded by all blocks, or by each tile of the other side; and
    // stored.
    let rung = [
        ((2 * tensor, 0), rows),
        ((2 * tensor, 2 * (tensor + rows)), 2 * tensor),
        ((2 * (tensor + rows), 2 * tensor), tensor),
    ];
    // Without a compiler, kernels of the library have more columns.
    let columns = kernels[1].padded().iter().copied();
    let columns = columns.filter(|&columns| columns >= head_dim);
    let columns = columns.min().unwrap_or(head_dim);
    let sums = 2 * n * kernels[1].row_of_sums(columns) * size_of::<f32>();
    let library = [
        rung[0],
        ((2 * tensor, 2 * (tensor + rows)), 2 * tensor + sums),
        ((sums, 0), tensor),
    ];
    let expected = match mode {
        BackwardMode::Library => library,
        _ => rung,
    };
    for ((kernel, launch), (loaded, stored)) in kernels.into_iter().zip(&launches).zip(expected) {
        // Of what a block owns.
        let tiles = kernel.tile(head_dim).map_or(1, |tile| match kernel {
            BackwardKernel::MmaKeysAndValues
            | BackwardKernel::RecomputeKeysAndValues
            | BackwardKernel::Library { .. }
            | BackwardKernel::TensorCores { .. } => n.div_ceil(tile.block_kv),
            _ => n.div_ceil(tile.block_q),
        });
        let needed = loaded.0 + tiles * loaded.1;
        let loads = 32 * launch.total.global_loads.sectors as usize;
        assert!(
            loads <= needed * 105 / 100,
            "{kernel:?}, N = {n}, D = {head_dim}: {loads} bytes loaded, {needed} needed"
        );
        // An element of the sums is added to once by each tile of keys.
        let adds = match kernel {
            BackwardKernel::Library { .. } | BackwardKernel::TensorCores { .. } => {
                tiles * 2 * n * head_dim * size_of::<f32>()
            }
            _ => 0,
        };
        let added = launch.total.global_atomics.bytes as usize;
        let most = match adds {
            0 => 0,
            _ => adds / head_dim * columns + 4096, // each block draws a number
        };
        assert!(
            adds <= added && added <= most,
            "{kernel:?}, N = {n}, D = {head_dim}: {added} bytes added, {adds} needed"
        );
        let written = launch.compulsory_write_bytes as usize;
        assert!(
            written <= stored * 105 / 100 + 64,
            "{kernel:?}, N = {n}, D = {head_dim}: {written} bytes written, of {stored}"
        );
    }
}

/// More than three of four instructions are multiply-adds, and there are no bank conflicts.
#[rstest]
fn it_multiplies_and_adds(#[values(64, 128)] head_dim: usize) {
    let device = Device::open();
    let Some([_, keys, queries]) = count::<f32>(
        &device,
        BackwardMode::Recompute,
        &problem(1, 256, 256, head_dim, false),
    ) else {
        return;
    };
    for launch in [keys, queries] {
        let total = &launch.total;
        let share = total.of(Class::Fma32) as f64 / total.warp_instructions as f64;
        println!("D = {head_dim}: {:.1}% FFMA", 100.0 * share);
        assert!(share > 0.75, "{share}");
        assert_eq!(total.shared().conflict_degree(), 1.0);
        assert_eq!(total.local.requests, 0, "no array went to local memory");
    }
}

/// What the headers of the kernels on tensor cores say: instructions and wavefronts of shared
/// memory for each `mma.sync`, and no bank conflicts.
#[rstest]
#[case(BackwardMode::Mma, 64, &[(4, 4.4, 1.7), (3, 4.2, 1.75)])]
#[case(BackwardMode::Mma, 128, &[(4, 4.1, 1.85), (3, 4.2, 2.05)])]
#[case(BackwardMode::Library, 64, &[(5, 7.4, 2.0)])]
#[case(BackwardMode::Library, 128, &[(5, 6.5, 1.85)])]
fn it_costs_what_its_headers_say(
    #[case] mode: BackwardMode,
    #[case] head_dim: usize,
    #[case] limits: &[(usize, f64, f64)], // of the kernels that multiply: products, and the two figures
) {
    const N: usize = 512;
    let device = Device::open();
    let problem = problem(1, N, N, head_dim, false);
    let Some([_, keys, queries]) = count::<f16>(&device, mode, &problem) else {
        return;
    };
    for (launch, &(products, instructions, wavefronts)) in [keys, queries].into_iter().zip(limits) {
        let total = &launch.total;
        assert_eq!(total.flops_tensor, (2 * products * N * N * head_dim) as u64);
        let mma = total.flops_tensor as f64 / 4096.0;
        let each = (
            total.warp_instructions as f64 / mma,
            total.shared().wavefronts as f64 / mma,
        );
        println!("D = {head_dim}: {each:.2?} instructions and wavefronts for each mma.sync");
        assert!(each.0 <= instructions && each.1 <= wavefronts, "{each:?}");
        let loads = total.shared_loads;
        assert_eq!(loads.wavefronts, loads.ideal, "no bank conflicts");
        assert_eq!(total.local.requests, 0, "no array went to local memory");
    }
}

/// With dO about 2⁻¹⁴, most ds of 512 keys are below the normal numbers of f16. Without the factor
/// 16 dq of the rung is off by 0.012 of its length. With dO about 2¹², 16 ds is above its largest
/// number: the library has no such limit, even where dO differs from query to query.
#[test]
fn small_and_large_gradients_are_numbers_of_f16() {
    let small = |_| 2f32.powi(-14);
    assert!(share_off::<f16>(BackwardMode::Mma, small) < 0.008);
    assert!(share_off::<f16>(BackwardMode::Library, small) < 0.008);
    assert!(share_off::<f16>(BackwardMode::Library, |_| 2f32.powi(12)) < 0.001);
    let growing = |i: usize| 2f32.powi(i as i32 / 20 - 13);
    assert!(share_off::<f16>(BackwardMode::Library, growing) < 0.004);
    // One query is far above all others, whose dq is not its own.
    let lone = |i: usize| if i == 511 { 2f32.powi(12) } else { 1.0 };
    assert!(share_off::<f16>(BackwardMode::Library, lone) < 0.01);
}

/// How far dq of 32 queries, dk or dv is off at most, as a share of its length, if row i of dO is
/// multiplied by a factor: of 512 queries and keys.
fn share_off<T: Element>(mode: BackwardMode, factor: impl Fn(usize) -> f32) -> f64
where
    Stage4: Fused<T>,
    Stage4Backward: FusedBackward<T>,
{
    let device = Device::open();
    let mut problem = problem(1, 512, 512, 64, false);
    problem.forward = problem.forward.stored_in(T::DTYPE);
    for ((_, _, i, _), x) in problem.d_o.indexed_iter_mut() {
        *x = T::DTYPE.round(*x * factor(i));
    }
    let output = attend::<T>(&device, &forward::<T>(&device), &problem).unwrap();
    let own = own(&device, mode);
    let found = solve_backward::<T>(&device, &own, &problem, &output, PACKED).unwrap();
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let right = Dense::new(q, k, v, options).gradients(&problem.d_o.mapv(f64::from));
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    // dq of 32 queries at a time, which have no part in each other's; of half the last place of the
    // smallest f16, nothing is off.
    let [dq, dk, dv] = &right;
    let blocks = found
        .dq
        .axis_chunks_iter(Axis(2), 32)
        .zip(dq.axis_chunks_iter(Axis(2), 32));
    let whole = [(found.dk.view(), dk.view()), (found.dv.view(), dv.view())];
    let shares = blocks.chain(whole).map(|(found, right)| {
        let off = found.iter().zip(right).map(|(&x, y)| f64::from(x) - y);
        let off = norm(&mut off.map(|x| (x.abs() - 2f64.powi(-25)).max(0.0)));
        off / norm(&mut right.iter().copied())
    });
    let largest = shares.max_by(f64::total_cmp).unwrap(); // of which NaN is the largest
    println!("{mode}: off by {largest:.1e} of the length");
    largest
}

/// A device below compute capability 8.0, and a tensor that begins at no multiple of 16 bytes.
#[test]
fn what_tensor_cores_cannot_have_is_refused() {
    let name = "backward::what_tensor_cores_cannot_have_is_refused";
    let inside = alone(name, &[("GPU", "sim"), ("CUDA_SIM_DEVICE", "t4")]).is_none();
    let device = Device::open();
    let n = 64;
    let tensor = device.filled::<f16>(1.0, n * 16 + 8);
    let lse = device.filled::<f32>(1.0, n);
    let mut gradients = [tensor.clone(), tensor.clone(), tensor.clone()];
    let sizes = problem(1, n, n, 16, false).forward.sizes();
    let mut run = |begin: usize| {
        let view = || tensor.slice(begin..);
        let inputs = BackwardInputs {
            forward: Inputs::new(view(), view(), view()),
            o: view(),
            lse: lse.as_view(),
            d_o: view(),
        };
        let [dq, dk, dv] = gradients.each_mut().map(|x| x.as_view_mut());
        let own = own(&device, rung::<f16>()).backward;
        let gradients = Gradients { dq, dk, dv };
        own.backward_half(&device.stream, inputs, gradients, &Shape::packed(sizes))
    };
    assert_eq!(run(1).unwrap_err().argument(), Some("q"));
    let too_old = matches!(run(8), Err(Error::Load(gpu::Error::DeviceTooOld { .. })));
    assert_eq!(too_old, inside);
}

/// The scores of 2048 queries and keys take 16 MiB; all tensors of both passes take 1.1 MiB.
#[test]
fn scores_take_no_memory() {
    let variables = [("GPU", "sim"), ("CUDA_SIM_MEMORY", "4")]; // MiB
    if alone("backward::scores_take_no_memory", &variables).is_some() {
        return;
    }
    let device = Device::open();
    let problem = problem(1, 2048, 2048, 16, true);
    let gradients = solve::<f32>(&device, &problem);
    assert!(gradients.dq.iter().all(|x| x.is_finite()));
}

/// The tiles at D = 64 take more shared memory than a block of a T4 can have.
#[test]
fn tiles_that_do_not_fit_are_refused() {
    let variables = [("GPU", "sim"), ("CUDA_SIM_DEVICE", "t4")];
    if alone("backward::tiles_that_do_not_fit_are_refused", &variables).is_some() {
        return;
    }
    let device = Device::open();
    let problem = problem(1, 70, 70, 64, false);
    let output = attend::<f32>(&device, &forward::<f32>(&device), &problem).unwrap();
    let error = solve_backward::<f32>(
        &device,
        &own(&device, rung::<f32>()),
        &problem,
        &output,
        PACKED,
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`head_dim`: expected tiles of at most 65536 bytes of shared memory"),
        "{text}"
    );
}
