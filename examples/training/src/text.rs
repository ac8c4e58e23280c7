//! The text as tokens, and random numbers that `reference.py` draws alike.

use std::collections::BTreeSet;

/// Sequences of a step.
pub const BATCH: usize = 2;
/// Tokens of a sequence.
pub const CONTEXT: usize = 64;

/// The stories as tokens: a character's token is its place in the alphabet of the text.
pub struct Text {
    tokens: Vec<i32>,
    /// Characters of the alphabet.
    pub vocabulary: usize,
}

impl Text {
    pub fn new() -> Self {
        let text = include_str!("../stories.txt");
        let alphabet = BTreeSet::from_iter(text.chars());
        let token = |character| alphabet.range(..character).count() as i32;
        let (tokens, vocabulary) = (text.chars().map(token).collect(), alphabet.len());
        Self { tokens, vocabulary }
    }

    /// The tokens of a step, and as targets the tokens after them, both `[BATCH, CONTEXT]`.
    pub fn batch(&self, step: usize) -> (Vec<i32>, Vec<i32>) {
        let starts = (step * BATCH..(step + 1) * BATCH).map(|sequence| {
            random(u32::MAX - sequence as u32) as usize % (self.tokens.len() - CONTEXT)
        });
        let places = starts.flat_map(|start| start..start + CONTEXT);
        places
            .map(|place| (self.tokens[place], self.tokens[place + 1]))
            .unzip()
    }
}

/// 32 random bits for each index: the last steps of MurmurHash3.
pub fn random(index: u32) -> u32 {
    let x = index.wrapping_mul(0x9E37_79B9);
    let x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    let x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}
