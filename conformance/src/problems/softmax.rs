//! Problems for a softmax over one dimension.

use ndarray::{Array2, Array3};

use super::{UNWRITTEN, compare, rounded_scores};
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{hash, normal, tensor, uniform};
use crate::layout::Layout;
use crate::oracle;

pub use stage2_naive_cuda::library::Axis;

/// Softmax of `x` over one dimension.
#[derive(Debug, Clone)]
pub struct Problem {
    name: String,
    /// The input, `[batch, rows, columns]`.
    pub x: Array3<f32>,
    /// The dimension that is normalised.
    pub axis: Axis,
    /// How x lies in device memory: packed, at an odd place, or in a longer buffer.
    pub layout: Layout,
    /// The values are extreme, or a vector is all −inf.
    extreme: bool,
}

/// The result of a softmax.
#[derive(Debug, Clone)]
pub struct Output {
    /// The softmax, `[batch, rows, columns]`. A vector that is empty or all −inf becomes 0.
    pub y: Array3<f32>,
    /// The log-sum-exp of every normalised vector: `[batch, rows]`, or `[batch, columns]` over the
    /// rows.
    pub lse: Array2<f32>,
}

/// The distribution of the numbers of a problem.
#[derive(Debug, Clone, Copy)]
enum Values {
    /// Standard normal.
    Normal,
    /// Uniform in ±1e4: their exponentials are 0 or beyond f32.
    Huge,
    /// Normal, around +1e4: without subtracting the maximum every exponential overflows.
    Plus1e4,
    /// Normal, around −1e4: without subtracting the maximum every exponential is 0.
    Minus1e4,
    /// From −3e38 to −1e38: below any number that a maximum might begin with, but −inf.
    Minus1e38,
    /// As around −1e4, and the last element but one is a hundred larger.
    Late,
    /// From 87 to 88: without subtracting the maximum each exponential is within f32, and the sum
    /// is not.
    Plus87,
    /// From 80 to 81: the same in a vector of some thousands.
    Plus80,
    /// Normal, a third of them −inf.
    Holes,
    /// Normal, and every third vector all −inf.
    EmptyVectors,
    /// All the same.
    Constant,
    /// The same, so large that a log-sum-exp loses the number of elements by rounding.
    Plus1e8,
}

/// All softmax problems over one dimension. Those without `huge`, `plus` or `minus` in their
/// names stay within f32 even without subtracting the maximum.
pub fn problems(axis: Axis) -> Vec<Problem> {
    let mut problems = Vec::new();
    for length in [1, 2, 31, 65, 127, 128, 129, 1000] {
        problems.push(Problem::new([2, length, 3], axis, Values::Normal));
    }
    for length in [1, 65, 129, 1000] {
        problems.push(Problem::new([1, length, 4], axis, Values::Huge));
    }
    for values in [
        Values::Plus1e4,
        Values::Minus1e4,
        Values::Minus1e38,
        Values::Holes,
        Values::EmptyVectors,
        Values::Constant,
        Values::Plus1e8,
    ] {
        problems.push(Problem::new([2, 129, 7], axis, values));
    }
    // A vector of one element may be empty, too.
    problems.push(Problem::new([2, 1, 6], axis, Values::EmptyVectors));
    // More vectors than blocks that a launch may be limited to, and than a grid's y reaches.
    problems.push(Problem::new([1, 3, 65_540], axis, Values::Normal));
    problems.push(Problem::new([1, 1000, 2], axis, Values::Plus1e4));
    problems.push(Problem::new([1, 129, 4], axis, Values::Plus87));
    problems.push(Problem::new([1, 10_000, 1], axis, Values::Plus80));
    // More elements than a tile has.
    problems.push(Problem::new([1, 5000, 2], axis, Values::Late));
    // Rows that would be vectors of four, if x did not begin beside one.
    for (place, layout) in [("an_odd", Layout::Odd), ("an_even", Layout::Even)] {
        let problem = Problem::new([1, 256, 5], axis, Values::Normal);
        problems.push(Problem {
            name: format!("{}_at_{place}_place", problem.name),
            layout,
            ..problem
        });
    }
    // One element more than a whole number of passes has, if a pass or what a thread keeps has a
    // power of two.
    for length in [257, 513, 1025, 2049, 4097, 8193, 12_289] {
        problems.push(Problem::new([1, length, 1], axis, Values::Normal));
    }
    // More elements than shared memory, or the registers of a block, can keep.
    problems.push(Problem::new([1, 60_001, 1], axis, Values::Normal));
    // Buffers that go on behind x and lse; then without elements of x.
    for length in [33, 0] {
        let problem = Problem::new([2, length, 3], axis, Values::Normal);
        problems.push(Problem {
            name: format!("{}_in_longer_buffers", problem.name),
            layout: Layout::Longer,
            ..problem
        });
    }
    // Nothing to normalise over, no vectors, no batches.
    problems.push(Problem::new([2, 0, 3], axis, Values::Normal));
    problems.push(Problem::new([2, 5, 0], axis, Values::Normal));
    problems.push(Problem::new([0, 5, 3], axis, Values::Normal));
    problems
}

