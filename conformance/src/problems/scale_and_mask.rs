//! Problems for `scores = scale · scores + mask`.

use ndarray::Array4;
use stage1_reference::Feature;

use super::{Extent, UNWRITTEN, compare};
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{normal, tensor, uniform};
use crate::layout::Layout;

/// `scale · scores + mask`, in place.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Problem {
    name: String,
    /// `[B, H, nq, nk]`.
    pub scores: Array4<f32>,
    /// The factor of each score.
    pub scale: f32,
    /// Hides the keys `j > i + nk − nq` from query `i`.
    pub causal: bool,
    /// `[B or 1, H or 1, nq, nk]`, with −inf where a key is hidden.
    pub mask: Option<Array4<f32>>,
    /// How the scores lie in device memory: packed, at an odd or even place, or in a longer buffer.
    pub layout: Layout,
}

/// Scores of a problem that has one for each matrix or row.
const MANY: usize = 65_538;

/// All problems.
pub fn problems() -> Vec<Problem> {
    let shapes = [
        [1, 1, 1, 1],
        [2, 3, 5, 129],
        [1, 2, 129, 65],
        [2, 2, 3, 1000],
        [2, 1, 65, 65],
    ];
    let repeated = [[false, false], [false, true], [true, false], [true, true]];
    let masks = || [None].into_iter().chain(repeated.map(Some));
    let all = shapes.into_iter().flat_map(|shape| {
        let both = [false, true].into_iter();
        both.flat_map(move |causal| masks().map(move |mask| (shape, causal, mask)))
    });
    // More matrices, and more rows of one, than the y and z dimensions of a grid reach.
    let many = [[MANY, 1, 1, 1], [1, 1, MANY, 1]].map(|shape| (shape, false, None));
    all.chain(many)
        .map(|(shape, causal, mask)| Problem::new(shape, causal, mask))
        .chain([
            Problem::new([1, 2, 9, 9], true, None).with_nan_and_infinity_hidden(),
            Problem::new([1, 2, 5, 7], false, None).lying(Layout::Longer),
            // Rows that would be vectors of two or four, if the scores did not begin beside one.
            Problem::new([1, 2, 5, 8], false, None).lying(Layout::Odd),
            Problem::new([1, 2, 5, 8], true, None).lying(Layout::Odd),
            Problem::new([1, 2, 5, 8], false, None).lying(Layout::Even),
        ])
        .collect()
}

impl Problem {
    /// With a mask of its own for each batch and for each head, as `mask` says.
    fn new(shape: [usize; 4], causal: bool, mask: Option<[bool; 2]>) -> Self {
        let [batch, heads, nq, nk] = shape;
        let holes = |seed, i| match uniform(seed, i) < 0.0 {
            true => f32::NEG_INFINITY,
            false => normal(seed, i),
        };
        let label = match mask {
            None => "",
            Some([false, false]) => "_mask",
            Some([false, true]) => "_mask_per_head",
            Some([true, false]) => "_mask_per_batch",
            Some([true, true]) => "_mask_per_batch_and_head",
        };
        let mask = mask.map(|[per_batch, per_head]| {
            let batch = if per_batch { batch } else { 1 };
            let heads = if per_head { heads } else { 1 };
            tensor((batch, heads, nq, nk), 42, holes)
        });
        let end = if causal { "_causal" } else { "" };
        Self {
            name: format!("b{batch}_h{heads}_nq{nq}_nk{nk}{label}{end}"),
            scores: tensor(shape, 41, normal),
            scale: -0.375,
            causal,
            mask,
            layout: Layout::Packed,
        }
    }

    fn lying(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self.name += match layout {
            Layout::Odd => "_at_an_odd_place",
            Layout::Even => "_at_an_even_place",
            _ => "_in_a_longer_buffer",
        };
        self
    }

    /// The causal problem with NaN and infinities in place of the scores that are hidden.
    fn with_nan_and_infinity_hidden(mut self) -> Self {
        let (_, _, nq, nk) = self.scores.dim();
        for ((_, h, i, j), score) in self.scores.indexed_iter_mut() {
            if j + nq > i + nk {
                *score = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][(h + i + j) % 3];
            }
        }
        self.name += "_hidden_nan_and_infinity";
        self
    }
}

impl super::Problem for Problem {
    type Output = Array4<f32>;
    type Answer = Array4<f64>;

    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Vec<Feature> {
        let used = [
            (self.causal, Feature::Causal),
            (self.mask.is_some(), Feature::AdditiveMask),
        ];
        used.into_iter()
            .filter(|used| used.0)
            .map(|used| used.1)
            .collect()
    }

    fn needs_care(&self) -> bool {
        let (_, _, nq, nk) = self.scores.dim();
        let has_non_finite_scores = self.scores.iter().any(|score| !score.is_finite());
        let masked = self.mask.is_some() || (self.causal && nq > nk);
        let apart = self.layout != Layout::Packed;
        masked || has_non_finite_scores || apart || self.scores.len() == MANY
    }

    fn extent(&self) -> Extent {
        let (batch, heads, nq, nk) = self.scores.dim();
        Extent {
            matrices: if nq * nk == 1 { 1 } else { batch * heads },
            length: (nq * nk).isqrt(),
        }
    }

    fn poisoned(&self) -> Array4<f32> {
        self.scores.mapv(|_| UNWRITTEN)
    }

    fn answer(&self) -> Array4<f64> {
        let (_, _, nq, nk) = self.scores.dim();
        Array4::from_shape_fn(self.scores.dim(), |(b, h, i, j)| {
            let added = (self.mask.as_ref()).map_or(0.0, |mask| {
                mask[[b % mask.dim().0, h % mask.dim().1, i, j]].into()
            });
            if self.causal && j + nq > i + nk {
                f64::NEG_INFINITY
            } else {
                f64::from(self.scores[[b, h, i, j]]) * f64::from(self.scale) + added
            }
        })
    }

    fn compare(
        &self,
        output: &Array4<f32>,
        expected: &Array4<f64>,
    ) -> Result<Vec<Comparison>, String> {
        let tolerance = Tolerance {
            relative: 1e-6,
            absolute: 1e-6,
        };
        Ok(vec![compare("scores", output, expected, tolerance)?])
    }
}
