//! Named problems with known answers, a table for each operation, and seeded random ones.

pub mod attention;
pub mod decode;
pub mod decoder;
pub mod gemm;
pub mod gradients;
pub mod greedy;
pub mod multi_head;
pub mod scale_and_mask;
pub mod softmax;

use stage1_reference::Feature;

use crate::compare::{Comparison, Tolerance};

/// The value of an output before a call: a NaN that no computation gives, not even with the NaN
/// that lies beside an input.
pub const UNWRITTEN: f32 = f32::from_bits(0x7fc0_dead);

/// The size of a problem: 0 where none takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Batches times heads.
    pub matrices: usize,
    /// The side of a square of as many scores as there are of queries and
    /// keys; the tokens of a text.
    pub length: usize,
}

/// What a problem asks for first. Each step of a task is judged by its own problems alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Attention of 32 queries on 32 keys, with rows of whole warps: one tile.
    Tile,
    /// Attention on many tiles that are whole: multiples of 64 queries and keys.
    Online,
    /// Attention of any sizes and scale, without a causal mask.
    Ragged,
    /// Attention with a causal mask.
    Causal,
    /// Decoding of one query for each head, on a cache that is full, with rows of whole warps.
    Query,
    /// Decoding of one query for each head, on sequences of any lengths.
    Lengths,
    /// Decoding of heads that share keys, or of several queries.
    Groups,
}

/// A problem with a known answer.
pub trait Problem {
    /// The outputs that an implementation fills in.
    type Output;

    /// The right outputs, in f64.
    type Answer;

    /// Its name, such as `b1_h2_n65_d64_causal`.
    fn name(&self) -> &str;

    /// Features that an implementation must have for it.
    fn needs(&self) -> Vec<Feature> {
        Vec::new()
    }

    /// True for a problem that an implementation may fail although it solves the plain ones:
    /// extreme values, rows that see no key, additive masks, empty tensors.
    fn needs_care(&self) -> bool {
        false
    }

    /// The step of a task that it belongs to; `None` if it is of no task in steps.
    fn step(&self) -> Option<Step> {
        None
    }

    /// The size, by which a problem that takes too long can be left out.
    fn extent(&self) -> Extent {
        Extent::default()
    }

    /// Outputs of the right shapes, full of [`UNWRITTEN`].
    fn poisoned(&self) -> Self::Output;

    /// The right answer: the oracle's.
    fn answer(&self) -> Self::Answer;

    /// Compares outputs with an answer, the right one or that of a known mistake, within the
    /// tolerance of the right one.
    ///
    /// # Errors
    ///
    /// A sentence that names the output that has the wrong shape, if one does.
    fn compare(
        &self,
        output: &Self::Output,
        answer: &Self::Answer,
    ) -> Result<Vec<Comparison>, String>;

    /// Compares outputs with the right answer.
    ///
    /// # Errors
    ///
    /// Those of [`Problem::compare`].
    fn judge(&self, output: &Self::Output) -> Result<Vec<Comparison>, String> {
        self.compare(output, &self.answer())
    }
}

/// Compares one output, or says that its shape is wrong.
pub(crate) fn compare<D: ndarray::Dimension>(
    tensor: &'static str,
    actual: &ndarray::Array<f32, D>,
    expected: &ndarray::Array<f64, D>,
    tolerance: Tolerance,
) -> Result<Comparison, String> {
    if actual.shape() != expected.shape() {
        return Err(format!(
            "`{tensor}` has shape {:?}, not {:?}",
            actual.shape(),
            expected.shape()
        ));
    }
    Ok(Comparison::new(
        tensor,
        actual.view(),
        expected.view(),
        tolerance,
    ))
}

/// The relative error of the weights of a softmax whose scores are rounded at their own
/// size, from the log-sum-exps.
///
/// Two usual forms round so, and lose nothing else: scores in base 2, `s log2(e)` for `exp2`, and
/// parts that are merged by their f32 log-sum-exp. Either number is off by half a unit in its last
/// place, at most `epsilon / 2` of the largest score, and the weight is its exponential; this
/// allows both at once. The largest score is the log-sum-exp, but for the logarithm of the number
/// of keys. So it is a quarter of a sum's rounding for scores of a few units, and counts at ±1e4.
fn rounded_scores<'a>(lse: impl IntoIterator<Item = &'a f64>) -> f64 {
    let finite = lse.into_iter().filter(|lse| lse.is_finite());
    f64::from(f32::EPSILON) * finite.fold(0.0, |largest: f64, lse| largest.max(lse.abs()))
}

/// Half the distance between the least and the largest finite value, 0 among them:
/// weights that add up to 1 and are off by a relative error change their mean of the
/// values by at most that share of it.
fn half_range<D: ndarray::Dimension>(array: &ndarray::Array<f32, D>) -> f64 {
    let finite = array.iter().copied().filter(|x| x.is_finite());
    let (least, largest) = finite.fold((0.0f32, 0.0f32), |(least, largest), x| {
        (least.min(x), largest.max(x))
    });
    (f64::from(largest) - f64::from(least)) / 2.0
}

/// The root mean square of the finite values of an array, 0 if there are none.
fn rms<D: ndarray::Dimension>(array: &ndarray::Array<f32, D>) -> f64 {
    let squares = array
        .iter()
        .filter(|x| x.is_finite())
        .map(|&x| f64::from(x) * f64::from(x));
    let (count, sum) = squares.fold((0, 0.0), |(count, sum), square| (count + 1, sum + square));
    (sum / f64::from(count.max(1))).sqrt()
}
