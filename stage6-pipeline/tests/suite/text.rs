//! The tokenizer against Hugging Face's tokens, and streaming against decoding at once.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{FIXTURES, expected, fixture, tiny};
use rstest::rstest;
use serde::Deserialize;
use stage6_pipeline::{Architecture, Config, Error, Message, ModelFiles, Text};

fn text() -> Text {
    let files = tiny();
    let config = Config::load(&files).unwrap();
    Text::load(&files, &config.architecture).unwrap()
}

fn load(files: &ModelFiles) -> Result<Text, Error> {
    Text::load(files, &Config::load(files).unwrap().architecture)
}

/// GPT-2's, Llama 3's, Mistral's and Qwen2's kinds of tokenizers.
#[test]
fn tokens_are_those_of_hugging_face() {
    for fixture in FIXTURES.map(fixture) {
        let text = load(&fixture.files).unwrap();
        assert_eq!(
            text.encode(&fixture.prompt).unwrap(),
            fixture.tokens,
            "{}",
            fixture.name
        );
        assert_eq!(
            text.decode(&fixture.tokens),
            fixture.prompt,
            "{}",
            fixture.name
        );
    }
}

/// Of a continuation, the first token keeps its space.
#[test]
fn a_stream_of_sentencepiece_keeps_its_spaces() {
    let fixture = fixture("mistral-bf16");
    let text = load(&fixture.files).unwrap();
    let mut decoder = text.decoder();
    let pieces: Vec<String> = fixture
        .tokens
        .iter()
        .map(|&token| decoder.push(token))
        .collect();
    assert_eq!(pieces.concat(), format!(" {}", fixture.prompt));
    assert_eq!(decoder.finish(), "");
    assert!(
        pieces[1..].iter().any(String::is_empty),
        "no character spans tokens: {pieces:?}"
    );
}

#[derive(Deserialize)]
struct Encoded {
    text: String,
    tokens: Vec<u32>,
}

/// The part of GPT-2's vocabulary that these texts need, and the ids that
/// another implementation gives.
#[test]
fn tokens_are_those_of_gpt2() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpt2-text");
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut files = tiny();
    files.tokenizer = read("tokenizer.json").into();
    let architecture = Architecture {
        vocab: 50257,
        end: vec![50256],
        ..Config::load(&files).unwrap().architecture
    };
    let text = Text::load(&files, &architecture).unwrap();
    let cases: Vec<Encoded> = serde_json::from_str(&read("expected.json")).unwrap();
    assert_eq!(cases.len(), 12);
    for Encoded {
        text: plain,
        tokens,
    } in cases
    {
        assert_eq!(text.encode(&plain).unwrap(), tokens, "{plain:?}");
        assert_eq!(text.decode(&tokens), plain);
    }
}

#[derive(Deserialize)]
struct Chat {
    name: String,
    template: String,
    messages: Vec<Message>,
    rendered: Option<String>,
    refused: Option<String>,
}

#[test]
fn conversations_are_written_as_transformers_writes_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/chat.json");
    let cases: Vec<Chat> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut refusals = 0;
    for case in cases {
        let mut files = tiny();
        let config = serde_json::json!({
            "bos_token": "<s>", "eos_token": {"content": "</s>"},
            "chat_template": [{"name": "tools", "template": "{{"}, {"name": "default", "template": case.template}],
        });
        files.tokenizer_config = Some(config.to_string());
        let text = load(&files).unwrap();
        match (
            text.render_chat(&case.messages),
            case.rendered,
            case.refused,
        ) {
            (Ok(found), Some(expected), None) => assert_eq!(found, expected, "{}", case.name),
            (Err(error @ Error::ChatTemplate { .. }), None, Some(reason)) => {
                refusals += 1;
                assert!(
                    error.to_string().contains(&reason),
                    "{error} lacks {reason}"
                );
            }
            (found, expected, _) => panic!("{}: {found:?}, not {expected:?}", case.name),
        }
    }
    assert_eq!(refusals, 1);
}

