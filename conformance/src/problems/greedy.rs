//! Problems for greedy generation: a prompt, and the likeliest tokens that follow it.

use std::fs;
use std::path::Path;

use ndarray::Array1;
use serde::Deserialize;
use stage6_pipeline::{Bytes, Host, ModelFiles, Room, Source};

use super::{Extent, decoder};
use crate::compare::{Comparison, Tolerance};
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
    /// The most tokens that its batch has room for: `most`, or a few more than the text has.
    pub fn at_most(&self) -> usize {
        self.most.min(self.continuation.len() + MOST)
    }

    /// The room of its batch: the last token is not passed through the decoder.
    pub fn room(&self) -> Room {
        Room {
            sequences: 1,
            tokens: self.prompt.len() + self.at_most().saturating_sub(1),
        }
    }
}

impl super::Problem for Problem {
    /// The tokens: whole numbers.
    type Output = Array1<f32>;
    type Answer = Array1<f64>;

    fn name(&self) -> &str {
        &self.name
    }

    fn needs_care(&self) -> bool {
        self.most == 0
    }

    fn extent(&self) -> Extent {
        Extent {
            matrices: 0,
            length: self.prompt.len() + self.at_most(),
        }
    }

    /// No token.
    fn poisoned(&self) -> Array1<f32> {
        Array1::zeros(0)
    }

    fn answer(&self) -> Array1<f64> {
        self.continuation.iter().copied().map(f64::from).collect()
    }

    fn compare(
        &self,
        output: &Array1<f32>,
        answer: &Array1<f64>,
    ) -> Result<Vec<Comparison>, String> {
        if output.len() != answer.len() {
            return Err(format!("{} tokens, not {}", output.len(), answer.len()));
        }
        let exact = Tolerance {
            relative: 0.0,
            absolute: 0.0,
        };
        let compared = Comparison::new("tokens", output.view(), answer.view(), exact);
        Ok(vec![compared])
    }
}

/// A text of `models/storyteller/fixtures/fixtures.json`.
#[derive(Deserialize)]
struct Text {
    ids: Vec<u32>,
    /// The tokens that transformers generates: up to the end of the text, or to a choice so close
    /// that rounding could turn it.
    continuation: Vec<u32>,
}

#[derive(Deserialize)]
struct Texts {
    greedy: Vec<Text>,
}

/// Stories of the storyteller, as transformers continues them, ties, logits that are nearly tied or
/// below 0, an end, an end in the prompt, and no token: see [`tied`], [`nearly_tied`],
/// [`below_zero`], [`ended`], [`after_an_end`] and [`no_token`].
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
    let stories = texts.greedy.into_iter().enumerate().map(problem);
    let small = [
        tied(2),
        tied(usize::MAX),
        nearly_tied(),
        below_zero(),
        ended(MOST),
        ended(usize::MAX),
        after_an_end(),
        no_token(),
    ];
    stories.chain(small).collect()
}

/// The continuation by a decoder of random sizes and parameters. Ends before a choice
/// that rounding could turn.
pub fn random(seed: u64) -> Problem {
    let decoder::Problem { source, tokens, .. } = decoder::random(seed);
    let prompt = tokens[0].clone();
    let mut problem = continued(format!("greedy_{seed:x}"), source, prompt, CLOSE);
    if let (Some(&last), 0) = (problem.continuation.last(), hash(seed, 77) % 2) {
        // The first of two does not occur.
        let absent = (0..).find(|token| !problem.continuation.contains(token));
        problem.end = absent.into_iter().chain([last]).collect();
    }
    let mut tokens = problem.continuation.iter();
    let first_end = tokens.position(|token| problem.end.contains(token));
    problem.continuation.truncate(first_end.unwrap_or(MOST));
    problem
}

/// The continuation by a decoder that does not tell `alike` tokens apart, those from a multiple of
/// it on: every choice is a tie. If all are alike, the text is the token 0, and nothing ends it.
///
/// # Panics
///
/// If the checkpoint is not in its folder beside this package.
pub fn tied(alike: usize) -> Problem {
    let source = tiny_gpt2(|bytes| {
        change(bytes, "wte.weight", |data, row| {
            for group in data.chunks_mut(row.saturating_mul(alike)) {
                let (first, others) = group.split_at_mut(row);
                others
                    .chunks_mut(row)
                    .for_each(|other| other.copy_from_slice(first));
            }
        });
    });
    let name = match alike {
        2 => "tied",
        _ => "all_tied",
    };
    continued(name.to_owned(), source, vec![4, 9, 2], CLOSE)
}

