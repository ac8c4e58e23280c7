//! Linker: makes one PTX text of several.
//!
//! The result has the head of the first text, and the targets, functions and variables of all.
//! Three things differ from the texts:
//!
//! - a local name that another text has too is renamed
//! - of several definitions of a weak name, one is kept
//! - file numbers, which every text counts from 1, begin at a multiple of [`FILES`]

use std::collections::{BTreeSet, HashMap, HashSet, hash_map::Entry};
use std::ops::Range;

use super::lexer::{Token, tokens};
use super::syntax::{Definition, Linkage};
use super::{PtxError, parse};

/// File numbers of the second text begin behind this one, of the third behind twice as many.
const FILES: u32 = 10_000;

/// PTX texts that cannot be linked. Inputs are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("input {input} of the linker: {error}")]
    Syntax { input: usize, error: PtxError },
    #[error("`{name}` is defined twice, in inputs {first} and {second} of the linker")]
    DefinedTwice {
        name: String,
        first: usize,
        second: usize,
    },
}

/// Links PTX texts.
///
/// # Errors
/// A text that does not follow the grammar, and two definitions of one name of which neither is
/// local or weak. Names without a definition are left to the loader of the result.
pub(crate) fn link(texts: &[&str]) -> Result<String, LinkError> {
    let syntax = |input| move |error| LinkError::Syntax { input, error };
    let parsed = texts.iter().zip(1..);
    let inputs = parsed.map(|(text, input)| Ok(parse(text).map_err(syntax(input))?.definitions));
    let inputs: Vec<Vec<Definition<'_>>> = inputs.collect::<Result<_, _>>()?;
    let kept = kept(&inputs)?;
    let mut names = Names::collect(&inputs);
    let mut linked = String::new();
    for (index, (text, definitions)) in texts.iter().zip(&inputs).enumerate() {
        let mut edits = Edits::default();
        for (at, definition) in definitions.iter().enumerate() {
            let is_kept = |name| kept.get(name).is_none_or(|&kept| kept == (index, at));
            if definition.is_shared_out() && !definition.names.iter().copied().any(is_kept) {
                edits.replace(definition.range.clone(), "");
            }
        }
        let renamed = names.renamed(definitions);
        let tokens = tokens(text).map_err(syntax(index + 1))?;
        edits.in_tokens(&tokens, &renamed, index as u32);
        edits.apply(text, &mut linked);
        linked.push('\n');
    }
    Ok(linked)
}

/// For each name that all texts share, the definition that is kept: the input, and which of its
/// definitions. The strong one if there is one, otherwise the first.
fn kept<'a>(inputs: &[Vec<Definition<'a>>]) -> Result<HashMap<&'a str, (usize, usize)>, LinkError> {
    let mut kept: HashMap<&str, (usize, usize)> = HashMap::new();
    for (input, definitions) in inputs.iter().enumerate() {
        for (at, definition) in definitions.iter().enumerate() {
            let names = definition
                .names
                .iter()
                .filter(|_| definition.is_shared_out());
            for &name in names {
                let mut known = match kept.entry(name) {
                    Entry::Vacant(entry) => {
                        entry.insert((input, at));
                        continue;
                    }
                    Entry::Occupied(known) => known,
                };
                let (first, at_first) = *known.get();
                if definition.linkage == Linkage::Weak {
                    continue;
                }
                if inputs[first][at_first].linkage != Linkage::Weak {
                    return Err(LinkError::DefinedTwice {
                        name: name.to_owned(),
                        first: first + 1,
                        second: input + 1,
                    });
                }
                known.insert((input, at));
            }
        }
    }
    Ok(kept)
}

/// Names at module scope.
struct Names<'a> {
    /// Those that later local names must differ from: names that all texts share, and local names
    /// of earlier texts.
    used: HashSet<&'a str>,
    /// All names of all texts, and those that were made.
    all: HashSet<String>,
}

