//! The bytes that a token stands for, in the two ways in which tokenizers write them.

use serde_json::{Value, json};

/// Spelling of the tokens of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pieces {
    /// Each byte as a printable character: GPT-2, Llama 3, Qwen2.
    ByteLevel,
    /// Characters, with U+2581 for a space, and `<0x0A>` for a byte: Llama 2, Mistral. The
    /// tokenizer puts a space before the text if `leading_space`.
    SentencePiece { leading_space: bool },
}

impl Pieces {
    /// The spelling that the decoder of a `tokenizer.json` reads; none for a
    /// decoder that is not known.
    pub(super) fn from_decoder(decoder: &Value) -> Option<Self> {
        let kind = |decoder: &Value| decoder["type"].as_str().map(str::to_owned);
        match kind(decoder)?.as_str() {
            "ByteLevel" => Some(Self::ByteLevel),
            "Metaspace" if decoder["replacement"] == "\u{2581}" => Some(Self::SentencePiece {
                leading_space: decoder["prepend_scheme"] != "never",
            }),
            "Sequence" => {
                let mut steps = decoder["decoders"].as_array()?.clone();
                let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
                let leading_space = steps.last() == Some(&strip);
                steps.truncate(steps.len() - usize::from(leading_space));
                let space =
                    json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "});
                let known = [
                    space,
                    json!({"type": "ByteFallback"}),
                    json!({"type": "Fuse"}),
                ];
                (steps == known).then_some(Self::SentencePiece { leading_space })
            }
            _ => None,
        }
    }

    /// The bytes of a token; none if it is not written in this way.
    pub(super) fn bytes(self, token: &str) -> Option<Vec<u8>> {
        match self {
            Self::ByteLevel => token.chars().map(byte_of).collect(),
            Self::SentencePiece { .. } => Some(match byte_token(token) {
                Some(byte) => vec![byte],
                None => token.replace('\u{2581}', " ").into_bytes(),
            }),
        }
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let plain = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The byte that a character of a byte-level token stands for.
///
/// GPT-2 writes each byte as a printable character: those of `!..~`, `¡..¬` and `®..ÿ` as
/// themselves, and the 68 others, in order, as the characters from U+0100 on.
fn byte_of(c: char) -> Option<u8> {
    let printable = |b: &u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u8::try_from(c) {
        Ok(byte) => printable(&byte).then_some(byte),
        Err(_) => (0..=255_u8)
            .filter(|b| !printable(b))
            .nth((c as usize).checked_sub(0x100)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_a_bijection() {
        let mut seen: Vec<u8> = (0..0x180)
            .filter_map(char::from_u32)
            .filter_map(byte_of)
            .collect();
        assert_eq!(seen.len(), 256);
        seen.sort_unstable();
        assert_eq!(seen, (0..=255).collect::<Vec<u8>>());
        // Known pairs of GPT-2's vocabulary: space, newline, NUL, soft hyphen.
        assert_eq!(
            [byte_of('Ġ'), byte_of('Ċ'), byte_of('Ā'), byte_of('Ń')],
            [Some(b' '), Some(b'\n'), Some(0), Some(0xAD)]
        );
        assert_eq!(byte_of('\u{AD}'), None);
        assert_eq!(byte_of('語'), None);
    }

    #[rstest::rstest]
    #[case("<0x0A>", b"\n")]
    #[case("<0xff>", b"\xFF")]
    #[case("\u{2581}the\u{2581}", b" the ")]
    #[case("<0x+A>", b"<0x+A>")]
    #[case("<0x0AB>", b"<0x0AB>")]
    fn pieces_of_sentencepiece(#[case] token: &str, #[case] bytes: &[u8]) {
        let pieces = Pieces::SentencePiece {
            leading_space: true,
        };
        assert_eq!(pieces.bytes(token).unwrap(), bytes);
    }
}
