//! The one comparator: how far an f32 result is from an f64 expectation, and
//! whether that is allowed.

use std::fmt;

use ndarray::{Array, ArrayView, Dimension};

use crate::Dtype;

/// The error that is allowed in one element: `absolute + relative · |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Per unit of the expected value.
    pub relative: f64,
    /// The floor, in the unit of the values.
    pub absolute: f64,
}

impl Tolerance {
    /// The rounding error of a sum of `length` terms in a floating-point type of this `epsilon`.
    ///
    /// Rounding errors of random sign grow with the square root of the number of additions, so the
    /// relative part is `epsilon · (8 + 2 √length)`: enough for any order of summation, far too
    /// little for a wrong term. There is no floor yet: see [`Tolerance::floor`].
    pub fn of_sum(epsilon: f64, length: usize) -> Self {
        Self {
            relative: epsilon * (8.0 + 2.0 * (length as f64).sqrt()),
            absolute: 0.0,
        }
    }

    /// For a result that is stored in `dtype`, and whose summands were: four
    /// roundings more, unless it is f32.
    pub fn stored_in(self, dtype: Dtype) -> Self {
        let roundings = match dtype {
            Dtype::F32 => 0.0,
            Dtype::F16 | Dtype::Bf16 => 4.0 * dtype.epsilon(),
        };
        Self {
            relative: self.relative + roundings,
            ..self
        }
    }

    /// With a floor of `relative · magnitude`, where `magnitude` is the size of the
    /// terms before they cancel.
    pub fn floor(self, magnitude: f64) -> Self {
        Self {
            absolute: self.relative * magnitude,
            ..self
        }
    }

    /// With `absolute` more.
    pub fn and(self, absolute: f64) -> Self {
        Self {
            absolute: self.absolute + absolute,
            ..self
        }
    }

    /// A share of the largest expected value, or of 1 if that is smaller, for every element.
    pub fn of_largest<D: Dimension>(share: f64, expected: &Array<f64, D>) -> Self {
        let largest = expected.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
        Self {
            relative: 0.0,
            absolute: share * largest,
        }
    }

    /// The error allowed in an element; none where it should be infinite.
    fn allowed(&self, expected: f64) -> f64 {
        if expected.is_infinite() {
            0.0
        } else {
            self.absolute + self.relative * expected.abs()
        }
    }
}

/// One tensor compared with what it should be.
///
/// NaN is always wrong. An infinity is wrong unless the same infinity is expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The name of the tensor, such as `o`.
    pub tensor: &'static str,
    /// Elements compared.
    pub count: usize,
    /// Elements beyond the tolerance.
    pub wrong: usize,
    /// The largest absolute error; infinite if an element is NaN or wrongly infinite or finite.
    pub max_abs: f64,
    /// The largest error as a share of what is allowed there: above 1, it is wrong.
    pub max_share: f64,
    /// The largest error divided by its expected value, where that is not 0.
    pub max_rel: f64,
    /// The root of the mean squared error.
    pub rmse: f64,
    /// The cosine of the angle between result and expectation; 1 where both are 0. NaN if an
    /// element is wrongly not finite.
    pub cosine: f64,
    /// The first wrong element.
    pub first_wrong: Option<Wrong>,
}

/// An element beyond its tolerance.
#[derive(Debug, Clone, PartialEq)]
pub struct Wrong {
    /// Its index.
    pub index: Vec<usize>,
    /// Its value.
    pub actual: f32,
    /// The right value.
    pub expected: f64,
    /// The error that is allowed.
    pub allowed: f64,
}

impl Comparison {
    /// Compares a tensor with its expectation, element by element.
    ///
    /// # Panics
    ///
    /// If the shapes differ.
    pub fn new<D: Dimension>(
        tensor: &'static str,
        actual: ArrayView<'_, f32, D>,
        expected: ArrayView<'_, f64, D>,
        tolerance: Tolerance,
    ) -> Self {
        assert_eq!(actual.shape(), expected.shape(), "the shape of `{tensor}`");
        let shape = actual.shape().to_vec();
        let mut wrong = 0;
        let mut first_wrong = None;
        let (mut max_abs, mut max_rel, mut max_share, mut square_error) =
            (0.0f64, 0.0f64, 0.0f64, 0.0f64);
        let (mut dot, mut square_actual, mut square_expected) = (0.0, 0.0, 0.0);
        for (i, (&actual, &expected)) in actual.iter().zip(&expected).enumerate() {
            let x = f64::from(actual);
            let same_infinity = x.is_infinite() && x == expected;
            let error = match x - expected {
                _ if same_infinity => 0.0,
                difference if difference.is_nan() => f64::INFINITY,
                difference => difference.abs(),
            };
            let allowed = tolerance.allowed(expected);
            let right = error <= allowed; // and not `!(error > allowed)`, which NaN would pass
            if !right {
                wrong += 1;
                first_wrong.get_or_insert((i, actual, expected, allowed));
            }
            max_abs = max_abs.max(error);
            if error > 0.0 {
                max_share = max_share.max(error / allowed);
            }
            if expected != 0.0 && !same_infinity {
                max_rel = max_rel.max(error / expected.abs());
            }
            square_error += error * error;
            if !same_infinity {
                dot += x * expected;
                square_actual += x * x;
                square_expected += expected * expected;
            }
        }
        let first_wrong = first_wrong.map(|(position, actual, expected, allowed)| Wrong {
            index: unravel(position, &shape),
            actual,
            expected,
            allowed,
        });
        let count = expected.len();
        Self {
            tensor,
            count,
            wrong,
            max_abs,
            max_share,
            max_rel,
            rmse: (square_error / count.max(1) as f64).sqrt(),
            cosine: cosine(dot, square_actual, square_expected),
            first_wrong,
        }
    }

