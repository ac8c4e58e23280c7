//! `compare`: our logits and greedy tokens beside those of a reference.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use safetensors::{Dtype, SafeTensors};
use stage6_pipeline::{Batch, Error, Model};

use super::model;

/// Compare logits and greedy tokens with a reference, which
/// `fixtures/reference.py` makes with transformers
#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Arguments,

    /// The file of the reference: tensors `tokens` [n], `logits` [n, V] after each of them, and
    /// `greedy` [m] behind the last
    #[arg(long, value_name = "FILE")]
    reference: PathBuf,

    /// The largest difference of a logit, as a multiple of the RMS of the logits of its position
    #[arg(long, value_name = "X", default_value_t = 1e-4)]
    tolerance: f64,
}

/// Logits and tokens of a model, from a file.
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
    reference.check_finite(path)?;
    let files = arguments.model.files()?;
    let model = arguments.model.load(&files)?;

    let worst = logits(&model, &reference)?;
    let (position, ratio) = worst;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "logits: {} positions, at worst {ratio:.2e} × RMS, at position {position}",
        reference.tokens.len()
    )?;
    let agreeing = greedy(&model, &reference)?;
    let expected = reference.greedy.len();
    writeln!(out, "greedy tokens: {agreeing} of {expected} agree")?;
    // Written so that NaN and infinity fail, whatever the tolerance.
    let agrees = ratio.is_finite() && ratio <= arguments.tolerance && agreeing == expected;
    Ok(if agrees {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Reference {
    /// Refuses NaN and infinite logits, which no model can be near.
    fn check_finite(&self, path: &Path) -> Result<(), Error> {
        let mut logits = self.logits.iter().flatten().copied().enumerate();
        match logits.find(|(_, logit)| !logit.is_finite()) {
            None => Ok(()),
            Some((index, found)) => Err(Error::TensorNotFinite {
                file: path.display().to_string(),
                tensor: "logits".to_owned(),
                found,
                index,
            }),
        }
    }

    /// Room for the tokens, and for `more` behind them.
    fn batch<'m>(&self, model: &'m Model, more: usize) -> Result<Batch<'m>, Error> {
        let tokens = self.tokens.len() + more;
        model.batch(1, tokens.min(model.architecture().context))
    }
}

/// The position with the largest difference over the RMS of its logits, and this ratio.
fn logits(model: &Model, reference: &Reference) -> anyhow::Result<(usize, f64)> {
    let vocab = model.architecture().vocab;
    let mut batch = reference.batch(model, 0)?;
    let sequence = batch.create();
    let mut worst = (0, 0.0);
    for (position, (token, expected)) in reference.tokens.iter().zip(&reference.logits).enumerate()
    {
        let columns = expected.len();
        ensure!(
            columns == vocab,
            "the reference has {columns} logits, the model {vocab}"
        );
        batch.forward(&[(sequence, &[*token])])?;
        let ratio = largest_ratio(&batch.logits(0)?, expected);
        if ratio > worst.1 {
            worst = (position, ratio);
        }
    }
    Ok(worst)
}

/// The largest difference over the RMS of `expected`. NaN counts as infinity.
fn largest_ratio(found: &[f32], expected: &[f32]) -> f64 {
    let squares = expected.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    let rms = (squares / expected.len() as f64).sqrt();
    let ratios = found.iter().zip(expected).map(|(&found, &expected)| {
        let ratio = (f64::from(found) - f64::from(expected)).abs() / rms;
        if ratio.is_nan() { f64::INFINITY } else { ratio }
    });
    ratios.fold(0.0, f64::max)
}

/// Number of greedy tokens of the reference that are ours, before the first that is not.
fn greedy(model: &Model, reference: &Reference) -> anyhow::Result<usize> {
    let mut batch = reference.batch(model, reference.greedy.len())?;
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
    ensure!(columns > 0, "logits has no columns");
    ensure!(
        logits.dtype() == Dtype::F32,
        "logits is {}, expected F32",
        logits.dtype()
    );
    let (values, _) = logits.data().as_chunks::<4>();
    let values = Vec::from_iter(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    let reference = Reference {
        tokens: ids(&tensors, "tokens")?,
        logits: values.chunks(columns).map(<[f32]>::to_vec).collect(),
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::equal(&[3.0, 4.0], &[3.0, 4.0], 0.0)]
    #[case::off(&[1.0, 2.0], &[1.0, 1.0], 1.0)]
    #[case::nan(&[f32::NAN, 1.0], &[1.0, 1.0], f64::INFINITY)]
    #[case::negative_nan(&[1.0, -f32::NAN], &[1.0, 1.0], f64::INFINITY)]
    #[case::infinite(&[f32::INFINITY, 1.0], &[1.0, 1.0], f64::INFINITY)]
    #[case::zero_by_zero(&[0.0, 0.0], &[0.0, 0.0], f64::INFINITY)]
    fn nan_is_the_largest_ratio(
        #[case] found: &[f32],
        #[case] expected: &[f32],
        #[case] ratio: f64,
    ) {
        assert_eq!(largest_ratio(found, expected), ratio);
    }
}
