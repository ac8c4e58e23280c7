//! The kernels of a PTX text and the sizes of their parameters, so that a launch passes what they read.

use std::num::IntErrorKind;

use super::InvocationError;

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the PTX.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// What PTX tells of a kernel's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its size, bytes; `usize::MAX` if the PTX states more.
    pub bytes: usize,
    /// Its alignment, bytes.
    pub align: usize,
}

/// The kernels of a PTX text, in order.
pub fn entries(ptx: &str) -> Vec<Entry> {
    let text = without_comments(ptx);
    text.split(".entry").skip(1).map(entry).collect()
}

/// The kernel called `name`, or, if there is no name, the only one.
///
/// The compiler changes the names of functions that are not `extern "C"`: `scale` becomes `_Z5scalePf`. Either is found.
pub(super) fn choose(ptx: &str, name: Option<&str>) -> Result<Entry, InvocationError> {
    let mut entries = entries(ptx);
    let available = || entries.iter().map(|entry| entry.name.clone()).collect();
    let position = match name {
        None if entries.len() == 1 => 0,
        None => {
            return Err(InvocationError::WhichKernel {
                available: available(),
            });
        }
        Some(name) => {
            let mangled = format!("_Z{}{name}", name.len());
            let exact = entries.iter().position(|entry| entry.name == name);
            let found = exact.or_else(|| {
                entries
                    .iter()
                    .position(|entry| entry.name.starts_with(&mangled))
            });
            found.ok_or_else(|| InvocationError::NoSuchKernel {
                name: name.to_owned(),
                available: available(),
            })?
        }
    };
    Ok(entries.swap_remove(position))
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
