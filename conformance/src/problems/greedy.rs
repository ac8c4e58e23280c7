//! Problems for greedy generation: a prompt, and the likeliest tokens that follow it.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use stage6_pipeline::{Host, ModelFiles, Source};

use super::{Extent, decoder};
use crate::decoder::logits;
use crate::inputs::hash;

/// A prompt and its continuation.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Its name.
    pub name: String,
    /// The decoder.
    pub source: Source,
    /// The prompt.
    pub prompt: Vec<u32>,
    /// The tokens that end a text.
    pub end: Vec<u32>,
    /// The most tokens to generate.
    pub most: usize,
    /// The tokens that have to be generated.
    pub continuation: Vec<u32>,
}

impl Problem {
    /// The size.
    pub fn extent(&self) -> Extent {
        Extent {
            matrices: 0,
            length: self.prompt.len() + self.most,
        }
    }
}

/// A text of `models/storyteller/fixtures/fixtures.json`.
#[derive(Deserialize)]
struct Text {
    ids: Vec<u32>,
    /// The tokens that transformers generates: up to the end of the text, or to a choice so close that rounding could turn it.
    continuation: Vec<u32>,
}

#[derive(Deserialize)]
struct Texts {
    greedy: Vec<Text>,
}

/// Stories of the storyteller, as transformers continues them.
///
/// # Panics
///
/// If the texts are not in their folder beside this package.
pub fn problems() -> Vec<Problem> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/storyteller/fixtures/fixtures.json");
    let json = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let texts: Texts = serde_json::from_str(&json).expect("texts with tokens");
    let source = Source::Files(ModelFiles::storyteller());
    let (architecture, _) = source.load(&Host).unwrap_or_else(|error| panic!("{error}"));
    let problem = |(i, text): (usize, Text)| {
        let most = text.continuation.len();
        let mut continuation = text.continuation;
        continuation.pop_if(|token| architecture.end.contains(token));
        Problem {
            name: format!("storyteller_{i}"),
            source: source.clone(),
            prompt: text.ids,
            end: architecture.end.clone(),
            most,
            continuation,
        }
    };
    texts.greedy.into_iter().enumerate().map(problem).collect()
}

/// The continuation by a decoder of random sizes and parameters. Ends before a choice that rounding could turn.
pub fn random(seed: u64) -> Problem {
    const MOST: usize = 12;
    /// Between the two largest logits.
    const CLOSE: f64 = 1e-3;
    let decoder::Problem { source, tokens, .. } = decoder::random(seed);
    let loaded = source.load(&Host);
    let (architecture, weights) = loaded.unwrap_or_else(|error| panic!("{error}"));
    let mut history = tokens[0].clone();
    let prompt = history.len();
    while history.len() < prompt + MOST {
        let rows = logits(&architecture, &weights, &history);
        let last = rows.last().expect("a row for each token");
        let mut order: Vec<usize> = (0..last.len()).collect();
        order.sort_by(|&a, &b| last[b].total_cmp(&last[a]));
        if last[order[0]] - last[order[1]] < CLOSE {
            break;
        }
        history.push(order[0] as u32);
    }
    let continuation = history.split_off(prompt);
    let ends = hash(seed, 77).is_multiple_of(2);
    let end = Vec::from_iter(continuation.last().copied().filter(|_| ends));
    let first_end = continuation.iter().position(|token| end.contains(token));
    Problem {
        name: format!("greedy_{seed:x}"),
        source,
        prompt: history,
        most: continuation.len(),
        continuation: continuation[..first_end.unwrap_or(continuation.len())].to_vec(),
        end,
    }
}
