//! Comparing what an implementation computed with the answers of all hypotheses.

use std::any::Any;
use std::collections::BTreeSet;

use conformance::problems::{Extent, Problem};
use ndarray::{Array, Dimension, Zip};

use super::{Cause, written};

/// The distance that values may have from a hypothesis, as a multiple of the tolerance. A mistake may make a problem worse conditioned
/// than it was. A right answer is never judged by this.
const SLACK: f64 = 8.0;

/// A known mistake, and what it gives.
#[derive(Debug, Clone)]
pub struct Hypothesis<T> {
    /// The mistake.
    pub cause: Cause,
    /// Which form of it, such as `tiles of 64 keys`; may be empty.
    pub detail: String,
    /// Its answer.
    pub gives: T,
}

/// An answer that is computed when it is asked for.
pub type Lazy<'a, T> = Box<dyn Fn() -> T + 'a>;

/// Why values are wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Explanation {
    /// The mistake.
    pub cause: Cause,
    /// Which form of it, such as `tiles of 64 keys`; may be empty.
    pub detail: String,
}

/// A problem whose wrong outputs can be explained.
pub trait Explained: Problem<Output: Clone, Answer: Clone> {
    /// The answers of all known mistakes, the same mistakes for all problems of a kind. Some depend on the output: an element
    /// that was never written has its old value.
    fn hypotheses<'a>(
        &'a self,
        output: &'a Self::Output,
    ) -> Vec<Hypothesis<Lazy<'a, Self::Answer>>>;

    /// Makes elements that are NaN in both equal: a hypothesis may predict NaN, which no comparison passes.
    fn forgive_nan(output: &mut Self::Output, answer: &mut Self::Answer);

    /// Scales elements down that are larger than any right one: a hypothesis may predict them, and the tolerance is for right ones.
    fn scale_down(&self, _output: &mut Self::Output, _answer: &mut Self::Answer) {}
}

/// Problems whose values are wrong, the first of each type `P` and all of generated texts, with the outputs: a `(P, P::Output)` each.
pub type Wrong = [Box<dyn Any>];

/// The mistake that explains a wrong problem of this type, the first that one explains, and the outputs for all probes; and the
/// name of the problem. `None` if there is no such problem, if no known mistake gives its values, or if mistakes that have
/// nothing to do with each other do. Where no problem was kept, the probes alone tell.
pub fn explain<P: Explained<Output: 'static> + 'static>(
    wrong: &Wrong,
    probes: Vec<(P, P::Output)>,
) -> Option<(Explanation, String)> {
    let explained = |kept: Option<&(P, P::Output)>| {
        let explanations = explanations(probes.iter().chain(kept));
        let first = explanations.first()?;
        let same = explanations.iter().all(|other| other.cause == first.cause);
        let name = kept.map_or("", |(problem, _)| problem.name());
        same.then(|| (first.clone(), name.to_owned()))
    };
    if wrong.is_empty() {
        return explained(None);
    }
    let mut kept = wrong.iter().filter_map(|kept| kept.downcast_ref());
    kept.find_map(|kept| explained(Some(kept)))
}

/// The outputs of an implementation for problems, without those that it refuses.
pub fn solved<P: Explained, E>(
    problems: Vec<P>,
    mut solve: impl FnMut(&P, &mut P::Output) -> Result<(), E>,
) -> Vec<(P, P::Output)> {
    let solved = problems.into_iter().filter_map(|problem| {
        let mut output = problem.poisoned();
        solve(&problem, &mut output).ok()?;
        Some((problem, output))
    });
    solved.collect()
}

