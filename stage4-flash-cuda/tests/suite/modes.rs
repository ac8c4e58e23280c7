//! Agreement of the modes, reuse of a handle, values that only device memory can
//! hold, and long sequences.

use conformance::device::Device;
use conformance::inputs::{normal, tensor, uniform};
use conformance::layout::Layout;
use conformance::problems::attention::{Problem, random};
use conformance::suites::stage4::solve;
use conformance::{Dtype, Element, Implementation};
use half::{bf16, f16};
use ndarray::{Array4, s};
use rstest::rstest;
use stage1_reference::{Feature, Options, Sizes};
use stage2_naive_cuda::{LACKS, LADDER_LACKS};
use stage4_flash_cuda::{Attention, Fused, Inputs, Mode, Outputs, Rung, Shape, Stage4};

use crate::runs_here;

fn attention(device: &Device, mode: Mode) -> Attention {
    let attention = Attention::new(device.stream.context()).unwrap();
    attention.with_mode(mode)
}

/// Computes `given`, and compares with the oracle's result of `meant`.
fn check(mode: Mode, given: &Problem, meant: Problem, layout: Layout) {
    check_in::<f32>(mode, given, meant, layout);
}

/// The same on tensors of `T`.
fn check_in<T: Element>(mode: Mode, given: &Problem, meant: Problem, layout: Layout)
where
    Stage4: Fused<T>,
{
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
        *output = solve::<T>(&device, &own, given, [layout; 4])?;
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    report.into_result().unwrap();
}

/// All modes give the same result, but for rounding, whatever the options and layouts.
#[test]
fn modes_agree() {
    for mode in Mode::all() {
        let (lacks, head_dim) = match mode {
            Mode::Naive => (&LADDER_LACKS[..], 72),
            Mode::Tiled => (&LACKS[..], 72),
            Mode::Library => (&[][..], 40),
            Mode::Padded => (&[][..], 72),
            Mode::Rung(_) => (&Rung::LACKS[..], 16),
        };
        for seed in 0..12 {
            let (problem, [layout, ..]) = random((seed << 8) + 7, head_dim, lacks);
            let packed = lacks.contains(&Feature::Strides);
            let layout = if packed { Layout::Packed } else { layout };
            check(mode, &problem.clone(), problem, layout);
        }
    }
}

/// Columns of zeros change no sum: with the same tile, padded and exact kernels give the same bits.
#[test]
fn padding_changes_no_bit() {
    let device = Device::open();
    let padded = attention(&device, Mode::Padded);
    for head_dim in [32, 40] {
        let exact =
            attention(&device, Mode::Library).with_tile(padded.variant(head_dim).unwrap().tile);
        let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, 70, head_dim), seed, normal));
        let [first, second] = [&padded, &exact].map(|attention| {
            let options = Options::default().causal();
            let output =
                attention.forward_host(&device.stream, q.view(), k.view(), v.view(), &options);
            output.unwrap_or_else(|error| panic!("{error}"))
        });
        assert_eq!((first.o, first.lse), (second.o, second.lse));
    }
}

/// Rung 3 copies at other times than rung 2, and computes the same.
#[test]
fn copies_in_flight_change_no_bit() {
    let device = Device::open();
    for head_dim in Rung::HEAD_DIMS {
        let [q, k, v] = [(70, 1), (130, 2), (130, 3)]
            .map(|(rows, seed)| tensor((1, 2, rows, head_dim), seed, normal));
        let [first, second] = [Rung::RegisterTiles, Rung::AsyncCopy].map(|rung| {
            let options = Options::default().causal();
            let output = attention(&device, Mode::Rung(rung)).forward_host(
                &device.stream,
                q.view(),
                k.view(),
                v.view(),
                &options,
            );
            output.unwrap_or_else(|error| panic!("{error}"))
        });
        assert_eq!((first.o, first.lse), (second.o, second.lse));
    }
}

/// Rungs that read vectors refuse tensors that do not begin where a vector may.
#[test]
fn vectors_begin_at_multiples_of_16_bytes() {
    let device = Device::open();
    let sizes = Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        nq: 3,
        nk: 3,
        head_dim: 16,
    };
    let x = device.upload(&[0.5f32; 49]);
    let mut o = device.upload(&[0.0f32; 48]);
    for rung in Rung::F32 {
        let inputs = Inputs::new(x.slice(..48), x.slice(1..), x.slice(..48));
        let outputs = Outputs {
            o: o.as_view_mut(),
            lse: None,
        };
        let attention = attention(&device, Mode::Rung(rung));
        let result = attention.forward(&device.stream, inputs, outputs, &Shape::packed(sizes));
        match rung {
            Rung::Flash => result.unwrap(),
            _ => {
                let text = result.unwrap_err().to_string();
                assert!(
                    text.contains("k") && text.contains("a multiple of 16"),
                    "{text}"
                );
            }
        }
    }
    let x = device.filled::<f16>(0.5, 49);
    let mut o = device.filled::<f16>(0.0, 48);
    for rung in Rung::F16 {
        let inputs = Inputs::new(x.slice(..48), x.slice(1..), x.slice(..48));
        let outputs = Outputs {
            o: o.as_view_mut(),
            lse: None,
        };
        let attention = attention(&device, Mode::Rung(rung));
        let shape = Shape::packed(sizes);
        let result = attention.forward_half(&device.stream, inputs, outputs, &shape);
        let text = result.unwrap_err().to_string();
        assert!(text.contains("a multiple of 16"), "{text}");
    }
}