#[test]
fn a_chat_has_no_second_beginning() {
    let mut files = fixture("llama3").files;
    files.chat_template = Some("{{ bos_token }}{{ messages[0].content }}".to_owned());
    files.tokenizer_config = Some(r#"{"bos_token": "<|begin_of_text|>"}"#.to_owned());
    let text = load(&files).unwrap();
    let messages = [Message {
        role: "user".to_owned(),
        content: "The owl".to_owned(),
    }];
    assert_eq!(
        text.encode_chat(&messages).unwrap(),
        text.encode("The owl").unwrap()
    );
}

#[rstest]
#[case::syntax("{% for %}", "syntax error")]
#[case::endless(
    "{% for a in range(9999) %}{% for b in range(9999) %}.{% endfor %}{% endfor %}",
    "fuel"
)]
#[case::recursion("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion")]
#[case::wide("{{ 'a' * 100000000000 }}", "")]
#[case::unknown("{{ messages | no_such_filter }}", "no_such_filter")]
#[case::missing("{{ messages[0].content.no.such }}", "undefined")]
fn a_template_that_is_refused(#[case] template: &str, #[case] reason: &str) {
    let mut files = tiny();
    files.chat_template = Some(template.to_owned());
    let messages = [Message {
        role: "user".to_owned(),
        content: "Hi".to_owned(),
    }];
    let error = load(&files)
        .and_then(|text| text.render_chat(&messages))
        .unwrap_err();
    assert!(matches!(error, Error::ChatTemplate { .. }), "{error:?}");
    assert!(error.to_string().contains(reason), "{error} lacks {reason}");
}

/// `change` is what of `tokenizer.json` is replaced by what.
#[rstest]
#[case::truncation(r#""truncation": null"#, r#""truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}"#, "truncation")]
#[case::padding(r#""padding": null"#, r#""padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}"#, "padding")]
#[case::dropout(r#""dropout": null"#, r#""dropout": 0.5"#, "dropout")]
#[case::model(r#""type": "BPE""#, r#""type": "WordLevel""#, "")]
#[case::id(
    r#""<|endoftext|>": 0"#,
    r#""<|endoftext|>": 4000000000"#,
    "4000000000"
)]
#[case::merge(r#""Ġ""#, r#""no token""#, "")]
fn a_tokenizer_that_is_refused(#[case] good: &str, #[case] bad: &str, #[case] reason: &str) {
    let mut files = tiny();
    assert!(files.tokenizer.contains(good), "{good}");
    files.tokenizer = files.tokenizer.replace(good, bad).into();
    let error = load(&files).unwrap_err();
    assert!(matches!(error, Error::Tokenizer { .. }), "{error:?}");
    assert!(error.to_string().contains(reason), "{error} lacks {reason}");
}

/// Merges and replacements that lead back to where they began end within a second:
/// in tokens or in an error.
#[rstest]
#[case::merge_with_nothing(r#"["h","e"]"#, r#"["h",""],["h","e"]"#)]
#[case::merge_of_nothing(r#"["h","e"]"#, r#"["",""],["h","e"]"#)]
#[case::merge_twice(r#"["h","e"]"#, r#"["h","e"],["h","e"]"#)]
#[case::longer_first(r#"["h","e"]"#, r#"["he","he"],["he","h"],["h","he"],["h","e"]"#)]
#[case::nothing_by_something(
    r#""normalizer":null"#,
    r#""normalizer":{"type":"Replace","pattern":{"String":""},"content":"hh"}"#
)]
#[case::something_by_more(
    r#""normalizer":null"#,
    r#""normalizer":{"type":"Replace","pattern":{"String":"h"},"content":"hh"}"#
)]
#[case::every_place(
    r#""normalizer":null"#,
    r#""normalizer":{"type":"Replace","pattern":{"Regex":"h*?"},"content":"hh"}"#
)]
fn a_tokenizer_that_goes_in_circles(#[case] good: &str, #[case] bad: &str) {
    let mut files = tiny();
    let json: serde_json::Value = serde_json::from_str(&files.tokenizer).unwrap();
    let json = json.to_string().replace(r#""!":1,"#, r#""":1,"#); // the empty token, in the place of one
    let circle = json.replace(good, bad);
    assert!(json.contains(r#""":1"#) && circle != json, "{json}");
    files.tokenizer = circle.into();
    let (sender, tokens) = mpsc::channel();
    thread::spawn(move || {
        let tokens = load(&files).and_then(|text| text.encode(&"hhe the he".repeat(20)));
        sender.send(tokens)
    });
    // It takes milliseconds, or for ever.
    let tokens = tokens.recv_timeout(Duration::from_secs(60)).unwrap();
    if let Ok(tokens) = tokens {
        assert!(tokens.iter().all(|&token| token < 300));
    }
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
