//! Tasks `forward` and `demo` of stage 6.

use conformance::problems::Problem as _;
use conformance::problems::decoder::{Problem, counted, random};
use conformance::suites::stage6::{self, solve};
use conformance::{AnyError, Card, Judge};
use ndarray::Array1;
use stage1_reference::Feature;
use stage6_pipeline::{Forward, Generate, Room, Source, Stage6};

use super::{Exam, Input, Place, Rig, Whose, by};
use crate::cause::{self, Explanation, Wrong, probes};
use crate::remote::Remote;
use crate::verdict::Kind;

/// The forward pass of a decoder.
pub(super) struct ForwardTask;

/// Greedy generation.
pub(super) struct Demo;

/// All kernels are given.
const PLACE: Place = Place::Device {
    lower: &[
        "stage4-flash-cuda/kernels/",
        "stage5-decode/kernels/",
        "stage6-pipeline/kernels/",
    ],
    reads_back: true,
};

const LACKS: [Feature; 1] = [Feature::Window];

impl Exam for ForwardTask {
    fn place(&self) -> Place {
        PLACE
    }

    fn lacks(&self) -> &'static [Feature] {
        &LACKS
    }

    fn random(&self) -> u64 {
        6
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        stage6::forward(judge, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        cause::explain(
            wrong,
            cause::solved(probes::decoder(), |problem, output| {
                solve(rig.remote, problem, output)
            }),
        )
    }

    fn timed_case(&self) -> &'static str {
        "b2_n32_steps3, 2 layers of 512"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let problem = match input {
            Input::Repeated => random(3),
            Input::Timed(seed) => counted([2, 32, 3], seed),
            other => return Err(other.missing()),
        };
        by!(whose, rig.remote, &Stage6, |own| logits(own, &problem))
    }
}

fn logits<F: Forward>(own: &F, problem: &Problem) -> Result<Vec<f32>, AnyError> {
    let mut output = problem.poisoned();
    solve(own, problem, &mut output)?;
    Ok(output.into_iter().collect())
}

impl Exam for Demo {
    fn place(&self) -> Place {
        PLACE
    }

    fn lacks(&self) -> &'static [Feature] {
        &LACKS
    }

    /// A long story is robust, as no token is; three of them take too long.
    fn criterion(&self, problem: &Card<'_>) -> Option<Kind> {
        match problem.extent.length {
            _ if problem.needs_care => Some(Kind::Robust),
            ..100 => Some(Kind::Correct),
            100..150 => Some(Kind::Robust),
            150.. => None,
        }
    }

    fn random(&self) -> u64 {
        4
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        stage6::generate(judge, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        cause::explain(
            wrong,
            cause::solved(probes::generation(), |problem, output| {
                let (prompt, most, room) = (&problem.prompt, problem.most, problem.room());
                let tokens = text(
                    rig.remote,
                    &problem.source,
                    room,
                    prompt,
                    most,
                    &problem.end,
                )?;
                *output = tokens
                    .into_iter()
                    .map(|token| token as f32)
                    .collect::<Array1<_>>();
                Ok::<_, <Remote as Forward>::Error>(())
            }),
        )
    }

    fn timed_case(&self) -> &'static str {
        "b1_n16_tokens6, 2 layers of 512"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let (problem, most) = match input {
            Input::Repeated => (random(3), 5),
            Input::Timed(seed) => (counted([1, 16, 6], seed), 6),
            other => return Err(other.missing()),
        };
        by!(whose, rig.remote, &Stage6, |own| {
            tokens(own, &problem, most)
        })
    }
}

/// Tokens that follow the prompt of a problem.
fn tokens<G: Generate>(own: &G, problem: &Problem, most: usize) -> Result<Vec<f32>, AnyError> {
    let prompt = &problem.tokens[0][..problem.prompt];
    let room = Room {
        sequences: 1,
        tokens: prompt.len() + most.saturating_sub(1),
    };
    let tokens = text(own, &problem.source, room, prompt, most, &[]);
    let tokens = tokens?;
    Ok(tokens.into_iter().map(|token| token as f32).collect())
}

/// The text that follows a prompt.
fn text<G: Generate>(
    own: &G,
    source: &Source,
    room: Room,
    prompt: &[u32],
    most: usize,
    end: &[u32],
) -> Result<Vec<u32>, G::Error> {
    let model = own.load(source)?;
    let mut batch = own.batch(&model, room)?;
    own.generate(&mut batch, prompt, most, end)
}
