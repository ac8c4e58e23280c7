//! Greedy generation that chooses another token, or ends elsewhere.

use std::rc::Rc;

use conformance::decoder::logits;
use conformance::problems::greedy::Problem;
use ndarray::Array1;
use stage6_pipeline::Host;

use super::{Cause, Explained, Hypothesis, Lazy};

/// The parts of the loop over tokens.
#[derive(Debug, Clone, Copy)]
struct Formula {
    /// The token, from the logits of all.
    chosen: fn(&[f64]) -> usize,
    /// True if a token is found among those of `end`. It ends the text.
    ends: fn(&[u32], u32) -> bool,
    /// It is part of the text.
    end_is_text: bool,
    /// There is a token even if none is asked for.
    one_at_least: bool,
    /// The text, from the prompt and the tokens behind it.
    text: fn(&[u32], &[u32]) -> Vec<u32>,
}

const RIGHT: Formula = Formula {
    chosen: |logits| best(logits, |_| true, |a, b| a > b),
    ends: |end, token| end.contains(&token),
    end_is_text: false,
    one_at_least: false,
    text: |_, tokens| tokens.to_vec(),
};

/// The first of the ids that may be chosen that no other of them beats.
fn best(logits: &[f64], may: impl Fn(usize) -> bool, beats: impl Fn(f64, f64) -> bool) -> usize {
    let mut ids = (0..logits.len()).filter(|&id| may(id));
    let first = ids.next().unwrap_or(0);
    ids.fold(first, |best, id| match beats(logits[id], logits[best]) {
        true => id,
        false => best,
    })
}

impl Formula {
    /// The text, with the logits that follow a history.
    fn generate(&self, problem: &Problem, logits: impl Fn(&[u32]) -> Vec<f64>) -> Vec<u32> {
        let mut history = problem.prompt.clone();
        let most = problem.at_most().max(usize::from(self.one_at_least));
        let most = problem.prompt.len() + most;
        while history.len() < most {
            let next = (self.chosen)(&logits(&history)) as u32;
            let end = (self.ends)(&problem.end, next);
            if !end || self.end_is_text {
                history.push(next);
            }
            if end {
                break;
            }
        }
        let (prompt, tokens) = history.split_at(problem.prompt.len());
        (self.text)(prompt, tokens)
    }
}

impl Explained for Problem {
    fn hypotheses<'a>(&'a self, _: &'a Array1<f32>) -> Vec<Hypothesis<Lazy<'a, Array1<f64>>>> {
        let Ok(loaded) = self.source.load(&Host) else {
            return Vec::new(); // the problem has been solved, so that it can be loaded
        };
        let loaded = Rc::new(loaded);
        let lazily = |hypothesis: Hypothesis<Formula>| {
            let loaded = loaded.clone();
            hypothesis.lazily(move |formula| {
                let (architecture, weights) = &*loaded;
                let last = |history: &[u32]| {
                    let mut rows = logits(architecture, weights, history);
                    rows.pop().unwrap_or_default()
                };
                let text = formula.generate(self, last);
                text.into_iter().map(f64::from).collect()
            })
        };
        mistakes().into_iter().map(lazily).collect()
    }

    fn forgive_nan(_: &mut Array1<f32>, _: &mut Array1<f64>) {} // tokens are whole numbers
}

fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with =
        |cause, detail, change: fn(&mut Formula)| Hypothesis::changed(cause, detail, RIGHT, change);
    vec![
        with(Cause::EndOfText, "it is part of the text", |it| {
            it.end_is_text = true
        }),
        with(Cause::EndOfText, "it does not end the text", |it| {
            it.ends = |_, _| false
        }),
        with(
            Cause::EndOfText,
            "it is looked up by bisection, and those that end a text are in no order",
            |it| it.ends = |end, token| end.binary_search(&token).is_ok(),
        ),
        with(Cause::NotTheLikeliest, "the least likely is chosen", |it| {
            it.chosen = |logits| best(logits, |_| true, |a, b| a < b)
        }),
        with(Cause::NotTheLikeliest, "odd ids are never chosen", |it| {
            it.chosen = |logits| best(logits, |id| id % 2 == 0, |a, b| a > b)
        }),
        with(Cause::NotTheLikeliest, "id 0 is never chosen", |it| {
            it.chosen = |logits| best(logits, |id| id > 0, |a, b| a > b)
        }),
        with(
            Cause::NotTheLikeliest,
            "the last id is never chosen",
            |it| it.chosen = |logits| best(logits, |id| id + 1 < logits.len(), |a, b| a > b),
        ),
        with(
            Cause::NotTheLikeliest,
            "of several with the same logit the last is chosen",
            |it| it.chosen = |logits| best(logits, |_| true, |a, b| a >= b),
        ),
        with(Cause::WrongText, "the prompt is part of it", |it| {
            it.text = |prompt, tokens| [prompt, tokens].concat()
        }),
        with(Cause::WrongText, "one token where `most` is 0", |it| {
            it.one_at_least = true
        }),
        with(Cause::WrongText, "its first token is missing", |it| {
            it.text = |_, tokens| tokens.get(1..).unwrap_or_default().to_vec()
        }),
        with(Cause::WrongText, "its last token is missing", |it| {
            it.text = |_, tokens| tokens[..tokens.len().saturating_sub(1)].to_vec()
        }),
    ]
}
