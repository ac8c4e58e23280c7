//! Stage 6's interface.

use std::io;

use exercise_kit::frame::{Broken, Tensors};
use exercise_kit::stage6::{Call, SourceFields};
use stage6_pipeline::{Forward, Generate, Room, Source};

use super::{Error, Remote, done};

impl Forward for Remote {
    type Error = Error;
    /// The program has one decoder at a time: the last that was loaded.
    type Model = ();
    /// And one batch.
    type Batch<'m> = ();

    fn load(&self, source: &Source) -> Result<(), Error> {
        let fields = SourceFields::new(source)
            .map_err(|error| Error::Broken(Broken::Pipe(io::Error::other(error))))?;
        let (outcome, _) = self.call(Call::Load(fields))?;
        done(outcome)
    }

    fn batch(&self, (): &(), room: Room) -> Result<(), Error> {
        done(self.call(Call::Batch(room))?.0)
    }

    fn prefill(&self, (): &mut (), tokens: &[&[u32]]) -> Result<Vec<f32>, Error> {
        let tokens = tokens.iter().map(|tokens| tokens.to_vec()).collect();
        Ok(self.answer(Call::Prefill(tokens))?.values()?)
    }

    fn decode(&self, (): &mut (), tokens: &[u32]) -> Result<Vec<f32>, Error> {
        Ok(self.answer(Call::Decode(tokens.to_vec()))?.values()?)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl Generate for Remote {
    fn generate(
        &self,
        (): &mut (),
        prompt: &[u32],
        most: usize,
        end: &[u32],
    ) -> Result<Vec<u32>, Error> {
        let call = Call::Generate {
            prompt: prompt.to_vec(),
            most,
            end: end.to_vec(),
        };
        let mut tokens: Vec<u32> = self.answer(call)?.values()?;
        tokens.truncate(most.saturating_add(1)); // one too many is as wrong as a million, and shorter to print
        Ok(tokens)
    }
}

impl Remote {
    fn answer(&self, call: Call) -> Result<Tensors, Error> {
        let (outcome, outputs) = self.call(call)?;
        done(outcome)?;
        Ok(outputs)
    }
}
