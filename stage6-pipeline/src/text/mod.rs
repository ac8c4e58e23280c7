//! Text to tokens and back: byte-level BPE and SentencePiece's BPE, chat templates, and decoding a
//! stream without ever cutting a character.

mod chat;
mod pieces;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::IgnoredAny;
use tokenizers::{ModelWrapper, Tokenizer};

use crate::{Architecture, Error, ModelFiles};
use chat::ChatTemplate;
pub use chat::Message;
use pieces::Pieces;

/// The tokenizer of a model.
#[derive(Debug)]
pub struct Text {
    file: String,
    tokenizer: Tokenizer,
    pieces: Pieces,
    /// The bytes of each token; none for a special token, which is never printed.
    bytes: HashMap<u32, Box<[u8]>>,
    vocab: usize,
    end: Vec<u32>,
    chat: Option<ChatTemplate>,
}

impl Text {
    /// Reads `tokenizer.json` of `files` and checks it against the model, and the chat
    /// template if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the file is malformed, is neither byte-level BPE (GPT-2, Llama 3,
    /// Qwen2) nor SentencePiece's BPE (Llama 2, Mistral), has tokens outside the model's
    /// vocabulary, or would cut, pad or vary a text; [`Error::ChatTemplate`].
    pub fn load(files: &ModelFiles, architecture: &Architecture) -> Result<Self, Error> {
        let file = files.name_of("tokenizer.json");
        let wrong = |reason: String| Error::Tokenizer {
            file: file.clone(),
            reason,
        };

        // The library panics on some files that are not JSON.
        let not_a_tokenizer =
            |source: &dyn std::fmt::Display| wrong(format!("not a tokenizer: {source}"));
        serde_json::from_str::<IgnoredAny>(&files.tokenizer)
            .map_err(|source| not_a_tokenizer(&source))?;
        let parsed = guarded(&file, || Tokenizer::from_bytes(files.tokenizer.as_bytes()))?;
        let tokenizer = parsed.map_err(|source| not_a_tokenizer(&source))?;
        if tokenizer.get_truncation().is_some() || tokenizer.get_padding().is_some() {
            return Err(wrong(
                "truncation or padding is set, and would change a prompt".to_owned(),
            ));
        }
        match tokenizer.get_model() {
            ModelWrapper::BPE(bpe) if bpe.dropout.is_none_or(|dropout| dropout == 0.0) => {}
            ModelWrapper::BPE(_) => {
                return Err(wrong(
                    "dropout is set, and would make tokens a matter of chance".to_owned(),
                ));
            }
            _ => return Err(wrong("the model of the tokenizer is not BPE".to_owned())),
        }
        let decoder = serde_json::to_value(tokenizer.get_decoder()).ok();
        let Some(pieces) = decoder.and_then(|decoder| Pieces::from_decoder(&decoder)) else {
            let known =
                "the decoder is neither byte-level, as GPT-2's, nor SentencePiece's, as Mistral's";
            return Err(wrong(known.to_owned()));
        };

        let vocab = architecture.vocab;
        let special = tokenizer.get_added_tokens_decoder();
        let mut bytes = HashMap::new();
        for (token, id) in tokenizer.get_vocab(true) {
            if id as usize >= vocab {
                return Err(wrong(format!(
                    "token {token:?} has id {id}, but the model has {vocab} tokens"
                )));
            }
            let piece = match special.get(&id) {
                Some(added) if added.special => Vec::new(),
                Some(added) => added.content.clone().into_bytes(),
                None => pieces.bytes(&token).ok_or_else(|| {
                    wrong(format!("token {token:?} is not made of byte characters"))
                })?,
            };
            bytes.insert(id, piece.into_boxed_slice());
        }

        let mut end = architecture.end.clone();
        if end.is_empty() {
            end.extend(tokenizer.token_to_id("<|endoftext|>"));
        }
        Ok(Self {
            chat: ChatTemplate::load(files)?,
            file,
            tokenizer,
            pieces,
            bytes,
            vocab,
            end,
        })
    }

