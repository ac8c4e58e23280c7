//! Wrong implementations, as a learner would write them, in f32 with a loop for each index: each gets exactly its cause.
//! The right ones, and wrong ones without a known mistake, get none.

mod attention;
mod decoder;
mod decoding;
mod layer;
mod product;
mod softmax;
mod tiles;

use std::collections::BTreeSet;

use conformance::problems::Problem;
use grade::cause::{Cause, Explained, explain, explanations};

/// The causes of what `solve` makes of the problems.
fn causes<P: Explained>(problems: Vec<P>, solve: impl Fn(&P) -> P::Output) -> Vec<Cause> {
    let solved = solved(problems, solve);
    let all: BTreeSet<Cause> = explanations(&solved)
        .into_iter()
        .map(|explanation| explanation.cause)
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
