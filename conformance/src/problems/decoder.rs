//! Problems for a decoder: prompts, and the tokens that follow them one by one.

use std::ops::Range;
use std::path::Path;

use ndarray::{Array3, s};
use stage1_reference::Feature;
use stage6_pipeline::{Architecture, Dtype, Dummy, Host, ModelFiles, Source};

use super::UNWRITTEN;
use crate::compare::{Comparison, Tolerance};
use crate::decoder::logits;
use crate::inputs::hash;

/// The checkpoints of `stage6-pipeline/fixtures` whose matrices are f32, one for each layout.
/// Another cache rounds keys and values, which scores may amplify without bound:
/// `stage6-pipeline/tests/suite/decoders.rs` holds those beside transformers.
const CHECKPOINTS: [&str; 5] = ["tiny-gpt2", "llama3", "llama-biases", "qwen2", "stablelm"];

/// Sequences of one length: a prefill of the first tokens of each, then a
/// step for each further token.
#[derive(Debug, Clone)]
pub struct Problem {
    name: String,
    /// The decoder.
    pub source: Source,
    /// Its description.
    pub architecture: Architecture,
    /// Tokens of each sequence, `[B][n]`.
    pub tokens: Vec<Vec<u32>>,
    /// The number of them that are the prompt, 1 to n.
    pub prompt: usize,
}

/// All checkpoints, with sequences that differ.
///
/// # Panics
///
/// If a checkpoint is not in its folder beside this package.
pub fn problems() -> Vec<Problem> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stage6-pipeline/fixtures");
    let sizes = [[2, 9, 3], [3, 1, 4], [1, 33, 2], [2, 17, 16]];
    let checkpoint = |(seed, name): (usize, &str)| {
        let files = ModelFiles::read(&folder.join(name)).unwrap_or_else(|error| panic!("{error}"));
        let [batch, prompt, steps] = sizes[seed % sizes.len()];
        let name = format!("{name}_b{batch}_n{prompt}_steps{steps}");
        Problem::new(
            name,
            Source::Files(files),
            seed as u64,
            [batch, prompt, steps],
        )
    };
    let problems = CHECKPOINTS.into_iter().enumerate().map(checkpoint);
    let others = [yarn(&folder), large_vocabulary()];
    problems.chain(others).chain(alike()).collect()
}

/// Tokens that 16 bits do not hold.
fn large_vocabulary() -> Problem {
    const VOCABULARY: usize = (1 << 16) + 100;
    let dummy = Dummy {
        layers: 1,
        hidden: 8,
        heads: 1,
        vocab: VOCABULARY,
        context: 8,
    };
    let source = Source::Random {
        dummy,
        dtype: Dtype::F32,
        seed: 3,
    };
    let mut problem = Problem::new("tokens_beyond_65536".to_owned(), source, 8, [1, 3, 1]);
    let last = problem.tokens[0]
        .iter_mut()
        .skip(1)
        .zip([1 << 16, VOCABULARY - 1]);
    last.for_each(|(token, large)| *token = large as u32);
    problem
}

/// Passes of as many rows as one before, of another number of sequences: what is kept from pass to
/// pass by the number of rows is wrong.
fn alike() -> [Problem; 3] {
    let dummy = Dummy {
        layers: 1,
        hidden: 16,
        heads: 2,
        vocab: 50,
        context: 8,
    };
    [[2, 3, 1], [3, 2, 0], [1, 2, 0]].map(|sizes| {
        let source = Source::Random {
            dummy,
            dtype: Dtype::F32,
            seed: 2,
        };
        let [batch, prompt, steps] = sizes;
        let name = format!("small_b{batch}_n{prompt}_steps{steps}");
        Problem::new(name, source, 7, sizes)
    })
}

/// A decoder whose rotation has a factor: `llama3` with YaRN.
fn yarn(folder: &Path) -> Problem {
    let files = ModelFiles::read(&folder.join("llama3")).unwrap_or_else(|error| panic!("{error}"));
    let fits = "a configuration in JSON";
    let mut config: serde_json::Value = serde_json::from_str(&files.config).expect(fits);
    config["rope_scaling"] = serde_json::json!({
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
    });
    let files = ModelFiles {
        config: config.to_string().into(),
        ..files
    };
    let name = "yarn_b2_n9_steps3".to_owned();
    Problem::new(name, Source::Files(files), 5, [2, 9, 3])
}

