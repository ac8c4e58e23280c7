//! The suite of stage 6: the logits of a decoder after prompts and steps, and
//! the text that it writes.

use ndarray::{Array3, ArrayView2, Axis};
use stage6_pipeline::{Forward, Generate, Room};

use super::stage2::under_seeds;
use crate::problems::Problem as _;
use crate::problems::decoder::{Problem, problems, random};
use crate::problems::greedy;
use crate::report::{Claim, Part};
use crate::{AnyError, Card, Judge};

/// Random problems of either task.
const RANDOM: u64 = 12;

/// Orders of blocks and warps.
const SEEDS: u64 = 5;

/// Both tasks.
pub fn all(judge: &mut Judge<'_>, own: &impl Generate) {
    forward(judge, own);
    generate(judge, own);
}

/// The forward pass.
pub fn forward<F: Forward>(judge: &mut Judge<'_>, own: &F) {
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, problems(), |problem, output| {
                solve(own, problem, output)
            }),
            Part::Random => {
                let random = judge.seeds(RANDOM).map(|seed| random(seed << 8));
                judge.problems(part, random, |problem, output| solve(own, problem, output));
            }
            Part::Arguments => arguments(judge, own),
            Part::Schedules => {
                let problem = random(5 << 8);
                under_seeds(judge, "forward_seeds", SEEDS, || {
                    let mut output = problem.poisoned();
                    solve(own, &problem, &mut output)?;
                    Ok(output.into_iter().collect())
                });
            }
            Part::Strided | Part::Counted => {}
        }
    }
}

/// Greedy generation.
pub fn generate<G: Generate>(judge: &mut Judge<'_>, own: &G) {
    for &part in judge.parts() {
        let problems = match part {
            Part::Table => greedy::problems(),
            Part::Random => judge
                .seeds(RANDOM)
                .map(|seed| greedy::random(seed << 8))
                .collect(),
            Part::Arguments => {
                bad_prompts(judge, own);
                continue;
            }
            Part::Strided | Part::Schedules | Part::Counted => continue,
        };
        for problem in problems {
            let card = Card {
                name: problem.name(),
                needs_care: problem.needs_care(),
                step: problem.step(),
                extent: problem.extent(),
            };
            if !judge.is_chosen(&card) {
                continue;
            }
            let actual = continuation(own, &problem, problem.room());
            let claim = Claim {
                expected: format!("the tokens {:?}", problem.continuation),
                holds: actual
                    .as_ref()
                    .is_ok_and(|tokens| *tokens == problem.continuation),
                actual: match &actual {
                    Ok(tokens) => format!("{tokens:?}"),
                    Err(error) => error.to_string(),
                },
            };
            let name = problem.name().to_owned();
            let error = match actual {
                Ok(tokens) if !claim.holds => {
                    judge.keep(problem, tokens.iter().map(|&token| token as f32).collect());
                    None
                }
                actual => actual.err().map(Into::into),
            };
            judge.claim_with(part, name, claim, error);
        }
    }
}

/// Prompts that must be refused.
fn bad_prompts<G: Generate>(judge: &mut Judge<'_>, own: &G) {
    let problem = greedy::random(0);
    let long = vec![0; problem.prompt.len() + problem.most + 1];
    for (name, prompt) in [
        ("generate_without_a_prompt", &[][..]),
        ("generate_outside_the_vocabulary", &[u32::MAX]),
        ("generate_beyond_the_room", &long),
    ] {
        let spoilt = greedy::Problem {
            prompt: prompt.to_vec(),
            ..problem.clone()
        };
        judge.refusal(name, "tokens", G::argument_of, || {
            let text = continuation(own, &spoilt, problem.room());
            (text.map(|_| ()), true)
        });
    }
}

fn continuation<G: Generate>(
    own: &G,
    problem: &greedy::Problem,
    room: Room,
) -> Result<Vec<u32>, G::Error> {
    let model = own.load(&problem.source)?;
    let mut batch = own.batch(&model, room)?;
    own.generate(&mut batch, &problem.prompt, problem.most, &problem.end)
}

