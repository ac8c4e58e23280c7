//! Attention with the whole row of scores.

use std::any::Any;
use std::sync::LazyLock;

use conformance::problems::{Problem, UNWRITTEN, attention};
use grade::cause::{Cause, explain, probes};
use ndarray::{Array3, s};
use stage1_reference::{Options, Output};

use super::{Mistake, causes, named, solved};

/// The softmax of a row of scores, right or wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Softmax {
    Right,
    NoMax,
    NoMaxGuarded,
    MaxFromZero,
    /// The same, and nothing is done for a row without keys.
    MaxFromZeroAlone,
    NotNormalised,
    LseBase2,
    LseWithoutMax,
    NanIfMasked,
    OneWarp(usize),
}

/// Attention with the whole row of scores.
#[derive(Debug, Clone, Copy)]
pub struct Naive {
    pub scale: fn(f32, usize) -> f32,
    /// The last key that query i sees.
    pub last: fn(i: isize, nq: isize, nk: isize) -> isize,
    pub hidden: f32,
    pub kv_head: fn(h: usize, heads: usize, kv_heads: usize) -> usize,
    pub transposed_v: bool,
    pub window: usize,
    pub softmax: Softmax,
    pub rows: fn(usize) -> usize,
}

pub const RIGHT: Naive = Naive {
    scale: |scale, _| scale,
    last: |i, nq, nk| i + nk - nq,
    hidden: f32::NEG_INFINITY,
    kv_head: |h, heads, kv_heads| h / (heads / kv_heads),
    transposed_v: false,
    window: 0,
    softmax: Softmax::Right,
    rows: |nq| nq,
};

