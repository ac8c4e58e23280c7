//! Reads the text of a grammar.

use std::collections::{HashMap, HashSet};

use crate::grammar::{Alternative, Grammar, Item, Rule, RuleKind, Slot};

/// Why a text is not a grammar. Lines count from 1.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum GrammarError {
    #[error(
        "line {line}: expected `slot`, `passage`, `sentence` or `phrase` and a name, found `{found}`"
    )]
    Heading { line: usize, found: String },
    #[error("line {line}: {what}")]
    Malformed { line: usize, what: &'static str },
    #[error("line {line}: nothing here is called `{name}`")]
    Unknown { line: usize, name: String },
    #[error("line {line}: `{text}` stands here for the second time")]
    Twice { line: usize, text: String },
    #[error("`{name}` has no lines, or more than 128 rows")]
    Size { name: String },
    #[error("`{name}` contains itself")]
    Recursive { name: String },
    #[error("there is no passage called `story`")]
    NoStory,
}

/// A heading with the lines under it.
struct Block<'a> {
    line: usize,
    keyword: &'a str,
    name: &'a str,
    columns: Vec<&'a str>,
    lines: Vec<(usize, &'a str)>,
}

impl Grammar {
    /// Reads a grammar; the format is explained at the head of `grammar.txt`.
    ///
    /// # Errors
    /// [`GrammarError`] names the line that is not understood, or the name that is unknown, empty,
    /// defined twice or recursive.
    pub fn from_text(text: &str) -> Result<Self, GrammarError> {
        let blocks = blocks(text)?;
        let mut slots = Vec::new();
        let mut names = Names::default();
        for block in &blocks {
            let fresh = match block.keyword {
                "slot" => {
                    slots.push(slot(block)?);
                    names.slots.insert(block.name, slots.len() - 1).is_none()
                }
                _ => names
                    .rules
                    .insert(block.name, (names.rules.len(), block.keyword))
                    .is_none(),
            };
            if !fresh {
                return Err(GrammarError::Twice {
                    line: block.line,
                    text: block.name.to_owned(),
                });
            }
        }
        let rules = blocks
            .iter()
            .filter(|block| block.keyword != "slot")
            .map(|block| rule(block, &names, &slots));
        let rules = rules.collect::<Result<Vec<_>, _>>()?;
        refuse_recursion(&rules)?;
        let start = rules
            .iter()
            .position(|rule| rule.name == "story" && rule.kind == RuleKind::Passage);
        Ok(Self {
            slots,
            rules,
            start: start.ok_or(GrammarError::NoStory)?,
        })
    }
}

/// Meanings of names: the index of a slot; the index and keyword of a rule.
#[derive(Default)]
struct Names<'a> {
    slots: HashMap<&'a str, usize>,
    rules: HashMap<&'a str, (usize, &'a str)>,
}

fn blocks(text: &str) -> Result<Vec<Block<'_>>, GrammarError> {
    let mut blocks: Vec<Block> = Vec::new();
    for (index, content) in text.lines().enumerate() {
        let line = index + 1;
        if content.trim().is_empty() || content.starts_with('#') {
            continue;
        }
        if content.starts_with(' ') {
            let block = blocks.last_mut().ok_or(GrammarError::Malformed {
                line,
                what: "a line without a heading",
            })?;
            if block
                .lines
                .iter()
                .any(|(_, other)| *other == content.trim())
            {
                return Err(GrammarError::Twice {
                    line,
                    text: content.trim().to_owned(),
                });
            }
            block.lines.push((line, content.trim()));
            continue;
        }
        let heading = || GrammarError::Heading {
            line,
            found: content.to_owned(),
        };
        let (keyword, rest) = content.split_once(' ').ok_or_else(heading)?;
        let (name, columns) = match keyword {
            "slot" => rest.split_once(':').ok_or(GrammarError::Malformed {
                line,
                what: "a slot needs columns",
            })?,
            "passage" | "sentence" | "phrase" => (rest, ""),
            _ => return Err(heading()),
        };
        let columns = columns.split_whitespace().collect();
        blocks.push(Block {
            line,
            keyword,
            name: name.trim(),
            columns,
            lines: Vec::new(),
        });
    }
    Ok(blocks)
}

fn slot(block: &Block) -> Result<Slot, GrammarError> {
    let mut rows = Vec::new();
    let mut firsts = HashSet::new();
    for &(line, content) in &block.lines {
        let cells: Vec<String> = content
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect();
        if cells.len() != block.columns.len() || cells.iter().any(String::is_empty) {
            return Err(GrammarError::Malformed {
                line,
                what: "a row needs a value for each column",
            });
        }
        if !firsts.insert(cells[0].clone()) {
            return Err(GrammarError::Twice {
                line,
                text: cells[0].clone(),
            });
        }
        rows.push(cells);
    }
    if !(1..=128).contains(&rows.len()) {
        return Err(GrammarError::Size {
            name: block.name.to_owned(),
        });
    }
    Ok(Slot {
        name: block.name.to_owned(),
        columns: block.columns.iter().map(|&c| c.to_owned()).collect(),
        rows,
    })
}

