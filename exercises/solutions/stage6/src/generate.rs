//! Task `demo`, solved: a text, token after token.

use stage6_pipeline::{Error, Forward, Generate};

use crate::{Own, Sequences};

impl Generate for Own {
    /// The tokens that follow a prompt: each is the likeliest one, and of several with the same
    /// logit the one with the smallest id. Ends after `most` tokens, or before a token of `end`.
    fn generate(
        &self,
        batch: &mut Sequences<'_>,
        prompt: &[u32],
        most: usize,
        end: &[u32],
    ) -> Result<Vec<u32>, Error> {
        let mut tokens = Vec::new();
        let mut logits = self.prefill(batch, &[prompt])?;
        while tokens.len() < most {
            let next = likeliest(&logits);
            if end.contains(&next) {
                break;
            }
            tokens.push(next);
            if tokens.len() < most {
                logits = self.decode(batch, &[next])?;
            }
        }
        Ok(tokens)
    }
}

/// The id of the largest logit, the smallest of several.
fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = id;
        }
    }
    best as u32
}
