//! A grammar that writes short children's stories, and a tiny GPT-2 that was trained on them.
//!
//! One data file, `grammar.txt`, is read by one engine that goes both ways: [`Grammar::story`]
//! expands it into stories, and [`Grammar::parse_sentence`] parses a sentence, for example one that
//! the model wrote, back into the values of its slots. A slot (hero, object, helper, …) holds one
//! value for a whole story.
//!
//! - `reader`: the text of a grammar into rules and slots
//! - `writer`, [`Dice`]: rules into stories; the dice are our own, so that a corpus
//!   can be repeated for ever
//! - `parser`: a sentence into slot values
//! - `count`: how many stories there are
//! - [`check`]: is this text a whole story that keeps its hero and its object?
//! - [`corpus`]: the numbered stories that the model was trained on
//! - `model`: the files of the trained model, embedded
//!
//! The binary `storyteller` writes a corpus and checks stories in a file.

pub mod check;
pub mod corpus;
mod count;
mod dice;
mod grammar;
mod model;
mod parser;
mod reader;
mod writer;

pub use corpus::training_corpus;
pub use dice::Dice;
pub use grammar::Grammar;
pub use model::{CONFIG_JSON, MODEL_SAFETENSORS, TOKENIZER_JSON};
pub use parser::ParsedSentence;
pub use reader::GrammarError;
pub use writer::Story;
