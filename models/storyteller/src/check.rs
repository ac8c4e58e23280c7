//! Judges a text that wants to be a story: the grammar's own, or a model's.

use crate::grammar::{Candidates, Grammar};

/// The sentence that closes a story, and the rules that may stand right before it.
const CLOSING: &str = "the_end";
const ENDINGS: [&str; 2] = ["last", "feast"];

/// Findings in one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryReport {
    /// Sentences in the text.
    pub sentences: usize,
    /// Those that the grammar can write.
    pub parsed: usize,
    /// A hero is named, and no sentence names another or says "he" of her.
    pub keeps_hero: bool,
    /// An object is named, and no sentence names another.
    pub keeps_object: bool,
    /// Every slot of the grammar (helper, place, owner, …) is kept in this way.
    pub keeps_all: bool,
    /// The text closes with an ending sentence and "The end."
    pub ends: bool,
    /// The sentences that did not parse.
    pub unparsed: Vec<String>,
}

impl StoryReport {
    /// Hero and object are kept, and the story ends.
    pub fn is_whole(&self) -> bool {
        self.keeps_hero && self.keeps_object && self.ends
    }
}

/// Checks a story, from its first sentence to "The end.", by
/// [`Grammar::storyteller`]. Any text is accepted.
pub fn story(text: &str) -> StoryReport {
    let grammar = Grammar::storyteller();
    let mut memory = Memory::new(grammar);
    let mut rules = Vec::new();
    let mut unparsed = Vec::new();
    for sentence in sentences(text) {
        match grammar.parse_sentence(sentence) {
            Some(parsed) => {
                rules.push(parsed.rule().to_owned());
                memory.compare(sentence);
            }
            None => {
                rules.push(String::new());
                unparsed.push(sentence.to_owned());
                memory.compare_words(sentence);
            }
        }
    }
    let ends = matches!(rules.as_slice(), [.., ending, closing] if closing == CLOSING && ENDINGS.contains(&ending.as_str()));
    StoryReport {
        sentences: rules.len(),
        parsed: rules.len() - unparsed.len(),
        keeps_hero: memory.keeps("hero"),
        keeps_object: memory.keeps("object"),
        keeps_all: grammar.slots.iter().all(|slot| memory.keeps(&slot.name)),
        ends,
        unparsed,
    }
}

/// The stories of a file: separated by blank lines, without the lines that start with `#`.
pub fn split_stories(text: &str) -> Vec<String> {
    let mut stories = vec![String::new()];
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
    {
        match stories.last_mut() {
            Some(story) if !line.is_empty() => {
                if !story.is_empty() {
                    story.push('\n');
                }
                story.push_str(line);
            }
            _ => stories.push(String::new()),
        }
    }
    stories.retain(|story| !story.is_empty());
    stories
}

/// Splits a text into sentences, without the white space around them.
///
/// A sentence ends at a full stop, question mark or exclamation mark (with the quotation mark
/// after it, if there is one) that is followed by white space and a capital letter or a quotation
/// mark; and at every newline.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(sentences_of_line)
}

fn sentences_of_line(line: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, mark) in line.char_indices().filter(|(_, c)| ".!?".contains(*c)) {
        let mut end = at + mark.len_utf8();
        if line[end..].starts_with('"') {
            end += 1;
        }
        let next = line[end..].trim_start();
        if next.len() < line.len() - end && next.starts_with(|c: char| c == '"' || c.is_uppercase())
        {
            sentences.push(&line[start..end]);
            start = end;
        }
    }
    sentences.push(&line[start..]);
    sentences
        .into_iter()
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
        .collect()
}

/// The values that the sentences so far have left possible.
struct Memory<'g> {
    grammar: &'g Grammar,
    candidates: Candidates,
    broken: Vec<bool>,
}

impl<'g> Memory<'g> {
    fn new(grammar: &'g Grammar) -> Self {
        Self {
            grammar,
            candidates: grammar.all_candidates(),
            broken: vec![false; grammar.slots.len()],
        }
    }

    /// A sentence that parses: narrows the candidates, or finds the slots that it contradicts.
    fn compare(&mut self, sentence: &str) {
        if let Some(parsed) = self.grammar.parse_with(sentence, &self.candidates) {
            self.candidates = parsed.candidates;
            return;
        }
        for slot in 0..self.broken.len() {
            let mut candidates = self.grammar.all_candidates();
            candidates[slot] = self.candidates[slot];
            match self.grammar.parse_with(sentence, &candidates) {
                Some(parsed) => self.candidates[slot] = parsed.candidates[slot],
                None => self.broken[slot] = true,
            }
        }
    }

