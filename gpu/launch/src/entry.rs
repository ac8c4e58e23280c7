//! The kernels of a PTX text and the sizes of their parameters, so that a launch passes what they
//! read.

use std::collections::BTreeSet;
use std::num::IntErrorKind;

use crate::error::InvocationError;
use crate::names::readable;

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the PTX.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// A kernel's parameter, as PTX declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its size, bytes; `usize::MAX` if the PTX states more.
    pub bytes: usize,
    /// Its alignment, bytes.
    pub align: usize,
    /// True for a floating-point number; `None` if the PTX does not tell, as for a struct.
    pub float: Option<bool>,
}

/// The kernels of a PTX text, in order.
pub fn entries(ptx: &str) -> Vec<Entry> {
    let text = without_comments(ptx);
    text.split(".entry").skip(1).map(entry).collect()
}

/// The kernel called `name`, or, if there is no name, the only one.
///
/// A kernel is called by its name in the PTX, `_Z5scalePf`, by its name in the source, `scale` or
/// `scale<4>`, or, if there is one instance of a template, by the template's.
pub(crate) fn choose(ptx: &str, name: Option<&str>) -> Result<Entry, InvocationError> {
    let mut entries = entries(ptx);
    let Some(name) = name else {
        if entries.len() == 1 {
            return Ok(entries.swap_remove(0));
        }
        return Err(InvocationError::WhichKernel {
            available: available(&entries),
        });
    };
    let instance = instance(ptx, name);
    let exact = |entry: &Entry| entry.name == name || Some(&*entry.name) == instance;
    let written = |entry: &Entry| without_blanks(&readable(&entry.name)) == without_blanks(name);
    let template = |entry: &Entry| readable(&entry.name).split('<').next() == Some(name);
    let ways: [&dyn Fn(&Entry) -> bool; 3] = [&exact, &written, &template];
    for called in ways {
        let found: Vec<usize> = (0..entries.len())
            .filter(|&at| called(&entries[at]))
            .collect();
        match found[..] {
            [] => {}
            [at] => return Ok(entries.swap_remove(at)),
            _ => {
                let found: Vec<Entry> = found.iter().map(|&at| entries[at].clone()).collect();
                return Err(InvocationError::WhichKernel {
                    available: available(&found),
                });
            }
        }
    }
    Err(InvocationError::NoSuchKernel {
        name: name.to_owned(),
        available: available(&entries),
    })
}

/// The name in a PTX text of an instance of a template: `gpu` writes a line for each before the
/// PTX, like `// instance: scale<4> = _Z5scaleILi4EEvPf`.
fn instance<'a>(ptx: &'a str, instance: &str) -> Option<&'a str> {
    let lines = ptx.lines().take_while(|line| line.starts_with("//"));
    let mut named = lines.filter_map(|line| line.strip_prefix("// instance: ")?.split_once(" = "));
    named
        .find(|(known, _)| *known == instance)
        .map(|(_, name)| name)
}

/// The names of kernels in the source; those in the PTX if two are alike, as those of overloaded
/// functions are.
fn available(entries: &[Entry]) -> Vec<String> {
    let names: Vec<String> = entries.iter().map(|entry| readable(&entry.name)).collect();
    if names.iter().collect::<BTreeSet<_>>().len() == names.len() {
        return names;
    }
    entries.iter().map(|entry| entry.name.clone()).collect()
}

fn without_blanks(name: &str) -> String {
    name.split_whitespace().collect()
}

/// Reads what follows `.entry`: a name, then, in parentheses, the parameters.
fn entry(text: &str) -> Entry {
    let text = text.trim_start();
    let end = text.find(|c: char| c.is_whitespace() || "({".contains(c));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let list = rest.trim_start().strip_prefix('(');
    let list = list
        .and_then(|list| list.split(')').next())
        .unwrap_or_default();
    let parameters = list.split(',').filter(|part| !part.trim().is_empty());
    Entry {
        name: name.to_owned(),
        parameters: parameters.map(parameter).collect(),
    }
}

/// Reads `.param .u64 p`, or, of a struct, `.param .align 8 .b8 p[16]`.
fn parameter(text: &str) -> Parameter {
    let width = |word: &str| {
        let digits = word
            .strip_prefix(['.'])?
            .strip_prefix(['b', 'u', 's', 'f'])?;
        Some(digits.parse::<usize>().ok()? / 8)
    };
    let element = text.split_whitespace().find_map(width).unwrap_or(0);
    let Some((declared, count)) = text.split_once('[') else {
        // A `.align` here would be that of what a pointer points to.
        return Parameter {
            bytes: element,
            align: element,
            float: text.split_whitespace().find_map(is_float),
        };
    };
    let count = count.split(']').next().unwrap_or_default().trim();
    let count = match count.parse::<usize>() {
        Ok(count) => count,
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => usize::MAX,
        Err(_) => 1,
    };
    let mut words = declared
        .split_whitespace()
        .skip_while(|word| *word != ".align");
    let align = words.nth(1).and_then(|align| align.parse().ok());
    Parameter {
        bytes: element.saturating_mul(count),
        align: align.unwrap_or(element),
        float: None,
    }
}

/// True if `.f32` or the like is a floating-point type; `None` for bits, and for what is no type.
fn is_float(word: &str) -> Option<bool> {
    let (kind, bits) = word.strip_prefix('.')?.split_at_checked(1)?;
    bits.parse::<u32>().ok()?;
    match kind {
        "f" => Some(true),
        "u" | "s" => Some(false),
        _ => None,
    }
}

fn without_comments(ptx: &str) -> String {
    let lines = ptx
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let mut text = String::with_capacity(ptx.len());
    for line in lines {
        text += line;
        text.push('\n');
    }
    text
}
