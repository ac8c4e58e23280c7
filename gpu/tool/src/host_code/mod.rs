//! The host's part of a CUDA program, which is left out: NVRTC compiles device code alone, and has
//! none of the host's headers.
//!
//! A file's functions are the host's unless `__global__`, `__device__` or a macro that stands for
//! them marks them, or they are `constexpr`. A file with such a function, or with the call of a
//! macro like `PYBIND11_MODULE(…)`, is a program. Then its unmarked functions and variables are
//! blanked, and those classes, aliases and constants which no device code mentions, also by way of
//! others. Directives stay, and so do the places of all that is left: lines have the numbers that
//! they had.

mod as_nvcc;
mod declarations;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use gpu::unit::{Unit, shown};

use as_nvcc::has_unmarked_constant_function;
use declarations::{Declaration, Macros, Shape, declarations, macros, marks, namespaces};
use tokens::{tokens, words};

/// A function of the host that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFunction {
    /// The file, from the workspace's root.
    pub file: String,
    /// The function's name, or that of the macro whose call it is.
    pub name: String,
    /// Its first and last line, from 1.
    pub lines: (usize, usize),
}

impl HostFunction {
    /// A sentence that lists functions, the first eight by name.
    pub fn list(functions: &[HostFunction]) -> String {
        let names = functions.iter().take(LISTED).map(|function| {
            let HostFunction { file, name, lines } = function;
            match lines {
                (first, last) if first == last => format!("{name} ({file}:{first})"),
                (first, last) => format!("{name} ({file}:{first}-{last})"),
            }
        });
        let names: Vec<String> = names.collect();
        let more = match functions.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("Host code is not compiled: {}{more}.", names.join(", "))
    }
}

/// The most functions that are listed by name.
const LISTED: usize = 8;

/// Leaves the host code out of a unit, and returns its functions. The texts of a unit without host
/// code stay as they are, and so do headers of packages.
///
/// # Errors
///
/// [`gpu::Error::BadInclude`] for a header that only what is left includes.
pub(crate) fn leave_out(unit: &mut Unit) -> Result<Vec<HostFunction>, gpu::Error> {
    let path = unit.path();
    let constants = unit.constants().clone();
    let mut around = Around {
        texts: Vec::new(),
        constants: constants
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect(),
    };
    let mut texts = vec![(path, &mut unit.source)];
    for header in &mut unit.headers {
        let name = shown(&header.name).to_owned();
        match header.of_package {
            true => around.texts.push(&header.text),
            false => texts.push((name, &mut header.text)),
        }
    }
    let given: Vec<(&str, &str)> = texts
        .iter()
        .map(|(name, text)| (&**name, &***text))
        .collect();
    let Some(code) = left_out(&given, &around) else {
        let macros = all_macros(&given, &around);
        let marks = marks(&macros);
        let unmarked = |(_, text): &(&str, &str)| has_unmarked_constant_function(text, &marks);
        if given.iter().any(unmarked) {
            as_nvcc::mark_all(unit);
        }
        return Ok(Vec::new());
    };
    for ((_, text), left) in texts.into_iter().zip(code.texts) {
        *text = left;
    }
    as_nvcc::mark_all(unit);
    as_nvcc::add_headers(unit);
    // A text that was no directive before may be one now.
    unit.check_includes()?;
    Ok(code.functions)
}

/// Texts without the host's part.
#[derive(Debug)]
struct DeviceCode {
    /// The texts, in the order given.
    texts: Vec<String>,
    /// The functions that were left out.
    functions: Vec<HostFunction>,
}

/// Texts and constants that are compiled with a program, and left as they are.
#[derive(Debug, Default)]
struct Around<'a> {
    /// Texts of headers.
    texts: Vec<&'a str>,
    /// Constants, by name and value.
    constants: Vec<(&'a str, &'a str)>,
}

