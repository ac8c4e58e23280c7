//! Stage 6's times to the first token and between tokens, and the text that it writes.
//!
//! The model is the storyteller: the course's of 24 layers and hidden size 4096 is too large to be simulated.

use stage6_pipeline::{Forward, Generate, ModelFiles, Room, Source, Stage6, Text};

use super::{learners, references};
use crate::exams::Rig;
use crate::report::figures::{Figure, Figures};

/// Sequences, tokens of each prompt, and steps behind it.
const BATCH: usize = 4;
const PROMPT: usize = 64;
const STEPS: usize = 16;

/// The beginning of the text, and its most tokens.
const BEGINNING: &str = "Once upon a time";
const TOKENS: usize = 100;

pub(super) fn measure(rig: &Rig<'_>, figures: &mut Figures) {
    let yours = times(rig.remote, |problems, work| {
        learners(rig.remote, problems, work)
    });
    let reference = times(&Stage6, |problems, work| references(problems, work));
    let figure = |label: String, which: usize| Figure {
        label,
        yours: yours.map(|times| times[which]),
        reference: reference.map(|times| times[which]),
        unit: "ms".to_owned(),
    };
    figures.pipeline = vec![
        figure(
            format!("TTFT: the storyteller, B = {BATCH}, prompt of {PROMPT}"),
            0,
        ),
        figure(format!("TBT: mean of {STEPS} tokens behind it"), 1),
    ];
}

type Work<'a, E> = &'a mut dyn FnMut() -> Result<(), E>;

/// Milliseconds to the first token, and between tokens. `time` runs work and tells its milliseconds.
fn times<F: Forward>(
    own: &F,
    time: impl Fn(u64, Work<'_, F::Error>) -> Option<f64>,
) -> Option<[f64; 2]> {
    let model = own.load(&Source::Files(ModelFiles::storyteller())).ok()?;
    let room = Room {
        sequences: BATCH,
        tokens: PROMPT + STEPS,
    };
    let mut batch = own.batch(&model, room).ok()?;
    // Which tokens they are costs nothing.
    let tokens: Vec<u32> = (0..PROMPT as u32).collect();
    let first = time(1, &mut || {
        own.prefill(&mut batch, &[&*tokens; BATCH]).map(drop)
    })?;
    let rest = time(1, &mut || {
        (0..STEPS as u32).try_for_each(|step| own.decode(&mut batch, &[step; BATCH]).map(drop))
    })?;
    Some([first, rest / STEPS as f64])
}

/// The text that the learner's decoder writes, greedily.
pub(super) fn text(rig: &Rig<'_>) -> Option<String> {
    let files = ModelFiles::storyteller();
    let source = Source::Files(files.clone());
    let (architecture, _) = source.load(&stage6_pipeline::Host).ok()?;
    let text = Text::load(&files, &architecture).ok()?;
    let prompt = text.encode(BEGINNING).ok()?;
    rig.remote.load(&source).ok()?;
    let room = Room {
        sequences: 1,
        tokens: prompt.len() + TOKENS,
    };
    rig.remote.batch(&(), room).ok()?;
    let tokens = rig
        .remote
        .generate(&mut (), &prompt, TOKENS, text.end())
        .ok()?;
    Some(text.decode(&[prompt, tokens].concat()))
}
