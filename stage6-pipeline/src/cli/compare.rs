//! `compare`: our logits and greedy tokens beside those of a reference.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use safetensors::{Dtype, SafeTensors};
use stage6_pipeline::Model;

use super::model;

/// Compare logits and greedy tokens with a reference, which `fixtures/reference.py` makes with transformers
#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Arguments,

    /// The file of the reference: tensors `tokens` [n], `logits` [n, V] after each of them, and `greedy` [m] behind the last
    #[arg(long, value_name = "FILE")]
    reference: PathBuf,

    /// The largest difference of a logit, as a multiple of the RMS of the logits of its position
    #[arg(long, value_name = "X", default_value_t = 1e-4)]
    tolerance: f64,
}

/// What a file says about a model.
struct Reference {
    tokens: Vec<u32>,
    /// `[n][V]`.
    logits: Vec<Vec<f32>>,
    greedy: Vec<u32>,
}

/// Exits with 1 if a logit is off by more than the tolerance, or a token differs.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = &arguments.reference;
    let reference = read(path).with_context(|| path.display().to_string())?;
    let files = arguments.model.files()?;
    let model = arguments.model.load(&files)?;

    let worst = logits(&model, &reference)?;
    let (position, ratio) = worst;
    println!(
        "logits: {} positions, at worst {ratio:.2e} × RMS, at position {position}",
        reference.tokens.len()
    );
    let agreeing = greedy(&model, &reference)?;
    let expected = reference.greedy.len();
    println!("greedy tokens: {agreeing} of {expected} agree");
    // Written so that NaN fails.
    let agrees = ratio <= arguments.tolerance && agreeing == expected;
    Ok(if agrees {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The position with the largest difference over the RMS of its logits, and this ratio. NaN is larger than any number.
fn logits(model: &Model, reference: &Reference) -> anyhow::Result<(usize, f64)> {
    let vocab = model.architecture().vocab;
    let mut session = model.session()?;
    let mut worst = (0, 0.0);
    for (position, (token, expected)) in reference.tokens.iter().zip(&reference.logits).enumerate()
    {
        let columns = expected.len();
        ensure!(
            columns == vocab,
            "the reference has {columns} logits, the model {vocab}"
        );
        let found = session.forward(&[*token])?;
        let squares = expected.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        let rms = (squares / vocab as f64).sqrt();
        for (&found, &expected) in found.iter().zip(expected) {
            let ratio = (f64::from(found) - f64::from(expected)).abs() / rms;
            if ratio.total_cmp(&worst.1).is_gt() {
                worst = (position, ratio);
            }
        }
    }
    Ok(worst)
}

/// How many of the greedy tokens of the reference are ours, before the first that is not.
fn greedy(model: &Model, reference: &Reference) -> anyhow::Result<usize> {
    let context = model.architecture().context;
    let mut batch = model.batch(1, context)?;
    let sequence = batch.create();
    let mut new = reference.tokens.clone();
    for (agreeing, &expected) in reference.greedy.iter().enumerate() {
        batch.forward(&[(sequence, &new)])?;
        let token = batch.likeliest(0)?;
        if token != expected {
            return Ok(agreeing);
        }
        new = vec![token];
    }
    Ok(reference.greedy.len())
}

fn read(path: &PathBuf) -> anyhow::Result<Reference> {
    let bytes = fs::read(path)?;
    let tensors = SafeTensors::deserialize(&bytes)?;
    let logits = tensors.tensor("logits")?;
    let &[rows, columns] = logits.shape() else {
        bail!(
            "logits has the shape {:?}, expected two axes",
            logits.shape()
        );
    };
    ensure!(
        logits.dtype() == Dtype::F32,
        "logits is {}, expected F32",
        logits.dtype()
    );
    let (values, _) = logits.data().as_chunks::<4>();
    let values = Vec::from_iter(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    let reference = Reference {
        tokens: ids(&tensors, "tokens")?,
        logits: values.chunks(columns.max(1)).map(<[f32]>::to_vec).collect(),
        greedy: ids(&tensors, "greedy")?,
    };
    let tokens = reference.tokens.len();
    ensure!(
        tokens == rows && tokens > 0,
        "{tokens} tokens, but logits of {rows} positions"
    );
    Ok(reference)
}

/// Token ids, stored as I64.
fn ids(tensors: &SafeTensors<'_>, name: &str) -> anyhow::Result<Vec<u32>> {
    let tensor = tensors.tensor(name).with_context(|| name.to_owned())?;
    let dtype = tensor.dtype();
    ensure!(dtype == Dtype::I64, "{name} is {dtype}, expected I64");
    let (values, _) = tensor.data().as_chunks::<8>();
    let ids = values
        .iter()
        .map(|bytes| u32::try_from(i64::from_le_bytes(*bytes)));
    ids.collect::<Result<_, _>>()
        .with_context(|| format!("{name} has a negative or large id"))
}
