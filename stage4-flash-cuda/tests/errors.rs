//! Tiles that do not suit a kernel or a device are refused, and nothing is compiled. The suite has all other refusals.

use conformance::device::Device;
use ndarray::Array4;
use rstest::rstest;
use stage1_reference::Options;
use stage4_flash_cuda::tiles::Tile;
use stage4_flash_cuda::{Attention, Error, Mode, Strategy};

fn attention(device: &Device, mode: Mode) -> Attention {
    let attention = Attention::new(device.stream.context()).unwrap();
    attention.with_mode(mode)
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
#[case::two_keys_a_lane(Strategy::Flash, [32, 64, 256])]
#[case::two_keys_a_lane_of_rung_2(Strategy::Exact, [32, 64, 256])]
#[case::too_many_threads(Strategy::Padded, [64, 64, 2048])]
fn a_tile_that_does_not_suit_its_kernel_is_refused(
    #[case] strategy: Strategy,
    #[case] sizes: [usize; 3],
) {
    let [block_q, block_kv, threads] = sizes;
    let device = Device::open();
    let tile = Tile::new(block_q, block_kv, threads);
    let attention = attention(&device, Mode::Fused).with_tile(strategy, tile);
    let x = Array4::zeros((1, 1, 5, 16));
    let (x, options) = (x.view(), Options::default());
    let error = attention.forward_host(&device.stream, x, x, x, &options);
    let Error::Argument(error) = error.unwrap_err() else {
        panic!("another error");
    };
    assert_eq!((error.operation, error.argument), ("attention", "tile"));
    let tile = format!("{block_q} queries × {block_kv} keys on {threads} threads");
    assert_eq!(error.actual, tile);
    assert_eq!(attention.loaded(), 0);
}

#[test]
fn a_strategy_that_needs_too_much_shared_memory_says_so() {
    let device = Device::open();
    let error = attention(&device, Mode::FusedBy(Strategy::Exact))
        .with_tile(Strategy::Exact, Tile::new(32, 32, 256))
        .variant(256)
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("at most 49152 bytes of shared memory"),
        "{text}"
    );
    assert!(text.ends_with("for exact at D = 256"), "{text}");
    assert!(attention(&device, Mode::Fused).variant(256).is_ok());
}
