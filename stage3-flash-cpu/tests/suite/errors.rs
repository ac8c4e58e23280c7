//! Refusals, and their words.

use ndarray::Array4;
use stage3_flash_cpu::{
    Error, Options, Tiles, attention, attention_backward, attention_with_tiles,
};

fn ones(shape: (usize, usize, usize, usize)) -> Array4<f32> {
    Array4::ones(shape)
}

#[test]
fn problems_that_do_not_fit_are_those_of_stage_1() {
    let (q, k) = (ones((1, 2, 3, 4)), ones((1, 2, 5, 6)));
    let error = attention(q.view(), k.view(), k.view(), &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "attention: `k` has shape [1, 2, 5, 6], but needs [1, H_kv, nk, 4] to fit `q`"
    );
    let options = Options::default().scale(f32::NAN);
    let error = attention(q.view(), q.view(), q.view(), &options).unwrap_err();
    assert!(matches!(
        error,
        Error::Problem(stage1_reference::Error::Scale { .. })
    ));
}

#[test]
fn a_tile_needs_rows_and_columns() {
    let q = ones((1, 1, 3, 4));
    for (queries, keys, argument) in [(0, 1, "queries"), (1, 0, "keys")] {
        let tiles = Tiles { queries, keys };
        let (q, options) = (q.view(), Options::default());
        let error = attention_with_tiles(q, q, q, &options, tiles).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("attention: `tiles.{argument}` is 0, but needs at least 1")
        );
    }
}

#[test]
fn the_backward_pass_names_what_does_not_fit() {
    let q = ones((1, 1, 3, 4));
    let (q, options) = (q.view(), Options::default());
    let output = attention(q, q, q, &options).unwrap();
    let refused = |output: &stage3_flash_cpu::Output, d_o: &Array4<f32>| {
        attention_backward(q, q, q, &options, output, d_o.view())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&output, &ones((1, 1, 3, 5))),
        "attention_backward: `d_o` has shape [1, 1, 3, 5], but needs [1, 1, 3, 4] to fit `q`"
    );
    let mut short = output.clone();
    short.o = ones((1, 1, 2, 4));
    assert!(refused(&short, &output.o).contains("`o` has shape [1, 1, 2, 4]"));
    let mut short = output.clone();
    short.lse = ndarray::Array3::zeros((1, 1, 2));
    assert!(refused(&short, &output.o).contains("`lse` has shape [1, 1, 2]"));
}
