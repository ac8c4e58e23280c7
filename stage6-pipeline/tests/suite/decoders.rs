//! Every layout of a checkpoint against Hugging Face transformers: `fixtures/make.py`
//! says which, and made them.

use std::fs;
use std::path::Path;

use crate::common::{Fixture, Session, Tensors, fixture, generated};
use bench_kit::readme::{keep, with_table};
use conformance::decoder;
use conformance::device::alone;
use rstest::rstest;
use safetensors::tensor::Dtype as Element;
use stage6_pipeline::{
    Architecture, Config, Dtype, Dummy, Finish, Host, Model, Request, Sampling, Weights,
};

/// Of an f32 checkpoint: the largest difference of a logit, over the RMS of
/// the logits of its position.
const TOLERANCE: f64 = FACTOR * 1e-5;

/// The worst is 1.7 (`qwen2`), and 0.7 is transformers' own: it computes angles in f32, in
/// f64 all else. Sums of f32 products round once for each term, and a GPU's compiler may
/// contract them otherwise.
const FACTOR: f64 = 4.0;

fn model(name: &str) -> (Model, Fixture) {
    let fixture = fixture(name);
    (Model::load(&fixture.files, 0).unwrap(), fixture)
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

/// The largest error of the logits that are seen after each of `cuts`: prefill, chunks
/// behind it, tokens one by one.
fn worst(model: &Model, Fixture { tokens, logits, .. }: &Fixture, cuts: &[usize]) -> f64 {
    let mut session = Session::new(model);
    let mut seen = 0;
    let errors = cuts.iter().map(|&cut| {
        let found = session.forward(&tokens[seen..seen + cut]).unwrap();
        seen += cut;
        error(&found, &logits[seen - 1])
    });
    errors.max_by(f64::total_cmp).unwrap()
}

/// The error of transformers' own half precision; [`TOLERANCE`] of an f32 checkpoint.
fn allowed(Fixture { logits, half, .. }: &Fixture) -> f64 {
    let Some(half) = half else {
        return TOLERANCE;
    };
    let errors = half
        .iter()
        .zip(logits)
        .map(|(half, logits)| error(half, logits));
    errors.max_by(f64::total_cmp).unwrap()
}

/// Weights of half precision are those of the file, and stay half; sums are f32. transformers
/// rounds every activation then.
#[rstest]
fn logits_are_those_of_transformers(
    #[values(
        "tiny-gpt2",
        "llama3",
        "llama-biases",
        "qwen2",
        "stablelm",
        "gpt2-f16",
        "mistral-bf16"
    )]
    name: &str,
    #[values(&[31], &[1; 31], &[3, 1, 1, 17, 1, 2, 6], &[17, 14])] cuts: &[usize],
) {
    let (model, fixture) = model(name);
    let (worst, allowed) = (worst(&model, &fixture, cuts), allowed(&fixture));
    assert!(
        allowed.is_finite() && worst <= allowed,
        "{worst:.2e}, allowed {allowed:.2e}"
    );
}