    /// True if every element is within the tolerance.
    pub fn passed(&self) -> bool {
        self.wrong == 0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tensor,
            count,
            wrong,
            max_abs,
            max_share: _,
            max_rel,
            rmse,
            cosine,
            first_wrong,
        } = self;
        write!(
            f,
            "{tensor}: {wrong} of {count} wrong; max abs {max_abs:.2e}, max rel {max_rel:.2e}, rmse {rmse:.2e}, cosine {cosine:.6}"
        )?;
        if let Some(Wrong {
            index,
            actual,
            expected,
            allowed,
        }) = first_wrong
        {
            let (column, row) = index.split_last().unwrap_or((&0, &[]));
            write!(
                f,
                "; first in row {row:?}, column {column}: {actual}, not {expected:.7} ± {allowed:.1e}"
            )?;
        }
        Ok(())
    }
}

fn cosine(dot: f64, square_actual: f64, square_expected: f64) -> f64 {
    if square_actual == 0.0 && square_expected == 0.0 {
        1.0
    } else {
        dot / (square_actual * square_expected).sqrt()
    }
}

/// The index of the element at a row-major position.
fn unravel(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let i = position % size;
            position /= size;
            i
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr2;

    const TIGHT: Tolerance = Tolerance {
        relative: 1e-6,
        absolute: 1e-6,
    };

    fn compare(actual: f32, expected: f64) -> Comparison {
        let good = [1.0, 2.0, 3.0];
        let actual = arr2(&[good.map(|x| x as f32), [4.0, actual, 6.0]]);
        let expected = arr2(&[good, [4.0, expected, 6.0]]);
        Comparison::new("x", actual.view(), expected.view(), TIGHT)
    }

    #[test]
    fn nan_and_wrong_infinities_fail_whatever_is_expected() {
        for (actual, expected) in [
            (f32::NAN, 5.0),
            (f32::NAN, f64::NEG_INFINITY),
            (f32::NAN, f64::NAN),
            (f32::INFINITY, 5.0),
            (f32::NEG_INFINITY, 5.0),
            (f32::INFINITY, f64::NEG_INFINITY),
            (-1e30, f64::NEG_INFINITY),
            (f32::MAX, f64::INFINITY),
        ] {
            let comparison = compare(actual, expected);
            assert_eq!(comparison.wrong, 1, "{actual} for {expected}");
            assert_eq!(comparison.max_abs, f64::INFINITY);
            assert_eq!(comparison.first_wrong.unwrap().index, [1, 1]);
        }
        let comparison = compare(f32::NEG_INFINITY, f64::NEG_INFINITY);
        assert!(comparison.passed());
        assert_eq!((comparison.max_abs, comparison.rmse), (0.0, 0.0));
        assert!((comparison.cosine - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_tolerance_is_a_floor_and_a_part_of_the_expected_value() {
        assert!(compare(5.000005, 5.0).passed());
        assert!(!compare(5.00001, 5.0).passed());
        assert!(compare(5e-7, 0.0).passed());
        assert!(!compare(2e-6, 0.0).passed());
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), 100).floor(3.0);
        assert_eq!(tolerance.relative, 28.0 * f64::from(f32::EPSILON));
        assert_eq!(tolerance.absolute, 3.0 * tolerance.relative);
        assert!((compare(5.000_003, 5.0).max_share - 0.5).abs() < 0.05);
    }

    #[test]
    fn the_report_names_the_row_and_the_figures() {
        let text = compare(5.5, 5.0).to_string();
        assert!(
            text.starts_with(
                "x: 1 of 6 wrong; max abs 5.00e-1, max rel 1.00e-1, rmse 2.04e-1, cosine 0.99"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("first in row [1], column 1: 5.5, not 5.0000000 ± 6.0e-6"),
            "{text}"
        );
    }

    #[test]
    fn empty_tensors_pass() {
        let (actual, expected) = (
            ndarray::Array2::zeros((0, 3)),
            ndarray::Array2::zeros((0, 3)),
        );
        let comparison = Comparison::new("x", actual.view(), expected.view(), TIGHT);
        assert!(comparison.passed() && comparison.cosine == 1.0 && comparison.rmse == 0.0);
    }
}
