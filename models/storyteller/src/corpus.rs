//! Numbered stories: the text that the model was trained on, and text that it never saw.

use crate::{Dice, Grammar, Story};

/// Seed of the stories that the model was trained on.
pub const TRAINING_SEED: u64 = 1;

/// Number of the stories that the model was trained on, each seen once.
pub const TRAINING_STORIES: u64 = 27_200;

/// Seed of the 1,000 stories on which the loss was validated.
pub const VALIDATION_SEED: u64 = 2;

/// The stories that the model was trained on, in the corpus's order.
pub fn training_corpus() -> impl Iterator<Item = Story> {
    stories(TRAINING_SEED).take(TRAINING_STORIES as usize)
}

/// Endless stories; number n depends on `seed` and n alone.
pub fn stories(seed: u64) -> impl Iterator<Item = Story> {
    (0..).map(move |index| Grammar::storyteller().story(&mut Dice::for_story(seed, index)))
}
