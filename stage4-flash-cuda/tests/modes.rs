//! The dispatcher, reuse of a handle, values that only device memory can hold, and long sequences.

use conformance::Implementation;
use conformance::device::Device;
use conformance::inputs::{normal, tensor, uniform};
use conformance::layout::Layout;
use conformance::problems::attention::{Problem, random};
use conformance::suites::stage4::solve;
use cudarc::driver::sys::CUdevice_attribute;
use ndarray::{Array4, s};
use rstest::rstest;
use stage1_reference::{Feature, Options, Sizes};
use stage2_naive_cuda::LACKS;
use stage4_flash_cuda::tiles::{self, Dtype};
use stage4_flash_cuda::{Attention, Inputs, Mode, Outputs, Shape, Stage4, Strategy};

fn attention(device: &Device, mode: Mode) -> Attention {
    let attention = Attention::new(device.stream.context()).unwrap();
    attention.with_mode(mode)
}

/// Computes `given`, and compares with the oracle's result of `meant`.
fn check(mode: Mode, given: &Problem, meant: Problem, layout: Layout) {
    let device = Device::open();
    let own = Stage4 {
        stream: device.stream.clone(),
        attention: attention(&device, mode),
    };
    let who = Implementation {
        name: &mode.to_string(),
        device: &device.name,
        lacks: &[],
    };
    let report = conformance::run(&who, [meant], |_, output| {
        *output = solve(&device, &own, given, [layout; 4])?;
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    report.into_result().unwrap();
}

/// All modes give the same result, but for rounding, whatever the options and layouts.
#[test]
fn modes_agree() {
    let mut modes = vec![Mode::Naive, Mode::Tiled, Mode::Fused];
    modes.extend(Strategy::ALL.map(Mode::FusedBy));
    for mode in modes {
        let lacks = match mode {
            Mode::Naive | Mode::Tiled => &LACKS[..],
            Mode::Fused => &[],
            Mode::FusedBy(strategy) => strategy.lacks(),
        };
        for seed in 0..12 {
            let (problem, [layout, ..]) = random((seed << 8) + 7, 72, lacks);
            let packed = lacks.contains(&Feature::Strides);
            let layout = if packed { Layout::Packed } else { layout };
            check(mode, &problem.clone(), problem, layout);
        }
    }
}

/// The dispatcher takes the strategy with the least time in the table.
#[test]
fn the_fastest_in_the_table_runs() {
    let device = Device::open();
    let fused = attention(&device, Mode::Fused);
    let context = device.stream.context();
    let shared = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    let shared = context.attribute(shared).unwrap() as usize;
    let class = tiles::class(context.compute_capability().unwrap(), shared).unwrap();
    for head_dim in [1, 64, 100, 160, 256] {
        let ms = |strategy| {
            class
                .entry(Dtype::F32, strategy, head_dim)
                .map(|entry| entry.ms)
        };
        let least = Strategy::ALL.into_iter().filter_map(ms).reduce(f64::min);
        let chosen = fused.variant(head_dim).unwrap();
        assert_eq!(ms(chosen.strategy), least, "D = {head_dim}: {chosen:?}");
    }
}

/// Device memory may hold what the host refuses or never sends: no keys at all, and key lengths beyond 0..=nk.
#[rstest]
fn no_keys_and_lengths_out_of_range(
    #[values(Mode::FusedBy(Strategy::Exact), Mode::FusedBy(Strategy::RegisterTiled))] mode: Mode,
) {
    let problem = |nk, options| {
        let of = |rows, seed| tensor((2, 2, rows, 16), seed, normal);
        Problem::new(
            format!("nk = {nk}"),
            of(70, 1),
            of(nk, 2),
            of(nk, 3),
            options,
        )
    };
    for options in [Options::default(), Options::default().window(5, 5)] {
        check(
            mode,
            &problem(0, options.clone()),
            problem(0, options),
            Layout::SequenceFirst,
        );
    }
    // On the device these are -1 and 75.
    let given = problem(70, Options::default().key_lengths([usize::MAX, 75]));
    let meant = problem(70, Options::default().key_lengths([0, 70]));
    check(mode, &given, meant, Layout::SequenceFirst);
}

#[rstest]
fn no_keys(#[values(Mode::Naive, Mode::Tiled, Mode::FusedBy(Strategy::Flash))] mode: Mode) {
    let of = |rows, seed| tensor((2, 2, rows, 16), seed, normal);
    let problem = Problem::new(
        "no keys".to_owned(),
        of(70, 1),
        of(0, 2),
        of(0, 3),
        Options::default(),
    );
    check(mode, &problem.clone(), problem, Layout::Packed);
}

/// A row of the block mask that has two words, and no two blocks of a period that could stand for each other.
#[rstest]
fn a_block_mask_of_two_words(
    #[values(Mode::FusedBy(Strategy::Exact), Mode::FusedBy(Strategy::RegisterTiled))] mode: Mode,
) {
    const NK: usize = 64 * 35 + 7;
    let bits = tensor((2, 1, 2, NK.div_ceil(64)), 9, uniform).mapv(|x| x < 0.0);
    let of = |rows, seed| tensor((2, 1, rows, 16), seed, normal);
    let options = Options::default().blocks(bits);
    let problem = Problem::new(
        "two words".to_owned(),
        of(70, 1),
        of(NK, 2),
        of(NK, 3),
        options,
    );
    check(mode, &problem.clone(), problem, Layout::Packed);
}

/// One handle, several head dimensions, streams and calls; the same bits each time.
#[test]
fn a_handle_is_reused() {
    let device = Device::open();
    let attention = attention(&device, Mode::Fused);
    let other = device.stream.context().new_stream().unwrap();
    for head_dim in [16, 64, 16] {
        let x = tensor((1, 2, 70, head_dim), 5, normal);
        let y = tensor((1, 2, 70, head_dim), 6, normal);
        let run = |stream| {
            let output =
                attention.forward_host(stream, x.view(), y.view(), x.view(), &Options::default());
            output.unwrap_or_else(|error| panic!("{error}"))
        };
        let (first, second) = (run(&device.stream), run(&other));
        assert!(
            first
                .o
                .iter()
                .zip(&second.o)
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
        assert_eq!(first.lse, second.lse);
    }
    assert_eq!(attention.loaded(), 2, "one kernel for each head dimension");
}

/// A million keys for 40 queries, then a million queries for 4096 keys: offsets and diagonals fit their integers. A window
/// hides nearly all scores.
#[rstest]
fn a_million_queries_or_keys(
    #[values(Strategy::Exact, Strategy::RegisterTiled)] strategy: Strategy,
) {
    const N: usize = 1 << 20;
    const KEYS: usize = 1 << 12;
    let device = Device::open();
    let attention = attention(&device, Mode::FusedBy(strategy));
    let sizes = Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        nq: 40,
        nk: N,
        head_dim: 1,
    };
    // Query i stands at key N - 40 + i, and sees it and the two before.
    let options = Options::default().window(2, 0);
    let q = tensor((1, 1, 40, 1), 1, normal);
    let [k, v] = [2, 3].map(|seed| tensor((1, 1, N, 1), seed, normal));
    let output = attention.forward_host(&device.stream, q.view(), k.view(), v.view(), &options);
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    for i in 0..40 {
        let keys = N - 42 + i..N - 39 + i;
        let weights = keys
            .clone()
            .map(|j| f64::from(q[[0, 0, i, 0]] * k[[0, 0, j, 0]]).exp());
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = keys
            .zip(&weights)
            .map(|(j, w)| w * f64::from(v[[0, 0, j, 0]]))
            .sum();
        let expected = sum / weights.iter().sum::<f64>();
        let actual = f64::from(output.o[[0, 0, i, 0]]);
        assert!(
            (actual - expected).abs() < 1e-5,
            "query {i}: {actual}, not {expected}"
        );
    }

    let sizes = Sizes {
        nq: N,
        nk: KEYS,
        ..sizes
    };
    let x = device.upload(&k);
    let mut o = device.upload(&Array4::from_elem((1, 1, N, 1), f32::NAN));
    let shape = Shape {
        window: Some(stage1_reference::Window { left: 0, right: 0 }),
        ..Shape::packed(sizes)
    };
    let inputs = Inputs {
        q: x.as_view(),
        k: x.slice(N - KEYS..),
        v: x.slice(N - KEYS..),
        mask: None,
        key_lengths: None,
        blocks: None,
    };
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: None,
    };
    attention
        .forward(&device.stream, inputs, outputs, &shape)
        .unwrap_or_else(|error| panic!("{error}"));
    // The last queries see their own key alone, so o = v; the others see none.
    let o = device.download(&o);
    let (unseeing, seeing) = o.split_at(N - KEYS);
    assert!(unseeing.iter().all(|&x| x == 0.0));
    assert_eq!(seeing, k.slice(s![0, 0, N - KEYS.., 0]).to_vec());
}

/// Head dimensions without committed kernels of their own. Where there is no compiler, the padded kernel takes them.
#[test]
fn any_head_dimension_is_computed() {
    for head_dim in [20, 33, 100, 200] {
        let (problem, [layout, ..]) = random((head_dim << 8) + 7, head_dim as usize, &[]);
        check(Mode::Fused, &problem.clone(), problem, layout);
    }
}
