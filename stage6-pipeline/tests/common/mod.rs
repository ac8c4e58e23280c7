//! Tiny random checkpoints with what transformers computes, and ways to damage them.

#![allow(dead_code)] // Each test file uses a part.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Deserialize;
use stage6_pipeline::{
    Batch, Bytes, Error, Finish, Generations, Model, ModelFiles, Request, SequenceId, TensorFile,
};

/// The checkpoints of `fixtures/make.py`, one for each layout.
pub const FIXTURES: [&str; 7] = [
    "tiny-gpt2",
    "gpt2-f16",
    "llama3",
    "llama-biases",
    "mistral-bf16",
    "qwen2",
    "stablelm",
];

/// A checkpoint, and what transformers computes with it.
pub struct Fixture {
    pub name: String,
    pub files: ModelFiles,
    pub prompt: String,
    pub tokens: Vec<u32>,
    /// The most probable tokens that follow; none is close to the second.
    pub greedy: Vec<u32>,
    /// After each token of the prompt, `[n][V]`, computed in f64 from the weights
    /// as they are in the file.
    pub logits: Vec<Vec<f32>>,
    /// The same in the half precision of the file; none if it is f32.
    pub half: Option<Vec<Vec<f32>>>,
    /// The rotary table `[D / 2]` and its factor of attention; none for GPT-2.
    pub rope: Option<(Vec<f32>, f32)>,
}

/// Loads one of [`FIXTURES`].
pub fn fixture(name: &str) -> Fixture {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name);
    let json = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let Expected {
        prompt,
        tokens,
        greedy,
    } = serde_json::from_str(&json).unwrap();

    let bytes = std::fs::read(folder.join("expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    let values = |name: &str| -> Option<Vec<f32>> {
        let tensor = expected.tensor(name).ok()?;
        let words = tensor.data().as_chunks::<4>().0;
        Some(words.iter().map(|&word| f32::from_le_bytes(word)).collect())
    };
    let rows = |name: &str| -> Option<Vec<Vec<f32>>> {
        let values = values(name)?;
        let rows = values.chunks(values.len() / tokens.len());
        Some(rows.map(<[f32]>::to_vec).collect())
    };
    Fixture {
        name: name.to_owned(),
        files: ModelFiles::read(&folder).unwrap(),
        logits: rows("logits").unwrap(),
        half: rows("half"),
        rope: values("inverse_frequencies").zip(values("attention_factor").map(|factor| factor[0])),
        prompt,
        tokens,
        greedy,
    }
}

/// `expected.json`.
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

/// The tensors of a safetensors file, to be changed and written again.
pub struct Tensors(pub BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

/// The bytes of a model's only file of weights.
pub fn weights(files: &ModelFiles) -> Vec<u8> {
    match &files.weights[..] {
        [
            TensorFile {
                bytes: Bytes::Memory(bytes),
                ..
            },
        ] => bytes.to_vec(),
        [TensorFile { name, .. }] => std::fs::read(name).unwrap(),
        files => panic!("{} files", files.len()),
    }
}

/// Replaces the weights of a model by one file with these bytes.
pub fn set_weights(files: &mut ModelFiles, bytes: Vec<u8>) {
    files.weights = vec![TensorFile {
        name: "memory/model.safetensors".to_owned(),
        bytes: Bytes::Memory(Cow::Owned(bytes)),
    }];
}

impl Tensors {
    pub fn of(files: &ModelFiles) -> Self {
        Self::parse(&weights(files))
    }

    pub fn parse(bytes: &[u8]) -> Self {
        let file = SafeTensors::deserialize(bytes).unwrap();
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
        set_weights(files, self.to_bytes());
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
    std::fs::write(folder.join("model.safetensors"), weights(files)).unwrap();
}

/// A batch of one sequence.
pub struct Session<'m> {
    batch: Batch<'m>,
    sequence: SequenceId,
}

impl<'m> Session<'m> {
    /// An empty sequence, with room for the context.
    pub fn new(model: &'m Model) -> Self {
        let mut batch = model.batch(1, model.architecture().context).unwrap();
        let sequence = batch.create();
        Self { batch, sequence }
    }

    /// The logits after the next tokens.
    pub fn forward(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        self.batch.forward(&[(self.sequence, tokens)])?;
        self.batch.logits(0)
    }

    /// Forgets the sequence.
    pub fn clear(&mut self) {
        self.batch.free(self.sequence).unwrap();
        self.sequence = self.batch.create();
    }
}

/// The tokens of one request, and the reason of their end.
pub fn generated(model: &Model, request: &Request) -> Result<(Vec<u32>, Option<Finish>), Error> {
    let mut batch = model.batch(1, model.architecture().context)?;
    let mut generations = Generations::new(&mut batch);
    let number = generations.push(request)?;
    let mut tokens = Vec::new();
    while generations.step(|_, token| tokens.push(token))? {}
    Ok((tokens, generations.finish(number)))
}