impl<'a> Names<'a> {
    fn collect(inputs: &[Vec<Definition<'a>>]) -> Self {
        let definitions = || inputs.iter().flatten();
        let shared = definitions().filter(|definition| definition.linkage != Linkage::Local);
        let names = definitions().flat_map(|definition| &definition.names);
        Self {
            used: shared
                .flat_map(|definition| definition.names.iter().copied())
                .collect(),
            all: names.map(|&name| name.to_owned()).collect(),
        }
    }

    /// New names for the local names of a text that another text has too.
    fn renamed(&mut self, definitions: &[Definition<'a>]) -> HashMap<&'a str, String> {
        let names = |local: bool| {
            let chosen = definitions
                .iter()
                .filter(move |definition| (definition.linkage == Linkage::Local) == local);
            chosen
                .flat_map(|definition| definition.names.iter().copied())
                .collect::<BTreeSet<_>>()
        };
        let mut renamed = HashMap::new();
        for &name in names(true).difference(&names(false)) {
            if !self.used.insert(name) {
                let mut made = (1..).map(|number| format!("{name}$linked_{number}"));
                let free = made.find(|new| !self.all.contains(new));
                renamed.extend(free.map(|new| (name, new)));
            }
        }
        self.all.extend(renamed.values().cloned());
        renamed
    }
}

/// Ranges of bytes of a text, and what takes their place.
#[derive(Default)]
struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    fn replace(&mut self, range: Range<usize>, with: impl Into<String>) {
        self.0.push((range, with.into()));
    }

    /// Edits of names, file numbers and, behind the first text, of the head.
    fn in_tokens(
        &mut self,
        tokens: &[(Token<'_>, u32, u32)],
        renamed: &HashMap<&str, String>,
        index: u32,
    ) {
        let token = |at: usize| tokens.get(at).map(|&(token, ..)| token);
        for (at, &(word, _, end)) in tokens.iter().enumerate() {
            let (Token::Word(text) | Token::Number(text)) = word else {
                continue;
            };
            let range = end as usize - text.len()..end as usize;
            match word {
                Token::Word(".version" | ".address_size") if index > 0 => {
                    let end = tokens
                        .get(at + 1)
                        .map_or(range.end, |&(.., end)| end as usize);
                    self.replace(range.start..end, "");
                }
                Token::Word(name) => {
                    if let Some(new) = renamed.get(name) {
                        self.replace(range, new);
                    }
                }
                Token::Number(number) if index > 0 => {
                    let before = at.checked_sub(1).and_then(token);
                    if let Some(Token::Word(".file" | ".loc" | "inlined_at")) = before
                        && let Ok(number) = number.parse::<u32>()
                    {
                        let new = number.saturating_add(index.saturating_mul(FILES));
                        self.replace(range, new.to_string());
                    }
                }
                _ => {}
            }
        }
    }

    /// Appends `text` with its edits to `to`. Of edits within another, the outer one counts.
    fn apply(mut self, text: &str, to: &mut String) {
        self.0.sort_by_key(|(range, _)| range.start);
        let mut done = 0;
        for (range, with) in self.0 {
            if range.start < done {
                continue;
            }
            to.push_str(&text[done..range.start]);
            to.push_str(&with);
            done = range.end;
        }
        to.push_str(&text[done..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_75, debug\n.address_size 64\n";

    #[test]
    fn the_result_has_one_head_and_file_numbers_of_its_own() {
        let first = format!("{HEAD}.file\t1 \"a.cu\"\n.func f() {{ .loc 1 2 3; ret; }}");
        let second = format!(
            "// a comment\n{HEAD}.file 1 \"b c.cu\"\n.func g() {{\n.loc\t1 7 5, function_name $x, inlined_at 2 9 1\nret; }}"
        );
        let linked = link(&[&first, &second]).expect("linked");
        assert!(linked.starts_with(&first));
        assert_eq!(
            &linked[first.len()..],
            "\n// a comment\n\n.target sm_75, debug\n\n.file 10001 \"b c.cu\"\n.func g() {\n\
             .loc\t10001 7 5, function_name $x, inlined_at 10002 9 1\nret; }\n"
        );
        assert_eq!(link(&[&first]).expect("linked"), first.clone() + "\n");
        // The highest target counts.
        let higher = first.replace("sm_75", "sm_90a");
        for texts in [[&*first, &*higher], [&*higher, &*first]] {
            let linked = link(&texts).expect("linked");
            assert_eq!(parse(&linked).expect("PTX").target, Some(90));
        }
    }

    #[test]
    fn local_names_are_renamed_and_weak_definitions_dropped() {
        let text = |more: &str| format!("{HEAD}{more}");
        let first = text(".global .u32 a;\n.weak .func w() { ret; }");
        let second = text(
            ".global .u32 a, b;\n.weak .func w() { .reg .b64 a; mov.u64 a, b; }\n.const .u64 p = generic(a);",
        );
        let third = text(".visible .func a() { ret; }\n.global .u32 a$linked_1;");
        let linked = link(&[&first, &second, &third]).expect("linked");
        let at = |wanted: &str| {
            linked
                .find(wanted)
                .unwrap_or_else(|| panic!("{wanted} in\n{linked}"))
        };
        // Both are local, and the third text has a function of that name.
        assert!(at(".global .u32 a$linked_2;") < at(".global .u32 a$linked_3, b;"));
        assert!(at("generic(a$linked_3)") < at(".visible .func a() { ret; }"));
        assert_eq!(linked.matches(".weak .func w()").count(), 1);
        at(".global .u32 a$linked_1;");
    }

    #[test]
    fn a_strong_name_has_one_definition() {
        let text = |linkage: &str| format!("{HEAD}{linkage} .entry k() {{ ret; }}");
        let (strong, weak) = (text(".visible"), text(".weak"));
        let linked = link(&[&weak, &strong, &weak]).expect("linked");
        assert_eq!(linked.matches(".entry k()").count(), 1);
        assert!(linked.contains(".visible .entry k()"));
        let twice = link(&[&strong, &weak, &strong]).expect_err("two definitions");
        let name = "k".to_owned();
        assert_eq!(
            twice,
            LinkError::DefinedTwice {
                name,
                first: 1,
                second: 3
            }
        );
        let broken = link(&[&strong, "no PTX"]).expect_err("no PTX");
        assert!(
            matches!(broken, LinkError::Syntax { input: 2, .. }),
            "{broken}"
        );
    }
}
