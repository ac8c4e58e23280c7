//! The PTX front end: text in, a syntax tree out.
//!
//! It knows how PTX is written, not what it means: an instruction is an opcode with its
//! dot-separated modifiers, and operands. Meaning is given in [`crate::program`]. Reference: PTX
//! ISA, chapters 4 and 5.
//!
//! - `lexer`, `parser`, `syntax`: from text to tree
//! - `link`: one text of several

mod lexer;
mod link;
mod parser;
mod syntax;

pub(crate) use link::link;
pub(crate) use parser::parse;
pub(crate) use syntax::*;

/// PTX text that does not follow the grammar. The driver reports it as `CUDA_ERROR_INVALID_PTX`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {line}: {message}")]
pub struct PtxError {
    /// Line in the PTX text, from 1.
    pub line: u32,
    /// Text: what was expected, and what was found.
    pub message: String,
}

impl PtxError {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> PtxError {
        let message = message.into();
        PtxError { line, message }
    }
}
