//! Wrong implementations, as a learner would write them, in f32 with a loop for each index: each gets exactly its cause.
//! The right ones, and wrong ones without a known mistake, get none.

mod attention;
mod decoder;
mod decoding;
mod gradients;
mod layer;
mod product;
mod softmax;
mod tensor_core;
mod tiles;

use std::collections::BTreeSet;

use conformance::problems::Problem;
use grade::cause::{Cause, Explained, explanations};

/// The causes of what `solve` makes of the problems.
fn causes<P: Explained>(problems: Vec<P>, solve: impl Fn(&P) -> P::Output) -> Vec<Cause> {
    let solved = solved(problems, solve);
    let all: BTreeSet<Cause> = explanations(&solved)
        .into_iter()
        .map(|explanation| explanation.cause)
        .collect();
    all.into_iter().collect()
}

/// A mistake: its cause, and the change of what is right.
type Mistake<H> = (Cause, fn(&mut H));

/// What is right has no cause, and each change of it has its own.
fn named<P: Explained + Clone, H: Copy, const N: usize>(
    problems: Vec<P>,
    solve: impl Fn(&P, &H) -> P::Output,
    right: H,
    mistakes: [Mistake<H>; N],
) {
    let of = |how: H| causes(problems.clone(), |problem| solve(problem, &how));
    assert_eq!(of(right), []);
    for (i, (cause, change)) in mistakes.into_iter().enumerate() {
        let mut how = right;
        change(&mut how);
        assert_eq!(of(how), [cause], "mistake {i}");
    }
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
