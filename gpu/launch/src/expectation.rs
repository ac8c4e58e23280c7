//! Expected content of a buffer after a launch.

use std::fmt;

use crate::argument::Argument;
use crate::fields::Position;
use crate::values::{Type, Values};

/// The whole contents of one buffer argument.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The buffer.
    pub argument: Position,
    ty: Type,
    values: Vec<Expected>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    Bits(u64),
    /// `nan`: any of them.
    Nan,
    /// A value with these bits, or one that is close enough to it.
    Near(u64, Tolerance),
}

/// A buffer does not hold what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The buffer.
    pub argument: Position,
    /// The difference, to be read by people.
    pub text: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "argument {}: {}", self.argument, self.text)
    }
}

impl std::error::Error for Mismatch {}

impl Expectation {
    /// Reads `argument`, maybe with a tolerance (`1 ulp 2`), and ` f32 0 1 2`, and adds the values
    /// to what is expected of that argument.
    pub(crate) fn add(
        expectations: &mut Vec<Expectation>,
        argument: &str,
        text: &str,
    ) -> Result<(), String> {
        let (argument, tolerance) = match argument.split_once(' ') {
            Some((argument, bounds)) => (argument, Some(Tolerance::parse(bounds)?)),
            None => (argument, None),
        };
        let argument: Position = argument.parse()?;
        let mut words = text.split_whitespace();
        let ty = Type::parse(words.next().unwrap_or_default())?;
        if tolerance.is_some() && !ty.is_float() {
            return Err(format!("{ty} has no tolerance, which is for floats"));
        }
        let value = |word: &str| match word {
            "nan" if ty.is_float() => Ok(Expected::Nan),
            _ => ty.parse_value(word).map(|bits| match tolerance {
                Some(tolerance) => Expected::Near(bits, tolerance),
                None => Expected::Bits(bits),
            }),
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

    /// Holds the argument's number and the type against those of the arguments, as far as they are
    /// stated.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(crate) fn fits(&self, arguments: &[Argument]) -> Result<(), String> {
        let Expectation { argument, ty, .. } = self;
        if argument.numbers()[0] >= arguments.len() {
            return Ok(()); // a command line may state it
        }
        match Argument::at(arguments, argument) {
            Some(Argument::Buffer { ty: stated, .. }) if stated == ty => Ok(()),
            Some(Argument::Buffer { ty: stated, .. }) => Err(format!(
                "argument {argument} is a buffer of {stated}, not of {ty}"
            )),
            Some(other) => Err(format!("argument {argument} ({other}) is no buffer")),
            None => Err(format!("there is no argument {argument}")),
        }
    }

    /// Compares with what the buffer holds after a launch, of which `buffers` has all: bit by bit,
    /// or within the tolerance. `nan` stands for any of them.
    ///
    /// # Errors
    ///
    /// [`Mismatch`], which tells the first element that differs; also if there is no such buffer.
    pub fn compare(&self, buffers: &[(Position, Values)]) -> Result<(), Mismatch> {
        let mismatch = |text: String| Mismatch {
            argument: self.argument.clone(),
            text,
        };
        let found = buffers.iter().find(|(place, _)| *place == self.argument);
        let (_, got) = found.ok_or_else(|| mismatch("it is no buffer".to_owned()))?;
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
            Expected::Near(bits, tolerance) => !tolerance.allows(ty, *bits, *got),
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
            Expected::Near(bits, tolerance) => format!("{} within {tolerance}", show(*bits)),
        };
        Err(mismatch(format!(
            "element {index} is {}, expected {expected}; {} of {count} elements differ",
            show(got),
            1 + differing.count()
        )))
    }
}

/// Tolerance of a value: `ulp 2`, `abs 1e-6`, `rel 1e-3`, or several, of which one must hold.
/// NaN and infinities have no neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Tolerance {
    /// Steps from one value of the type to the next. Zero is far from all others.
    ulp: u64,
    absolute: f64,
    relative: f64,
}

impl Tolerance {
    fn parse(text: &str) -> Result<Tolerance, String> {
        let mut tolerance = Tolerance::default();
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.chunks(2) {
            let read = match *pair {
                ["ulp", count] => count.parse().map(|count| tolerance.ulp = count).ok(),
                ["abs", size] => size.parse().map(|size| tolerance.absolute = size).ok(),
                ["rel", size] => size.parse().map(|size| tolerance.relative = size).ok(),
                _ => None,
            };
            read.ok_or_else(|| format!("{text:?} is no tolerance: ulp N, abs X, rel X"))?;
        }
        Ok(tolerance)
    }

    fn allows(self, ty: Type, expected: u64, got: u64) -> bool {
        let (e, g) = (ty.to_f64(expected), ty.to_f64(got));
        if expected == got || !e.is_finite() || !g.is_finite() {
            return expected == got;
        }
        let same_sign = e.is_sign_negative() == g.is_sign_negative();
        let off = (e - g).abs();
        // The sign of a zero counts, unless all small values are alike.
        (self.absolute > 0.0 && off <= self.absolute)
            || (e != 0.0 && off <= self.relative * e.abs())
            || (e != 0.0 && same_sign && expected.abs_diff(got) <= self.ulp)
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = [
            (self.ulp > 0).then(|| format!("ulp {}", self.ulp)),
            (self.absolute > 0.0).then(|| format!("abs {:e}", self.absolute)),
            (self.relative > 0.0).then(|| format!("rel {:e}", self.relative)),
        ];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        f.write_str(&bounds.join(" or "))
    }
}