pub fn naive(problem: &attention::Problem, how: &Naive) -> Output {
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
pub fn soften(row: &mut [f32], how: Softmax) -> f32 {
    let mut max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let unguarded = [Softmax::NanIfMasked, Softmax::MaxFromZeroAlone];
    if max == f32::NEG_INFINITY && !unguarded.contains(&how) {
        row.fill(0.0);
        return f32::NEG_INFINITY;
    }
    if matches!(how, Softmax::NoMax | Softmax::NoMaxGuarded) {
        max = 0.0;
    }
    if matches!(how, Softmax::MaxFromZero | Softmax::MaxFromZeroAlone) {
        max = max.max(0.0);
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

/// The probes, of which some are looked up in a long table.
pub fn problems() -> Vec<attention::Problem> {
    static PROBLEMS: LazyLock<Vec<attention::Problem>> = LazyLock::new(|| probes::attention(&[]));
    PROBLEMS.clone()
}

#[test]
fn mistakes_in_attention_are_named() {
    let mistakes: [Mistake<Naive>; 30] = [
        (Cause::NoMaxSubtraction, |it| it.softmax = Softmax::NoMax),
        (Cause::NoMaxSubtraction, |it| {
            it.softmax = Softmax::NoMaxGuarded
        }),
        (Cause::MaximumFromZero, |it| {
            it.softmax = Softmax::MaxFromZero
        }),
        (Cause::MaximumFromZero, |it| {
            it.softmax = Softmax::MaxFromZeroAlone
        }),
        (Cause::MissingScale, |it| it.scale = |_, _| 1.0),
        (Cause::WrongScale, |it| {
            it.scale = |scale, d| match scale * scale * d as f32 {
                0.999..1.001 => 0.125,
                _ => scale,
            }
        }),
        (Cause::CausalWraps, |it| {
            it.last = |i, nq, nk| if i + nk < nq { nk } else { i + nk - nq }
        }),
        (Cause::CausalWraps, |it| {
            it.last = |i, nq, nk| match i + 1 + nk - nq {
                ..0 => nk,
                keys => keys - 1,
            }
        }),
        // The same, with tiles of 32 keys and of 16 queries, of which the last sees keys.
        (Cause::CausalWraps, |it| {
            it.last = |i, nq, nk| {
                let end = i / 16 * 16 + 16 + nk - nq;
                match i + nk - nq {
                    ..0 => (end + 31).div_euclid(32) * 32 - 1,
                    last => last,
                }
            }
        }),
        // The loop over keys takes tiles of 32, for tiles of 16 queries.
        (Cause::CausalEndsEarly, |it| {
            it.last = |i, nq, nk| {
                let end = i / 16 * 16 + nk - nq;
                ((end + 31).div_euclid(32) * 32 - 1).min(i + nk - nq)
            }
        }),
        (Cause::CausalTopLeft, |it| {
            it.last = |i, nq, nk| {
                let end = i / 16 * 16 + 16 + nk - nq;
                ((end + 31).div_euclid(32) * 32 - 1).min(i)
            }
        }),
        (Cause::WrongScale, |it| it.scale = |_, d| 1.0 / d as f32),
        (Cause::CausalOffByOne, |it| {
            it.last = |i, nq, nk| i + nk - nq - 1
        }),
        (Cause::CausalOffByOne, |it| {
            it.last = |i, nq, nk| i + nk - nq + 1
        }),
        (Cause::CausalTopLeft, |it| it.last = |i, _, _| i),
        (Cause::CausalIgnored, |it| it.last = |_, _, nk| nk),
        (Cause::HiddenScoreNotInfinite, |it| it.hidden = 0.0),
        (Cause::MaskedRowNotZero, |it| it.hidden = -1e9),
        (Cause::MaskedRowNotZero, |it| it.hidden = f32::MIN),
        (Cause::NanFromMaskedRow, |it| {
            it.softmax = Softmax::NanIfMasked
        }),
        (Cause::WindowOffByOne, |it| it.window = 1),
        (Cause::WrongHead, |it| {
            it.kv_head = |h, _, kv_heads| h % kv_heads
        }),
        (Cause::WrongHead, |it| it.kv_head = |_, _, _| 0),
        (Cause::TransposedV, |it| it.transposed_v = true),
        (Cause::NotNormalised, |it| {
            it.softmax = Softmax::NotNormalised
        }),
        (Cause::WrongLogSum, |it| it.softmax = Softmax::LseBase2),
        (Cause::WrongLogSum, |it| it.softmax = Softmax::LseWithoutMax),
        (Cause::PartialReduction, |it| {
            it.softmax = Softmax::OneWarp(128)
        }),
        (Cause::NotWritten, |it| it.rows = |nq| nq / 16 * 16),
        (Cause::NotWritten, |it| it.rows = |_| 0),
    ];
    named(problems(), naive, RIGHT, mistakes);
}

#[test]
fn a_cause_gives_the_very_values_of_the_problem_that_failed() {
    let wrong = Naive {
        scale: |_, _| 1.0,
        ..RIGHT
    };
    let failed = &problems()[0];
    let mut other = naive(failed, &wrong);
    other.o.mapv_inplace(|x| 1.5 * x);
    for (output, cause) in [
        (naive(failed, &wrong), Some(Cause::MissingScale)),
        (other, None),
    ] {
        let kept: [Box<dyn Any>; 1] = [Box::new((failed.clone(), output))];
        let probes = solved(problems(), |problem| naive(problem, &wrong));
        let found = explain(&kept, probes);
        let name = failed.name().to_owned();
        let found = found.map(|(explanation, case)| (explanation.cause, case));
        assert_eq!(found, cause.map(|cause| (cause, name)));
    }
    let kept: [Box<dyn Any>; 1] = [Box::new("a problem of another type")];
    let probes = solved(problems(), |problem| naive(problem, &wrong));
    assert_eq!(explain(&kept, probes), None);
}

#[test]
fn exchanged_arguments_are_named() {
    let found = causes(problems(), |problem| {
        let mut other = problem.clone();
        std::mem::swap(&mut other.k, &mut other.v);
        naive(&other, &RIGHT)
    });
    assert_eq!(found, [Cause::KeysForValues]);
}

/// A computed NaN is no sign that nothing was written.
#[test]
fn a_computed_nan_and_the_nan_from_before_are_told_apart() {
    let with = |nan: f32| {
        causes(problems(), |problem| {
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
    assert_eq!(with(f32::from_bits(0x7fff_ffff)), [Cause::ZeroByZero]);
    assert_eq!(with(f32::NAN), [Cause::ZeroByZero]);
    assert_eq!(with(UNWRITTEN), [Cause::NotWritten]);
}
