//! Text to tokens and back: byte-level BPE, and decoding a stream without ever cutting a character.

use tokenizers::{DecoderWrapper, Tokenizer};

use crate::{Architecture, Error, ModelFiles};

/// The tokenizer of a model.
#[derive(Debug)]
pub struct Text {
    tokenizer: Tokenizer,
    /// The bytes of each token; none for a special token, which is never printed.
    bytes: Vec<Vec<u8>>,
    end: Vec<u32>,
}

impl Text {
    /// Reads `tokenizer.json` of `files` and checks it against the model.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the file is malformed, is not byte-level BPE, or has more tokens than the
    /// model's vocabulary.
    pub fn load(files: &ModelFiles, architecture: &Architecture) -> Result<Self, Error> {
        let file = files.name_of("tokenizer.json");
        let wrong = |reason: String| Error::Tokenizer {
            file: file.clone(),
            reason,
        };

        let tokenizer = Tokenizer::from_bytes(files.tokenizer.as_bytes())
            .map_err(|source| wrong(format!("not a tokenizer: {source}")))?;
        if !matches!(tokenizer.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return Err(wrong("not a byte-level tokenizer, as GPT-2 has".to_owned()));
        }

        let special = tokenizer.get_added_tokens_decoder();
        let mut bytes = vec![Vec::new(); architecture.vocab];
        for (token, id) in tokenizer.get_vocab(true) {
            let Some(slot) = bytes.get_mut(id as usize) else {
                let size = architecture.vocab;
                return Err(wrong(format!(
                    "token {token:?} has id {id}, but the model has {size} tokens"
                )));
            };
            *slot = match special.get(&id) {
                Some(added) if added.special => Vec::new(),
                Some(added) => added.content.clone().into_bytes(),
                None => token
                    .chars()
                    .map(byte_of)
                    .collect::<Option<_>>()
                    .ok_or_else(|| {
                        wrong(format!("token {token:?} is not made of byte characters"))
                    })?,
            };
        }

        let mut end = architecture.end.clone();
        if end.is_empty() {
            end.extend(tokenizer.token_to_id("<|endoftext|>"));
        }
        Ok(Self {
            tokenizer,
            bytes,
            end,
        })
    }

    /// The tokens of a text.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyPrompt`] if there is none, [`Error::Tokenizer`] if the tokenizer itself fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self
            .tokenizer
            .encode(text, false)
            .map_err(|source| Error::Tokenizer {
                file: "tokenizer.json".to_owned(),
                reason: format!("cannot encode the text: {source}"),
            })?;
        match encoding.get_ids() {
            [] => Err(Error::EmptyPrompt),
            ids => Ok(ids.to_vec()),
        }
    }

    /// The tokens that end a text.
    pub fn end(&self) -> &[u32] {
        &self.end
    }

    /// A decoder for one stream of tokens.
    pub fn decoder(&self) -> StreamDecoder<'_> {
        StreamDecoder {
            text: self,
            pending: Vec::new(),
        }
    }
}

/// Turns tokens into text as they come. A token may end in the middle of a character: its first bytes are
/// kept until the rest has come.
#[derive(Debug)]
pub struct StreamDecoder<'t> {
    text: &'t Text,
    /// The start of a character, at most three bytes between calls.
    pending: Vec<u8>,
}

impl StreamDecoder<'_> {
    /// The text that `token` completes; may be empty. Bytes that can never become a character come out as
    /// U+FFFD, one for each maximal part, as [`String::from_utf8_lossy`] does. A special token, or an id that
    /// the tokenizer does not have, gives nothing.
    pub fn push(&mut self, token: u32) -> String {
        if let Some(bytes) = self.text.bytes.get(token as usize) {
            self.pending.extend_from_slice(bytes);
        }
        let complete = complete_prefix(&self.pending);
        let rest = self.pending.split_off(complete);
        let ready = std::mem::replace(&mut self.pending, rest);
        String::from_utf8_lossy(&ready).into_owned()
    }

    /// What is left when the stream ends: nothing, or U+FFFD for a character that was never completed.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// How many bytes come before a trailing, so far valid, incomplete character.
fn complete_prefix(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let open = last.map_or(0, |chunk| match chunk.invalid() {
        // Incomplete rather than wrong: the decoder ran out of bytes, so some continuation would be valid.
        tail if std::str::from_utf8(tail).is_err_and(|e| e.error_len().is_none()) => tail.len(),
        _ => 0,
    });
    bytes.len() - open
}

/// The byte that a character of a byte-level token stands for.
///
/// GPT-2 writes each byte as a printable character: those of `!..~`, `¡..¬` and `®..ÿ` as themselves, and the
/// 68 others, in order, as the characters from U+0100 on.
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
    #[case::ascii(b"abc", 3)]
    #[case::empty(b"", 0)]
    #[case::two_of_three(b"a\xE2\x80", 1)]
    #[case::whole(b"a\xE2\x80\x9C", 4)]
    #[case::three_of_four(b"\xF0\x9F\xA6", 0)]
    #[case::stray_continuation(b"a\x80", 2)]
    #[case::wrong_second_byte(b"\xE2a", 2)]
    #[case::overlong(b"\xC0", 1)]
    #[case::surrogate(b"\xED\xA0", 2)]
    #[case::wrong_then_open(b"\xFF\xE2\x80", 1)]
    fn only_an_open_character_waits(#[case] bytes: &[u8], #[case] complete: usize) {
        assert_eq!(complete_prefix(bytes), complete);
    }
}
