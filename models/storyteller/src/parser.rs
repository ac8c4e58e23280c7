//! Parses one sentence by the grammar.

use std::ops::ControlFlow;

use crate::grammar::{Candidates, Grammar, Item, RuleKind, capitalised};

/// Derivation of a sentence.
#[derive(Clone, Debug)]
pub struct ParsedSentence<'g> {
    grammar: &'g Grammar,
    rule: usize,
    pub(crate) candidates: Candidates,
}

impl ParsedSentence<'_> {
    /// The name of the sentence rule, for example `opening`.
    pub fn rule(&self) -> &str {
        &self.grammar.rules[self.rule].name
    }

    /// The first column of the slot called `slot`, if the sentence leaves one row
    /// possible: "Mira" for `hero`.
    pub fn value(&self, slot: &str) -> Option<&str> {
        let slot = self.grammar.slot(slot)?;
        let rows = self.candidates[slot];
        (rows.count_ones() == 1)
            .then(|| self.grammar.slots[slot].rows[rows.trailing_zeros() as usize][0].as_str())
    }
}

impl Grammar {
    /// Parses `sentence`, without white space around it; `None` if no sentence rule writes
    /// it with one row per slot.
    pub fn parse_sentence(&self, sentence: &str) -> Option<ParsedSentence<'_>> {
        self.parse_with(sentence, &self.all_candidates())
    }

    /// As [`Self::parse_sentence`], with only these `candidates` for the slots.
    pub(crate) fn parse_with(
        &self,
        sentence: &str,
        candidates: &Candidates,
    ) -> Option<ParsedSentence<'_>> {
        let mut parsed = None;
        let _ = self.each_parse(sentence, candidates, &mut |rule, candidates| {
            parsed = Some(ParsedSentence {
                grammar: self,
                rule,
                candidates: candidates.clone(),
            });
            ControlFlow::Break(())
        });
        parsed
    }

    /// Calls `found` with the rule and the remaining rows of every derivation, until it breaks.
    fn each_parse(
        &self,
        sentence: &str,
        candidates: &Candidates,
        found: &mut dyn FnMut(usize, &Candidates) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (index, rule) in self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.kind == RuleKind::Sentence)
        {
            for alternative in &rule.alternatives {
                let rest = Rest {
                    items: &alternative.items,
                    capital: false,
                    then: None,
                };
                let mut candidates = candidates.clone();
                self.follow(Some(&rest), sentence, &mut candidates, &mut |candidates| {
                    found(index, candidates)
                })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Matches what is still to come against `text`, with backtracking. The depth of the recursion
    /// depends on the grammar alone. `candidates` are as before when this returns.
    fn follow(
        &self,
        rest: Option<&Rest>,
        text: &str,
        candidates: &mut Candidates,
        found: &mut dyn FnMut(&Candidates) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(rest) = rest else {
            return if text.is_empty() {
                found(candidates)
            } else {
                ControlFlow::Continue(())
            };
        };
        let Some((item, items)) = rest.items.split_first() else {
            return self.follow(rest.then, text, candidates, found);
        };
        let after = Rest {
            items,
            capital: false,
            then: rest.then,
        };
        match item {
            Item::Text(expected) => match strip(text, expected, rest.capital) {
                Some(text) => self.follow(Some(&after), text, candidates, found),
                None => ControlFlow::Continue(()),
            },
            Item::Slot {
                slot,
                column,
                capital,
            } => {
                let before = candidates[*slot];
                for (value, rows) in self.slots[*slot].values(*column, before) {
                    if let Some(text) = strip(text, value, *capital || rest.capital) {
                        candidates[*slot] = rows;
                        self.follow(Some(&after), text, candidates, found)?;
                    }
                }
                candidates[*slot] = before;
                ControlFlow::Continue(())
            }
            Item::Rule { rule, capital } => {
                for alternative in &self.rules[*rule].alternatives {
                    let inner = Rest {
                        items: &alternative.items,
                        capital: *capital || rest.capital,
                        then: Some(&after),
                    };
                    self.follow(Some(&inner), text, candidates, found)?;
                }
                ControlFlow::Continue(())
            }
            Item::Paragraph => ControlFlow::Continue(()),
        }
    }
}

/// The rest that a derivation has to write: the `items`, then `then`.
struct Rest<'a> {
    items: &'a [Item],
    /// The first of the items is capitalised.
    capital: bool,
    then: Option<&'a Rest<'a>>,
}

