//! The grammar of the crate, seen from outside.

use std::collections::{HashMap, HashSet};

use storyteller::{Dice, Grammar, check, corpus};

/// Stories for the tests; of neither the training nor the validation seed.
fn stories(count: usize) -> Vec<storyteller::Story> {
    corpus::stories(77).take(count).collect()
}

#[test]
fn a_seed_repeats_its_stories_and_stories_differ() {
    let grammar = Grammar::storyteller();
    assert_eq!(
        grammar.story(&mut Dice::for_story(5, 3)),
        corpus::stories(5).nth(3).unwrap()
    );
    let texts: HashSet<String> = stories(5000).into_iter().map(|story| story.text).collect();
    assert_eq!(texts.len(), 5000);
    let others: HashSet<String> = corpus::stories(78)
        .take(5000)
        .map(|story| story.text)
        .collect();
    assert!(texts.is_disjoint(&others));
}

#[test]
fn every_story_passes_its_own_check() {
    for story in stories(400) {
        let report = check::story(&story.text);
        assert_eq!(report.sentences, report.parsed, "{report:?}");
        assert!(
            report.is_whole() && report.keeps_all,
            "{}\n{report:?}",
            story.text
        );
        assert!(report.sentences >= 12, "{}", story.text);
    }
}

#[test]
fn the_hero_and_the_object_are_named_again_and_again() {
    for story in stories(400) {
        assert!(
            story.text.matches(&story.hero).count() >= 5,
            "{}",
            story.text
        );
        assert!(
            story.text.matches(&story.object).count() >= 4,
            "{}",
            story.text
        );
    }
}

#[test]
fn stories_have_a_beginning_a_middle_with_speech_and_an_end() {
    let mut openings: HashMap<String, usize> = HashMap::new();
    for story in stories(2000) {
        let paragraphs: Vec<&str> = story.text.split('\n').collect();
        assert_eq!(paragraphs.len(), 3);
        assert!(paragraphs[1].contains('"'), "{}", story.text);
        assert!(story.text.ends_with(" The end."));
        let words = story.text.split_whitespace().count();
        assert!(
            (120..=220).contains(&words),
            "{words} words: {}",
            story.text
        );
        let opening: Vec<&str> = story.text.split_whitespace().take(4).collect();
        *openings.entry(opening.join(" ")).or_default() += 1;
    }
    assert!(openings["Once upon a time,"] > 1400, "{openings:?}");
}

#[test]
fn the_spelling_is_clean() {
    for story in stories(5000) {
        for wrong in [
            "  ", " .", " ,", "..", "$", "{", "}", " a a", " a e", " a i", " a o", " an b",
            "the the", "\"\"",
        ] {
            assert!(!story.text.contains(wrong), "{wrong:?} in {}", story.text);
        }
        assert_eq!(story.text.matches('"').count() % 2, 0, "{}", story.text);
        for sentence in check::sentences(&story.text) {
            assert!(
                sentence
                    .trim_start_matches('"')
                    .starts_with(char::is_uppercase),
                "{sentence}"
            );
        }
    }
}
