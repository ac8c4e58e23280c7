//! The combined mask: tiles against single scores, and single scores against the
//! sentences of the documentation.

use std::ops::Range;

use conformance::inputs::hash;
use ndarray::Array4;
use rstest::rstest;
use stage1_reference::{Mask, Options, Sizes, Tile, Window};

fn sizes(nq: usize, nk: usize) -> Sizes {
    Sizes {
        batch: 2,
        heads: 2,
        kv_heads: 1,
        nq,
        nk,
        head_dim: 4,
    }
}

/// The kind of a tile, found by looking at every score.
fn by_score(
    mask: &Mask<'_>,
    nq: usize,
    b: usize,
    h: usize,
    rows: &Range<usize>,
    keys: &Range<usize>,
) -> Tile {
    let rows = rows.start..rows.end.min(nq);
    let seen = rows
        .clone()
        .flat_map(|i| keys.clone().map(move |j| mask.visible(b, h, i, j)));
    let (count, total) = (seen.clone().filter(|&seen| seen).count(), seen.count());
    match count {
        0 => Tile::Masked,
        count if count == total => Tile::Full,
        _ => Tile::Mixed,
    }
}

/// All ranges between some of the positions, ragged ones included.
fn ranges(positions: &[usize]) -> Vec<Range<usize>> {
    let pairs = positions
        .iter()
        .flat_map(|&a| positions.iter().map(move |&b| a..b));
    pairs.filter(|range| range.start <= range.end).collect()
}

/// Every combination of causal mask, window and key lengths, with edges inside
/// and outside of the matrix.
fn bands(nk: usize) -> Vec<Options> {
    let windows = [
        None,
        Some((0, 0)),
        Some((0, 2)),
        Some((3, 0)),
        Some((1, 1)),
        Some((usize::MAX, 1)),
        Some((2, usize::MAX)),
        Some((1000, 1000)),
    ];
    let mut all = Vec::new();
    for causal in [false, true] {
        for window in windows {
            for lengths in [None, Some([nk, 0]), Some([nk / 2, nk])] {
                let mut options = Options::default();
                options.causal = causal;
                options.window = window.map(|(left, right)| Window { left, right });
                options.key_lengths = lengths.map(Vec::from);
                all.push(options);
            }
        }
    }
    all
}

#[test]
fn a_tile_is_what_its_scores_are() {
    let mut counts = [0; 3];
    for (nq, nk) in [
        (1, 1),
        (4, 4),
        (3, 7),
        (7, 3),
        (1, 6),
        (6, 1),
        (5, 0),
        (0, 5),
    ] {
        let tiles = ranges(&Vec::from_iter(0..=8));
        for options in bands(nk) {
            let mask = options.combined("test", &sizes(nq, nk)).unwrap();
            for b in 0..2 {
                for rows in &tiles {
                    for keys in &tiles {
                        let tile = mask.tile(b, 0, rows.clone(), keys.clone());
                        let expected = by_score(&mask, nq, b, 0, rows, keys);
                        assert_eq!(
                            tile, expected,
                            "{options:?} {nq} {nk} {b} {rows:?} {keys:?}"
                        );
                        counts[tile as usize] += 1;
                    }
                }
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 10_000), "{counts:?}");
}

#[rstest]
fn a_tile_of_a_block_sparse_mask_is_what_its_scores_are(
    #[values((130, 70), (64, 129), (1, 200))] (nq, nk): (usize, usize),
) {
    let (rows, columns) = (nq.div_ceil(64), nk.div_ceil(64));
    let bits = |seed: u64| {
        Array4::from_shape_fn((1, 2, rows, columns), |(_, h, r, c)| {
            !hash(seed, (h * 100 + r * 10 + c) as u64).is_multiple_of(3)
        })
    };
    let positions = [0, 1, 63, 64, 65, 127, 128, 129, 200, 256];
    for seed in 0..3 {
        for options in bands(nk).into_iter().step_by(5) {
            let options = options.blocks(bits(seed));
            let mask = options.combined("test", &sizes(nq, nk)).unwrap();
            for rows in ranges(&positions[..9]).into_iter().step_by(3) {
                for keys in ranges(&positions).into_iter().step_by(2) {
                    let h = rows.end % 2;
                    let tile = mask.tile(1, h, rows.clone(), keys.clone());
                    let expected = by_score(&mask, nq, 1, h, &rows, &keys);
                    assert_eq!(tile, expected, "{options:?} {h} {rows:?} {keys:?}");
                }
            }
        }
    }
}

#[test]
fn an_additive_mask_makes_full_tiles_mixed_and_hides_nothing_from_the_others() {
    let hidden = Options::default()
        .causal()
        .mask(Array4::from_elem((1, 1, 8, 8), f32::NEG_INFINITY));
    let mask = hidden.combined("test", &sizes(8, 8)).unwrap();
    assert_eq!(mask.tile(0, 0, 4..8, 0..4), Tile::Mixed);
    assert_eq!(mask.tile(0, 0, 0..4, 0..4), Tile::Mixed);
    assert_eq!(mask.tile(0, 0, 0..4, 4..8), Tile::Masked);
    assert!(!mask.visible(0, 0, 7, 0));
}

#[test]
fn the_bias_is_the_additive_mask_where_no_other_hides_the_key() {
    let additive =
        Array4::from_shape_fn((2, 1, 3, 5), |(b, _, i, j)| (b * 100 + i * 10 + j) as f32);
    let options = Options::default()
        .causal()
        .key_lengths([5, 1])
        .mask(additive);
    let mask = options.combined("test", &sizes(3, 5)).unwrap();
    // Query 1 of 3 stands at key 3 of 5.
    let row = |b| Vec::from_iter((0..6).map(|j| mask.bias(b, 1, 1, j)));
    let none = f32::NEG_INFINITY;
    assert_eq!(row(0), [10.0, 11.0, 12.0, 13.0, none, none]);
    assert_eq!(row(1), [110.0, none, none, none, none, none]);
    assert_eq!((mask.key_length(0), mask.key_length(1)), (5, 1));
}

#[rstest]
#[case::none(Options::default(), -3, 5)]
#[case::causal(Options::default().causal(), -3, 2)]
#[case::window(Options::default().window(1, 2), 1, 4)]
#[case::causal_window(Options::default().window(1, 2).causal(), 1, 2)]
#[case::wide_window(Options::default().window(usize::MAX, usize::MAX), -3, 5)]
fn the_band_is_aligned_bottom_right(
    #[case] options: Options,
    #[case] first: i64,
    #[case] last: i64,
) {
    let mask = options.combined("test", &sizes(3, 5)).unwrap();
    assert_eq!(mask.diagonals(), first..=last);
}

#[test]
fn nan_in_the_additive_mask_is_data() {
    let options = Options::default().mask(Array4::from_elem((1, 1, 2, 2), f32::NAN));
    let mask = options.combined("test", &sizes(2, 2)).unwrap();
    assert!(mask.visible(0, 0, 0, 0) && mask.bias(0, 0, 0, 0).is_nan());
}
