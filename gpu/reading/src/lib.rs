//! Reads files that a stranger may have written or named, and looks at their text.
//!
//! - `files`: regular files of limited size, inside the folder that is meant: [`within`],
//!   [`bytes()`], [`text`], [`text_within`]
//! - `zero`: [`zero_byte`], for texts that a driver gets

mod files;
mod zero;

pub use files::{MAX_TEXT, bytes, text, text_within, within};
pub use zero::zero_byte;
