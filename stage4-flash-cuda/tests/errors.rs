//! Arguments that do not fit are refused by name, and nothing is launched: outputs keep their values.

mod support;

use ndarray::Array4;
use rstest::rstest;
use stage1_reference::{Options, Sizes};
use stage2_naive_cuda as stage2;
use stage4_flash_cuda::tiles::Tile;
use stage4_flash_cuda::{
    Additive, BlockMask, Error, Inputs, Mode, Outputs, Shape, Strategy, Strides,
};
use support::{Device, Modes};

/// The argument that an error names.
fn named(error: &Error) -> &'static str {
    match error {
        Error::Refused(
            stage2::Error::TooShort {
                operation: "attention",
                argument,
                ..
            }
            | stage2::Error::TooLarge {
                operation: "attention",
                argument,
                ..
            }
            | stage2::Error::Overlap {
                operation: "attention",
                argument,
            }
            | stage2::Error::Attention(stage1_reference::Error::Shape {
                operation: "attention",
                argument,
                ..
            }),
        ) => argument,
        Error::Refused(stage2::Error::Attention(error)) => match error {
            stage1_reference::Error::HeadGroups { .. } => "heads",
            stage1_reference::Error::Scale { .. } => "scale",
            stage1_reference::Error::KeyLength { .. } => "key_lengths",
            other => panic!("another error: {other}"),
        },
        other => panic!("another error: {other}"),
    }
}

const HUGE: usize = usize::MAX / 2;

/// Elements of q, k, v, o, lse, mask, key lengths and words of blocks for [2, 4, 65, 8] and [2, 2, 70, 8].
#[derive(Clone, Copy)]
struct Lengths {
    q: usize,
    k: usize,
    v: usize,
    o: usize,
    lse: usize,
    mask: usize,
    key_lengths: usize,
    blocks: usize,
}

const FITTING: Lengths = Lengths {
    q: 4160,
    k: 2240,
    v: 2240,
    o: 4160,
    lse: 520,
    mask: 4550,
    key_lengths: 2,
    blocks: 2,
};

type Spoil = fn(&mut Shape);
const AS_IT_IS: Spoil = |_| {};

#[rstest]
#[case::q_short("q", Lengths { q: 4159, ..FITTING }, AS_IT_IS)]
#[case::k_short("k", Lengths { k: 2239, ..FITTING }, AS_IT_IS)]
#[case::v_short("v", Lengths { v: 2239, ..FITTING }, AS_IT_IS)]
#[case::o_short("o", Lengths { o: 4159, ..FITTING }, AS_IT_IS)]
#[case::lse_short("lse", Lengths { lse: 519, ..FITTING }, AS_IT_IS)]
#[case::mask_short("mask", Lengths { mask: 4549, ..FITTING }, AS_IT_IS)]
#[case::key_lengths_short("key_lengths", Lengths { key_lengths: 1, ..FITTING }, AS_IT_IS)]
#[case::blocks_short("blocks", Lengths { blocks: 1, ..FITTING }, AS_IT_IS)]
#[case::q_rows("q", FITTING, |shape: &mut Shape| shape.q.row = 9)]
#[case::k_heads("k", FITTING, |shape: &mut Shape| shape.k.head += 1)]
#[case::v_batches("v", FITTING, |shape: &mut Shape| shape.v.batch = HUGE)]
#[case::o_rows_overlap("o", FITTING, |shape: &mut Shape| shape.o.row = 7)]
#[case::o_heads_overlap("o", FITTING, |shape: &mut Shape| shape.o.head = 519)]
#[case::more_keys_than_there_are("k", FITTING, |shape: &mut Shape| shape.sizes.nk = 71)]
#[case::heads("heads", FITTING, |shape: &mut Shape| shape.sizes.kv_heads = 3)]
#[case::no_kv_heads("heads", FITTING, |shape: &mut Shape| shape.sizes.kv_heads = 0)]
#[case::no_head_dim("q", FITTING, |shape: &mut Shape| shape.sizes.head_dim = 0)]
#[case::large_head_dim("q", FITTING, |shape: &mut Shape| shape.sizes.head_dim = 257)]
#[case::huge_batch("batch", FITTING, |shape: &mut Shape| shape.sizes.batch = HUGE)]
#[case::huge_nq("nq", FITTING, |shape: &mut Shape| shape.sizes.nq = HUGE)]
#[case::huge_nk("nk", FITTING, |shape: &mut Shape| shape.sizes.nk = HUGE)]
#[case::scale("scale", FITTING, |shape: &mut Shape| shape.scale = Some(f32::NAN))]
fn what_does_not_fit_is_named(
    #[case] name: &str,
    #[case] lengths: Lengths,
    #[case] spoil: Spoil,
    #[values(Mode::Fused, Mode::FusedBy(Strategy::Exact), Mode::Tiled)] mode: Mode,
) {
    let device = Device::open();
    let floats = |length| device.upload(&vec![7.0f32; length]);
    let [q, k, v] = [lengths.q, lengths.k, lengths.v].map(floats);
    let [mut o, mut lse] = [lengths.o, lengths.lse].map(floats);
    let mask = floats(lengths.mask);
    let key_lengths = device.upload(&vec![7i32; lengths.key_lengths]);
    let bits = device.upload(&vec![7u32; lengths.blocks]);
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        nq: 65,
        nk: 70,
        head_dim: 8,
    };
    let mut shape = Shape::packed(sizes);
    spoil(&mut shape);
    let inputs = Inputs {
        q: q.as_view(),
        k: k.as_view(),
        v: v.as_view(),
        mask: Some(Additive {
            values: mask.as_view(),
            strides: Strides {
                row: 70,
                ..Strides::default()
            },
        }),
        key_lengths: Some(key_lengths.as_view()),
        blocks: Some(BlockMask {
            bits: bits.as_view(),
            strides: Strides {
                row: 1,
                ..Strides::default()
            },
        }),
    };
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: Some(lse.as_view_mut()),
    };
    let attention = device.attention(mode);
    let error = attention
        .forward(&device.stream, inputs, outputs, &shape)
        .unwrap_err();
    assert_eq!(named(&error), name, "{error}");
    for buffer in [&o, &lse] {
        assert!(device.download(buffer).iter().all(|&x| x == 7.0));
    }
}

