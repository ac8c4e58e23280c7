//! Every layout of a checkpoint: architecture and weights, run through a plain forward pass, give
//! the logits of Hugging Face transformers.

use crate::common::{FIXTURES, Fixture, fixture, scratch};
use conformance::decoder;
use rstest::rstest;
use stage6_pipeline::{
    Architecture, Config, Dtype, Dummy, Error, Host, ModelFiles, Positions, Rope, Weights,
};

/// The largest difference of a logit, as a part of the logits' RMS. With learned positions it is
/// 2e-7 here. RoPE adds what f32 rounds of frequencies, angles and sines in transformers, times the
/// size of the scores: 7e-6 for `llama3`, 3e-6 for the others.
const TOLERANCE: f64 = 1e-5;

fn load(files: &ModelFiles) -> (Architecture, Weights<Host>) {
    let config = Config::load(files).unwrap();
    let weights = Weights::load(files, &config, &Host).unwrap();
    (config.architecture, weights)
}

#[rstest]
fn logits_are_those_of_transformers(
    #[values(
        "tiny-gpt2",
        "gpt2-f16",
        "llama3",
        "llama-biases",
        "mistral-bf16",
        "qwen2",
        "stablelm"
    )]
    name: &str,
) {
    let Fixture {
        files,
        tokens,
        logits,
        ..
    } = fixture(name);
    let (architecture, weights) = load(&files);
    let found = decoder::logits(&architecture, &weights, &tokens);
    assert_eq!(found.len(), logits.len());

    let count = (logits.len() * architecture.vocab) as f64;
    let squares = logits
        .iter()
        .flatten()
        .map(|&logit| f64::from(logit).powi(2));
    let rms = (squares.sum::<f64>() / count).sqrt();
    let mut largest = 0.0;
    for (found, expected) in found.iter().zip(&logits) {
        assert_eq!(found.len(), expected.len());
        for (&found, &expected) in found.iter().zip(expected) {
            assert!(found.is_finite());
            largest = f64::max(largest, (found - f64::from(expected)).abs() / rms);
        }
    }
    assert!(largest <= TOLERANCE, "{largest:e}");
}

#[test]
fn rotary_tables_are_those_of_transformers() {
    let mut tables = 0;
    for fixture in FIXTURES.map(fixture) {
        let architecture = Config::load(&fixture.files).unwrap().architecture;
        match (architecture.positions, fixture.rope) {
            (Positions::Learned, None) => {}
            (Positions::Rope(rope), Some((expected, factor))) => {
                tables += 1;
                assert_eq!(rope.attention_factor, factor, "{}", fixture.name);
                assert_eq!(rope.inverse_frequencies.len(), expected.len());
                for (found, expected) in rope.inverse_frequencies.iter().zip(expected) {
                    // Three roundings of f32.
                    let error = (found - expected).abs() / expected;
                    assert!(error <= 1.8e-7, "{}: {found}, not {expected}", fixture.name);
                }
            }
            (found, expected) => panic!("{}: {found:?}, not {expected:?}", fixture.name),
        }
    }
    assert_eq!(tables, 5);
}

#[test]
fn half_precision_stays_half() {
    let dtype = |name| {
        let (_, weights) = load(&fixture(name).files);
        (weights.embedding.dtype, weights.blocks[1].qkv.weight.dtype)
    };
    assert_eq!(dtype("gpt2-f16"), (Dtype::F16, Dtype::F16));
    assert_eq!(dtype("mistral-bf16"), (Dtype::Bf16, Dtype::Bf16));
    assert_eq!(dtype("qwen2"), (Dtype::F32, Dtype::F32));
}

/// `generation_config.json` has the last word, as in transformers.
#[test]
fn tokens_that_end_a_text() {
    let mut files = fixture("llama3").files;
    assert_eq!(Config::load(&files).unwrap().architecture.end, [1]);
    files.generation_config = Some(r#"{"eos_token_id": [1, 5], "top_k": 20}"#.to_owned());
    assert_eq!(Config::load(&files).unwrap().architecture.end, [1, 5]);
    files.generation_config = Some(r#"{"do_sample": true}"#.to_owned());
    assert_eq!(Config::load(&files).unwrap().architecture.end, [1]);
    files.generation_config = Some(r#"{"eos_token_id": 301}"#.to_owned());
    assert!(matches!(
        Config::load(&files),
        Err(Error::ConfigValue {
            field: "eos_token_id",
            ..
        })
    ));
}

#[test]
fn the_dummy_is_the_model_of_the_course() {
    let architecture = Dummy::default().architecture().unwrap();
    let Architecture {
        layers,
        hidden,
        heads,
        head_dim,
        inner,
        vocab,
        ..
    } = architecture;
    assert_eq!(
        (layers, hidden, heads, head_dim, inner, vocab),
        (24, 4096, 32, 128, 16384, 8192)
    );
    assert_eq!(
        architecture.positions,
        Positions::Rope(Rope::plain(10_000.0, 128))
    );
}

#[rstest]
#[case(Dummy { heads: 5, ..SMALL }, "heads")]
#[case(Dummy { heads: 8, ..SMALL }, "heads")]
#[case(Dummy { heads: 0, ..SMALL }, "heads")]
#[case(Dummy { layers: 0, ..SMALL }, "layers")]
#[case(Dummy { layers: usize::MAX, ..SMALL }, "layers")]
#[case(Dummy { vocab: usize::MAX, ..SMALL }, "vocab")]
fn a_dummy_that_cannot_be(#[case] dummy: Dummy, #[case] name: &str) {
    let error = dummy.architecture().unwrap_err();
    assert!(
        matches!(error, Error::Setting { setting, .. } if setting == name),
        "{error}"
    );
}

const SMALL: Dummy = Dummy {
    layers: 2,
    hidden: 24,
    heads: 3,
    vocab: 50,
    context: 40,
};

#[test]
fn a_seed_names_random_weights() {
    let architecture = SMALL.architecture().unwrap();
    let random = |dtype, seed| Weights::random(&architecture, dtype, seed, &Host).unwrap();
    let weights = random(Dtype::Bf16, 1);
    assert_eq!(weights.embedding, random(Dtype::Bf16, 1).embedding);
    assert_ne!(weights.embedding, random(Dtype::Bf16, 2).embedding);
    assert_ne!(weights.blocks[0].out.weight, weights.blocks[1].out.weight);
    assert_eq!(
        (
            weights.blocks[0].up.weight.rows,
            weights.blocks[0].up.weight.columns
        ),
        (192, 24)
    );
    assert!(weights.blocks[0].qkv.bias.is_none() && weights.norm.bias.is_some());

    // Logits that are neither flat nor infinite.
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        let logits = decoder::logits(&architecture, &random(dtype, 3), &[7; 40]);
        let last = logits.last().unwrap();
        let rms = (last.iter().map(|logit| logit * logit).sum::<f64>() / 50.0).sqrt();
        assert!((0.3..3.0).contains(&rms), "{rms}");
    }
}

/// The index names a file in another folder.
#[test]
fn an_index_that_leads_elsewhere() {
    let folder = scratch("index");
    let source = crate::common::tiny_folder();
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(source.join(name), folder.join(name)).unwrap();
    }
    for name in ["../model.safetensors", "/etc/passwd", "", ".."] {
        let index = format!(r#"{{"weight_map": {{"wte.weight": "{name}"}}}}"#);
        std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
        let error = ModelFiles::read(&folder).unwrap_err();
        assert!(
            matches!(&error, Error::ShardName { file, .. } if file == name),
            "{error:?}"
        );
    }
}
