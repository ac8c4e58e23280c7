//! The tokenizer against Hugging Face's tokens, and streaming against decoding at once.

mod common;

use common::{expected, tiny};
use stage6_pipeline::{Config, Error, Text};

fn text() -> Text {
    let files = tiny();
    let config = Config::load(&files).unwrap();
    Text::load(&files, &config.architecture).unwrap()
}

#[test]
fn tokens_are_those_of_hugging_face() {
    let expected = expected();
    assert_eq!(text().encode(&expected.prompt).unwrap(), expected.tokens);
}

#[test]
fn a_stream_gives_the_text_and_no_half_character() {
    let (text, expected) = (text(), expected());
    let mut decoder = text.decoder();
    let pieces: Vec<String> = expected
        .tokens
        .iter()
        .map(|&token| decoder.push(token))
        .collect();
    assert_eq!(pieces.concat(), expected.prompt);
    assert_eq!(decoder.finish(), "");
    // The prompt has characters that span tokens: their first token gives nothing.
    assert!(pieces.iter().any(String::is_empty), "{pieces:?}");
    assert!(!pieces.concat().contains('\u{FFFD}'));
}

#[test]
fn bytes_that_are_no_text_become_replacement_characters() {
    let text = text();
    // An owl is F0 9F A6 89; the tokens of its bytes, of which the last is left out or comes alone.
    let bytes: Vec<u32> = expected().tokens;
    let at = bytes
        .windows(1)
        .position(|t| text.decoder().push(t[0]).is_empty())
        .unwrap();
    let open = bytes[at];

    let mut decoder = text.decoder();
    assert_eq!(decoder.push(open), "");
    assert_eq!(decoder.finish(), "\u{FFFD}");

    let mut decoder = text.decoder();
    assert_eq!(decoder.push(open), "");
    let letter = text.encode("T").unwrap()[0];
    assert_eq!(decoder.push(letter), "\u{FFFD}T");
}

#[test]
fn special_and_unknown_tokens_print_nothing() {
    let text = text();
    assert_eq!(text.end(), [0]);
    let mut decoder = text.decoder();
    assert_eq!(decoder.push(0) + &decoder.push(99_999), "");
    assert_eq!(decoder.finish(), "");
}

#[test]
fn an_empty_text_is_refused() {
    assert!(matches!(text().encode(""), Err(Error::EmptyPrompt)));
}
