//! Parts of a grammar: slots, rules and their alternatives.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Slots and rules of one grammar; the rule named `story` is where a story starts.
#[derive(Debug)]
pub struct Grammar {
    pub(crate) slots: Vec<Slot>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) start: usize,
}

/// Something that a story draws once and keeps, such as its hero.
#[derive(Debug)]
pub(crate) struct Slot {
    pub name: String,
    pub columns: Vec<String>,
    /// `rows[row][column]`; the first column is different in every row.
    pub rows: Vec<Vec<String>>,
}

/// A named choice between alternatives.
#[derive(Debug)]
pub(crate) struct Rule {
    pub name: String,
    pub kind: RuleKind,
    pub alternatives: Vec<Alternative>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleKind {
    /// Passages and sentences in order.
    Passage,
    /// The text of one sentence.
    Sentence,
    /// A part of a sentence.
    Phrase,
}

/// One line of a rule.
#[derive(Debug)]
pub(crate) struct Alternative {
    /// Frequency with which it is drawn, relative to its siblings; at least 1.
    pub weight: usize,
    pub items: Vec<Item>,
}

/// `slot`, `column` and `rule` are indices into the grammar.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Text(String),
    Slot {
        slot: usize,
        column: usize,
        capital: bool,
    },
    Rule {
        rule: usize,
        capital: bool,
    },
    /// A new paragraph; in passages only.
    Paragraph,
}

/// The rows of each slot that are still possible: one bit per row.
pub(crate) type Candidates = Vec<u128>;

impl Grammar {
    /// The grammar of `grammar.txt`, on which the model was trained.
    pub fn storyteller() -> &'static Self {
        static STORYTELLER: LazyLock<Grammar> = LazyLock::new(|| {
            // The file is part of this crate and read by its tests: it cannot fail at a user's.
            Grammar::from_text(include_str!("../grammar.txt")).expect("grammar.txt is a grammar")
        });
        &STORYTELLER
    }

    /// The index of the slot called `name`.
    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name == name)
    }

    /// Every row of every slot.
    pub(crate) fn all_candidates(&self) -> Candidates {
        self.slots.iter().map(Slot::all_rows).collect()
    }
}

impl Slot {
    /// One bit for each row.
    pub(crate) fn all_rows(&self) -> u128 {
        u128::MAX >> (128 - self.rows.len())
    }

    /// The values of `column` with the rows that have them, among the `candidates`.
    pub(crate) fn values(&self, column: usize, candidates: u128) -> BTreeMap<&str, u128> {
        let mut values = BTreeMap::new();
        for (row, cells) in self.rows.iter().enumerate() {
            let bit = 1 << row;
            if candidates & bit != 0 {
                *values.entry(cells[column].as_str()).or_insert(0) |= bit;
            }
        }
        values
    }
}

/// `text` with its first letter in upper case.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
