//! Tiles that do not suit the library's kernel or a device are refused, and nothing is compiled.
//! The suite has all other refusals.

use conformance::device::Device;
use cudarc::driver::sys::CUresult;
use ndarray::Array4;
use rstest::rstest;
use stage1_reference::Options;
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{Attention, Error, Mode, Rung};

fn attention(device: &Device) -> Attention {
    Attention::new(device.stream.context()).unwrap()
}

/// The argument of a refusal, whatever found it: the stage's own checks, or those of its sizes.
#[test]
fn an_error_names_its_argument() {
    let device = Device::open();
    let attention = attention(&device);
    let argument = |heads, head_dim| {
        let (q, k) = (
            Array4::zeros((1, 2, 5, 16)),
            Array4::zeros((1, heads, 5, head_dim)),
        );
        let (q, k, options) = (q.view(), k.view(), Options::default());
        let error = attention.forward_host(&device.stream, q, k, k, &options);
        error.unwrap_err().argument().map(str::to_owned)
    };
    assert_eq!(argument(3, 16).as_deref(), Some("heads"));
    assert_eq!(argument(2, 8).as_deref(), Some("k"));
    let rung = Attention::new(device.stream.context()).unwrap();
    let rung = rung.with_mode(Mode::Rung(Rung::Flash));
    assert_eq!(rung.variant(41).unwrap_err().argument(), Some("head_dim"));
    let driver = cudarc::driver::DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(Error::from(driver).argument(), None);
}

/// Tiles that the kernel cannot have: they are refused before they are compiled.
#[rstest]
#[case::no_queries([0, 32, 128])]
#[case::no_keys([64, 0, 128])]
#[case::no_threads([64, 64, 0])]
#[case::half_a_warp([32, 32, 48])]
#[case::rows_that_are_not_shared_out([33, 32, 128])]
#[case::four_threads_a_row([64, 64, 32])]
#[case::seven_rows([7, 64, 128])]
#[case::sixteen_threads([16, 64, 16])]
#[case::keys_that_are_not_shared_out([64, 24, 128])]
#[case::too_many_threads([64, 64, 2048])]
fn a_tile_that_does_not_suit_the_kernel_is_refused(#[case] sizes: [usize; 3]) {
    let [block_q, block_kv, threads] = sizes;
    let device = Device::open();
    let attention = attention(&device).with_tile(Tile::new(block_q, block_kv, threads));
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
fn a_tile_that_needs_too_much_shared_memory_is_refused() {
    let device = Device::open();
    let error = attention(&device)
        .with_tile(Tile::new(128, 128, 256))
        .variant(256)
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("bytes of shared memory"), "{text}");
    assert!(text.ends_with("at D = 256"), "{text}");
}

/// Among them tiles that the library's kernel could have.
#[rstest]
#[case::no_queries(Rung::Flash, [0, 32, 256])]
#[case::no_threads(Rung::Flash, [32, 32, 0])]
#[case::rows_that_are_not_shared_out(Rung::Flash, [33, 32, 256])]
#[case::too_much_shared_memory(Rung::Flash, [128, 32, 256])]
#[case::four_threads_a_row(Rung::RegisterTiles, [64, 32, 32])]
#[case::too_many_keys(Rung::AsyncCopy, [64, 128, 128])]
fn a_tile_that_does_not_suit_a_rung_is_refused(#[case] rung: Rung, #[case] sizes: [usize; 3]) {
    let [block_q, block_kv, threads] = sizes;
    let device = Device::open();
    let tile = Tile::new(block_q, block_kv, threads);
    let attention = attention(&device)
        .with_mode(Mode::Rung(rung))
        .with_tile(tile);
    let Error::Argument(error) = attention.variant(64).unwrap_err() else {
        panic!("another error");
    };
    assert_eq!((error.operation, error.argument), ("attention", "tile"));
    assert_eq!(error.actual, tile.to_string());
    assert_eq!(attention.loaded(), 0);
}

#[test]
fn a_rung_takes_a_tile_of_the_ladder() {
    let device = Device::open();
    let attention = attention(&device).with_mode(Mode::Rung(Rung::Flash));
    let attention = attention.with_tile(Tile::new(64, 32, 128));
    assert_eq!(attention.variant(64).unwrap().tile, Tile::new(64, 32, 128));
}

#[test]
fn a_rung_has_few_head_dimensions_and_stage_2_no_variant() {
    let device = Device::open();
    let rung = attention(&device).with_mode(Mode::Rung(Rung::Flash));
    let text = rung.variant(41).unwrap_err().to_string();
    assert!(text.contains("one of [16, 64, 128]"), "{text}");
    let tiled = attention(&device).with_mode(Mode::Tiled);
    assert!(tiled.variant(64).is_err());
}