/// The continuation by a decoder in which the second token of each pair leads by 6e-5, a hundred
/// times what rounding makes of a logit.
///
/// # Panics
///
/// As [`tied`] does.
pub fn nearly_tied() -> Problem {
    const LEAD: f32 = 1.0 / 16384.0;
    // What meets the first column of the output matrix is 1.
    let source = tiny_gpt2(|bytes| {
        change(bytes, "wte.weight", |data, row| {
            for pair in data.chunks_mut(2 * row) {
                pair[..4].copy_from_slice(&0f32.to_le_bytes());
                if let Some((first, second)) = pair.split_at_mut_checked(row) {
                    second.copy_from_slice(&first[..second.len()]);
                    second[..4].copy_from_slice(&LEAD.to_le_bytes());
                }
            }
        });
        for (tensor, value) in [("ln_f.weight", 0f32), ("ln_f.bias", 1f32)] {
            change(bytes, tensor, |data, _| {
                data[..4].copy_from_slice(&value.to_le_bytes());
            });
        }
    });
    let close = f64::from(LEAD) / 2.0;
    continued("nearly_tied".to_owned(), source, vec![4, 9, 2], close)
}

/// The continuation by a decoder all of whose logits are far below 0: the likeliest token has the
/// largest of them.
///
/// # Panics
///
/// As [`tied`] does.
pub fn below_zero() -> Problem {
    // The first column of the output matrix is 1, and what meets it about -100.
    let source = tiny_gpt2(|bytes| {
        change(bytes, "wte.weight", |data, row| {
            for row in data.chunks_mut(row) {
                row[..4].copy_from_slice(&1f32.to_le_bytes());
            }
        });
        change(bytes, "ln_f.bias", |data, _| {
            data[..4].copy_from_slice(&(-100f32).to_le_bytes());
        });
    });
    continued("below_zero".to_owned(), source, vec![4, 9, 2], CLOSE)
}

/// A text that ends before one of several tokens, which are in descending order, although it may
/// have so many.
///
/// # Panics
///
/// As [`tied`] does.
pub fn ended(most: usize) -> Problem {
    let mut problem = tied(2);
    let first = problem.continuation[0];
    let others = problem.continuation.iter().filter(|&&token| token != first);
    let largest = others.copied().max().unwrap_or(first);
    let mut tokens = problem.continuation.iter();
    let place = tokens.position(|&token| token == largest).unwrap_or(0);
    problem.continuation.truncate(place);
    Problem {
        name: match most {
            usize::MAX => "ended_without_limit".to_owned(),
            _ => "ended".to_owned(),
        },
        // Odd tokens do not occur.
        end: vec![largest + 1, largest, 3, 1],
        most,
        ..problem
    }
}

/// A prompt whose last token would end a text: what ends one is a token that follows the prompt.
///
/// # Panics
///
/// As [`tied`] does.
pub fn after_an_end() -> Problem {
    let problem = tied(2);
    let last = problem.prompt.last().copied().unwrap_or(0);
    let mut text = problem.continuation.iter();
    let length = text.position(|&token| token == last);
    Problem {
        name: "after_an_end".to_owned(),
        end: vec![last],
        continuation: problem.continuation[..length.unwrap_or(problem.most)].to_vec(),
        ..problem
    }
}

/// A prompt that no token is to follow.
///
/// # Panics
///
/// As [`tied`] does.
pub fn no_token() -> Problem {
    Problem {
        name: "no_token".to_owned(),
        most: 0,
        continuation: Vec::new(),
        ..tied(2)
    }
}

/// The most tokens of a continuation.
const MOST: usize = 12;

/// Between the largest logit and another one, so little that rounding could turn a choice.
const CLOSE: f64 = 1e-3;