/// `UPDATE_README=1` writes the table anew. A GPU rounds otherwise.
#[test]
fn the_readme_has_the_errors() {
    let checkpoints = [
        ("tiny-gpt2", "f32"),
        ("llama3", "f32"),
        ("llama-biases", "f32"),
        ("qwen2", "f32"),
        ("stablelm", "f32"),
        ("gpt2-f16", "f16"),
        ("mistral-bf16", "bf16"),
    ];
    let rows = checkpoints.map(|(name, weights)| {
        let (model, fixture) = model(name);
        let (worst, allowed) = (worst(&model, &fixture, &[1; 31]), allowed(&fixture));
        format!("| {name} | {weights} | {worst:.1e} | {allowed:.1e} |\n")
    });
    if gpu::backend().unwrap() == gpu::Backend::Cuda {
        eprintln!("not compared: the table is that of the simulated device");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let head = "| checkpoint | weights | error | allowed |\n|---|---|---|---|\n";
    let current = with_table(
        &readme,
        "| checkpoint |",
        &format!("{head}{}", rows.concat()),
    );
    keep(&path, &current.unwrap()).unwrap();
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
    let (model, expected) = model(name);
    assert!(expected.greedy.len() >= 32);
    let request = Request {
        prompt: expected.tokens,
        sampling: Sampling::GREEDY,
        seed: 0,
        max_tokens: Some(expected.greedy.len()),
        end: Vec::new(),
    };
    let (tokens, finish) = generated(&model, &request).unwrap();
    assert_eq!(tokens, expected.greedy);
    assert_eq!(finish, Some(Finish::MaxTokens));
}

/// The fixtures have GPT-2 in f16 and Mistral in bf16. The other way round, against the plain pass
/// in f64 of the same weights.
#[rstest]
#[case::gpt2("tiny-gpt2", Element::BF16, Dtype::Bf16)]
#[case::llama("llama-biases", Element::F16, Dtype::F16)]
fn both_families_have_both_half_precisions(
    #[case] name: &str,
    #[case] element: Element,
    #[case] dtype: Dtype,
) {
    let mut fixture = fixture(name);
    let mut tensors = Tensors::of(&fixture.files);
    for (stored, _, data) in tensors.0.values_mut() {
        let words = data.as_chunks::<4>().0.iter();
        let halves = words.flat_map(|&word| match (dtype, f32::from_le_bytes(word)) {
            (Dtype::Bf16, value) => half::bf16::from_f32(value).to_le_bytes(),
            (_, value) => half::f16::from_f32(value).to_le_bytes(),
        });
        (*data, *stored) = (halves.collect(), element);
    }
    tensors.write_into(&mut fixture.files);
    let config = Config::load(&fixture.files).unwrap();
    let weights = Weights::load(&fixture.files, &config, &Host).unwrap();
    let logits = decoder::logits(&config.architecture, &weights, &fixture.tokens);
    let narrow = |row: &Vec<f64>| row.iter().map(|&logit| logit as f32).collect();
    fixture.logits = logits.iter().map(narrow).collect();

    let model = Model::load(&fixture.files, 0).unwrap();
    assert_eq!(model.cache(), dtype);
    let model = model.with_cache(Dtype::F32); // which rounds nothing
    for cuts in [&[31][..], &[1; 31]] {
        let worst = worst(&model, &fixture, cuts);
        assert!(worst <= TOLERANCE, "{worst:.2e}");
    }
}

/// A decoder whose layers tensor cores take: a Llama with SwiGLU, or a GPT-2.
fn of_whole_vectors(name: &str) -> Architecture {
    match name {
        "llama" => {
            let dummy = Dummy {
                layers: 2,
                hidden: 64,
                heads: 4,
                vocab: 200,
                context: 100,
            };
            dummy.architecture().unwrap()
        }
        _ => {
            let json = r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
                "n_layer": 2, "n_head": 2, "n_embd": 72, "n_positions": 100, "vocab_size": 200,
                "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}"#;
            Config::parse(json, "config.json").unwrap().architecture
        }
    }
}

/// The error of a prefill of `n` tokens, the largest of two tokens one by one behind it, and that
/// of the prefill in f64 where what is multiplied is rounded to the weights' type.
fn in_half_precision(architecture: &Architecture, dtype: Dtype, n: usize) -> (f64, f64, f64) {
    let tokens = Vec::from_iter((0..n + 2).map(|i| (i * 37 % 200) as u32));
    let weights = Weights::random(architecture, dtype, 1, &Host).unwrap();
    let narrow = |row: &Vec<f64>| Vec::from_iter(row.iter().map(|&logit| logit as f32));
    let exact = decoder::logits(architecture, &weights, &tokens);
    let exact = Vec::from_iter(exact.iter().map(narrow));
    let rounded = decoder::logits_rounded(architecture, &weights, &tokens, &|x| match dtype {
        Dtype::F32 => x,
        Dtype::F16 => half::f16::from_f64(x).to_f64(),
        Dtype::Bf16 => half::bf16::from_f64(x).to_f64(),
    });

    let model = Model::random(architecture.clone(), dtype, 1, 0).unwrap();
    let model = model.with_cache(Dtype::F32);
    let mut session = Session::new(&model);
    let first = error(&session.forward(&tokens[..n]).unwrap(), &exact[n - 1]);
    let mut behind = 0.0_f64;
    for at in n..n + 2 {
        let found = session.forward(&tokens[at..=at]).unwrap();
        behind = behind.max(error(&found, &exact[at]));
    }
    (
        first,
        behind,
        error(&narrow(&rounded[n - 1]), &exact[n - 1]),
    )
}

/// A prompt of more than 8 tokens is multiplied on tensor cores: what is multiplied is rounded, as
/// in the naive pass beside it. The largest of a few errors is partly luck, so twice that is
/// allowed, besides the error of f32. The keys and values of a prompt have errors too, and so have
/// the tokens behind it.
#[rstest]
fn a_prompt_in_half_precision_loses_what_rounding_must_lose(
    #[values("llama", "gpt2")] name: &str,
    #[values(Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values(9, 70)] n: usize,
) {
    let architecture = of_whole_vectors(name);
    let (first, behind, naive) = in_half_precision(&architecture, dtype, n);
    let allowed = 2.0 * naive + TOLERANCE;
    println!("{name}, {dtype}, {n}: {first:.2e}, {behind:.2e}, naive {naive:.2e}");
    assert!(first <= allowed && behind <= allowed);
    assert!(first > TOLERANCE, "nothing has been rounded: {first:.2e}");
}

#[test]
fn a_short_prompt_is_not_rounded() {
    let (first, behind, _) = in_half_precision(&of_whole_vectors("gpt2"), Dtype::Bf16, 8);
    assert!(first <= TOLERANCE && behind <= TOLERANCE, "{first:.2e}");
}

/// A T4 has no instructions for bf16 and none of those that copy tiles.
#[test]
fn without_tensor_cores_a_prompt_is_not_rounded() {
    let test = "decoders::without_tensor_cores_a_prompt_is_not_rounded";
    let variables = [("GPU", "sim"), ("CUDA_SIM_DEVICE", "t4")];
    if alone(test, &variables).is_none() {
        let (first, behind, _) = in_half_precision(&of_whole_vectors("llama"), Dtype::Bf16, 20);
        assert!(first <= TOLERANCE && behind <= TOLERANCE, "{first:.2e}");
    }
}

/// Another element type of the cache rounds keys and values, and nothing else.
#[test]
fn the_cache_has_the_type_of_the_weights_or_another() {
    assert_eq!(model("mistral-bf16").0.cache(), Dtype::Bf16);
    let (half, Fixture { tokens, logits, .. }) = model("llama3");
    let half = half.with_cache(Dtype::F16);
    let mut session = Session::new(&half);
    let mut worst = 0.0_f64;
    for (token, logits) in tokens.iter().zip(&logits) {
        let error = error(&session.forward(&[*token]).unwrap(), logits);
        assert!(error <= 1e-2, "{error:.2e}");
        worst = worst.max(error);
    }
    assert!(worst > TOLERANCE, "the cache is not f16: {worst:.2e}");
}