/// A decoder of random sizes and parameters.
///
/// # Panics
///
/// None: the sizes are those of a decoder.
pub fn random(seed: u64) -> Problem {
    let below = |index, n| hash(seed, index) % n;
    let heads = 1 + below(0, 5) as usize;
    let dummy = Dummy {
        layers: 1 + below(1, 3) as usize,
        hidden: heads * 2 * (1 + below(2, 12) as usize),
        heads,
        vocab: 2 + below(3, 200) as usize,
        context: 64,
    };
    let source = Source::Random {
        dummy,
        dtype: Dtype::F32,
        seed,
    };
    let sizes = [1 + below(4, 4), 1 + below(5, 40), below(6, 5)].map(|size| size as usize);
    Problem::new(format!("random_{seed:x}"), source, seed, sizes)
}

/// The decoder whose time is modelled: 2 layers of 512 columns, 8 heads. The seed draws the tokens.
pub fn counted([batch, prompt, steps]: [usize; 3], seed: u64) -> Problem {
    let dummy = Dummy {
        layers: 2,
        hidden: 512,
        heads: 8,
        vocab: 1024,
        context: prompt + steps,
    };
    let source = Source::Random {
        dummy,
        dtype: Dtype::F32,
        seed: 1,
    };
    let name = format!("counted_b{batch}_n{prompt}_steps{steps}");
    Problem::new(name, source, seed, [batch, prompt, steps])
}

impl Problem {
    /// Tokens are drawn from the seed: `batch` sequences of `prompt + steps` of them.
    fn new(name: String, source: Source, seed: u64, [batch, prompt, steps]: [usize; 3]) -> Self {
        let (architecture, _) = source.load(&Host).unwrap_or_else(|error| panic!("{error}"));
        let n = prompt + steps;
        let token = |at| (hash(seed ^ 0x70C5, at as u64) % architecture.vocab as u64) as u32;
        let tokens = (0..batch).map(|b| (b * n..(b + 1) * n).map(token).collect());
        Self {
            name,
            tokens: tokens.collect(),
            source,
            architecture,
            prompt,
        }
    }

    /// The tokens `[B][len]` at some places of each sequence.
    pub fn at(&self, places: Range<usize>) -> Vec<&[u32]> {
        let tokens = self.tokens.iter();
        tokens.map(|tokens| &tokens[places.clone()]).collect()
    }

    /// Tokens of a sequence, `n`.
    pub fn length(&self) -> usize {
        self.tokens.first().map_or(0, Vec::len)
    }
}

impl super::Problem for Problem {
    /// The logits after the prompt and after each step, `[1 + steps, B, V]`.
    type Output = Array3<f32>;
    type Answer = Array3<f64>;

    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Vec<Feature> {
        let windows = self.architecture.windows.iter().flatten();
        windows.map(|_| Feature::Window).take(1).collect()
    }

    fn poisoned(&self) -> Array3<f32> {
        let steps = self.length() - self.prompt;
        let shape = (1 + steps, self.tokens.len(), self.architecture.vocab);
        Array3::from_elem(shape, UNWRITTEN)
    }

    fn answer(&self) -> Array3<f64> {
        let loaded = self.source.load(&Host);
        let (architecture, weights) = loaded.unwrap_or_else(|error| panic!("{error}"));
        let mut expected = Array3::<f64>::zeros(self.poisoned().dim());
        for (b, tokens) in self.tokens.iter().enumerate() {
            let rows = logits(&architecture, &weights, tokens);
            for (step, row) in rows[self.prompt - 1..].iter().enumerate() {
                for (token, &logit) in row.iter().enumerate() {
                    expected[[step, b, token]] = logit;
                }
            }
        }
        expected
    }

    fn compare(
        &self,
        output: &Array3<f32>,
        expected: &Array3<f64>,
    ) -> Result<Vec<Comparison>, String> {
        let squares = expected.iter().map(|x| x * x).sum::<f64>();
        let rms = (squares / expected.len() as f64).sqrt();
        // All sums are f32. transformers itself is off by 1e-5, as
        // `stage6-pipeline/tests/suite/families.rs` has it.
        let tolerance = Tolerance {
            relative: 0.0,
            absolute: 4e-5 * rms,
        };
        if output.dim() != expected.dim() {
            let (actual, expected) = (output.shape(), expected.shape());
            return Err(format!(
                "the logits have shape {actual:?}, not {expected:?}"
            ));
        }
        // A comparison for each phase, so that the report tells which one is wrong.
        let steps = output.dim().0;
        let phases = [("prefill", 0..1), ("decode", 1..steps)];
        let phases = phases.into_iter().filter(|(_, steps)| !steps.is_empty());
        let compare = |(phase, steps): (&'static str, Range<usize>)| {
            let of_phase = s![steps, .., ..];
            Comparison::new(
                phase,
                output.slice(of_phase),
                expected.slice(of_phase),
                tolerance,
            )
        };
        Ok(phases.map(compare).collect())
    }
}