    /// The tokens of a text, behind those that the tokenizer puts before every text, such as `<s>`.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyPrompt`] if the text is empty, [`Error::Tokenizer`] if
    /// the tokenizer itself fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.tokens(text, true)
    }

    /// The tokens of a conversation, written as the model's chat template says, up to
    /// where the assistant speaks.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] if there is no template or it refuses the messages, and
    /// those of [`Text::encode`].
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>, Error> {
        // The template has written what stands before the text.
        self.tokens(&self.render_chat(messages)?, false)
    }

    /// The text of a conversation.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] if there is no template or it refuses the messages.
    pub fn render_chat(&self, messages: &[Message]) -> Result<String, Error> {
        match &self.chat {
            Some(chat) => chat.render(messages),
            None => Err(Error::ChatTemplate {
                file: self.file.clone(),
                reason: "the model has no chat template beside it".to_owned(),
            }),
        }
    }

    /// The tokens that end a text.
    pub fn end(&self) -> &[u32] {
        &self.end
    }

    /// The text of tokens from the beginning of a text on: without the space that
    /// SentencePiece puts before it.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut decoder = self.decoder();
        let mut text: String = tokens.iter().map(|&token| decoder.push(token)).collect();
        text += &decoder.finish();
        let leading_space = self.pieces
            == Pieces::SentencePiece {
                leading_space: true,
            };
        match text.strip_prefix(' ') {
            Some(rest) if leading_space => rest.to_owned(),
            _ => text,
        }
    }

    /// A decoder for one stream of tokens that continue a text.
    pub fn decoder(&self) -> StreamDecoder<'_> {
        StreamDecoder {
            text: self,
            pending: Vec::new(),
        }
    }

    fn tokens(&self, text: &str, special: bool) -> Result<Vec<u32>, Error> {
        if text.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let wrong = |reason: String| Error::Tokenizer {
            file: self.file.clone(),
            reason,
        };
        let encoding = guarded(&self.file, || self.tokenizer.encode(text, special))?
            .map_err(|source| wrong(format!("cannot encode the text: {source}")))?;
        let ids = encoding.get_ids();
        // A template of the tokenizer adds tokens that no checked vocabulary has.
        if let Some(id) = ids.iter().find(|&&id| id as usize >= self.vocab) {
            return Err(wrong(format!(
                "a text has token {id}, but the model has {} tokens",
                self.vocab
            )));
        }
        match ids {
            [] => Err(Error::EmptyPrompt),
            ids => Ok(ids.to_vec()),
        }
    }
}

/// The tokenizer library panics on some malformed files.
fn guarded<T>(file: &str, work: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Error::Tokenizer {
        file: file.to_owned(),
        reason: "the tokenizer library panicked over it".to_owned(),
    })
}

/// Turns tokens into text as they come. A token may end in the middle of a character: its first
/// bytes are kept until the rest has come.
#[derive(Debug)]
pub struct StreamDecoder<'t> {
    text: &'t Text,
    /// The start of a character, at most three bytes between calls.
    pending: Vec<u8>,
}

impl StreamDecoder<'_> {
    /// The text that `token` completes; may be empty. Bytes that can never become a character come
    /// out as U+FFFD, one for each maximal part, as [`String::from_utf8_lossy`] does. A special
    /// token, or an id that the tokenizer does not have, gives nothing.
    pub fn push(&mut self, token: u32) -> String {
        if let Some(bytes) = self.text.bytes.get(&token) {
            self.pending.extend_from_slice(bytes);
        }
        let complete = complete_prefix(&self.pending);
        let rest = self.pending.split_off(complete);
        let ready = std::mem::replace(&mut self.pending, rest);
        String::from_utf8_lossy(&ready).into_owned()
    }

    /// The rest of the text when the stream ends: nothing, or U+FFFD for a character
    /// that was never completed.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Number of bytes before a trailing, so far valid, incomplete character.
fn complete_prefix(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let open = last.map_or(0, |chunk| match chunk.invalid() {
        // Incomplete rather than wrong: the decoder ran out of bytes, so some
        // continuation would be valid.
        tail if std::str::from_utf8(tail).is_err_and(|e| e.error_len().is_none()) => tail.len(),
        _ => 0,
    });
    bytes.len() - open
}

#[cfg(test)]
mod tests {
    use super::*;

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
