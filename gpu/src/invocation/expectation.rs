//! What a buffer must hold after a launch.

use std::fmt;

use super::values::{Type, Values};

/// The whole contents of one buffer argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The argument's number, from 0.
    pub argument: usize,
    ty: Type,
    values: Vec<Expected>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Bits(u64),
    /// `nan`: any of them.
    Nan,
}

/// A buffer does not hold what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The argument's number, from 0.
    pub argument: usize,
    /// What differs, to be read by people.
    pub text: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "argument {}: {}", self.argument, self.text)
    }
}

impl std::error::Error for Mismatch {}

impl Expectation {
    /// Reads `argument` and ` f32 0 1 2`, and adds the values to what is expected of that argument.
    pub(super) fn add(
        expectations: &mut Vec<Expectation>,
        argument: &str,
        text: &str,
    ) -> Result<(), String> {
        let argument = argument
            .parse()
            .map_err(|_| format!("{argument:?} is no argument's number"))?;
        let mut words = text.split_whitespace();
        let ty = Type::parse(words.next().unwrap_or_default())?;
        let value = |word: &str| match word {
            "nan" if ty.is_float() => Ok(Expected::Nan),
            _ => ty.parse_value(word).map(Expected::Bits),
        };
        let values = words.map(value).collect::<Result<Vec<_>, _>>()?;
        match expectations
            .iter_mut()
            .find(|known| known.argument == argument)
        {
            Some(known) if known.ty != ty => Err(format!(
                "argument {argument} was {} in an earlier line",
                known.ty
            )),
            Some(known) => {
                known.values.extend(values);
                Ok(())
            }
            None => {
                expectations.push(Expectation {
                    argument,
                    ty,
                    values,
                });
                Ok(())
            }
        }
    }

    /// Compares with what the buffer holds, bit by bit; `nan` stands for any of them.
    ///
    /// # Errors
    ///
    /// [`Mismatch`], which tells the first element that differs.
    pub fn compare(&self, got: &Values) -> Result<(), Mismatch> {
        let mismatch = |text: String| Mismatch {
            argument: self.argument,
            text,
        };
        let (count, ty) = (self.values.len(), self.ty);
        if got.ty() != ty || got.len() != count {
            return Err(mismatch(format!(
                "{count} elements of {ty} are expected, it has {} of {}",
                got.len(),
                got.ty()
            )));
        }
        let differing = self.values.iter().zip(got.bits()).enumerate();
        let mut differing = differing.filter(|(_, (expected, got))| match expected {
            Expected::Bits(bits) => bits != got,
            Expected::Nan => !ty.to_f64(*got).is_nan(),
        });
        let Some((index, (expected, got))) = differing.next() else {
            return Ok(());
        };
        let show = |bits: u64| {
            format!(
                "{} ({bits:#0width$x})",
                ty.show(bits),
                width = 2 + 2 * ty.bytes()
            )
        };
        let expected = match expected {
            Expected::Bits(bits) => show(*bits),
            Expected::Nan => "NaN".to_owned(),
        };
        Err(mismatch(format!(
            "element {index} is {}, expected {expected}; {} of {count} elements differ",
            show(got),
            1 + differing.count()
        )))
    }
}