    /// A sentence that does not parse: finds the slots whose value is known, and of
    /// which it names another one.
    fn compare_words(&mut self, sentence: &str) {
        for (index, slot) in self.grammar.slots.iter().enumerate() {
            let known = self.candidates[index];
            let others = slot
                .rows
                .iter()
                .enumerate()
                .filter(|(row, _)| known & (1 << row) == 0);
            if known.count_ones() == 1
                && others
                    .into_iter()
                    .any(|(_, row)| has_words(sentence, &row[0]))
            {
                self.broken[index] = true;
            }
        }
    }

    fn keeps(&self, slot: &str) -> bool {
        self.grammar
            .slot(slot)
            .is_some_and(|slot| !self.broken[slot] && self.candidates[slot].count_ones() == 1)
    }
}

/// Does `words` stand in `text`, not as a part of longer words?
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const STORY: &str = "Once upon a time, a shy fox named Mira lived in a busy town near the harbour. \
        One cold day, the queen lost her scarlet kite on the way home. \"I will find the scarlet kite,\" said Mira.\n\
        Just then, a tiny snail appeared. \"The scarlet kite is under the broken cart,\" said the snail.\n\
        Mira looked under the broken cart, and there was the scarlet kite. And Mira lived happily ever after. The end.";

    #[test]
    fn a_story_is_whole() {
        let report = story(STORY);
        assert_eq!((report.sentences, report.parsed), (8, 8), "{report:?}");
        assert!(report.is_whole(), "{report:?}");
        // It has no snack: not every slot is told.
        assert!(!report.keeps_all);
    }

    #[rstest]
    #[case::another_hero("said Mira", "said Luna", [8, 0, 1, 1])]
    #[case::wrong_pronoun("And Mira lived", "Mira liked asking questions, and she was never rude. And Mira lived", [9, 1, 1, 1])]
    #[case::another_object("was the scarlet kite", "was the magic lantern", [8, 1, 0, 1])]
    #[case::another_hero_in_nonsense("Just then, a", "Luna the a", [7, 0, 1, 1])]
    #[case::part_of_a_word_is_no_name("Just then, a", "Maxwell the a", [7, 1, 1, 1])]
    #[case::another_object_in_nonsense("Just then, a", "Magic lantern a magic lantern", [7, 1, 0, 1])]
    #[case::no_ending("And Mira lived happily ever after. ", "", [7, 1, 1, 0])]
    #[case::not_closed(" The end.", "", [7, 1, 1, 0])]
    #[case::goes_on("The end.", "The end. The end.", [9, 1, 1, 0])]
    #[case::other_snail("said the snail", "said the frog", [8, 1, 1, 1])]
    fn finds(#[case] words: &str, #[case] others: &str, #[case] expected: [usize; 4]) {
        assert!(STORY.contains(words));
        let report = story(&STORY.replace(words, others));
        let found = [
            report.parsed,
            report.keeps_hero.into(),
            report.keeps_object.into(),
            report.ends.into(),
        ];
        assert_eq!(found, expected, "{report:?}");
    }

    #[test]
    fn a_pronoun_must_agree_across_sentences() {
        let text = STORY.replace(
            "Just then",
            "Nobody had ever been so kind to the dragon, and it let him pass. Just then",
        );
        assert!(!story(&text).keeps_hero);
        assert!(story(&text.replace("let him pass", "let her pass")).keeps_hero);
    }

    #[rstest]
    #[case::empty("")]
    #[case::blank(" \n \n")]
    #[case::marks("...!?\"\".\" . \" .A .B")]
    #[case::letters("\u{0}É. É! \u{1F98A}\"? é.\u{2028}É")]
    #[case::long_word("Mira")]
    fn any_text_is_accepted(#[case] text: &str) {
        let report = story(text);
        assert_eq!(report.parsed, 0);
        assert!(!report.is_whole());
    }

    #[test]
    fn stories_are_split_at_blank_lines() {
        assert_eq!(
            split_stories("# drawn so\n\n\nA.\nB.\n \n# and so\nC.\r\n"),
            ["A.\nB.", "C."]
        );
        assert!(split_stories("\n# x\n").is_empty());
    }

    #[test]
    fn quotes_and_questions_split_where_a_reader_would() {
        let text = "\"Who are you?\" asked Mira. \"Go away!\" So Mira went. 3.5 is no end. \"A.\" \"B.\"\nnew";
        let split: Vec<&str> = sentences(text).collect();
        assert_eq!(
            split,
            [
                "\"Who are you?\" asked Mira.",
                "\"Go away!\"",
                "So Mira went. 3.5 is no end.",
                "\"A.\"",
                "\"B.\"",
                "new"
            ]
        );
    }
}
