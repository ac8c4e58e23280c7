//! Elements that were never written: they have the value from before the call.

use conformance::problems::UNWRITTEN;
use ndarray::{Array, Dimension, Zip};

use super::{Cause, Hypothesis};

/// Stands for [`UNWRITTEN`] in an answer.
pub(super) const POISON: f64 = f64::from_bits(0x7ff8_0000_0000_dead);

/// The values that elements have before a call.
pub(super) fn values() -> [Hypothesis<f32>; 2] {
    [("they are still 0", 0.0), ("they are still NaN", UNWRITTEN)]
        .map(|(detail, before)| Hypothesis::new(Cause::NotWritten, detail, before))
}

/// The right answer, but for elements of the output that still have the value `before`.
pub(super) fn unless<D: Dimension>(
    right: &Array<f64, D>,
    output: &Array<f32, D>,
    before: f32,
) -> Array<f64, D> {
    unless_in_place(right, output, &output.mapv(|_| before))
}

/// As [`unless`], where each element had a value of its own.
pub(super) fn unless_in_place<D: Dimension>(
    right: &Array<f64, D>,
    output: &Array<f32, D>,
    before: &Array<f32, D>,
) -> Array<f64, D> {
    let mut answer = right.clone();
    if output.shape() == right.shape() {
        Zip::from(&mut answer)
            .and(output)
            .and(before)
            .for_each(|answer, output, before| {
                if output.to_bits() == before.to_bits() {
                    *answer = match before.is_nan() {
                        true => POISON,
                        false => f64::from(*before),
                    };
                }
            });
    }
    answer
}

/// True if an element that should be NaN is, or infinite, which depends on the order of the operations. The NaN from before
/// the call is another one than one that was computed.
pub(super) fn same_nan(actual: f32, expected: f64) -> bool {
    let untouched = actual.to_bits() == UNWRITTEN.to_bits();
    !actual.is_finite()
        && expected.is_nan()
        && untouched == (expected.to_bits() == POISON.to_bits())
}
