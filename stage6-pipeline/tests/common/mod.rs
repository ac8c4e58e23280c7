//! The tiny random GPT-2 that most tests run, and ways to damage it.

#![allow(dead_code)] // Each test file uses a part.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Deserialize;
use stage6_pipeline::ModelFiles;

/// What transformers says about the tiny model; `fixtures/make.py` wrote it.
#[derive(Deserialize)]
pub struct Expected {
    pub prompt: String,
    pub tokens: Vec<u32>,
    pub greedy: Vec<u32>,
}

pub fn tiny_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny-gpt2")
}

pub fn tiny() -> ModelFiles {
    ModelFiles::read(&tiny_folder()).unwrap()
}

pub fn expected() -> Expected {
    let json = std::fs::read_to_string(tiny_folder().join("expected.json")).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// The logits after each token of the prompt, `[n][V]`.
pub fn expected_logits() -> Vec<Vec<f32>> {
    let bytes = std::fs::read(tiny_folder().join("expected.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let logits = file.tensor("logits").unwrap();
    let values = logits
        .data()
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes));
    let values: Vec<f32> = values.collect();
    values
        .chunks(logits.shape()[1])
        .map(<[f32]>::to_vec)
        .collect()
}

/// The tensors of a safetensors file, to be changed and written again.
pub struct Tensors(pub BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

impl Tensors {
    pub fn of(files: &ModelFiles) -> Self {
        let file = SafeTensors::deserialize(&files.weights).unwrap();
        let entry = |(name, view): (&str, TensorView<'_>)| {
            (
                name.to_owned(),
                (view.dtype(), view.shape().to_vec(), view.data().to_vec()),
            )
        };
        Self(file.iter().map(entry).collect())
    }

    pub fn entry(&mut self, name: &str) -> &mut (Dtype, Vec<usize>, Vec<u8>) {
        self.0.get_mut(name).unwrap()
    }

    pub fn write_into(&self, files: &mut ModelFiles) {
        files.weights = Cow::Owned(self.to_bytes());
    }

    /// A safetensors file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let views = self.0.iter().map(|(name, (dtype, shape, data))| {
            (name, TensorView::new(*dtype, shape.clone(), data).unwrap())
        });
        safetensors::serialize(views, None).unwrap()
    }
}

/// A fresh folder for one test.
pub fn scratch(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes model files as a folder in Hugging Face layout.
pub fn write_folder(files: &ModelFiles, folder: &Path) {
    std::fs::write(folder.join("config.json"), files.config.as_bytes()).unwrap();
    std::fs::write(folder.join("tokenizer.json"), files.tokenizer.as_bytes()).unwrap();
    std::fs::write(folder.join("model.safetensors"), &files.weights).unwrap();
}