fn rule(block: &Block, names: &Names, slots: &[Slot]) -> Result<Rule, GrammarError> {
    let kind = match block.keyword {
        "passage" => RuleKind::Passage,
        "sentence" => RuleKind::Sentence,
        _ => RuleKind::Phrase,
    };
    let mut alternatives = Vec::new();
    for &(line, content) in &block.lines {
        let (weight, content) = weight(line, content)?;
        let items = match kind {
            RuleKind::Passage => passage(line, content, names)?,
            RuleKind::Sentence | RuleKind::Phrase => text(line, content, names, slots)?,
        };
        alternatives.push(Alternative { weight, items });
    }
    if alternatives.is_empty() {
        return Err(GrammarError::Size {
            name: block.name.to_owned(),
        });
    }
    Ok(Rule {
        name: block.name.to_owned(),
        kind,
        alternatives,
    })
}

/// Takes `[5] ` off the front of a line.
fn weight(line: usize, content: &str) -> Result<(usize, &str), GrammarError> {
    let Some(rest) = content.strip_prefix('[') else {
        return Ok((1, content));
    };
    let parsed = rest
        .split_once(']')
        .and_then(|(weight, rest)| Some((weight.parse::<u16>().ok()?, rest.trim())));
    match parsed {
        Some((weight, rest)) if weight > 0 => Ok((weight.into(), rest)),
        _ => Err(GrammarError::Malformed {
            line,
            what: "a weight is a number from 1 to 65535 in [brackets]",
        }),
    }
}

fn passage(line: usize, content: &str, names: &Names) -> Result<Vec<Item>, GrammarError> {
    let item = |word: &str| match names.rules.get(word) {
        _ if word == "/" => Ok(Item::Paragraph),
        Some(&(rule, keyword)) if keyword != "phrase" => Ok(Item::Rule {
            rule,
            capital: false,
        }),
        _ => Err(GrammarError::Unknown {
            line,
            name: word.to_owned(),
        }),
    };
    content.split_whitespace().map(item).collect()
}

/// Splits the text of a sentence or phrase at `$slot.column` and `{phrase}`.
fn text(
    line: usize,
    content: &str,
    names: &Names,
    slots: &[Slot],
) -> Result<Vec<Item>, GrammarError> {
    let mut items = Vec::new();
    let mut rest = content;
    while let Some(at) = rest.find(['$', '{']) {
        if at > 0 {
            items.push(Item::Text(rest[..at].to_owned()));
        }
        let marked = &rest[at + 1..];
        if rest[at..].starts_with('{') {
            let close = marked.find('}').ok_or(GrammarError::Malformed {
                line,
                what: "a `{` without its `}`",
            })?;
            items.push(phrase_item(line, &marked[..close], names)?);
            rest = &marked[close + 1..];
        } else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let mut end = marked.find(|c| !is_name(c)).unwrap_or(marked.len());
            // A full stop is a column's only if a letter follows; else it ends the sentence.
            let after = &marked[end..];
            if after.starts_with('.') && after[1..].starts_with(is_name) {
                end += 1 + after[1..].find(|c| !is_name(c)).unwrap_or(after.len() - 1);
            }
            items.push(slot_item(line, &marked[..end], names, slots)?);
            rest = &marked[end..];
        }
    }
    if !rest.is_empty() {
        items.push(Item::Text(rest.to_owned()));
    }
    Ok(items)
}

fn phrase_item(line: usize, name: &str, names: &Names) -> Result<Item, GrammarError> {
    let lower = name.to_lowercase();
    match names.rules.get(lower.as_str()) {
        Some(&(rule, "phrase")) => Ok(Item::Rule {
            rule,
            capital: lower != name,
        }),
        _ => Err(GrammarError::Unknown {
            line,
            name: name.to_owned(),
        }),
    }
}

fn slot_item(line: usize, name: &str, names: &Names, slots: &[Slot]) -> Result<Item, GrammarError> {
    let lower = name.to_lowercase();
    let (slot_name, column) = lower
        .split_once('.')
        .map_or((lower.as_str(), None), |(slot, column)| {
            (slot, Some(column))
        });
    let unknown = || GrammarError::Unknown {
        line,
        name: name.to_owned(),
    };
    let &slot = names.slots.get(slot_name).ok_or_else(unknown)?;
    let column = match column {
        None => 0,
        Some(column) => slots[slot]
            .columns
            .iter()
            .position(|c| c == column)
            .ok_or_else(unknown)?,
    };
    Ok(Item::Slot {
        slot,
        column,
        capital: lower != name,
    })
}

