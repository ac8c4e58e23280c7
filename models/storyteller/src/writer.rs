//! Expands the grammar into a story.

use crate::Dice;
use crate::grammar::{Grammar, Item, RuleKind, capitalised};

/// One story and the two things it must keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Paragraphs separated by one newline; sentences by one space; no newline at the end.
    pub text: String,
    /// The protagonist's name.
    pub hero: String,
    /// The thing that the protagonist looks for, without an article: "silver key".
    pub object: String,
}

impl Grammar {
    /// Writes a story. The same dice write the same story.
    pub fn story(&self, dice: &mut Dice) -> Story {
        let rows: Vec<usize> = self
            .slots
            .iter()
            .map(|slot| dice.below(slot.rows.len()))
            .collect();
        let mut writer = Writer {
            grammar: self,
            rows: &rows,
            dice,
            text: String::new(),
        };
        writer.rule(self.start, false);
        let text = writer.text;
        let value = |name| {
            self.slot(name)
                .map(|slot| self.slots[slot].rows[rows[slot]][0].clone())
                .unwrap_or_default()
        };
        Story {
            text,
            hero: value("hero"),
            object: value("object"),
        }
    }
}

struct Writer<'a> {
    grammar: &'a Grammar,
    /// The drawn row of each slot.
    rows: &'a [usize],
    dice: &'a mut Dice,
    text: String,
}

impl Writer<'_> {
    fn rule(&mut self, rule: usize, capital: bool) {
        let grammar = self.grammar;
        let rule = &grammar.rules[rule];
        if rule.kind == RuleKind::Sentence && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        let total = rule
            .alternatives
            .iter()
            .map(|alternative| alternative.weight)
            .sum();
        let mut throw = self.dice.below(total);
        for alternative in &rule.alternatives {
            if throw < alternative.weight {
                for (index, item) in alternative.items.iter().enumerate() {
                    self.item(item, capital && index == 0);
                }
                return;
            }
            throw -= alternative.weight;
        }
    }

    /// `first_of_capital`: the item begins a phrase that is to be capitalised.
    fn item(&mut self, item: &Item, first_of_capital: bool) {
        let (text, capital) = match item {
            Item::Text(text) => (text.as_str(), false),
            Item::Slot {
                slot,
                column,
                capital,
            } => (
                self.grammar.slots[*slot].rows[self.rows[*slot]][*column].as_str(),
                *capital,
            ),
            Item::Rule { rule, capital } => return self.rule(*rule, *capital || first_of_capital),
            Item::Paragraph => ("\n", false),
        };
        if capital || first_of_capital {
            self.text.push_str(&capitalised(text));
        } else {
            self.text.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_spaces_paragraphs_and_pronouns() {
        let grammar = Grammar::from_text(
            "slot hero: name they\n  Tom | he\nslot owner: name\n  the king\npassage story\n  a b / b\nsentence a\n  {When}, $hero ran.\nphrase when\n  at noon\nsentence b\n  $Owner saw that $hero.they ran.\n",
        )
        .unwrap();
        let story = grammar.story(&mut Dice::new(0));
        assert_eq!(
            story.text,
            "At noon, Tom ran. The king saw that he ran.\nThe king saw that he ran."
        );
        assert_eq!((story.hero.as_str(), story.object.as_str()), ("Tom", ""));
    }
}
