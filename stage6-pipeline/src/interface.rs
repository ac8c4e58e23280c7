//! Interface that an exercise of this stage implements.

use std::error;

use gpu::arguments::ArgumentError;
use serde::{Deserialize, Serialize};
use stage5_decode::Dtype;

use crate::{Architecture, Config, Dummy, Error, Memory, ModelFiles, Weights};

/// An implementation of a decoder's forward pass, in its two phases. The suite of `conformance`
/// judges anything that has it: this crate's `Stage6`, and an exercise's.
pub trait Forward {
    /// Why arguments were refused, or a launch failed.
    type Error: error::Error + 'static;

    /// A decoder on a device.
    type Model;

    /// Sequences of one length that are generated together, and what the decoder keeps of them.
    type Batch<'m>
    where
        Self: 'm;

    /// Brings a decoder to the device.
    ///
    /// # Errors
    ///
    /// Those of [`Source::load`], and the device's.
    fn load(&self, source: &Source) -> Result<Self::Model, Self::Error>;

    /// Room for sequences. They have no tokens yet.
    ///
    /// # Errors
    ///
    /// The device's, if it has not enough memory.
    fn batch<'m>(&self, model: &'m Self::Model, room: Room)
    -> Result<Self::Batch<'m>, Self::Error>;

    /// Starts the sequences over with these tokens, `[B][n]`, and returns the logits of the token
    /// that follows the last one of each, `[B, V]`.
    ///
    /// # Errors
    ///
    /// Those of [`Room::check`] with no tokens in the cache; the device's.
    fn prefill(
        &self,
        batch: &mut Self::Batch<'_>,
        tokens: &[&[u32]],
    ) -> Result<Vec<f32>, Self::Error>;

    /// Adds a token to each sequence, `[B]`, and returns the logits of the token
    /// that follows it, `[B, V]`.
    ///
    /// # Errors
    ///
    /// Those of [`Room::check`]; the device's.
    fn decode(&self, batch: &mut Self::Batch<'_>, tokens: &[u32]) -> Result<Vec<f32>, Self::Error>;

    /// The argument that an error names, such as `tokens`.
    fn argument_of(error: &Self::Error) -> Option<&str>;
}

/// An implementation of greedy generation.
pub trait Generate: Forward {
    /// The tokens that follow a prompt: each is the likeliest one, and of several with the same
    /// logit the one with the smallest id. Ends after `most` tokens, of which there may be 0, or
    /// before a token of `end`. The batch has room for one sequence: its prompt and all new tokens
    /// but the last, whose logits nobody needs.
    ///
    /// # Errors
    ///
    /// Those of [`Forward::prefill`] and [`Forward::decode`].
    fn generate(
        &self,
        batch: &mut Self::Batch<'_>,
        prompt: &[u32],
        most: usize,
        end: &[u32],
    ) -> Result<Vec<u32>, Self::Error>;
}

/// Where a decoder comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The files of a checkpoint.
    Files(ModelFiles),
    /// The model that the course measures, with parameters drawn from a seed
    /// and matrices of this type.
    Random {
        /// Its sizes.
        dummy: Dummy,
        /// The type of an element of a matrix.
        dtype: Dtype,
        /// The seed.
        seed: u64,
    },
}

impl Source {
    /// The description of the decoder, and its parameters in `memory`.
    ///
    /// # Errors
    ///
    /// Those of [`Config::load`] and [`Weights::load`], or of [`Dummy::architecture`]
    /// and [`Weights::random`].
    pub fn load<M: Memory>(&self, memory: &M) -> Result<(Architecture, Weights<M>), Error> {
        match self {
            Self::Files(files) => {
                let config = Config::load(files)?;
                let weights = Weights::load(files, &config, memory)?;
                Ok((config.architecture, weights))
            }
            Self::Random { dummy, dtype, seed } => {
                let architecture = dummy.architecture()?;
                let weights = Weights::random(&architecture, *dtype, *seed, memory)?;
                Ok((architecture, weights))
            }
        }
    }
}

/// The room of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Sequences, `B`: neither fewer nor more.
    pub sequences: usize,
    /// The most tokens of each.
    pub tokens: usize,
}

impl Room {
    /// Checks the next tokens of each sequence, `[B][n]`, behind the `cached` ones that each
    /// has: `B` sequences, as many tokens of each and at least one, no more than there is room
    /// for, and ids below `vocab`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] names `tokens`. `operation` is the caller's name, for the message.
    pub fn check(
        &self,
        operation: &'static str,
        cached: usize,
        tokens: &[&[u32]],
        vocab: usize,
    ) -> Result<(), Error> {
        let refuse = |expected: String, actual: String| {
            Err(Error::Argument(ArgumentError {
                operation,
                argument: "tokens",
                expected,
                actual,
            }))
        };
        if tokens.len() != self.sequences {
            let expected = format!("those of {} sequences", self.sequences);
            return refuse(expected, format!("{} sequences", tokens.len()));
        }
        let n = tokens.first().map_or(0, |first| first.len());
        let room = self.tokens.saturating_sub(cached);
        if n == 0 || n > room {
            let expected = match room {
                0 => "none of each sequence, because the room is full".to_owned(),
                room => format!("1 to {room} of each sequence"),
            };
            return refuse(expected, n.to_string());
        }
        for of_sequence in tokens {
            if of_sequence.len() != n {
                let expected = format!("{n} of each sequence");
                return refuse(expected, of_sequence.len().to_string());
            }
            if let Some(token) = of_sequence.iter().find(|&&token| token as usize >= vocab) {
                return refuse(format!("ids below {vocab}"), token.to_string());
            }
        }
        Ok(())
    }
}
