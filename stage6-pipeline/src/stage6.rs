//! This stage's own implementation of its interface.

use crate::{Batch, Error, Forward, Generate, Model, Room, SequenceId, Source};

/// This stage's own implementation, on the first device.
#[derive(Debug, Clone, Copy)]
pub struct Stage6;

/// Sequences of one length.
#[derive(Debug)]
pub struct Sequences<'m> {
    batch: Batch<'m>,
    room: Room,
    sequences: Vec<SequenceId>,
}

impl Sequences<'_> {
    /// The logits `[B, V]` after new tokens, which have been checked.
    fn forward(&mut self, tokens: &[&[u32]]) -> Result<Vec<f32>, Error> {
        let new = self.sequences.iter().copied().zip(tokens.iter().copied());
        self.batch.forward(&Vec::from_iter(new))?;
        let mut logits = Vec::new();
        for row in 0..tokens.len() {
            logits.extend(self.batch.logits(row)?);
        }
        Ok(logits)
    }

    fn vocab(&self) -> usize {
        self.batch.model().architecture().vocab
    }
}

impl Forward for Stage6 {
    type Error = Error;
    type Model = Model;
    type Batch<'m> = Sequences<'m>;

    fn load(&self, source: &Source) -> Result<Model, Error> {
        match source {
            Source::Files(files) => Model::load(files, 0),
            Source::Random { dummy, dtype, seed } => {
                Model::random(dummy.architecture()?, *dtype, *seed, 0)
            }
        }
    }

    fn batch<'m>(&self, model: &'m Model, room: Room) -> Result<Sequences<'m>, Error> {
        Ok(Sequences {
            batch: model.batch(room.sequences, room.tokens)?,
            room,
            sequences: Vec::new(),
        })
    }

    fn prefill(&self, batch: &mut Sequences<'_>, tokens: &[&[u32]]) -> Result<Vec<f32>, Error> {
        batch.room.check("prefill", 0, tokens, batch.vocab())?;
        for sequence in batch.sequences.drain(..) {
            batch.batch.free(sequence)?;
        }
        batch.sequences = tokens.iter().map(|_| batch.batch.create()).collect();
        batch.forward(tokens)
    }

    fn decode(&self, batch: &mut Sequences<'_>, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        let cached = match batch.sequences.first() {
            Some(&first) => batch.batch.length(first)?,
            None => 0,
        };
        let tokens = Vec::from_iter(tokens.chunks(1));
        batch.room.check("decode", cached, &tokens, batch.vocab())?;
        batch.forward(&tokens)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        match error {
            Error::Argument(error) => Some(error.argument),
            _ => None,
        }
    }
}

impl Generate for Stage6 {
    fn generate(
        &self,
        batch: &mut Sequences<'_>,
        prompt: &[u32],
        most: usize,
        end: &[u32],
    ) -> Result<Vec<u32>, Error> {
        let mut tokens = Vec::new();
        self.prefill(batch, &[prompt])?;
        while tokens.len() < most {
            let next = batch.batch.likeliest(0)?;
            if end.contains(&next) {
                break;
            }
            tokens.push(next);
            if tokens.len() < most {
                self.decode(batch, &[next])?;
            }
        }
        Ok(tokens)
    }
}
