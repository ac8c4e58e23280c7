//! Structs as arguments: notation and numbers of their fields.
//!
//! A field is written as an argument, and an argument may be a struct: `argument` and this file use
//! each other.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::argument::Argument;
use crate::values::Type;

/// Which buffer: `3` is argument 3, `3.0` the first field of argument 3, a struct. Counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position(Vec<usize>);

impl Position {
    /// Field `index` of the struct at this position.
    pub(crate) fn field(&self, index: usize) -> Position {
        Position(self.0.iter().copied().chain([index]).collect())
    }

    /// The argument's number, then those of fields.
    pub(crate) fn numbers(&self) -> &[usize] {
        &self.0
    }

    /// The error that this is no buffer, and, if it is a struct, which of its fields are: `argument
    /// 1 is no buffer (its buffers: 1.0, 1.2)`. `buffers` are those of all arguments.
    pub fn no_buffer<'a>(&self, buffers: impl IntoIterator<Item = &'a Position>) -> String {
        let within: Vec<String> = buffers
            .into_iter()
            .filter(|place| place.0.starts_with(&self.0))
            .map(Position::to_string)
            .collect();
        let within = match &within[..] {
            [] => String::new(),
            fields => format!(" (its buffers: {})", fields.join(", ")),
        };
        format!("argument {self} is no buffer{within}")
    }

    /// A seed for random contents: the argument's number, and for a field another than that of all
    /// arguments.
    pub(crate) fn seed(&self) -> u64 {
        let numbers = self.0.iter().map(|&number| number as u64);
        numbers
            .reduce(|seed, number| (seed + 1).wrapping_mul(1 << 16).wrapping_add(number))
            .unwrap_or_default()
    }
}

impl From<usize> for Position {
    fn from(argument: usize) -> Position {
        Position(vec![argument])
    }
}

impl FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Position, String> {
        let numbers = text.split('.').map(str::parse);
        let numbers = numbers.collect::<Result<_, _>>();
        numbers.map(Position).map_err(|_| {
            format!("{text:?} is not an argument's number, like 2, or a field's, like 2.0")
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// Most levels of structs within structs.
const DEEPEST: usize = 16;

/// The longest part of a text, in characters, that an error repeats.
const LONGEST_SHOWN: usize = 60;

/// Reads what stands between the braces of a struct: its fields, separated by commas. Each is
/// written as an argument is; after a scalar, others of its type need only their values. `depth`
/// structs lie around this one.
///
/// # Errors
///
/// The reason, with the field.
pub(crate) fn parse(text: &str, depth: usize) -> Result<Vec<Argument>, String> {
    if depth == DEEPEST {
        return Err(format!("more than {DEEPEST} structs lie within each other"));
    }
    let mut fields: Vec<Argument> = Vec::new();
    let mut earlier: Option<Type> = None;
    for (index, word) in split(text, |c| c == ',').enumerate() {
        let field = match earlier {
            Some(ty) if is_value(word) => {
                let bits = ty.parse_value(word);
                bits.map(|bits| Argument::Scalar { ty, bits })
            }
            None if is_value(word) => {
                Err("a field is TYPE=VALUE, TYPE[COUNT]=INIT, null or {…}; only after a scalar is VALUE enough".to_owned())
            }
            _ => Argument::parse_within(word, depth + 1),
        };
        let field = field.map_err(|reason| format!("field {index} ({}): {reason}", shown(word)))?;
        earlier = match &field {
            Argument::Scalar { ty, .. } if word != "null" => Some(*ty),
            _ => None,
        };
        fields.push(field);
    }
    Ok(fields)
}

/// A part of a text as errors repeat it.
pub(crate) fn shown(word: &str) -> Cow<'_, str> {
    match word.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &word[..end]).into(),
        None => word.into(),
    }
}

/// True for a field that is written by its value alone.
fn is_value(word: &str) -> bool {
    !word.contains('=') && !word.starts_with('{') && word != "null"
}

/// The parts of a text between separators that stand outside braces, without blanks around them.
pub(crate) fn split(text: &str, separates: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && separates(c)
    })
    .map(str::trim)
}

/// True if a brace is open at the end of a text.
pub(crate) fn is_open(text: &str) -> bool {
    text.matches('{').count() > text.matches('}').count()
}
