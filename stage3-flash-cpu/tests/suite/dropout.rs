//! The weights that are dropped are those of stage 1's [`Dropout`], with any tiles, and nothing
//! else changes.

use conformance::inputs::{normal, tensor};
use ndarray::Array4;
use rstest::rstest;
use stage1_reference::Dropout;
use stage3_flash_cpu::{
    Gradients, Options, Output, Tiles, attention_backward_with_tiles, attention_with_tiles,
};

const KEYS: usize = 70;
const QUERIES: usize = 131;

/// `[2, 2, n, n]`: ones on the diagonals.
fn identity(n: usize) -> Array4<f32> {
    Array4::from_shape_fn((2, 2, n, n), |(.., i, j)| f32::from(i == j))
}

/// Each weight, as `o` with `v` the identity; and as `dv` with `dO` the identity, and as many
/// queries as columns.
fn weights(options: &Options, tiles: Tiles) -> (Output, Gradients) {
    let solve = |nq: usize, nk: usize, d: usize, v: Array4<f32>, d_o: Array4<f32>| {
        let [q, k] = [(nq, 1), (nk, 2)].map(|(n, seed)| tensor((2, 2, n, d), seed, normal));
        let (q, k, v) = (q.view(), k.view(), v.view());
        let output = attention_with_tiles(q, k, v, options, tiles).unwrap();
        let d_o = d_o.view();
        let gradients = attention_backward_with_tiles(q, k, v, options, &output, d_o, tiles);
        (output, gradients.unwrap())
    };
    let d_o = tensor((2, 2, QUERIES, KEYS), 3, normal);
    let (output, _) = solve(QUERIES, KEYS, KEYS, identity(KEYS), d_o);
    let v = tensor((2, 2, KEYS, QUERIES), 4, normal);
    let (_, gradients) = solve(QUERIES, KEYS, QUERIES, v, identity(QUERIES));
    (output, gradients)
}

#[rstest]
#[case(64, 128)]
#[case(1, 1)]
#[case(33, 31)]
#[case(256, 6)]
fn the_same_weights_are_dropped_with_tiles_of(#[case] queries: usize, #[case] keys: usize) {
    let dropout = Dropout {
        probability: 0.4,
        seed: 77,
        offset: u64::MAX - 1,
    };
    let tiles = Tiles { queries, keys };
    let (output, gradients) = weights(&Options::default().dropout(dropout), tiles);
    let (all, _) = weights(&Options::default(), tiles);
    assert_eq!(output.lse, all.lse);
    for ((b, h, i, j), &o) in output.o.indexed_iter() {
        let kept = dropout.keeps(2 * b + h, i, j);
        assert_eq!(o != 0.0, kept, "o of {b}, {h}, {i}, {j}");
        assert_eq!(
            gradients.dv[[b, h, j, i]] != 0.0,
            kept,
            "dv of {b}, {h}, {i}, {j}"
        );
    }
}

#[test]
fn without_a_weight_that_is_dropped_no_bit_changes() {
    let tiles = Tiles::BACKWARD;
    let (plain, plain_gradients) = weights(&Options::default(), tiles);
    for probability in [0.0, 2f32.powi(-32)] {
        let dropout = Dropout {
            probability,
            seed: 1,
            offset: 0,
        };
        let (output, gradients) = weights(&Options::default().dropout(dropout), tiles);
        assert_eq!(output, plain);
        assert_eq!(
            (gradients.dk, gradients.dv),
            (plain_gradients.dk.clone(), plain_gradients.dv.clone())
        );
    }
}
