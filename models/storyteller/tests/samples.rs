//! The committed samples: stories that the model wrote at temperature 0.8, judged by the grammar.
//!
//! The head of the file says which command draws new ones.

use std::collections::HashSet;

use storyteller::{check, training_corpus};

fn samples() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/temperature-0.8.txt");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    check::split_stories(&text)
}

#[test]
fn there_are_fifty_different_samples() {
    let samples = samples();
    assert_eq!(samples.len(), 50);
    assert_eq!(samples.iter().collect::<HashSet<_>>().len(), 50);
    assert!(
        samples
            .iter()
            .all(|sample| sample.split_whitespace().count() >= 20)
    );
}

#[test]
fn ninety_five_percent_of_the_sentences_parse() {
    let reports: Vec<_> = samples()
        .iter()
        .map(|sample| check::story(sample))
        .collect();
    let sentences: usize = reports.iter().map(|report| report.sentences).sum();
    let parsed: usize = reports.iter().map(|report| report.parsed).sum();
    let unparsed: Vec<_> = reports.iter().flat_map(|report| &report.unparsed).collect();
    assert!(
        parsed * 100 >= sentences * 95,
        "{parsed} of {sentences}; not parsed: {unparsed:#?}"
    );
}

#[test]
fn ninety_percent_of_the_stories_keep_hero_and_object_and_end() {
    let samples = samples();
    let broken: Vec<_> = samples
        .iter()
        .filter(|sample| !check::story(sample).is_whole())
        .collect();
    assert!(broken.len() * 10 <= samples.len(), "{broken:#?}");
}

#[test]
fn ninety_percent_of_the_stories_keep_every_slot() {
    let samples = samples();
    let broken: Vec<_> = samples
        .iter()
        .filter(|sample| !check::story(sample).keeps_all)
        .collect();
    assert!(broken.len() * 10 <= samples.len(), "{broken:#?}");
}

#[test]
fn no_sample_is_a_training_story() {
    let training: HashSet<String> = training_corpus().map(|story| story.text).collect();
    assert_eq!(
        training.len(),
        storyteller::corpus::TRAINING_STORIES as usize
    );
    let copied: Vec<_> = samples()
        .into_iter()
        .filter(|sample| training.contains(sample))
        .collect();
    assert!(copied.is_empty(), "{copied:#?}");
}