/// The prompts of a problem, then its other tokens one by one: the logits after each.
///
/// # Errors
///
/// Those of the implementation, and a sentence if logits are too few or too many.
pub fn solve<F: Forward>(
    own: &F,
    problem: &Problem,
    output: &mut Array3<f32>,
) -> Result<(), AnyError> {
    let model = own.load(&problem.source)?;
    let mut batch = own.batch(&model, room(problem))?;
    for step in 0..output.dim().0 {
        let logits = match step {
            0 => own.prefill(&mut batch, &problem.at(0..problem.prompt))?,
            _ => {
                let at = problem.prompt + step - 1;
                own.decode(&mut batch, &problem.at(at..at + 1).concat())?
            }
        };
        let shape = (problem.tokens.len(), problem.architecture.vocab);
        let of_step = ArrayView2::from_shape(shape, &logits)?;
        output.index_axis_mut(Axis(0), step).assign(&of_step);
    }
    Ok(())
}

fn room(problem: &Problem) -> Room {
    Room {
        sequences: problem.tokens.len(),
        tokens: problem.length(),
    }
}

/// Calls that must be refused. None of them changes the sequences, so the
/// logits behind them are right.
fn arguments<F: Forward>(judge: &mut Judge<'_>, own: &F) {
    let mut checkpoints = problems().into_iter();
    let two = checkpoints.find(|problem| problem.tokens.len() == 2);
    let problem = two.expect("the table has a checkpoint with 2 sequences");
    let output = refusals(judge, own, &problem);
    judge.compared(Part::Arguments, "logits_behind_refusals", || {
        Ok::<_, AnyError>(problem.judge(&output?)?)
    });
}

/// The logits of a problem of 2 sequences, with calls in between that must be refused.
fn refusals<F: Forward>(
    judge: &mut Judge<'_>,
    own: &F,
    problem: &Problem,
) -> Result<Array3<f32>, AnyError> {
    let model = own.load(&problem.source)?;
    let mut batch = own.batch(&model, room(problem))?;
    let (prompt, n) = (problem.prompt, problem.length());
    let outside = [problem.architecture.vocab as u32];
    let long = vec![0; n + 1];
    let bad: [(&str, &[&[u32]]); 7] = [
        ("no_sequence", &[]),
        ("one_sequence", &[&[0]]),
        ("three_sequences", &[&[0], &[0], &[0]]),
        ("no_tokens", &[&[], &[]]),
        ("unequal_lengths", &[&[0], &[0, 0]]),
        ("tokens_outside_the_vocabulary", &[&[0], &outside]),
        ("too_many_tokens", &[&long, &long]),
    ];
    for (name, tokens) in bad {
        let name = format!("prefill_of_{name}");
        judge.refusal(&name, "tokens", F::argument_of, || {
            (own.prefill(&mut batch, tokens).map(|_| ()), true)
        });
    }
    let mut logits = own.prefill(&mut batch, &problem.at(0..prompt))?;
    let bad: [(&str, &[u32]); 4] = [
        ("no_sequence", &[]),
        ("one_sequence", &[0]),
        ("three_sequences", &[0; 3]),
        ("tokens_outside_the_vocabulary", &[0, outside[0]]),
    ];
    for (name, tokens) in bad {
        let name = format!("decode_of_{name}");
        judge.refusal(&name, "tokens", F::argument_of, || {
            (own.decode(&mut batch, tokens).map(|_| ()), true)
        });
    }
    for at in prompt..n {
        logits.extend(own.decode(&mut batch, &problem.at(at..at + 1).concat())?);
    }
    judge.refusal("decode_beyond_the_room", "tokens", F::argument_of, || {
        (own.decode(&mut batch, &[0; 2]).map(|_| ()), true)
    });
    let shape = (1 + n - prompt, 2, problem.architecture.vocab);
    Ok(Array3::from_shape_vec(shape, logits)?)
}
