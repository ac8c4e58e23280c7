//! Structs as arguments: how their fields are written, and where they lie.

use std::fmt;
use std::str::FromStr;

use super::argument::{Argument, Init};
use super::values::Type;

/// Which buffer: `3` is argument 3, `3.0` the first field of argument 3, a struct. Counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position(Vec<usize>);

impl Position {
    /// Field `index` of the struct at this position.
    pub(super) fn field(&self, index: usize) -> Position {
        Position(self.0.iter().copied().chain([index]).collect())
    }

    /// A seed for random contents: the argument's number, and for a field another than that of all arguments.
    pub(super) fn seed(&self) -> u64 {
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

/// What an argument takes of a kernel's parameters, by C's rules: each field at the next multiple of its alignment,
/// the whole a multiple of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) bytes: usize,
    align: usize,
}

impl Layout {
    fn of(argument: &Argument) -> Layout {
        let bytes = match argument {
            Argument::Scalar { ty, .. } => ty.bytes(),
            Argument::Buffer { .. } => size_of::<u64>(),
            Argument::Struct { fields } => return Layout::of_fields(fields, |_, _| ()),
        };
        Layout {
            bytes,
            align: bytes,
        }
    }

    /// The layout of a struct. `place` is told each field and its offset.
    fn of_fields<'a>(fields: &'a [Argument], mut place: impl FnMut(&'a Argument, usize)) -> Layout {
        let mut whole = Layout { bytes: 0, align: 1 };
        for field in fields {
            let layout = Layout::of(field);
            let offset = whole.bytes.next_multiple_of(layout.align);
            place(field, offset);
            whole.bytes = offset + layout.bytes;
            whole.align = whole.align.max(layout.align);
        }
        whole.bytes = whole.bytes.next_multiple_of(whole.align);
        whole
    }
}

impl Argument {
    /// Its size as a parameter that PTX aligns to `align` bytes: `__align__` on a struct adds to its end.
    pub(super) fn parameter_bytes(&self, align: usize) -> usize {
        Layout::of(self).bytes.next_multiple_of(align.max(1))
    }

    /// Writes it into `bytes` as it is passed. `make` makes a buffer and tells its address.
    pub(super) fn encode<E>(
        &self,
        position: &Position,
        bytes: &mut [u8],
        make: &mut impl FnMut(&Position, Type, Option<usize>, &Init) -> Result<u64, E>,
    ) -> Result<(), E> {
        match self {
            Argument::Scalar { ty, bits } => {
                bytes[..ty.bytes()].copy_from_slice(&bits.to_le_bytes()[..ty.bytes()]);
            }
            Argument::Buffer { ty, count, init } => {
                let address = make(position, *ty, *count, init)?;
                bytes[..size_of::<u64>()].copy_from_slice(&address.to_le_bytes());
            }
            Argument::Struct { fields } => {
                let mut offsets = Vec::with_capacity(fields.len());
                Layout::of_fields(fields, |_, offset| offsets.push(offset));
                for (index, (field, offset)) in fields.iter().zip(offsets).enumerate() {
                    field.encode(&position.field(index), &mut bytes[offset..], make)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads what stands between the braces of a struct: its fields, separated by commas. Each is written as an argument is;
/// after a scalar, others of its type need only their values.
pub(super) fn parse(text: &str) -> Result<Argument, String> {
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
            _ => Argument::parse(word),
        };
        let field = field.map_err(|reason| format!("field {index} ({word}): {reason}"))?;
        earlier = match &field {
            Argument::Scalar { ty, .. } if word != "null" => Some(*ty),
            _ => None,
        };
        fields.push(field);
    }
    Ok(Argument::Struct { fields })
}

/// Whether a field is written by its value alone.
fn is_value(word: &str) -> bool {
    !word.contains('=') && !word.starts_with('{') && word != "null"
}

/// The parts of a text between separators that stand outside braces, without blanks around them.
pub(super) fn split(text: &str, separates: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && separates(c)
    })
    .map(str::trim)
}

/// Whether a brace is open at the end of a text.
pub(super) fn is_open(text: &str) -> bool {
    text.matches('{').count() > text.matches('}').count()
}