/// Leaves the host's part out of texts that are compiled together, each with its name. `None` if
/// they have none, or if the brackets of a text do not pair.
fn left_out(texts: &[(&str, &str)], around: &Around<'_>) -> Option<DeviceCode> {
    let all_macros = all_macros(texts, around);
    let marks = marks(&all_macros);
    let of_device = NAMESPACES.into_iter();
    let named = all(texts, around).flat_map(namespaces);
    let namespaces: BTreeSet<&str> = of_device.chain(named).collect();
    let read = texts.iter();
    let read = read.map(|(_, text)| declarations(text, &marks, &namespaces));
    let declared: Vec<Vec<Declaration<'_>>> = read.collect::<Option<_>>()?;
    let of_host =
        |declaration: &Declaration<'_>| declaration.shape == Shape::Code && !declaration.marked;
    if !declared.iter().flatten().any(of_host) {
        return None;
    }
    let mentioned = mentioned(declared.iter().flatten(), &all_macros);
    let mut code = DeviceCode {
        texts: Vec::new(),
        functions: Vec::new(),
    };
    for ((name, text), declared) in texts.iter().zip(&declared) {
        let left_out = declared
            .iter()
            .filter(|declaration| match declaration.shape {
                _ if declaration.marked => false,
                Shape::Code | Shape::Prototype | Shape::Variable | Shape::HostNamespace => true,
                Shape::Shared => !declaration
                    .names
                    .iter()
                    .any(|name| mentioned.contains(name)),
                Shape::Other => false,
            });
        let left_out: Vec<&Declaration<'_>> = left_out.collect();
        let functions = left_out.iter().filter(|declaration| of_host(declaration));
        let mut lines = Lines::new(text);
        code.functions
            .extend(functions.map(|function| HostFunction {
                file: (*name).to_owned(),
                name: function.names.first().copied().unwrap_or("?").to_owned(),
                lines: (
                    lines.number(function.range.start),
                    lines.number(function.range.end - 1),
                ),
            }));
        code.texts.push(blanked(text, &left_out));
    }
    Some(code)
}

/// All texts that are compiled together.
fn all<'a>(texts: &[(&str, &'a str)], around: &Around<'a>) -> impl Iterator<Item = &'a str> {
    let own = texts.iter().map(|(_, text)| *text);
    own.chain(around.texts.iter().copied())
}

/// The macros of all texts, and the constants.
fn all_macros<'a>(texts: &[(&str, &'a str)], around: &Around<'a>) -> Macros<'a> {
    let mut found = Macros::new();
    for (name, body) in all(texts, around).flat_map(macros) {
        found.entry(name).or_default().extend(body);
    }
    for &(name, value) in &around.constants {
        found.entry(name).or_default().extend(words(value));
    }
    found
}

/// Namespaces of CUDA's headers and of those of the C++ library, which `using namespace` may name.
const NAMESPACES: [&str; 9] = [
    "cooperative_groups",
    "cub",
    "cuda",
    "experimental",
    "nvcuda",
    "ptx",
    "std",
    "thrust",
    "wmma",
];

/// The words that device code mentions: those of marked declarations, and of macros and unmarked
/// declarations that they mention.
fn mentioned<'a>(
    declared: impl Iterator<Item = &'a Declaration<'a>>,
    macros: &'a Macros<'a>,
) -> BTreeSet<&'a str> {
    let mut shared = Vec::new();
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut mentioned = BTreeSet::new();
    let mut waiting: Vec<&str> = Vec::new();
    for declaration in declared {
        if declaration.marked || declaration.shape == Shape::Other {
            waiting.extend(&declaration.words);
        } else if declaration.shape == Shape::Shared {
            for name in &declaration.names {
                by_name.entry(name).or_default().push(shared.len());
            }
            shared.push(Some(declaration));
        }
    }
    while let Some(word) = waiting.pop() {
        if !mentioned.insert(word) {
            continue;
        }
        waiting.extend(macros.get(word).into_iter().flatten());
        for &at in by_name.get(word).into_iter().flatten() {
            // Its words once, though it has several names.
            let words = shared[at].take().map(|declaration| &declaration.words);
            waiting.extend(words.into_iter().flatten());
        }
    }
    mentioned
}

/// The text with blanks in place of these declarations. Line ends and directives stay.
fn blanked(text: &str, left_out: &[&Declaration<'_>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for declaration in left_out {
        for byte in &mut bytes[declaration.range.clone()] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    let tokens = tokens(text).into_iter();
    for directive in tokens.filter(|token| token.kind.is_directive()) {
        let range = directive.range;
        bytes[range.clone()].copy_from_slice(&text.as_bytes()[range]);
    }
    // Declarations begin and end with tokens, so no character was cut.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The lines of bytes of a text that are asked for in order.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        Lines {
            text,
            at: 0,
            line: 1,
        }
    }

    fn number(&mut self, byte: usize) -> usize {
        self.line += self.text.as_bytes()[self.at..byte]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        self.at = byte;
        self.line
    }
}

#[cfg(test)]
mod tests;
