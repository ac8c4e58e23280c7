//! Every layout of a checkpoint against Hugging Face transformers: `fixtures/make.py` says which, and made them.

use std::path::{Path, PathBuf};

use rstest::rstest;
use safetensors::SafeTensors;
use serde::Deserialize;
use stage6_pipeline::{Config, Dtype, Finish, Generation, Model, ModelFiles, Request, Sampling};

/// Of an f32 checkpoint: the largest difference of a logit, over the RMS of the logits of its position. The reference is computed
/// in f64, so this is our rounding alone.
const TOLERANCE: f64 = FACTOR * 1e-5;

/// Sums of f32 products round once for each term, and errors of one block are inputs of the next.
const FACTOR: f64 = 1.0;

#[derive(Deserialize)]
struct Expected {
    tokens: Vec<u32>,
    greedy: Vec<u32>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

fn model(name: &str) -> Model {
    Model::load(&ModelFiles::read(&folder(name)).unwrap(), 0).unwrap()
}

fn expected(name: &str) -> Expected {
    let json = std::fs::read_to_string(folder(name).join("expected.json")).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// A matrix of `expected.safetensors`, one row after each token.
fn rows(name: &str, tensor: &str) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(folder(name).join("expected.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor(tensor).unwrap();
    let (values, _) = tensor.data().as_chunks::<4>();
    let values = Vec::from_iter(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    values
        .chunks(tensor.shape()[1])
        .map(<[f32]>::to_vec)
        .collect()
}

/// The largest difference, over the RMS of `expected`. NaN is larger than any number.
fn error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let squares = expected.iter().map(|&x| f64::from(x).powi(2));
    let rms = (squares.sum::<f64>() / expected.len() as f64).sqrt();
    let differences = found
        .iter()
        .zip(expected)
        .map(|(&x, &y)| (f64::from(x) - f64::from(y)).abs());
    differences.max_by(f64::total_cmp).unwrap() / rms
}

/// Prefill, chunks behind it, tokens one by one; in all of these, each position whose logits are seen.
#[rstest]
fn logits_are_those_of_transformers(
    #[values("tiny-gpt2", "llama3", "llama-biases", "qwen2", "stablelm")] name: &str,
    #[values(&[31], &[1; 31], &[3, 1, 1, 17, 1, 2, 6], &[17, 14])] cuts: &[usize],
) {
    let (model, tokens, logits) = (model(name), expected(name).tokens, rows(name, "logits"));
    let mut session = model.session().unwrap();
    let mut seen = 0;
    for &cut in cuts {
        let found = session.forward(&tokens[seen..seen + cut]).unwrap();
        seen += cut;
        let error = error(&found, &logits[seen - 1]);
        assert!(error <= TOLERANCE, "after {seen} tokens: {error:.2e}");
    }
}

/// The weights are those of the file, and stay half; sums are f32. transformers rounds every activation to half precision.
#[rstest]
fn half_precision_is_closer_than_transformers(
    #[values("gpt2-f16", "mistral-bf16")] name: &str,
    #[values(&[31], &[1; 31], &[3, 1, 1, 17, 1, 2, 6])] cuts: &[usize],
) {
    let (model, tokens) = (model(name), expected(name).tokens);
    let (logits, half) = (rows(name, "logits"), rows(name, "half"));
    let of_transformers = half
        .iter()
        .zip(&logits)
        .map(|(half, logits)| error(half, logits));
    let allowed = of_transformers.max_by(f64::total_cmp).unwrap();
    assert!(allowed.is_finite());
    let mut session = model.session().unwrap();
    let mut seen = 0;
    for &cut in cuts {
        let found = session.forward(&tokens[seen..seen + cut]).unwrap();
        seen += cut;
        let error = error(&found, &logits[seen - 1]);
        assert!(
            error <= allowed,
            "after {seen} tokens: {error:.2e}, allowed {allowed:.2e}"
        );
    }
}

#[rstest]
fn greedy_tokens_are_those_of_transformers(
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
    let (model, expected) = (model(name), expected(name));
    assert!(expected.greedy.len() >= 32);
    let request = Request {
        prompt: expected.tokens,
        sampling: Sampling::GREEDY,
        seed: 0,
        max_tokens: Some(expected.greedy.len()),
        end: Vec::new(),
    };
    let mut session = model.session().unwrap();
    let mut generation = Generation::new(&mut session, &request).unwrap();
    let tokens: Vec<u32> = generation.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(tokens, expected.greedy);
    assert_eq!(generation.finish(), Some(Finish::MaxTokens));
}

/// Another element type of the cache rounds keys and values, and nothing else.
#[test]
fn the_cache_has_the_type_of_the_weights_or_another() {
    assert_eq!(model("mistral-bf16").cache(), Dtype::Bf16);
    let half = model("llama3").with_cache(Dtype::F16);
    let (tokens, logits) = (expected("llama3").tokens, rows("llama3", "logits"));
    let mut session = half.session().unwrap();
    let mut worst = 0.0_f64;
    for (token, logits) in tokens.iter().zip(&logits) {
        let error = error(&session.forward(&[*token]).unwrap(), logits);
        assert!(error <= 1e-2, "{error:.2e}");
        worst = worst.max(error);
    }
    assert!(worst > TOLERANCE, "the cache is not f16: {worst:.2e}");
}

/// A context is not longer for a window: the keys before it are masked.
#[test]
fn the_layouts_are_what_their_names_say() {
    let of = |name| {
        let files = ModelFiles::read(&folder(name)).unwrap();
        Config::load(&files).unwrap().architecture
    };
    assert!(of("qwen2").windows.iter().any(Option::is_some));
    assert!(of("qwen2").windows.iter().any(Option::is_none));
    assert!(of("mistral-bf16").windows.iter().all(Option::is_some));
    assert_eq!((of("llama3").heads, of("llama3").kv_heads), (3, 1));
    assert_eq!(of("mistral-bf16").head_dim, 72);
    assert!(of("llama-biases").biases.mlp);
    assert!(!of("stablelm").tied && of("llama3").tied);
}