type Dim = [usize; 4];
const Q: Dim = [2, 4, 3, 8];
const K: Dim = [2, 4, 5, 8];

#[rstest]
#[case::batch("k", Q, [3, 4, 5, 8], [3, 4, 5, 8], Options::default())]
#[case::head_dimension("k", Q, [2, 4, 5, 7], [2, 4, 5, 7], Options::default())]
#[case::values("v", Q, K, [2, 4, 6, 8], Options::default())]
#[case::heads("heads", Q, [2, 3, 5, 8], [2, 3, 5, 8], Options::default())]
#[case::mask("mask", Q, K, K, Options::default().mask(Array4::zeros((2, 4, 5, 3))))]
#[case::blocks("blocks", Q, K, K, Options::default().blocks(Array4::from_elem((1, 1, 1, 2), true)))]
#[case::number_of_lengths("key_lengths", Q, K, K, Options::default().key_lengths([5]))]
#[case::length("key_lengths", Q, K, K, Options::default().key_lengths([5, 6]))]
#[case::scale("scale", Q, K, K, Options::default().scale(f32::INFINITY))]
fn host_arrays_that_do_not_fit_are_named(
    #[case] name: &str,
    #[case] q: Dim,
    #[case] k: Dim,
    #[case] v: Dim,
    #[case] options: Options,
) {
    let device = Device::open();
    let attention = device.attention(Mode::Fused);
    let [q, k, v] = [q, k, v].map(Array4::zeros);
    let error = attention
        .forward_host(&device.stream, q.view(), k.view(), v.view(), &options)
        .unwrap_err();
    assert_eq!(named(&error), name, "{error}");
}

/// Tiles that a kernel cannot have: they are refused before they are compiled.
#[rstest]
#[case::no_queries(Strategy::Exact, [0, 32, 128])]
#[case::no_keys(Strategy::RegisterTiled, [64, 0, 128])]
#[case::no_threads(Strategy::RegisterTiled, [64, 64, 0])]
#[case::half_a_warp(Strategy::Exact, [32, 32, 48])]
#[case::rows_that_are_not_shared_out(Strategy::Exact, [33, 32, 128])]
#[case::more_rows_than_a_warp_has_lanes(Strategy::Exact, [64, 32, 32])]
#[case::keys_that_are_not_shared_out(Strategy::Split, [32, 48, 128])]
#[case::four_threads_a_row(Strategy::RegisterTiled, [64, 64, 32])]
#[case::seven_rows(Strategy::RegisterTiled, [7, 64, 128])]
#[case::too_many_threads(Strategy::Padded, [64, 64, 2048])]
fn a_tile_that_does_not_suit_its_kernel_is_refused(
    #[case] strategy: Strategy,
    #[case] sizes: [usize; 3],
) {
    let [block_q, block_kv, threads] = sizes;
    let device = Device::open();
    let tile = Tile {
        block_q,
        block_kv,
        threads,
    };
    let attention = (device.attention(Mode::FusedBy(strategy))).with_tile(tile);
    let x = Array4::zeros((1, 1, 5, 16));
    let (x, options) = (x.view(), Options::default());
    let error = attention.forward_host(&device.stream, x, x, x, &options);
    let Error::Tile { operation, reason } = error.unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(operation, "attention");
    let tile = format!("{block_q} queries × {block_kv} keys on {threads} threads");
    assert!(reason.contains(&tile), "{reason}");
    assert_eq!(attention.loaded(), 0);
}

/// A tile that the caller chose is not exchanged for another kernel's.
#[test]
fn a_wrong_tile_is_not_passed_over() {
    let tile = Tile {
        block_q: 48,
        block_kv: 64,
        threads: 128,
    };
    let attention = Device::open().attention(Mode::Fused).with_tile(tile);
    let by_strategy = Device::open()
        .attention(Mode::FusedBy(Strategy::RegisterTiled))
        .with_tile(tile);
    let [error, expected] =
        [attention, by_strategy].map(|a| a.variant(64).map_err(|e| e.to_string()));
    assert!(expected.is_err());
    assert_eq!(error, expected);
}

#[test]
fn a_strategy_that_needs_too_much_shared_memory_says_so() {
    let device = Device::open();
    let error = device
        .attention(Mode::FusedBy(Strategy::Exact))
        .variant(256)
        .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("attention: exact needs "), "{text}");
    assert!(text.ends_with("but a block has at most 49152"), "{text}");
    assert!(device.attention(Mode::Fused).variant(256).is_ok());
}
