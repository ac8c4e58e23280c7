//! Properties beyond the suite: strides, NaN, skipped tiles, the choice of tiles.

use conformance::inputs::{normal, tensor};
use ndarray::Array4;
use stage1_reference::{Options, Sizes};
use stage3_flash_cpu::{Error, Tiles, attention, attention_with_tiles};

/// `[B, N, H, D]` in memory, `[B, H, N, D]` to look at.
fn interleaved(x: &Array4<f32>) -> Array4<f32> {
    let copy = x.view().permuted_axes([0, 2, 1, 3]);
    copy.as_standard_layout()
        .into_owned()
        .permuted_axes([0, 2, 1, 3])
}

#[test]
fn strides_change_nothing() -> Result<(), Error> {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((2, 3, 70, 20), seed, normal));
    let options = Options::default().causal();
    let expected = attention(q.view(), k.view(), v.view(), &options)?;
    let [q, k, v] = [&q, &k, &v].map(interleaved);
    assert!(!q.is_standard_layout());
    assert_eq!(attention(q.view(), k.view(), v.view(), &options)?, expected);
    Ok(())
}

#[test]
fn nan_is_not_hidden_and_does_not_spread() -> Result<(), Error> {
    let [mut q, k, mut v] = [1, 2, 3].map(|seed| tensor((1, 1, 70, 20), seed, normal));
    q[[0, 0, 5, 3]] = f32::NAN;
    v[[0, 0, 69, 7]] = f32::NAN;
    let options = Options::default().causal();
    let output = attention(q.view(), k.view(), v.view(), &options)?;
    for ((_, _, i, x), o) in output.o.indexed_iter() {
        // The mask hides the last value from all queries but the last, but 0 · NaN is NaN
        // where they share a tile.
        let expected = i == 5 || x == 7;
        assert!(
            o.is_nan() == expected || (x == 7 && i < 69),
            "row {i}, column {x}: {o}"
        );
    }
    assert!(output.lse[[0, 0, 5]].is_nan() && output.lse[[0, 0, 6]].is_finite());
    Ok(())
}

#[test]
fn wholly_masked_tiles_are_skipped() -> Result<(), Error> {
    let [q, k, mut v] = [1, 2, 3].map(|seed| tensor((1, 1, 160, 20), seed, normal));
    v.slice_mut(ndarray::s![.., .., 96.., ..]).fill(f32::NAN);
    let tiles = Tiles {
        queries: 32,
        keys: 32,
    };
    let options = Options::default().causal();
    let output = attention_with_tiles(q.view(), k.view(), v.view(), &options, tiles)?;
    // 0 · NaN is NaN: whoever computes a tile with a NaN in it shows that.
    for ((_, _, i, _), o) in output.o.indexed_iter() {
        assert_eq!(o.is_nan(), i >= 96, "row {i}");
    }
    Ok(())
}

#[test]
fn a_query_that_sees_no_key_is_0_whatever_the_values() -> Result<(), Error> {
    let [q, k, mut v] = [1, 2, 3].map(|seed| tensor((1, 2, 70, 20), seed, normal));
    for nasty in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        v.fill(nasty);
        let blind = |i: usize| i % 3 == 1;
        let mask = Array4::from_shape_fn((1, 1, 70, 70), |(_, _, i, _)| {
            if blind(i) { f32::NEG_INFINITY } else { 0.0 }
        });
        let options = Options::default().mask(mask);
        let output = attention(q.view(), k.view(), v.view(), &options)?;
        for ((b, h, i, _), &o) in output.o.indexed_iter() {
            assert_eq!(o == 0.0, blind(i), "row {i}: {o}");
            assert_eq!(output.lse[[b, h, i]] == f32::NEG_INFINITY, blind(i));
        }
    }
    Ok(())
}

/// Threads share out tiles of queries: there are enough of them where there is enough to share, and
/// large ones where there is more.
#[test]
fn short_problems_have_small_tiles_and_long_ones_large_tiles() {
    let sizes = |batch, heads, nq| Sizes {
        batch,
        heads,
        kv_heads: heads,
        nq,
        nk: nq,
        head_dim: 64,
    };
    for (batch, heads, nq, queries) in [
        (1, 8, 4096, 256),
        (1, 8, 1024, 256),
        (1, 8, 512, 128),
        (1, 8, 128, 64),
        (1, 1, 1024, 64),
        (1, 1, 8192, 256),
        (4, 8, 1, 256),
        (0, 8, 1024, 64),
        (1, 0, 1024, 64),
        (1, 1, 0, 64),
    ] {
        let sizes = sizes(batch, heads, nq);
        assert_eq!(Tiles::for_sizes(&sizes).queries, queries, "{sizes:?}");
    }
    for heads in [1, 2, 3, 7, 40] {
        for nq in (1..5000).step_by(77) {
            let tiles = Tiles::for_sizes(&sizes(1, heads, nq));
            let count = heads * nq.div_ceil(tiles.queries);
            assert!(count >= 32.min(heads * nq.div_ceil(64)), "{heads}, {nq}");
        }
    }
}

/// The tiles of a long sequence are larger.
#[test]
fn long_sequences_are_solved_with_larger_tiles() -> Result<(), Error> {
    let (heads, n, d) = (8, 1030, 16);
    let default = Tiles::default();
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, heads, n, d), seed, normal));
    let (q, k, v) = (q.view(), k.view(), v.view());
    let sizes = Sizes::of("test", q.dim(), k.dim(), v.dim()).unwrap();
    assert_eq!(Tiles::for_sizes(&sizes).queries, 2 * default.queries);
    for options in [
        Options::default().causal(),
        Options::default().window(70, 3),
    ] {
        let large = attention(q, k, v, &options)?;
        let small = attention_with_tiles(q, k, v, &options, default)?;
        for (large, small) in large.o.iter().zip(&small.o) {
            assert!((large - small).abs() < 1e-5, "{large} and {small}");
        }
        let stage1 = stage1_reference::attention(q, k, v, &options)?;
        for (large, exact) in large.lse.iter().zip(&stage1.lse) {
            assert!((large - exact).abs() < 1e-5, "{large} and {exact}");
        }
    }
    Ok(())
}
