//! Softmax of rows.

use conformance::problems::{Problem, softmax};
use grade::cause::{Cause, probes};

use super::attention::{Softmax, soften};
use super::{causes, is_right};

/// Softmax of each row.
fn rows(problem: &softmax::Problem, soften: impl Fn(&mut [f32]) -> f32) -> softmax::Output {
    let mut output = problem.poisoned();
    output.y = problem.x.clone();
    for (mut row, lse) in output.y.rows_mut().into_iter().zip(&mut output.lse) {
        *lse = soften(row.as_slice_mut().unwrap());
    }
    output
}

#[test]
fn mistakes_in_softmax_are_named() {
    for (cause, how) in [
        (Cause::NoMaxSubtraction, Softmax::NoMax),
        (Cause::NoMaxSubtraction, Softmax::NoMaxGuarded),
        (Cause::MaximumFromZero, Softmax::MaxFromZero),
        (Cause::MaximumFromZero, Softmax::MaxFromZeroAlone),
        (Cause::NotNormalised, Softmax::NotNormalised),
        (Cause::WrongLogSum, Softmax::LseBase2),
        (Cause::WrongLogSum, Softmax::LseWithoutMax),
        (Cause::NanFromMaskedRow, Softmax::NanIfMasked),
        (Cause::PartialReduction, Softmax::OneWarp(128)),
        (Cause::PartialReduction, Softmax::OneWarp(256)),
    ] {
        let found = causes(probes::softmax(), |problem| {
            rows(problem, |row| soften(row, how))
        });
        assert_eq!(found, [cause], "{how:?}");
    }
    // A thread for each of 128 elements, and no loop.
    let short = |problem: &softmax::Problem| {
        let mut output = rows(problem, |row| soften(row, Softmax::Right));
        for (i, y) in output.y.iter_mut().enumerate().skip(128) {
            *y = problem.x.as_slice().unwrap()[i];
        }
        output
    };
    assert_eq!(causes(probes::softmax(), short), [Cause::NotWritten]);
    let short = |problem: &softmax::Problem| {
        rows(problem, |row| {
            let last = row.len() - 1;
            soften(&mut row[..last], Softmax::Right)
        })
    };
    assert_eq!(causes(probes::softmax(), short), [Cause::TailDropped]);
    let right = |problem: &softmax::Problem| rows(problem, |row| soften(row, Softmax::Right));
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
    let solve = |problem: &softmax::Problem| rows(problem, running);
    assert_eq!(causes(probes::softmax(), solve), [Cause::MissingRescale]);
    let solve = |problem: &softmax::Problem| rows(problem, threads);
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
