//! Scores that are scaled or masked in another way.

use conformance::problems::scale_and_mask::Problem;
use ndarray::Array4;

use super::written::unless_in_place;
use super::{Cause, Explained, Hypothesis, Lazy, forgive_nan};

/// The parts of scale-and-mask.
#[derive(Debug, Clone, Copy)]
struct Formula {
    scale: fn(f64) -> f64,
    /// The last key that query `i` sees, of `i` and `nk − nq`.
    last: fn(i64, i64) -> i64,
    /// `i` is counted over the rows of all matrices.
    counts_all_rows: bool,
    /// The score of a hidden key.
    hidden: f64,
    /// The hidden score is multiplied by the scale.
    scales_hidden: bool,
    /// The hidden score is added to the key's own.
    adds_hidden: bool,
}

const RIGHT: Formula = Formula {
    scale: |scale| scale,
    last: |i, diagonal| i + diagonal,
    counts_all_rows: false,
    hidden: f64::NEG_INFINITY,
    scales_hidden: false,
    adds_hidden: false,
};

impl Formula {
    /// The scores of a problem without an additive mask.
    fn scores(&self, problem: &Problem) -> Array4<f64> {
        let (_, heads, nq, nk) = problem.scores.dim();
        let scale = (self.scale)(f64::from(problem.scale));
        let mut scores = problem.scores.mapv(|score| scale * f64::from(score));
        for ((b, h, i, j), score) in scores.indexed_iter_mut() {
            let i = match self.counts_all_rows {
                true => (b * heads + h) * nq + i,
                false => i,
            };
            let last = (self.last)(i as i64, nk as i64 - nq as i64);
            if problem.causal && j as i64 > last {
                let own = if self.adds_hidden { *score } else { 0.0 };
                *score = match self.scales_hidden {
                    true => self.hidden * scale,
                    false => own + self.hidden,
                };
            }
        }
        scores
    }
}

impl Explained for Problem {
    fn hypotheses<'a>(&'a self, output: &'a Array4<f32>) -> Vec<Hypothesis<Lazy<'a, Array4<f64>>>> {
        let computed = mistakes().into_iter();
        let computed = computed.map(|hypothesis| hypothesis.lazily(|formula| formula.scores(self)));
        let unwritten = Hypothesis::new(Cause::NotWritten, "", ()).lazily(|()| {
            let right = RIGHT.scores(self);
            unless_in_place(&right, output, &self.scores)
        });
        computed.chain([unwritten]).collect()
    }

    fn forgive_nan(output: &mut Array4<f32>, answer: &mut Array4<f64>) {
        forgive_nan(output, answer);
    }
}

fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with =
        |cause, detail, change: fn(&mut Formula)| Hypothesis::changed(cause, detail, RIGHT, change);
    let few = "one key too few: a query does not see its own";
    let many = "one key too many: a query sees the next one";
    let finite = "a finite number instead of −inf";
    vec![
        with(Cause::MissingScale, "", |it| it.scale = |_| 1.0),
        with(Cause::WrongScale, "applied twice", |it| {
            it.scale = |scale| scale * scale
        }),
        with(Cause::CausalOffByOne, few, |it| {
            it.last = |i, own| i + own - 1
        }),
        with(Cause::CausalOffByOne, many, |it| {
            it.last = |i, own| i + own + 1
        }),
        with(Cause::CausalTopLeft, "", |it| it.last = |i, _| i),
        with(Cause::CausalTopLeft, "where nq > nk", |it| {
            it.last = |i, own| i + own.max(0)
        }),
        with(Cause::AtLeastOneKey, "", |it| {
            it.last = |i, own| (i + own).max(0)
        }),
        with(Cause::MaskBeforeScale, "", |it| it.scales_hidden = true),
        with(Cause::MaskAdded, "", |it| it.adds_hidden = true),
        with(Cause::CausalIgnored, "", |it| it.last = |_, _| i64::MAX),
        with(Cause::CausalWraps, "", |it| {
            it.last = |i, own| if i + own < 0 { i64::MAX } else { i + own }
        }),
        with(Cause::CausalWraps, "", |it| {
            it.last = |i, own| if i + own + 1 < 0 { i64::MAX } else { i + own }
        }),
        with(Cause::QueryOfAllHeads, "", |it| it.counts_all_rows = true),
        with(Cause::HiddenScoreNotInfinite, "hidden scores are 0", |it| {
            it.hidden = 0.0
        }),
        with(Cause::MaskedRowNotZero, finite, |it| {
            it.hidden = f32::MIN.into()
        }),
        with(Cause::MaskedRowNotZero, finite, |it| {
            it.hidden = (-1e30f32).into()
        }),
        with(Cause::MaskedRowNotZero, finite, |it| {
            it.hidden = (-1e9f32).into()
        }),
    ]
}
