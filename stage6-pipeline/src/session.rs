//! One sequence at a time.

use stage5_decode::paged::SequenceId;

use crate::{Batch, Error, Model};

/// A [`Batch`] of one sequence.
#[derive(Debug)]
pub struct Session<'m> {
    batch: Batch<'m>,
    sequence: SequenceId,
}

impl<'m> Session<'m> {
    pub(crate) fn new(model: &'m Model, tokens: usize) -> Result<Self, Error> {
        let mut batch = model.batch(1, tokens)?;
        let sequence = batch.create();
        Ok(Self { batch, sequence })
    }

    /// Passes the next tokens of the sequence through the model: the whole prompt at first, then one token at a time (or any other
    /// cut; the logits are the same up to rounding). Returns the logits, `[V]`, of the token that follows the last one.
    ///
    /// # Errors
    ///
    /// [`Error::NoTokens`], [`Error::TokenOutOfRange`], [`Error::ContextFull`]: the session is as it was.
    /// [`Error::Driver`] if a kernel fails: clear the session.
    pub fn forward(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        self.batch.forward(&[(self.sequence, tokens)])?;
        self.batch.logits(0)
    }

    /// Forgets the sequence. The next one starts at position 0.
    pub fn clear(&mut self) {
        // It is there: no other call frees it.
        let _ = self.batch.free(self.sequence);
        self.sequence = self.batch.create();
    }

    /// The batch, and the sequence in it.
    pub(crate) fn parts(&mut self) -> (&mut Batch<'m>, SequenceId) {
        (&mut self.batch, self.sequence)
    }

    /// The most tokens of the sequence.
    pub fn tokens(&self) -> usize {
        self.batch.tokens()
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.batch.length(self.sequence).unwrap_or(0)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.batch.model()
    }
}