/// Swizzled tiles are read by other instructions than plain ones, and hold the same.
#[test]
fn swizzling_changes_no_bit() {
    let device = Device::open();
    for head_dim in Rung::HEAD_DIMS {
        let [q, k, v] = [(70, 1), (130, 2), (130, 3)]
            .map(|(rows, seed)| tensor((1, 2, rows, head_dim), seed, normal));
        let problem = Problem::new("bits".to_owned(), q, k, v, Options::default().causal());
        let [first, second] = [Rung::Mma, Rung::Swizzle].map(|rung| {
            let own = Stage4 {
                stream: device.stream.clone(),
                attention: attention(&device, Mode::Rung(rung)),
            };
            solve::<f16>(&device, &own, &problem, [Layout::Packed; 4]).unwrap()
        });
        assert_eq!((first.o, first.lse), (second.o, second.lse));
    }
}

/// A mode computes in one type of elements, and refuses the others.
#[test]
fn a_mode_has_one_type() {
    let device = Device::open();
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 1, 5, 16), seed, normal));
    let problem = Problem::new("type".to_owned(), q, k, v, Options::default());
    let own = |mode| Stage4 {
        stream: device.stream.clone(),
        attention: attention(&device, mode),
    };
    let packed = [Layout::Packed; 4];
    let mma = own(Mode::Rung(Rung::Mma));
    for (dtype, result) in [
        ("f32", solve::<f32>(&device, &mma, &problem, packed)),
        ("bf16", solve::<bf16>(&device, &mma, &problem, packed)),
    ] {
        let text = result.unwrap_err().to_string();
        assert!(
            text.contains(&format!("one in {dtype}")) && text.contains("mma"),
            "{text}"
        );
    }
    for mode in [Mode::Naive, Mode::Tiled, Mode::Rung(Rung::Flash)] {
        let text = solve::<f16>(&device, &own(mode), &problem, packed).unwrap_err();
        assert!(text.to_string().contains("one in f16"), "{text}");
    }
}

/// Device memory may hold what the host refuses or never sends: no keys at all, and
/// key lengths beyond 0..=nk.
#[rstest]
fn no_keys_and_lengths_out_of_range(#[values(Mode::Library, Mode::Padded)] mode: Mode) {
    let problem = |nk, options| {
        let [q, k, v] =
            [(70, 1), (nk, 2), (nk, 3)].map(|(rows, seed)| tensor((2, 2, rows, 16), seed, normal));
        Problem::new(format!("nk = {nk}"), q, k, v, options)
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

#[test]
fn no_keys() {
    for mode in Mode::all() {
        let [q, k, v] =
            [(70, 1), (0, 2), (0, 3)].map(|(rows, seed)| tensor((2, 2, rows, 16), seed, normal));
        let problem = Problem::new("no keys".to_owned(), q, k, v, Options::default());
        check(mode, &problem.clone(), problem, Layout::Packed);
    }
}

/// Blocks whose queries see no key: there is none, or all come later.
#[test]
fn blocks_that_see_no_key() {
    let rungs = Rung::F16.map(|rung| (Mode::Rung(rung), rung.head_dims()[0]));
    let modes = rungs.into_iter().chain([(Mode::Library, 64)]);
    for (mode, head_dim) in modes.filter(|&(mode, _)| runs_here(mode)) {
        for (nq, nk, options) in [
            (70, 0, Options::default()),
            (300, 20, Options::default().causal()),
        ] {
            let [q, k, v] = [(nq, 1), (nk, 2), (nk, 3)]
                .map(|(rows, seed)| tensor((1, 2, rows, head_dim), seed, normal));
            let problem = Problem::new(format!("{mode}, nk = {nk}"), q, k, v, options);
            let problem = problem.stored_in(Dtype::F16);
            check_in::<f16>(mode, &problem.clone(), problem, Layout::Packed);
        }
    }
}

/// A row of the block mask that has two words, and no two blocks of a period that
/// could stand for each other.
#[test]
fn a_block_mask_of_two_words() {
    const NK: usize = 64 * 35 + 7;
    let bits = tensor((2, 1, 2, NK.div_ceil(64)), 9, uniform).mapv(|x| x < 0.0);
    let [q, k, v] =
        [(70, 1), (NK, 2), (NK, 3)].map(|(rows, seed)| tensor((2, 1, rows, 16), seed, normal));
    let options = Options::default().blocks(bits);
    let problem = Problem::new("two words".to_owned(), q, k, v, options);
    check(Mode::Library, &problem.clone(), problem, Layout::Packed);
}

/// One handle, several head dimensions, streams and calls; the same bits each time.
#[test]
fn a_handle_is_reused() {
    let device = Device::open();
    let attention = attention(&device, Mode::Library);
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

/// A million keys for 40 queries, then a million queries for 4096 keys: offsets and diagonals fit
/// their integers. A window hides nearly all scores.
#[test]
fn a_million_queries_or_keys() {
    const N: usize = 1 << 20;
    const KEYS: usize = 1 << 12;
    let device = Device::open();
    let attention = attention(&device, Mode::Padded);
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
    let inputs = Inputs::new(x.as_view(), x.slice(N - KEYS..), x.slice(N - KEYS..));
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

/// Head dimensions without committed kernels of their own. Where there is no compiler, the
/// padded kernel takes them.
#[test]
fn any_head_dimension_is_computed() {
    for head_dim in [3, 33, 100, 200] {
        let (problem, [layout, ..]) = random((head_dim << 8) + 7, head_dim as usize, &[]);
        check(Mode::Library, &problem.clone(), problem, layout);
    }
}
