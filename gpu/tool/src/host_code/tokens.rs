//! Tokens of a C++ text, as far as telling declarations apart needs them.

use std::ops::Range;

/// A token and its bytes in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or keyword.
    Word,
    /// A string, character or number.
    Literal,
    /// One character of an operator, or a bracket.
    Sign(u8),
    /// `#if` and its relatives: a whole logical line.
    If,
    /// `#else`, `#elif` and their relatives.
    Else,
    /// `#endif`.
    Endif,
    /// Another directive, such as `#define`.
    Directive,
}

impl Kind {
    pub(super) fn is_directive(self) -> bool {
        matches!(self, Kind::If | Kind::Else | Kind::Endif | Kind::Directive)
    }
}

/// The tokens of a text. Comments are none.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line_begins) = (0, true);
    while let Some(&byte) = bytes.get(at) {
        let begin = at;
        let kind = match byte {
            b'\n' => {
                at += 1;
                line_begins = true;
                continue;
            }
            b'\\' | b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {
                // A backslash joins lines, so the next one begins none.
                if byte == b'\\' && bytes.get(at + 1) == Some(&b'\n') {
                    at += 1;
                }
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = line_end(bytes, at);
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = comment_end(bytes, at);
                continue;
            }
            b'#' if line_begins => {
                at = directive_end(bytes, at);
                directive(&text[begin..at])
            }
            b'"' | b'\'' => {
                at = quoted_end(bytes, at);
                Kind::Literal
            }
            _ if is_word(byte) && !byte.is_ascii_digit() => {
                at += bytes[at..]
                    .iter()
                    .take_while(|byte| is_word(**byte))
                    .count();
                let prefix = &text[begin..at];
                match bytes.get(at) {
                    Some(b'"') if ["R", "LR", "uR", "UR", "u8R"].contains(&prefix) => {
                        at = raw_end(text, at);
                        Kind::Literal
                    }
                    _ => Kind::Word,
                }
            }
            _ if byte.is_ascii_digit() => {
                // 1.5e-3f, 0x1p+2 and 1'000: signs belong to numbers behind their exponents.
                at += 1;
                while let Some(&next) = bytes.get(at) {
                    let separates = next == b'\'' && bytes.get(at + 1).is_some_and(|b| is_word(*b));
                    let exponent = matches!(next, b'+' | b'-')
                        && matches!(bytes[at - 1], b'e' | b'E' | b'p' | b'P');
                    if !(is_word(next) || next == b'.' || separates || exponent) {
                        break;
                    }
                    at += 1;
                }
                Kind::Literal
            }
            sign => {
                at += 1;
                Kind::Sign(sign)
            }
        };
        line_begins = false;
        found.push(Token {
            kind,
            range: begin..at,
        });
    }
    found
}

/// The words of a text: identifiers and keywords outside of comments and strings.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let tokens = tokens(text).into_iter();
    tokens
        .filter(|token| token.kind == Kind::Word)
        .map(|token| &text[token.range])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn directive(line: &str) -> Kind {
    let name = line[1..].trim_start();
    let end = name.find(|c: char| !c.is_ascii_alphabetic());
    match &name[..end.unwrap_or(name.len())] {
        "if" | "ifdef" | "ifndef" => Kind::If,
        "else" | "elif" | "elifdef" | "elifndef" => Kind::Else,
        "endif" => Kind::Endif,
        _ => Kind::Directive,
    }
}

/// The end of a line, whose last backslashes join it to the next.
fn line_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\n' && !joined(bytes, at) {
            break;
        }
        at += 1;
    }
    at
}

/// True if the line break at `at` is taken away by a backslash before it.
fn joined(bytes: &[u8], at: usize) -> bool {
    let before = bytes[..at].strip_suffix(b"\r").unwrap_or(&bytes[..at]);
    before.last() == Some(&b'\\')
}

fn comment_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 2;
    while end < bytes.len() && !bytes[end..].starts_with(b"*/") {
        end += 1;
    }
    (end + 2).min(bytes.len())
}

/// The end of a directive: its line's, without a comment of one line behind it, and beyond the
/// lines of a `/* … */`.
fn directive_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' if !joined(bytes, at) => break,
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = comment_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'/') => return line_end(bytes, at),
            b'"' => at = quoted_end(bytes, at),
            _ => at += 1,
        }
    }
    at
}

/// The end of a string or character: its closing quote, or the end of its line.
fn quoted_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            _ if byte == bytes[begin] => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The most characters between the quote of a raw string and its parenthesis.
const LONGEST_DELIMITER: usize = 16;

/// The end of a raw string whose quote is at `begin`.
fn raw_end(text: &str, begin: usize) -> usize {
    let rest = &text[begin + 1..];
    let mut delimiter = rest.bytes().take(LONGEST_DELIMITER + 1);
    let Some(open) = delimiter.position(|byte| byte == b'(') else {
        return quoted_end(text.as_bytes(), begin);
    };
    let (delimiter, body) = (&rest[..open], &rest[open + 1..]);
    let closing = format!("){delimiter}\"");
    let end = body.find(&closing).map(|end| end + closing.len());
    end.map_or(text.len(), |end| text.len() - body.len() + end)
}
