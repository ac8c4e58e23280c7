//! Wrong implementations, as a learner would write them, in f32 with a loop for each index: each gets exactly its cause.
//! The right ones, and wrong ones without a known mistake, get none.

use std::collections::BTreeSet;

use conformance::inputs::{hash, normal};
use conformance::problems::gemm::Product;
use conformance::problems::softmax::Axis;
use conformance::problems::{Problem, UNWRITTEN, attention, decode, gemm, multi_head, softmax};
use grade::cause::{Cause, Explained, Update, explain, explanations, probes};
use ndarray::{Array3, Array4, s};
use stage1_reference::{Options, Output};

/// The causes of what `solve` makes of the problems.
fn causes<P: Explained>(problems: Vec<P>, solve: impl Fn(&P) -> P::Output) -> Vec<Cause> {
    let solved = solved(problems, solve);
    let all: BTreeSet<Cause> = explanations(&solved)
        .into_iter()
        .map(|of| of.cause)
        .collect();
    assert_eq!(explain(&solved).is_some(), all.len() == 1);
    all.into_iter().collect()
}

fn solved<P: Explained>(problems: Vec<P>, solve: impl Fn(&P) -> P::Output) -> Vec<(P, P::Output)> {
    let pairs = problems.into_iter().map(|problem| {
        let output = solve(&problem);
        (problem, output)
    });
    pairs.collect()
}

fn is_right<P: Problem>(problem: &P, output: &P::Output) -> bool {
    let comparisons = problem.judge(output).unwrap();
    comparisons.iter().all(|comparison| comparison.passed())
}

/// What a row of scores becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Softmax {
    Right,
    NoMax,
    NoMaxGuarded,
    NotNormalised,
    LseBase2,
    LseWithoutMax,
    NanIfMasked,
    OneWarp(usize),
}

/// Attention with the whole row of scores.
#[derive(Debug, Clone, Copy)]
struct Naive {
    scale: fn(f32, usize) -> f32,
    /// The last key that query i sees.
    last: fn(i: isize, nq: isize, nk: isize) -> isize,
    hidden: f32,
    kv_head: fn(h: usize, heads: usize, kv_heads: usize) -> usize,
    transposed_v: bool,
    window: usize,
    softmax: Softmax,
    rows: fn(usize) -> usize,
}

const RIGHT: Naive = Naive {
    scale: |scale, _| scale,
    last: |i, nq, nk| i + nk - nq,
    hidden: f32::NEG_INFINITY,
    kv_head: |h, heads, kv_heads| h / (heads / kv_heads),
    transposed_v: false,
    window: 0,
    softmax: Softmax::Right,
    rows: |nq| nq,
};

fn naive(problem: &attention::Problem, how: &Naive) -> Output {
    let Options {
        scale,
        causal,
        window,
        ..
    } = problem.options.clone();
    let mut output = problem.poisoned();
    let (batch, heads, nq, d) = problem.q.dim();
    let (_, kv_heads, nk, _) = problem.k.dim();
    let scale = (how.scale)(scale.unwrap_or(1.0 / (d as f32).sqrt()), d);
    for b in 0..batch {
        for h in 0..heads {
            let h_kv = (how.kv_head)(h, heads, kv_heads);
            let q = problem.q.slice(s![b, h, .., ..]);
            let k = problem.k.slice(s![b, h_kv, .., ..]);
            let v = problem.v.slice(s![b, h_kv, .., ..]);
            let flat: Vec<f32> = v.iter().copied().collect();
            for i in 0..(how.rows)(nq) {
                let mut row: Vec<f32> = (0..nk)
                    .map(|j| (0..d).map(|c| q[[i, c]] * k[[j, c]]).sum::<f32>() * scale)
                    .collect();
                for (j, score) in row.iter_mut().enumerate() {
                    let last = (how.last)(i as isize, nq as isize, nk as isize);
                    if causal && j as isize > last {
                        *score = how.hidden;
                    }
                    if let Some(window) = window {
                        let own = (i + nk) as isize - nq as isize;
                        let first = own - (window.left + how.window) as isize;
                        if (j as isize) < first || j as isize > own + window.right as isize {
                            *score = f32::NEG_INFINITY;
                        }
                    }
                }
                output.lse[[b, h, i]] = soften(&mut row, how.softmax);
                for c in 0..d {
                    let value = |j: usize| {
                        if how.transposed_v {
                            flat[c * nk + j]
                        } else {
                            v[[j, c]]
                        }
                    };
                    output.o[[b, h, i, c]] = (0..nk).map(|j| row[j] * value(j)).sum();
                }
            }
        }
    }
    output
}