/// A random problem: a function of the seed.
pub fn random(seed: u64, axis: Axis) -> Problem {
    let draw = |i, end| (hash(seed, i) % end as u64) as usize;
    let sizes = [1 + draw(0, 3), 1 + draw(1, 300), 1 + draw(2, 40)];
    let values = [Values::Normal, Values::Huge, Values::Holes][draw(4, 3)];
    let mut problem = Problem::new(sizes, axis, values);
    problem.name = format!("seed {seed}: {}", problem.name);
    problem
}

impl Problem {
    /// `batch` × `others` vectors of this length.
    fn new([batch, length, others]: [usize; 3], axis: Axis, values: Values) -> Self {
        let (shape, suffix, axis_index) = match axis {
            Axis::Last => ((batch, others, length), "", 2),
            Axis::NextToLast => ((batch, length, others), "_over_rows", 1),
        };
        let (label, value): (_, fn(u64, u64) -> f32) = match values {
            Values::Normal => ("", normal),
            Values::Huge => ("_huge", |seed, i| 1e4 * uniform(seed, i)),
            Values::Plus1e4 => ("_plus1e4", |seed, i| 1e4 + normal(seed, i)),
            Values::Minus1e4 => ("_minus1e4", |seed, i| -1e4 + normal(seed, i)),
            Values::Minus1e38 => ("_minus1e38", |seed, i| -2e38 + 1e38 * uniform(seed, i)),
            Values::Late => ("_minus1e4_late_outlier", |seed, i| -1e4 + normal(seed, i)),
            Values::Plus87 => ("_plus87", |seed, i| 87.5 + 0.5 * uniform(seed, i)),
            Values::Plus80 => ("_plus80", |seed, i| 80.5 + 0.5 * uniform(seed, i)),
            Values::Holes => ("_holes", |seed, i| {
                if uniform(seed + 1, i) < -0.33 {
                    f32::NEG_INFINITY
                } else {
                    normal(seed, i)
                }
            }),
            Values::EmptyVectors => ("_empty_vectors", normal),
            Values::Constant => ("_constant", |_, _| 2.5),
            Values::Plus1e8 => ("_plus1e8_constant", |_, _| 1e8),
        };
        let (b, rows, columns) = shape;
        let mut x = tensor(shape, 11, value);
        let vectors = x.lanes_mut(ndarray::Axis(axis_index)).into_iter();
        match values {
            Values::EmptyVectors => {
                let empty = vectors.step_by(3);
                empty.for_each(|mut vector| vector.fill(f32::NEG_INFINITY));
            }
            Values::Late => vectors.for_each(|mut vector| vector[length - 2] += 128.0),
            _ => {}
        }
        Self {
            name: format!("b{b}_r{rows}_c{columns}{label}{suffix}"),
            x,
            axis,
            layout: Layout::Packed,
            extreme: matches!(
                values,
                Values::Huge
                    | Values::Plus1e4
                    | Values::Minus1e4
                    | Values::Minus1e38
                    | Values::Late
                    | Values::Plus87
                    | Values::Plus80
                    | Values::EmptyVectors
                    | Values::Plus1e8
            ),
        }
    }
}

impl super::Problem for Problem {
    type Output = Output;
    /// y and lse.
    type Answer = (Array3<f64>, Array2<f64>);

    fn name(&self) -> &str {
        &self.name
    }

    // Problems with holes or constant values have one shape, so that an answer from
    // an earlier call is wrong.
    fn needs_care(&self) -> bool {
        self.extreme || self.x.is_empty() || self.layout != Layout::Packed
    }

    fn poisoned(&self) -> Output {
        let (batch, rows, columns) = self.x.dim();
        let vectors = match self.axis {
            Axis::Last => rows,
            Axis::NextToLast => columns,
        };
        Output {
            y: Array3::from_elem((batch, rows, columns), UNWRITTEN),
            lse: Array2::from_elem((batch, vectors), UNWRITTEN),
        }
    }

    fn answer(&self) -> Self::Answer {
        match self.axis {
            Axis::Last => oracle::softmax(&self.x),
            Axis::NextToLast => {
                // The oracle normalises the last axis only.
                let x = self
                    .x
                    .view()
                    .permuted_axes([0, 2, 1])
                    .as_standard_layout()
                    .into_owned();
                let (y, lse) = oracle::softmax(&x);
                (y.permuted_axes([0, 2, 1]), lse)
            }
        }
    }

    fn compare(&self, output: &Output, (y, lse): &Self::Answer) -> Result<Vec<Comparison>, String> {
        let length = self.x.len().checked_div(lse.len()).unwrap_or(0);
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), length);
        // Equal elements are equal after any rounding.
        let equal = self.x.iter().all(|x| Some(x) == self.x.first());
        let scores = if equal { 0.0 } else { rounded_scores(lse) };
        // Rounding x − max by epsilon · (max − x) changes exp(x − max) by at most epsilon / e: a
        // floor of a few epsilon.
        let probability = Tolerance {
            relative: tolerance.relative + scores,
            absolute: 2.0 * f64::from(f32::EPSILON),
        };
        Ok(vec![
            compare("y", &output.y, y, probability)?,
            compare("lse", &output.lse, lse, tolerance.floor(1.0))?,
        ])
    }
}
