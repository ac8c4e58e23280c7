//! Attention on tiles of keys; what is right, and what is wrong in an unknown way.

use conformance::inputs::normal;
use conformance::problems::{Problem, attention};
use grade::cause::{Cause, explanations};
use ndarray::s;
use stage1_reference::{Options, Output};

use super::attention::{Naive, RIGHT, naive, problems};
use super::{causes, is_right, solved};

/// The mistakes of a loop over tiles of keys.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tiled {
    Right,
    SumNotRescaled,
    OutputNotRescaled,
    NothingRescaled,
    /// Each tile is a part with its own maximum; the parts are just added.
    PartsAdded,
    /// The last tile is filled with zeros, which count.
    Zeros,
    /// The last tile is filled with the last key, which counts.
    LastKey,
    /// There are as many tiles as are full.
    FullTiles,
    /// There is one.
    FirstTile,
}

fn tiled(problem: &attention::Problem, tile: usize, how: Tiled) -> Output {
    let Options {
        scale,
        causal,
        window,
        ..
    } = problem.options.clone();
    let mut output = problem.poisoned();
    let (_, heads, nq, d) = problem.q.dim();
    let (_, kv_heads, nk, _) = problem.k.dim();
    let scale = scale.unwrap_or(1.0 / (d as f32).sqrt());
    for ((b, h, i), lse) in output.lse.indexed_iter_mut() {
        let h_kv = h / (heads / kv_heads);
        let (mut max, mut sum, mut o) = (f32::NEG_INFINITY, 0f32, vec![0f32; d]);
        let tiles = match how {
            Tiled::FullTiles => nk / tile,
            Tiled::FirstTile => 1,
            _ => nk.div_ceil(tile),
        };
        let own = (i + nk) as isize - nq as isize;
        for t in 0..tiles {
            let mut scores = vec![f32::NEG_INFINITY; tile];
            let mut values = vec![vec![0f32; d]; tile];
            for x in 0..tile {
                let j = t * tile + x;
                let seen = !causal || j as isize <= own;
                let seen = seen
                    && window.is_none_or(|window| {
                        (own - window.left as isize..=own + window.right as isize)
                            .contains(&(j as isize))
                    });
                let read = if how == Tiled::LastKey {
                    j.min(nk - 1)
                } else {
                    j
                };
                if !seen || (j >= nk && !matches!(how, Tiled::Zeros | Tiled::LastKey)) {
                    continue;
                }
                scores[x] = 0.0;
                if read < nk {
                    let products =
                        (0..d).map(|c| problem.q[[b, h, i, c]] * problem.k[[b, h_kv, read, c]]);
                    scores[x] = products.sum::<f32>() * scale;
                    values[x] = problem.v.slice(s![b, h_kv, read, ..]).to_vec();
                }
            }
            let of_tile = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let new = max.max(of_tile);
            if of_tile == f32::NEG_INFINITY {
                continue;
            }
            let factor = (max - new).exp();
            if matches!(
                how,
                Tiled::Right
                    | Tiled::OutputNotRescaled
                    | Tiled::Zeros
                    | Tiled::LastKey
                    | Tiled::FullTiles
                    | Tiled::FirstTile
            ) {
                sum *= factor;
            }
            if matches!(
                how,
                Tiled::Right
                    | Tiled::SumNotRescaled
                    | Tiled::Zeros
                    | Tiled::LastKey
                    | Tiled::FullTiles
                    | Tiled::FirstTile
            ) {
                o.iter_mut().for_each(|o| *o *= factor);
            }
            let base = if how == Tiled::PartsAdded {
                of_tile
            } else {
                new
            };
            for x in 0..tile {
                let p = (scores[x] - base).exp();
                sum += p;
                for c in 0..d {
                    o[c] += p * values[x][c];
                }
            }
            max = new;
        }
        *lse = if max == f32::NEG_INFINITY {
            max
        } else {
            max + sum.ln()
        };
        for (c, o) in o.iter().enumerate() {
            output.o[[b, h, i, c]] = if max == f32::NEG_INFINITY {
                0.0
            } else {
                o / sum
            };
        }
    }
    output
}

#[test]
fn mistakes_of_tiles_are_named() {
    named_with_tiles([24]);
}

#[test]
#[ignore = "the same for other tiles: takes a minute"]
fn mistakes_of_tiles_are_named_for_any_tile() {
    named_with_tiles([8, 64, 128]);
}

fn named_with_tiles<const N: usize>(tiles: [usize; N]) {
    for tile in tiles {
        for (cause, how) in [
            (Cause::MissingRescale, Tiled::SumNotRescaled),
            (Cause::MissingRescale, Tiled::OutputNotRescaled),
            (Cause::MissingRescale, Tiled::NothingRescaled),
            (Cause::MissingRescale, Tiled::PartsAdded),
            (Cause::TailNotMasked, Tiled::Zeros),
            (Cause::TailNotMasked, Tiled::LastKey),
            (Cause::TailDropped, Tiled::FullTiles),
            (Cause::OneTileOnly, Tiled::FirstTile),
        ] {
            let solved = solved(problems(), |problem| tiled(problem, tile, how));
            let all = explanations(&solved);
            let is_named = all.iter().all(|explanation| explanation.cause == cause);
            assert!(is_named && !all.is_empty(), "{how:?} {tile}: {all:?}");
            // Where other tiles give the same, they are named, too.
            let tile = tile.to_string();
            assert!(
                all.iter()
                    .any(|explanation| explanation.detail.contains(&tile)),
                "{how:?} {tile}: {all:?}"
            );
        }
    }
}

#[test]
fn what_is_right_has_no_cause() {
    for problem in problems() {
        let own = [naive(&problem, &RIGHT), tiled(&problem, 32, Tiled::Right)];
        assert!(
            own.iter().all(|output| is_right(&problem, output)),
            "{}",
            problem.name()
        );
    }
    assert_eq!(
        causes(problems(), |problem| tiled(problem, 16, Tiled::Right)),
        []
    );
}

#[test]
fn what_is_wrong_in_an_unknown_way_has_no_cause() {
    type Spoil = fn(&mut Output);
    let spoils: [Spoil; 7] = [
        |output| {
            output
                .o
                .iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x = normal(5, i as u64))
        },
        |output| output.o.mapv_inplace(|x| 1.01 * x),
        |output| output.o.mapv_inplace(|x| x + 1e-4),
        |output| output.o.mapv_inplace(|x| x * (1.0 + 1e-5)),
        |output| output.o.mapv_inplace(|x| -x),
        |output| output.lse.mapv_inplace(|x| x + 0.5),
        |output| output.o.mapv_inplace(|_| f32::INFINITY),
    ];
    for (i, spoil) in spoils.into_iter().enumerate() {
        let found = causes(problems(), |problem| {
            let mut output = naive(problem, &RIGHT);
            spoil(&mut output);
            output
        });
        assert_eq!(found, [], "{i}");
    }
    // Two mistakes at once are neither of them.
    let two = Naive {
        scale: |_, _| 1.0,
        last: |i, _, _| i,
        ..RIGHT
    };
    assert_eq!(causes(problems(), |problem| naive(problem, &two)), []);
}