/// Softmax in place; returns lse.
fn soften(row: &mut [f32], how: Softmax) -> f32 {
    let mut max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY && how != Softmax::NanIfMasked {
        row.fill(0.0);
        return f32::NEG_INFINITY;
    }
    if matches!(how, Softmax::NoMax | Softmax::NoMaxGuarded) {
        max = 0.0;
    }
    row.iter_mut().for_each(|x| *x = (*x - max).exp());
    let counted = |j: usize| match how {
        Softmax::OneWarp(threads) => j % threads < 32,
        _ => true,
    };
    let sum: f32 = row
        .iter()
        .enumerate()
        .filter(|(j, _)| counted(*j))
        .map(|(_, x)| x)
        .sum();
    if sum == 0.0 && how == Softmax::NoMaxGuarded {
        row.fill(0.0);
        return f32::NEG_INFINITY;
    }
    if how != Softmax::NotNormalised {
        row.iter_mut().for_each(|x| *x /= sum);
    }
    match how {
        Softmax::LseBase2 => (max + sum.ln()) / 2f32.ln(),
        Softmax::LseWithoutMax => sum.ln(),
        _ => max + sum.ln(),
    }
}

#[test]
fn mistakes_in_attention_are_named() {
    let mistakes = [
        (
            Cause::NoMaxSubtraction,
            Naive {
                softmax: Softmax::NoMax,
                ..RIGHT
            },
        ),
        (
            Cause::NoMaxSubtraction,
            Naive {
                softmax: Softmax::NoMaxGuarded,
                ..RIGHT
            },
        ),
        (
            Cause::MissingScale,
            Naive {
                scale: |_, _| 1.0,
                ..RIGHT
            },
        ),
        (
            Cause::WrongScale,
            Naive {
                scale: |_, d| 1.0 / d as f32,
                ..RIGHT
            },
        ),
        (
            Cause::CausalOffByOne,
            Naive {
                last: |i, nq, nk| i + nk - nq - 1,
                ..RIGHT
            },
        ),
        (
            Cause::CausalOffByOne,
            Naive {
                last: |i, nq, nk| i + nk - nq + 1,
                ..RIGHT
            },
        ),
        (
            Cause::CausalTopLeft,
            Naive {
                last: |i, _, _| i,
                ..RIGHT
            },
        ),
        (
            Cause::CausalIgnored,
            Naive {
                last: |_, _, nk| nk,
                ..RIGHT
            },
        ),
        (
            Cause::HiddenScoreNotInfinite,
            Naive {
                hidden: 0.0,
                ..RIGHT
            },
        ),
        (
            Cause::MaskedRowNotZero,
            Naive {
                hidden: -1e9,
                ..RIGHT
            },
        ),
        (
            Cause::MaskedRowNotZero,
            Naive {
                hidden: f32::MIN,
                ..RIGHT
            },
        ),
        (
            Cause::NanFromMaskedRow,
            Naive {
                softmax: Softmax::NanIfMasked,
                ..RIGHT
            },
        ),
        (Cause::WindowOffByOne, Naive { window: 1, ..RIGHT }),
        (
            Cause::WrongHead,
            Naive {
                kv_head: |h, _, kv_heads| h % kv_heads,
                ..RIGHT
            },
        ),
        (
            Cause::WrongHead,
            Naive {
                kv_head: |_, _, _| 0,
                ..RIGHT
            },
        ),
        (
            Cause::TransposedV,
            Naive {
                transposed_v: true,
                ..RIGHT
            },
        ),
        (
            Cause::NotNormalised,
            Naive {
                softmax: Softmax::NotNormalised,
                ..RIGHT
            },
        ),
        (
            Cause::WrongLogSum,
            Naive {
                softmax: Softmax::LseBase2,
                ..RIGHT
            },
        ),
        (
            Cause::WrongLogSum,
            Naive {
                softmax: Softmax::LseWithoutMax,
                ..RIGHT
            },
        ),
        (
            Cause::PartialReduction,
            Naive {
                softmax: Softmax::OneWarp(128),
                ..RIGHT
            },
        ),
        (
            Cause::NotWritten,
            Naive {
                rows: |nq| nq / 16 * 16,
                ..RIGHT
            },
        ),
        (
            Cause::NotWritten,
            Naive {
                rows: |_| 0,
                ..RIGHT
            },
        ),
    ];
    for (cause, how) in mistakes {
        let found = causes(probes::attention(&[]), |problem| naive(problem, &how));
        assert_eq!(found, [cause], "{how:?}");
    }
}

