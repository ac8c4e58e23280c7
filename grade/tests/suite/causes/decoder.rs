//! Logits of a decoder, and the text that it writes. Wrong forward passes are in `exercises/wrong/`.

use conformance::problems::{Problem, greedy};
use grade::cause::{Cause, explain, probes};

use super::causes;

#[test]
fn what_is_right_or_wrong_in_an_unknown_way_has_no_cause() {
    for spoil in [|x: f32| x, |x| 1.01 * x, |x| x + 0.5, |_| f32::NAN] {
        let found = causes(probes::decoder(), |problem| {
            problem.answer().mapv(|x| spoil(x as f32))
        });
        assert_eq!(found, []);
    }
}

#[test]
fn mistakes_in_a_text_are_named() {
    type Spoil = fn(&greedy::Problem) -> Vec<u32>;
    let right: Spoil = |problem| problem.continuation.clone();
    let with_end: Spoil = |problem| {
        let end = problem.end.last().copied(); // the other one never occurs
        problem.continuation.iter().copied().chain(end).collect()
    };
    let with_prompt: Spoil = |problem| [&*problem.prompt, &problem.continuation].concat();
    let without_first: Spoil = |problem| problem.continuation.iter().skip(1).copied().collect();
    let one_at_least: Spoil = |problem| match problem.most {
        0 => greedy::tied(2).continuation[..1].to_vec(),
        _ => problem.continuation.clone(),
    };
    let ends: Vec<bool> = probes::generation()
        .iter()
        .map(|problem| problem.end.is_empty())
        .collect();
    assert!(ends.contains(&true) && ends.contains(&false), "{ends:?}");
    for (cause, text) in [
        (None, right),
        (Some(Cause::EndOfText), with_end),
        (Some(Cause::WrongText), with_prompt),
        (Some(Cause::WrongText), without_first),
        (Some(Cause::WrongText), one_at_least),
        (None, |problem| {
            problem.continuation.iter().map(|id| id ^ 1).collect()
        }),
        (None, |_| vec![]),
    ] {
        let solved = probes::generation().into_iter().map(|problem| {
            let text = text(&problem).into_iter().map(|token| token as f32);
            let output = text.collect();
            (problem, output)
        });
        let found = explain(&[], Vec::from_iter(solved)).map(|(explanation, _)| explanation.cause);
        assert_eq!(found, cause);
    }
}