/// All mistakes that explain all these outputs, in the order of [`Cause`].
pub fn explanations<'a, P: Explained<Output: 'a> + 'a>(
    solved: impl IntoIterator<Item = &'a (P, P::Output)>,
) -> BTreeSet<Explanation> {
    let mut ordered = Vec::from_iter(solved);
    let errors = ordered
        .iter()
        .map(|(problem, output)| share(problem, output, &problem.answer()));
    let wrong: Vec<f64> = errors.filter(|&error| error > 1.0).collect();
    // An error that is little larger than the tolerance cannot be told from rounding.
    if wrong.is_empty() || wrong.iter().any(|&error| error <= SLACK) {
        return BTreeSet::new();
    }
    // The smallest problem first: all hypotheses are computed for it, and few for the others.
    ordered.sort_by_key(|(problem, _)| {
        let Extent { matrices, length } = problem.extent();
        matrices.max(1) * length.pow(2)
    });
    let mut left: Option<BTreeSet<Explanation>> = None;
    for (problem, output) in ordered {
        left = Some(matching(problem, output, left.as_ref()));
    }
    let mut left = left.unwrap_or_default();
    // What is infinite passes for NaN, so that a log-sum-exp of −inf fits both.
    if left.iter().any(|it| it.cause == Cause::ZeroByZero) {
        left.retain(|it| it.cause != Cause::NanFromMaskedRow);
    }
    left
}

/// The mistakes that give this output, of those that are `left`.
fn matching<P: Explained>(
    problem: &P,
    output: &P::Output,
    left: Option<&BTreeSet<Explanation>>,
) -> BTreeSet<Explanation> {
    let mut matching = BTreeSet::new();
    for Hypothesis {
        cause,
        detail,
        gives,
    } in problem.hypotheses(output)
    {
        let explanation = Explanation { cause, detail };
        if left.is_none_or(|left| left.contains(&explanation))
            && !matching.contains(&explanation)
            && share(problem, output, &gives()) <= SLACK
        {
            matching.insert(explanation);
        }
    }
    matching
}

/// The largest error of an output with respect to an answer, as a multiple of the tolerance.
fn share<P: Explained>(problem: &P, output: &P::Output, answer: &P::Answer) -> f64 {
    let (mut output, mut answer) = (output.clone(), answer.clone());
    P::forgive_nan(&mut output, &mut answer);
    problem.scale_down(&mut output, &mut answer);
    let Ok(comparisons) = problem.compare(&output, &answer) else {
        return f64::INFINITY; // an output of another shape
    };
    let shares = comparisons
        .iter()
        .map(|comparison| match comparison.max_abs.is_finite() {
            true => comparison.max_share,
            false => f64::INFINITY,
        });
    shares.fold(0.0, f64::max)
}

/// Sets elements to 0 that are NaN in both.
pub(crate) fn forgive_nan<D: Dimension>(actual: &mut Array<f32, D>, expected: &mut Array<f64, D>) {
    if actual.shape() != expected.shape() {
        return;
    }
    Zip::from(actual)
        .and(expected)
        .for_each(|actual, expected| {
            if written::same_nan(*actual, *expected) {
                (*actual, *expected) = (0.0, 0.0);
            }
        });
}

impl<T> Hypothesis<T> {
    pub(crate) fn new(cause: Cause, detail: impl Into<String>, gives: T) -> Self {
        Self {
            cause,
            detail: detail.into(),
            gives,
        }
    }

    /// A mistake that changes a part of what is right.
    pub(crate) fn changed(
        cause: Cause,
        detail: impl Into<String>,
        mut right: T,
        change: impl FnOnce(&mut T),
    ) -> Self {
        change(&mut right);
        Self::new(cause, detail, right)
    }

    /// With an answer that is made of what it gives.
    pub(crate) fn lazily<'a, U>(self, answer: impl Fn(&T) -> U + 'a) -> Hypothesis<Lazy<'a, U>>
    where
        T: 'a,
    {
        self.map(|gives| Box::new(move || answer(&gives)) as Lazy<'a, U>)
    }

    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Hypothesis<U> {
        Hypothesis {
            cause: self.cause,
            detail: self.detail,
            gives: f(self.gives),
        }
    }
}

impl Explanation {
    /// A line with the form of the mistake; empty if there is one form only.
    pub fn form(&self) -> String {
        match self.detail.is_empty() {
            true => String::new(),
            false => format!("In this form: {}.\n", self.detail),
        }
    }
}