/// What a loop over tiles of keys gets wrong.
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
        let tiles = if how == Tiled::FullTiles {
            nk / tile
        } else {
            nk.div_ceil(tile)
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
fn mistakes_of_tiles_are_named_for_any_tile() {
    for tile in [8, 24, 64, 128] {
        for (cause, how) in [
            (Cause::MissingRescale, Tiled::SumNotRescaled),
            (Cause::MissingRescale, Tiled::OutputNotRescaled),
            (Cause::MissingRescale, Tiled::NothingRescaled),
            (Cause::MissingRescale, Tiled::PartsAdded),
            (Cause::TailNotMasked, Tiled::Zeros),
            (Cause::TailNotMasked, Tiled::LastKey),
            (Cause::TailDropped, Tiled::FullTiles),
        ] {
            let problems = probes::attention(&[]);
            let solved = solved(problems, |problem| tiled(problem, tile, how));
            let all = explanations(&solved);
            let found = explain(&solved).map(|of| of.cause);
            assert_eq!(found, Some(cause), "{how:?} {tile}: {all:?}");
            // Where other tiles give the same, they are named, too.
            let tile = tile.to_string();
            assert!(
                all.iter().any(|of| of.detail.contains(&tile)),
                "{how:?} {tile}: {all:?}"
            );
        }
    }
}

#[test]
fn what_is_right_has_no_cause() {
    for problem in probes::attention(&[]) {
        let own = [naive(&problem, &RIGHT), tiled(&problem, 32, Tiled::Right)];
        assert!(
            own.iter().all(|output| is_right(&problem, output)),
            "{}",
            problem.name()
        );
    }
    assert_eq!(
        causes(probes::attention(&[]), |problem| naive(problem, &RIGHT)),
        []
    );
    assert_eq!(
        causes(probes::attention(&[]), |problem| tiled(
            problem,
            16,
            Tiled::Right
        )),
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
        let found = causes(probes::attention(&[]), |problem| {
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
    assert_eq!(
        causes(probes::attention(&[]), |problem| naive(problem, &two)),
        []
    );
}

/// Softmax of each vector.
fn vectors(
    problem: &softmax::Problem,
    axis: Axis,
    soften: impl Fn(&mut [f32]) -> f32,
) -> softmax::Output {
    let mut output = problem.poisoned();
    let (batch, rows, columns) = problem.x.dim();
    output.y = problem.x.clone();
    let (others, length) = match axis {
        Axis::Last => (rows, columns),
        Axis::NextToLast => (columns, rows),
    };
    for b in 0..batch {
        for other in 0..others {
            let at = |i: usize| match axis {
                Axis::Last => [b, other, i],
                Axis::NextToLast => [b, i, other],
            };
            let mut vector: Vec<f32> = (0..length).map(|i| problem.x[at(i)]).collect();
            let lse = soften(&mut vector);
            for (i, y) in vector.into_iter().enumerate() {
                output.y[at(i)] = y;
            }
            // As a kernel does, which has the number of its vector and no shape.
            let place = output
                .lse
                .as_slice_mut()
                .unwrap()
                .get_mut(b * others + other);
            if let Some(place) = place {
                *place = lse;
            }
        }
    }
    output
}

#[test]
fn mistakes_in_softmax_are_named() {
    for (cause, how) in [
        (Cause::NoMaxSubtraction, Softmax::NoMax),
        (Cause::NoMaxSubtraction, Softmax::NoMaxGuarded),
        (Cause::NotNormalised, Softmax::NotNormalised),
        (Cause::WrongLogSum, Softmax::LseBase2),
        (Cause::WrongLogSum, Softmax::LseWithoutMax),
        (Cause::NanFromMaskedRow, Softmax::NanIfMasked),
        (Cause::PartialReduction, Softmax::OneWarp(128)),
        (Cause::PartialReduction, Softmax::OneWarp(256)),
    ] {
        let found = causes(probes::softmax(), |problem| {
            vectors(problem, problem.axis, |row| soften(row, how))
        });
        assert_eq!(found, [cause], "{how:?}");
    }
    let last = |problem: &softmax::Problem| {
        vectors(problem, Axis::Last, |row| soften(row, Softmax::Right))
    };
    assert_eq!(causes(probes::softmax(), last), [Cause::WrongAxis]);
    // A thread for each of 128 elements, and no loop.
    let short = |problem: &softmax::Problem| {
        let mut output = vectors(problem, problem.axis, |row| soften(row, Softmax::Right));
        for (i, y) in output.y.iter_mut().enumerate().skip(128) {
            *y = problem.x.as_slice().unwrap()[i];
        }
        output
    };
    assert_eq!(causes(probes::softmax(), short), [Cause::NotWritten]);
    let right = |problem: &softmax::Problem| {
        vectors(problem, problem.axis, |row| soften(row, Softmax::Right))
    };
    assert!(
        probes::softmax()
            .iter()
            .all(|problem| is_right(problem, &right(problem)))
    );
    assert_eq!(causes(probes::softmax(), right), []);
}

#[test]
fn online_softmax_without_rescaling_is_named() {
    let running = |row: &mut [f32]| {
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0f32);
        for &x in row.iter() {
            max = max.max(x);
            if max > f32::NEG_INFINITY {
                sum += (x - max).exp();
            }
        }
        finish(row, max, sum)
    };
    let threads = |row: &mut [f32]| {
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0f32);
        for t in 0..128 {
            let own = || row.iter().copied().skip(t).step_by(128);
            let of_thread = own().fold(f32::NEG_INFINITY, f32::max);
            if of_thread > f32::NEG_INFINITY {
                sum += own().map(|x| (x - of_thread).exp()).sum::<f32>();
            }
            max = max.max(of_thread);
        }
        finish(row, max, sum)
    };
    let solve = |problem: &softmax::Problem| vectors(problem, problem.axis, running);
    assert_eq!(causes(probes::softmax(), solve), [Cause::MissingRescale]);
    let solve = |problem: &softmax::Problem| vectors(problem, problem.axis, threads);
    assert_eq!(causes(probes::softmax(), solve), [Cause::MissingRescale]);
}

fn finish(row: &mut [f32], max: f32, sum: f32) -> f32 {
    if max == f32::NEG_INFINITY {
        row.fill(0.0);
        return max;
    }
    row.iter_mut().for_each(|x| *x = (*x - max).exp() / sum);
    max + sum.ln()
}

/// A product by positions in memory.
struct Flat {
    b_transposed: bool,
    c_transposed: bool,
    b_head: fn(h: usize, heads: usize, b_heads: usize) -> usize,
    k: fn(usize) -> std::ops::Range<usize>,
    rows: fn(usize) -> usize,
}

const FLAT: Flat = Flat {
    b_transposed: false,
    c_transposed: false,
    b_head: |h, heads, b_heads| h / (heads / b_heads),
    k: |k| 0..k,
    rows: |m| m,
};

fn product(problem: &gemm::Problem, how: &Flat) -> Array4<f32> {
    let mut c = problem.poisoned();
    let (batch, heads, m, n) = c.dim();
    let (k, b_heads) = (problem.a.dim().3, problem.b.dim().1);
    let (a, b) = (problem.a.as_slice().unwrap(), problem.b.as_slice().unwrap());
    let out = c.as_slice_mut().unwrap();
    let nt = (problem.product == Product::Nt) != how.b_transposed;
    for matrix in 0..batch * heads {
        let b_matrix = matrix / heads * b_heads + (how.b_head)(matrix % heads, heads, b_heads);
        for i in 0..(how.rows)(m) {
            for j in 0..n {
                let mut sum = 0f32;
                for p in (how.k)(k) {
                    let at = if nt { j * k + p } else { p * n + j };
                    sum += a[matrix * m * k + i * k + p] * b[b_matrix * n * k + at];
                }
                let at = if how.c_transposed {
                    j * m + i
                } else {
                    i * n + j
                };
                out[matrix * m * n + at] = sum;
            }
        }
    }
    c
}

#[test]
fn mistakes_in_products_are_named() {
    let mistakes = [
        (vec![], FLAT),
        (
            vec![Cause::TransposedProduct],
            Flat {
                b_transposed: true,
                ..FLAT
            },
        ),
        (
            vec![Cause::TransposedProduct],
            Flat {
                c_transposed: true,
                ..FLAT
            },
        ),
        (
            vec![Cause::WrongHead],
            Flat {
                b_head: |h, _, b_heads| h % b_heads,
                ..FLAT
            },
        ),
        (
            vec![Cause::WrongHead],
            Flat {
                b_head: |_, _, _| 0,
                ..FLAT
            },
        ),
        (
            vec![Cause::TailDropped],
            Flat {
                k: |k| 0..k / 16 * 16,
                ..FLAT
            },
        ),
        (
            vec![Cause::TailDropped],
            Flat {
                k: |k| 0..k - 1,
                ..FLAT
            },
        ),
        (
            vec![Cause::OneTileOnly],
            Flat {
                k: |k| (k - 1) / 16 * 16..k,
                ..FLAT
            },
        ),
        (
            vec![Cause::NotWritten],
            Flat {
                rows: |m| m / 16 * 16,
                ..FLAT
            },
        ),
    ];
    for (cause, how) in &mistakes {
        for kind in [Product::Nn, Product::Nt] {
            let found = causes(probes::gemm(kind, &[]), |problem| product(problem, how));
            assert_eq!(&found, cause, "{kind:?}");
        }
    }
}

/// The layer in f32, one element at a time.
struct Layer {
    transposed: [bool; 4],
    biases: [bool; 4],
    column: fn(h: usize, c: usize, heads: usize, d: usize) -> usize,
    scale: fn(d: usize, hidden: usize) -> f32,
    last: fn(usize) -> usize,
}

const LAYER: Layer = Layer {
    transposed: [false; 4],
    biases: [true; 4],
    column: |h, c, _, d| h * d + c,
    scale: |d, _| 1.0 / (d as f32).sqrt(),
    last: |i| i,
};

fn layer(problem: &multi_head::Problem, how: &Layer) -> Array3<f32> {
    let (batch, n, hidden) = problem.x.dim();
    let layer = &problem.layer;
    let (heads, d) = (layer.heads, hidden / layer.heads);
    let linears = [&layer.w_q, &layer.w_k, &layer.w_v, &layer.w_o];
    let apply = |which: usize, x: &Array3<f32>| {
        Array3::from_shape_fn((batch, n, hidden), |(b, i, out)| {
            let weight = |p| match how.transposed[which] {
                true => linears[which].weight[[out, p]],
                false => linears[which].weight[[p, out]],
            };
            let bias = linears[which].bias.as_ref().filter(|_| how.biases[which]);
            (0..hidden).map(|p| x[[b, i, p]] * weight(p)).sum::<f32>()
                + bias.map_or(0.0, |bias| bias[out])
        })
    };
    let [q, k, v] = [0, 1, 2].map(|which| apply(which, &problem.x));
    let mut merged = Array3::zeros((batch, n, hidden));
    for b in 0..batch {
        for h in 0..heads {
            let at = |c| (how.column)(h, c, heads, d);
            for i in 0..n {
                let mut row: Vec<f32> = (0..n)
                    .map(|j| {
                        let score: f32 = (0..d).map(|c| q[[b, i, at(c)]] * k[[b, j, at(c)]]).sum();
                        match problem.options.causal && j > (how.last)(i) {
                            true => f32::NEG_INFINITY,
                            false => score * (how.scale)(d, hidden),
                        }
                    })
                    .collect();
                soften(&mut row, Softmax::Right);
                for c in 0..d {
                    merged[[b, i, at(c)]] = (0..n).map(|j| row[j] * v[[b, j, at(c)]]).sum();
                }
            }
        }
    }
    apply(3, &merged)
}

#[test]
fn mistakes_in_the_layer_are_named() {
    let mistakes = [
        (vec![], LAYER),
        (
            vec![Cause::TransposedWeight],
            Layer {
                transposed: [false, true, false, false],
                ..LAYER
            },
        ),
        (
            vec![Cause::TransposedWeight],
            Layer {
                transposed: [true; 4],
                ..LAYER
            },
        ),
        (
            vec![Cause::MissingBias],
            Layer {
                biases: [true, true, true, false],
                ..LAYER
            },
        ),
        (
            vec![Cause::MissingBias],
            Layer {
                biases: [false; 4],
                ..LAYER
            },
        ),
        (
            vec![Cause::HeadsMixed],
            Layer {
                column: |h, c, heads, _| c * heads + h,
                ..LAYER
            },
        ),
        (
            vec![Cause::MissingScale],
            Layer {
                scale: |_, _| 1.0,
                ..LAYER
            },
        ),
        (
            vec![Cause::WrongScale],
            Layer {
                scale: |_, hidden| 1.0 / (hidden as f32).sqrt(),
                ..LAYER
            },
        ),
        (
            vec![Cause::CausalOffByOne],
            Layer {
                last: |i| i + 1,
                ..LAYER
            },
        ),
        (
            vec![Cause::CausalIgnored],
            Layer {
                last: |_| usize::MAX,
                ..LAYER
            },
        ),
    ];
    for (cause, how) in &mistakes {
        assert_eq!(
            &causes(probes::multi_head(), |problem| layer(problem, how)),
            cause
        );
    }
    let zeros = |problem: &multi_head::Problem| problem.x.mapv(|_| 0.0);
    assert_eq!(causes(probes::multi_head(), zeros), [Cause::NotWritten]);
}

/// Decoding: `first..last` of the keys of a sequence for query i.
struct Decoder {
    last: fn(length: usize, nq: usize, i: usize) -> usize,
    length: fn(lengths: &[usize], b: usize) -> usize,
    kv_head: fn(h: usize, heads: usize, kv_heads: usize) -> usize,
    scale: fn(f32) -> f32,
    /// Keys of a part with its own maximum; the parts are added without rescaling.
    split: usize,
}

const DECODER: Decoder = Decoder {
    last: |length, nq, i| (length + i + 1).saturating_sub(nq),
    length: |lengths, b| lengths[b],
    kv_head: |h, heads, kv_heads| h / (heads / kv_heads),
    scale: |scale| scale,
    split: usize::MAX,
};

fn decoder(problem: &decode::Problem, how: &Decoder) -> Output {
    let mut output = problem.poisoned();
    let (batch, heads, nq, d) = problem.q.dim();
    let kv_heads = problem.k.dim().1;
    let scale = (how.scale)(problem.scale.unwrap_or(1.0 / (d as f32).sqrt()));
    for (b, h, i) in ndarray::indices((batch, heads, nq)) {
        let length = (how.length)(&problem.lengths, b);
        let end = (how.last)(length, nq, i);
        let own = (length + i + 1).saturating_sub(nq);
        let first = problem
            .window
            .map_or(0, |window| own.saturating_sub(window.saturating_add(1)));
        let h_kv = (how.kv_head)(h, heads, kv_heads);
        let (mut max, mut sum, mut o) = (f32::NEG_INFINITY, 0f32, vec![0f32; d]);
        let keys: Vec<usize> = (first..end).collect();
        for part in keys.chunks(how.split.min(1 << 20)) {
            let scores: Vec<f32> = part
                .iter()
                .map(|&j| {
                    let products =
                        (0..d).map(|c| problem.q[[b, h, i, c]] * problem.k[[b, h_kv, j, c]]);
                    products.sum::<f32>() * scale
                })
                .collect();
            let of_part = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for (&j, score) in part.iter().zip(&scores) {
                let p = (score - of_part).exp();
                sum += p;
                for (c, o) in o.iter_mut().enumerate() {
                    *o += p * problem.v[[b, h_kv, j, c]];
                }
            }
            max = max.max(of_part);
        }
        output.lse[[b, h, i]] = if keys.is_empty() { max } else { max + sum.ln() };
        for (c, o) in o.iter().enumerate() {
            output.o[[b, h, i, c]] = if keys.is_empty() { 0.0 } else { o / sum };
        }
    }
    output
}

#[test]
fn mistakes_in_decoding_are_named() {
    let mistakes = [
        (vec![], DECODER),
        (
            vec![Cause::StaleCacheSlot],
            Decoder {
                last: |length, nq, i| (length + i).saturating_sub(nq),
                ..DECODER
            },
        ),
        (
            vec![Cause::WrongLength],
            Decoder {
                length: |lengths, _| lengths[0],
                ..DECODER
            },
        ),
        (
            vec![Cause::WrongHead],
            Decoder {
                kv_head: |h, _, kv_heads| h % kv_heads,
                ..DECODER
            },
        ),
        (
            vec![Cause::MissingScale],
            Decoder {
                scale: |_| 1.0,
                ..DECODER
            },
        ),
        (
            vec![Cause::MissingRescale],
            Decoder {
                split: 64,
                ..DECODER
            },
        ),
        (
            vec![Cause::MissingRescale],
            Decoder {
                split: 32,
                ..DECODER
            },
        ),
    ];
    for (cause, how) in &mistakes {
        assert_eq!(
            &causes(probes::decode(), |problem| decoder(problem, how)),
            cause
        );
    }
}

/// Copies the rows of each sequence to the slots that `slot` gives.
fn copied(
    update: &Update,
    from: [usize; 2],
    slot: fn(length: usize, count: usize) -> usize,
    all: bool,
) -> [Array4<f32>; 2] {
    [0, 1].map(|of| {
        let mut cache = update.before[of].clone();
        for (b, (&count, &length)) in update.counts.iter().zip(&update.lengths).enumerate() {
            let rows = &update.rows[from[of]];
            for i in 0..if all { rows.dim().2 } else { count } {
                let j = slot(length, count) + i;
                if j < cache.dim().2 {
                    cache
                        .slice_mut(s![b, .., j, ..])
                        .assign(&rows.slice(s![b, .., i, ..]));
                }
            }
        }
        cache
    })
}

#[test]
fn mistakes_in_updates_are_named() {
    let right = |length, count| length - count;
    let update = |from, slot: fn(usize, usize) -> usize, all| {
        causes(probes::update(), |update| copied(update, from, slot, all))
    };
    assert_eq!(update([0, 1], right, false), []);
    assert_eq!(
        update([0, 1], |length, count| length - count + 1, false),
        [Cause::StaleCacheSlot]
    );
    assert_eq!(
        update([0, 1], |length, _| length, false),
        [Cause::StaleCacheSlot]
    );
    assert_eq!(update([0, 1], |_, _| 0, false), [Cause::StaleCacheSlot]);
    assert_eq!(
        update([0, 1], |_, _| usize::MAX / 2, false),
        [Cause::StaleCacheSlot]
    );
    assert_eq!(update([0, 1], right, true), [Cause::WritesPadding]);
    assert_eq!(update([1, 0], right, false), [Cause::KeysForValues]);
    let random = |update: &Update| {
        copied(update, [0, 1], |length, count| length - count, false).map(|cache| {
            cache.mapv(|x| f32::from_bits(hash(3, u64::from(x.to_bits())) as u32 >> 8))
        })
    };
    assert_eq!(causes(probes::update(), random), []);
}

/// A computed NaN is no sign that nothing was written.
#[test]
fn a_computed_nan_and_the_nan_from_before_are_told_apart() {
    let with = |nan: f32| {
        causes(probes::attention(&[]), |problem| {
            let mut output = naive(problem, &RIGHT);
            let masked: Array3<bool> = output.lse.mapv(|x| x == f32::NEG_INFINITY);
            for ((b, h, i), &masked) in masked.indexed_iter() {
                if masked {
                    output.o.slice_mut(s![b, h, i, ..]).fill(nan);
                }
            }
            output
        })
    };
    assert_eq!(with(f32::from_bits(0x7fff_ffff)), [Cause::NanFromMaskedRow]);
    assert_eq!(with(f32::NAN), [Cause::NanFromMaskedRow]);
    assert_eq!(with(UNWRITTEN), [Cause::NotWritten]);
}