/// Expansion, parsing and counting all recurse over rules: a rule that
/// contains itself would never end.
fn refuse_recursion(rules: &[Rule]) -> Result<(), GrammarError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    fn visit(rules: &[Rule], index: usize, marks: &mut [Mark]) -> Result<(), GrammarError> {
        match marks[index] {
            Mark::Done => return Ok(()),
            Mark::Open => {
                return Err(GrammarError::Recursive {
                    name: rules[index].name.clone(),
                });
            }
            Mark::New => marks[index] = Mark::Open,
        }
        for item in rules[index]
            .alternatives
            .iter()
            .flat_map(|alternative| &alternative.items)
        {
            if let Item::Rule { rule, .. } = item {
                visit(rules, *rule, marks)?;
            }
        }
        marks[index] = Mark::Done;
        Ok(())
    }
    let mut marks = vec![Mark::New; rules.len()];
    (0..rules.len()).try_for_each(|index| visit(rules, index, &mut marks))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const HERO: &str = "slot hero: name they\n  Mira | she\n";

    #[test]
    fn reads_slots_columns_capitals_and_weights() {
        let grammar = Grammar::from_text(&format!(
            "{HERO}passage story\n  one / one\nsentence one\n  [3] {{Small}}, $hero ran, and $hero.they sang to $hero.\nphrase small\n  so\n"
        ))
        .unwrap();
        let alternative = &grammar.rules[1].alternatives[0];
        assert_eq!(alternative.weight, 3);
        let slot = |column| Item::Slot {
            slot: 0,
            column,
            capital: false,
        };
        let text = |text: &str| Item::Text(text.to_owned());
        let items = [
            Item::Rule {
                rule: 2,
                capital: true,
            },
            text(", "),
            slot(0),
            text(" ran, and "),
            slot(1),
            text(" sang to "),
            slot(0),
            text("."),
        ];
        assert_eq!(alternative.items, items);
        assert_eq!(grammar.rules[0].alternatives[0].items[1], Item::Paragraph);
    }

    #[rstest]
    #[case::heading("paragraph x\n", GrammarError::Heading { line: 1, found: "paragraph x".into() })]
    #[case::orphan("  a line\n", GrammarError::Malformed { line: 1, what: "a line without a heading" })]
    #[case::columns("slot hero: name they\n  Mira\n", GrammarError::Malformed { line: 2, what: "a row needs a value for each column" })]
    #[case::no_columns("slot hero\n  Mira\n", GrammarError::Malformed { line: 1, what: "a slot needs columns" })]
    #[case::unclosed("sentence s\n  a {b\n", GrammarError::Malformed { line: 2, what: "a `{` without its `}`" })]
    #[case::weight("sentence s\n  [0] a\n", GrammarError::Malformed { line: 2, what: "a weight is a number from 1 to 65535 in [brackets]" })]
    #[case::slot("sentence s\n  Hello $hero.\n", GrammarError::Unknown { line: 2, name: "hero".into() })]
    #[case::column("slot hero: name\n  Mira\nsentence s\n  $hero.them ran.\n", GrammarError::Unknown { line: 4, name: "hero.them".into() })]
    #[case::sentence_in_text("sentence s\n  a\nsentence t\n  {s}\n", GrammarError::Unknown { line: 4, name: "s".into() })]
    #[case::phrase_in_passage("phrase p\n  a\npassage story\n  p\n", GrammarError::Unknown { line: 4, name: "p".into() })]
    #[case::row_twice("slot hero: name they\n  Mira | she\n  Mira | he\n", GrammarError::Twice { line: 3, text: "Mira".into() })]
    #[case::line_twice("sentence s\n  a\n  a\n", GrammarError::Twice { line: 3, text: "a".into() })]
    #[case::name_twice("sentence s\n  a\nsentence s\n  b\n", GrammarError::Twice { line: 3, text: "s".into() })]
    #[case::empty("passage story\n", GrammarError::Size { name: "story".into() })]
    #[case::recursive("passage story\n  a\nsentence a\n  {b}\nphrase b\n  x {b}\n", GrammarError::Recursive { name: "b".into() })]
    #[case::no_story("sentence s\n  a\n", GrammarError::NoStory)]
    fn refuses(#[case] text: &str, #[case] error: GrammarError) {
        assert_eq!(Grammar::from_text(text).unwrap_err(), error);
    }
}