fn strip<'t>(text: &'t str, expected: &str, capital: bool) -> Option<&'t str> {
    if capital {
        text.strip_prefix(capitalised(expected).as_str())
    } else {
        text.strip_prefix(expected)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{Dice, check};

    #[rstest]
    #[case::name(
        "Mira loved climbing trees more than anything else.",
        "trait",
        Some("Mira"),
        None
    )]
    #[case::capital(
        "Slowly but surely, Otto followed the owl out of the fog.",
        "fog_solve",
        Some("Otto"),
        None
    )]
    #[case::speech(
        "\"I will find the silver key,\" said Tom.",
        "vow",
        Some("Tom"),
        Some("silver key")
    )]
    #[case::pronoun_alone(
        "Nobody had ever been so kind to the dragon, and it let her pass.",
        "dragon_solve",
        None,
        None
    )]
    #[case::slot_in_phrase(
        "That night, Zoe slept soundly and dreamed of the scarlet kite.",
        "last",
        Some("Zoe"),
        Some("scarlet kite")
    )]
    fn parses(
        #[case] sentence: &str,
        #[case] rule: &str,
        #[case] hero: Option<&str>,
        #[case] object: Option<&str>,
    ) {
        let parsed = Grammar::storyteller().parse_sentence(sentence).unwrap();
        assert_eq!(
            (parsed.rule(), parsed.value("hero"), parsed.value("object")),
            (rule, hero, object)
        );
        assert_eq!(parsed.value("no such slot"), None);
    }

    #[rstest]
    #[case::empty("")]
    #[case::half("Mira loved climbing trees")]
    #[case::and_more("The end. ")]
    #[case::lower_case("the end.")]
    #[case::two_heroes("Mira was so happy that Mira.")]
    #[case::pronoun("Mira was so happy that he laughed out loud.")]
    #[case::another_hero("Mira liked asking questions, and Tom was never rude.")]
    #[case::unknown_word("Mira loved climbing ladders more than anything else.")]
    #[case::letters("\u{0}\u{1F98A}é\"…")]
    fn refuses(#[case] sentence: &str) {
        assert!(Grammar::storyteller().parse_sentence(sentence).is_none());
    }

    #[test]
    fn a_failed_branch_leaves_no_trace() {
        let text = "slot a: name\n  Tom\n  Ann\npassage story\n  s\nsentence s\n  {p} $a.\nphrase p\n  $a and\n  Tom and no\n";
        let grammar = Grammar::from_text(text).unwrap();
        assert_eq!(
            grammar
                .parse_sentence("Tom and no Ann.")
                .unwrap()
                .value("a"),
            Some("Ann")
        );
        assert!(grammar.parse_sentence("Tom and Ann.").is_none());
    }

    #[test]
    fn every_sentence_of_a_story_has_one_derivation_with_the_story_s_values() {
        let grammar = Grammar::storyteller();
        for index in 0..300 {
            let story = grammar.story(&mut Dice::for_story(99, index));
            for sentence in check::sentences(&story.text) {
                let mut derivations = Vec::new();
                let _ = grammar.each_parse(
                    sentence,
                    &grammar.all_candidates(),
                    &mut |rule, candidates| {
                        derivations.push((rule, candidates.clone()));
                        ControlFlow::Continue(())
                    },
                );
                assert_eq!(derivations.len(), 1, "{sentence}");
                let (rule, candidates) = derivations.pop().unwrap();
                let parsed = ParsedSentence {
                    grammar,
                    rule,
                    candidates,
                };
                assert!(
                    parsed.value("hero").is_none_or(|hero| hero == story.hero),
                    "{sentence}"
                );
                assert!(
                    parsed
                        .value("object")
                        .is_none_or(|object| object == story.object),
                    "{sentence}"
                );
            }
        }
    }
}
