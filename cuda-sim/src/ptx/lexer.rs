//! Splits PTX text into tokens.

use super::PtxError;

/// One token. Words keep their dots, so `ld.global.v4.f32` and `%tid.x` are one token each; a word
/// that starts with a dot ends at the next one, so `.reg.b32` and `.reg .b32` are the same two
/// tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An identifier, register, directive or opcode.
    Word(&'a str),
    /// A literal that starts with a digit: `12`, `0x1F`, `0f3F800000`.
    Number(&'a str),
    /// The inside of a quoted string.
    Text(&'a str),
    /// One character of punctuation.
    Mark(u8),
}

/// Tokens of `text`, each with its line number from 1 and the byte behind it.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32, u32)>, PtxError> {
    let bytes = text.as_bytes();
    if u32::try_from(bytes.len()).is_err() {
        return Err(PtxError::new(1, "the text has 4 GiB or more"));
    }
    let mut tokens = Vec::with_capacity(text.len() / 4);
    let (mut at, mut line) = (0, 1u32);
    let mut push = |token, line, end: usize| tokens.push((token, line, end as u32));
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match rest[0] {
            b'\n' => {
                line += 1;
                1
            }
            b' ' | b'\t' | b'\r' => 1,
            b'/' if rest.starts_with(b"//") => span(rest, |c| c != b'\n'),
            b'/' if rest.starts_with(b"/*") => {
                let Some(end) = text[at..].find("*/") else {
                    return Err(PtxError::new(line, "a comment is not closed"));
                };
                line += rest[..end].iter().filter(|&&c| c == b'\n').count() as u32;
                end + 2
            }
            b'"' => {
                let inside = span(&rest[1..], |c| c != b'"' && c != b'\n');
                if rest.get(inside + 1) != Some(&b'"') {
                    return Err(PtxError::new(line, "a string is not closed"));
                }
                let end = at + inside + 2;
                push(Token::Text(&text[at + 1..end - 1]), line, end);
                inside + 2
            }
            b'0'..=b'9' => {
                let length = span(rest, |c| {
                    c.is_ascii_alphanumeric() || c == b'_' || c == b'.'
                });
                push(Token::Number(&text[at..at + length]), line, at + length);
                length
            }
            c if starts_word(c) => {
                let directive = c == b'.';
                let mut length = 1 + span(&rest[1..], |c| {
                    continues_word(c) && !(directive && c == b'.')
                });
                // `shared::cta`, `L2::128B`: one word; a label has a single colon.
                while rest[length..].starts_with(b"::")
                    && rest.get(length + 2).is_some_and(|&c| continues_word(c))
                {
                    length += 2 + span(&rest[length + 2..], continues_word);
                }
                push(Token::Word(&text[at..at + length]), line, at + length);
                length
            }
            c if c.is_ascii_punctuation() => {
                push(Token::Mark(c), line, at + 1);
                1
            }
            c => {
                return Err(PtxError::new(line, format!("unexpected byte 0x{c:02x}")));
            }
        };
        at += length;
    }
    Ok(tokens)
}

fn span(bytes: &[u8], holds: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&c| !holds(c)).unwrap_or(bytes.len())
}

fn starts_word(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

fn continues_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'.')
}
