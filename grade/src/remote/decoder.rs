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
        self.tell(prompt, most, end, &mut |_| {})
    }
}

impl Remote {
    /// Generates. The tokens that the program of a story passes on are `heard` while it goes on; the last one it only returns.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn tell(
        &self,
        prompt: &[u32],
        most: usize,
        end: &[u32],
        heard: &mut dyn FnMut(&[u32]),
    ) -> Result<Vec<u32>, Error> {
        let call = Call::Generate {
            prompt: prompt.to_vec(),
            most,
            end: end.to_vec(),
        };
        let (outcome, mut outputs) = self.call_heard(call, &mut |outputs| {
            if let Ok(tokens) = Tensors::new(outputs).values::<u32>() {
                heard(&tokens);
            }
        })?;
        done(outcome)?;
        let mut tokens: Vec<u32> = outputs.values()?;
        tokens.truncate(most.saturating_add(1)); // one too many is as wrong as a million, and shorter to print
        Ok(tokens)
    }

    fn answer(&self, call: Call) -> Result<Tensors, Error> {
        let (outcome, outputs) = self.call(call)?;
        done(outcome)?;
        Ok(outputs)
    }
}