/// What follows a prompt, without an end, up to a choice between logits that are `close`: of
/// several tokens with the same logit the first.
fn continued(name: String, source: Source, prompt: Vec<u32>, close: f64) -> Problem {
    let loaded = source.load(&Host);
    let (architecture, weights) = loaded.unwrap_or_else(|error| panic!("{error}"));
    let mut history = prompt.clone();
    while history.len() < prompt.len() + MOST {
        let rows = logits(&architecture, &weights, &history);
        let last = rows.last().expect("a row for each token");
        let largest = last.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if last.iter().any(|&x| x < largest && largest - x < close) {
            break;
        }
        let next = last.iter().position(|&x| x == largest);
        history.push(next.expect("the largest is one of them") as u32);
    }
    let continuation = history.split_off(prompt.len());
    Problem {
        name,
        source,
        prompt,
        end: Vec::new(),
        most: continuation.len(),
        continuation,
    }
}

/// A small checkpoint whose weights in f32 were changed.
fn tiny_gpt2(change: impl Fn(&mut [u8])) -> Source {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stage6-pipeline/fixtures");
    let files = ModelFiles::read(&folder.join("tiny-gpt2"));
    let mut files = files.unwrap_or_else(|error| panic!("{error}"));
    for file in &mut files.weights {
        let mut bytes = file.contents().unwrap_or_else(|error| panic!("{error}"));
        change(&mut bytes);
        file.bytes = Bytes::Memory(bytes.into());
    }
    Source::Files(files)
}

/// Changes a tensor in the bytes of a safetensors file: `edit` gets its data, and a row's size.
fn change(bytes: &mut [u8], tensor: &str, edit: impl Fn(&mut [u8], usize)) {
    let fits = "a file of safetensors";
    let (length, rest) = bytes.split_first_chunk().expect(fits);
    let data = 8 + u64::from_le_bytes(*length) as usize;
    let header: serde_json::Value = serde_json::from_slice(&rest[..data - 8]).expect(fits);
    let tensors = header.as_object().expect(fits);
    for (_, entry) in tensors.iter().filter(|(name, _)| name.ends_with(tensor)) {
        let number = |x: &serde_json::Value| x.as_u64().expect(fits) as usize;
        let [begin, end] = [0, 1].map(|i| data + number(&entry["data_offsets"][i]));
        let row = (end - begin) / number(&entry["shape"][0]);
        edit(&mut bytes[begin..end], row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_a_tie_and_the_first_token_is_right() {
        let problem = tied(2);
        assert!(problem.continuation.len() > 3, "{problem:?}");
        assert!(problem.continuation.iter().all(|token| token % 2 == 0));
        let (architecture, weights) = problem.source.load(&Host).unwrap();
        let rows = logits(&architecture, &weights, &problem.prompt);
        let next = problem.continuation[0] as usize;
        assert_eq!(rows[2][next], rows[2][next + 1]);
        assert_eq!(tied(usize::MAX).continuation, [0; MOST]);
        let ended = ended(MOST);
        assert!(ended.end.is_sorted_by(|a, b| a > b), "{:?}", ended.end);
        assert!(!ended.continuation.is_empty());
        assert!(problem.continuation.starts_with(&ended.continuation));
        let after_an_end = after_an_end();
        assert!(
            after_an_end
                .end
                .contains(after_an_end.prompt.last().unwrap())
        );
        assert!(!after_an_end.continuation.is_empty());
    }

    #[test]
    fn the_second_of_each_pair_leads_by_little() {
        let problem = nearly_tied();
        assert!(problem.continuation.len() > 3, "{problem:?}");
        assert!(problem.continuation.iter().all(|token| token % 2 == 1));
        let (architecture, weights) = problem.source.load(&Host).unwrap();
        for row in logits(&architecture, &weights, &problem.prompt) {
            for pair in row.chunks_exact(2) {
                assert!((pair[1] - pair[0] - 6.1e-5).abs() < 1e-6, "{pair:?}");
            }
        }
    }

    #[test]
    fn all_logits_are_below_zero() {
        let problem = below_zero();
        assert!(problem.continuation.len() > 3, "{problem:?}");
        assert!(!problem.continuation.contains(&0), "{problem:?}");
        let (architecture, weights) = problem.source.load(&Host).unwrap();
        let rows = logits(&architecture, &weights, &problem.prompt);
        assert!(rows.iter().flatten().all(|&x| x < -1.0), "{rows:?}");
    }
}
