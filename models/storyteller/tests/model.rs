//! The shipped files fit together: tokenizer, configuration, weights, corpus and fixtures.

use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use storyteller::{CONFIG_JSON, MODEL_SAFETENSORS, TOKENIZER_JSON, corpus};
use tokenizers::Tokenizer;

const FIXTURES: &str = include_str!("../fixtures/fixtures.json");
const LOGITS: &[u8] = include_bytes!("../fixtures/fixtures.safetensors");

fn tokenizer() -> Tokenizer {
    TOKENIZER_JSON.parse().unwrap()
}

fn config(key: &str) -> usize {
    let config: Value = serde_json::from_str(CONFIG_JSON).unwrap();
    config[key].as_u64().unwrap_or_else(|| panic!("no {key}")) as usize
}

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

/// Texts with the tokens that the Python tokenizer made of them.
fn encoded_by_python() -> Vec<(String, Vec<u32>)> {
    let fixtures: Value = serde_json::from_str(FIXTURES).unwrap();
    let cases = ["prompts", "greedy"]
        .into_iter()
        .flat_map(|list| fixtures[list].as_array().unwrap().clone());
    cases
        .filter_map(|case| Some((case["text"].as_str()?.to_owned(), ids(&case["ids"]))))
        .collect()
}

#[test]
fn rust_encodes_as_python_does_and_decodes_every_byte() {
    let tokenizer = tokenizer();
    let cases = encoded_by_python();
    assert!(cases.len() >= 10);
    for (text, ids) in cases {
        assert_eq!(
            tokenizer.encode(text.as_str(), false).unwrap().get_ids(),
            ids,
            "{text:?}"
        );
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    }
}

#[test]
fn the_vocabulary_is_the_configuration_s() {
    let tokenizer = tokenizer();
    assert_eq!(tokenizer.get_vocab_size(true), config("vocab_size"));
    assert!(config("vocab_size") <= 2048);
    assert_eq!(
        tokenizer.token_to_id("<|endoftext|>"),
        Some(config("eos_token_id") as u32)
    );
}

#[test]
fn stories_fit_the_context_with_their_end_of_text() {
    let tokenizer = tokenizer();
    for story in corpus::stories(corpus::TRAINING_SEED).take(2000) {
        let tokens = tokenizer.encode(story.text.as_str(), false).unwrap().len();
        assert!(
            (130..config("n_positions")).contains(&tokens),
            "{tokens} tokens: {}",
            story.text
        );
    }
}

#[test]
fn the_weights_are_gpt_2_s() {
    assert!(
        MODEL_SAFETENSORS.len() <= 8_000_000,
        "{} bytes",
        MODEL_SAFETENSORS.len()
    );
    let weights = SafeTensors::deserialize(MODEL_SAFETENSORS).unwrap();
    let (vocabulary, context, width) = (
        config("vocab_size"),
        config("n_positions"),
        config("n_embd"),
    );
    let mut expected = BTreeMap::from([
        ("transformer.wte.weight".to_owned(), vec![vocabulary, width]),
        ("transformer.wpe.weight".to_owned(), vec![context, width]),
        ("transformer.ln_f.weight".to_owned(), vec![width]),
        ("transformer.ln_f.bias".to_owned(), vec![width]),
    ]);
    for layer in 0..config("n_layer") {
        let mut linear = |name: &str, inputs: usize, outputs: usize| {
            expected.insert(
                format!("transformer.h.{layer}.{name}.weight"),
                vec![inputs, outputs],
            );
            expected.insert(format!("transformer.h.{layer}.{name}.bias"), vec![outputs]);
        };
        linear("attn.c_attn", width, 3 * width);
        linear("attn.c_proj", width, width);
        linear("mlp.c_fc", width, config("n_inner"));
        linear("mlp.c_proj", config("n_inner"), width);
        for norm in ["ln_1", "ln_2"] {
            expected.insert(format!("transformer.h.{layer}.{norm}.weight"), vec![width]);
            expected.insert(format!("transformer.h.{layer}.{norm}.bias"), vec![width]);
        }
    }
    let found: BTreeMap<_, _> = weights
        .iter()
        .map(|(name, tensor)| (name.to_owned(), tensor.shape().to_vec()))
        .collect();
    assert_eq!(found, expected);
    for (name, tensor) in weights.iter() {
        assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
        let mut values = tensor
            .data()
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        assert!(
            values.all(|value| value.is_finite() && value.abs() < 1e3),
            "{name}"
        );
    }
}

#[test]
fn fixtures_have_logits_for_every_prompt_and_long_continuations() {
    let fixtures: Value = serde_json::from_str(FIXTURES).unwrap();
    let logits = SafeTensors::deserialize(LOGITS).unwrap();
    for prompt in fixtures["prompts"].as_array().unwrap() {
        let name = prompt["name"].as_str().unwrap();
        let rows = ids(&prompt["positions"]).len();
        assert_eq!(
            logits.tensor(name).unwrap().shape(),
            [rows, config("vocab_size")],
            "{name}"
        );
        assert!(ids(&prompt["ids"]).len() <= config("n_positions"));
    }
    let greedy = fixtures["greedy"].as_array().unwrap();
    assert!(
        greedy
            .iter()
            .filter(|case| ids(&case["continuation"]).len() >= 64)
            .count()
            >= 3
    );
}
