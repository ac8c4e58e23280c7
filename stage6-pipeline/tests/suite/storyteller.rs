//! The embedded model against Hugging Face transformers: the fixtures that
//! `models/storyteller/fixtures.py` wrote. The suite of the stage has the greedy continuations.

use std::path::Path;
use std::process::Command;

use safetensors::SafeTensors;
use serde::Deserialize;
use stage6_pipeline::{Config, Model, ModelFiles, Text};

use crate::common::Session;

/// The largest difference of a logit, over the RMS of the logits of its position.
/// transformers computes in f32 here.
const TOLERANCE: f32 = 4e-5;

#[derive(Deserialize)]
struct Fixtures {
    prompts: Vec<Prompt>,
    greedy: Vec<Greedy>,
}

#[derive(Deserialize)]
struct Prompt {
    name: String,
    text: Option<String>,
    ids: Vec<u32>,
    /// After which tokens the rows of the tensor `name` are the logits.
    positions: Vec<usize>,
}

#[derive(Deserialize)]
struct Greedy {
    text: String,
    ids: Vec<u32>,
}

fn read(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../models/storyteller/fixtures")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixtures() -> Fixtures {
    serde_json::from_slice(&read("fixtures.json")).unwrap()
}

#[test]
fn tokens_are_those_of_hugging_face() {
    let files = ModelFiles::storyteller();
    let architecture = Config::load(&files).unwrap().architecture;
    let text = Text::load(&files, &architecture).unwrap();
    let fixtures = fixtures();
    let prompts = fixtures
        .prompts
        .iter()
        .filter_map(|prompt| Some((prompt.text.as_ref()?, &prompt.ids)));
    let greedy = fixtures
        .greedy
        .iter()
        .map(|greedy| (&greedy.text, &greedy.ids));
    for (prompt, ids) in prompts.chain(greedy) {
        assert_eq!(text.encode(prompt).unwrap(), *ids, "{prompt:?}");
        let mut decoder = text.decoder();
        let pieces: String = ids.iter().map(|&id| decoder.push(id)).collect();
        assert_eq!(pieces + &decoder.finish(), *prompt);
    }
}

#[test]
fn logits_are_those_of_transformers() {
    let model = Model::load(&ModelFiles::storyteller(), 0).unwrap();
    let mut session = Session::new(&model);
    let bytes = read("fixtures.safetensors");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for Prompt {
        name,
        ids,
        positions,
        ..
    } in fixtures().prompts
    {
        let expected = tensors.tensor(&name).unwrap();
        let vocab_size = model.architecture().vocab;
        assert_eq!(expected.shape(), [positions.len(), vocab_size], "{name}");
        let expected: Vec<f32> = expected
            .data()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();

        // From one position to the next in one call: one token at a time where
        // there are many, else at once.
        session.clear();
        let mut seen = 0;
        for (&position, expected) in positions.iter().zip(expected.chunks(vocab_size)) {
            let found = session.forward(&ids[seen..=position]).unwrap();
            seen = position + 1;
            let squares = expected.iter().map(|x| x * x).sum::<f32>();
            let rms = (squares / expected.len() as f32).sqrt();
            for (token, (found, expected)) in found.iter().zip(expected).enumerate() {
                let off = (found - expected).abs() / rms;
                assert!(
                    off <= TOLERANCE,
                    "{name}, position {position}, token {token}: {found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn the_first_committed_sample_is_the_story_of_seed_1() {
    let output = Command::new(env!("CARGO_BIN_EXE_stage6-pipeline"))
        .env("CUDA_SIM_CHECK", "on")
        .args(["--prompt", "Once upon a time", "--temperature", "0.8"])
        .args(["--seed", "1"])
        .output()
        .unwrap();
    let samples = String::from_utf8(read("../samples/temperature-0.8.txt")).unwrap();
    let first = samples.split("\n\n").nth(1).unwrap(); // after the command
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("{first}\n")
    );
}
