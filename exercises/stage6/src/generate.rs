//! Task `demo`: a text, token after token.

#![allow(unused)] // remove this line when nothing is left to do

use stage6_pipeline::{Error, Forward, Generate};

use crate::{Own, Sequences};

impl Generate for Own {
    /// The tokens that follow a prompt: each is the likeliest one, and of several with the same
    /// logit the one with the smallest id. Ends after `most` tokens, of which there may be 0, or
    /// before a token of `end`.
    fn generate(
        &self,
        batch: &mut Sequences<'_>,
        prompt: &[u32],
        most: usize,
        end: &[u32],
    ) -> Result<Vec<u32>, Error> {
        // `self.prefill`, then `self.decode` for each token but the last.
        todo!("TODO, task demo: token after token")
    }
}
