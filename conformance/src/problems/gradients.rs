//! Problems for the backward pass of attention: the attention table, and the dense gradient in f64.

use ndarray::{Array4, s};
use stage1_reference::Feature;
use stage3_flash_cpu::Gradients;

use super::{Extent, UNWRITTEN, attention, compare};
use crate::Dtype;
use crate::compare::{Comparison, Tolerance};
use crate::dense::Dense;
use crate::inputs::{normal, tensor};

/// The gradients of a loss by `q`, `k` and `v`.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The forward pass.
    pub forward: attention::Problem,
    /// The gradient of the loss by `o`, `[B, H, nq, D]`.
    pub d_o: Array4<f32>,
    /// Tolerance in f32, as a share of the largest element of a gradient: see [`share`].
    share: f64,
}

/// All problems: those of attention.
pub fn problems() -> Vec<Problem> {
    attention::problems()
        .into_iter()
        .map(Problem::new)
        .collect()
}

impl Problem {
    /// With a seeded gradient.
    pub fn new(forward: attention::Problem) -> Self {
        let d_o = tensor(forward.q.raw_dim(), 77, normal);
        let d_o = d_o.mapv_into(|x| forward.dtype().round(x));
        let share = share(&forward);
        Self {
            forward,
            d_o,
            share,
        }
    }
}

impl Problem {
    /// The largest errors of dq, dk and dv where each step is rounded to the problem's type; none
    /// in f32, whose tolerance is a share.
    fn naive_errors(&self, right: [&Array4<f64>; 3]) -> [f64; 3] {
        let attention::Problem {
            q, k, v, options, ..
        } = &self.forward;
        let dtype = self.forward.dtype();
        if dtype == Dtype::F32 {
            return [0.0; 3];
        }
        let round = |x: f64| f64::from(dtype.round(x as f32));
        let d_o = self.d_o.mapv(f64::from);
        let naive = Dense::new(q, k, v, options).rounded_gradients(&d_o, round);
        let error = |(naive, right): (&Array4<f64>, &Array4<f64>)| {
            let errors = naive.iter().zip(right).map(|(a, b)| (a - b).abs());
            errors.fold(0.0, f64::max)
        };
        [0, 1, 2].map(|i| error((&naive[i], right[i])))
    }
}

impl super::Problem for Problem {
    type Output = Gradients;
    /// dq, dk and dv.
    type Answer = [Array4<f64>; 3];

    fn name(&self) -> &str {
        self.forward.name()
    }

    fn needs(&self) -> Vec<Feature> {
        self.forward.needs()
    }

    fn needs_care(&self) -> bool {
        self.forward.needs_care()
    }

    fn extent(&self) -> Extent {
        self.forward.extent()
    }

    fn poisoned(&self) -> Gradients {
        let nan = |x: &Array4<f32>| x.mapv(|_| UNWRITTEN);
        Gradients {
            dq: nan(&self.forward.q),
            dk: nan(&self.forward.k),
            dv: nan(&self.forward.v),
        }
    }

    fn answer(&self) -> Self::Answer {
        let attention::Problem {
            q, k, v, options, ..
        } = &self.forward;
        let dense = Dense::new(q, k, v, options);
        dense.gradients(&self.d_o.mapv(f64::from))
    }

    fn compare(
        &self,
        output: &Gradients,
        [dq, dk, dv]: &Self::Answer,
    ) -> Result<Vec<Comparison>, String> {
        let naive = self.naive_errors([dq, dk, dv]);
        let compare = |name, actual, expected: &Array4<f64>, naive: f64| {
            let of_f32 = Tolerance::of_largest(self.share, expected);
            compare(name, actual, expected, of_f32.and(3.0 * naive))
        };
        Ok(vec![
            compare("dq", &output.dq, dq, naive[0])?,
            compare("dk", &output.dk, dk, naive[1])?,
            compare("dv", &output.dv, dv, naive[2])?,
        ])
    }
}

/// The tolerance of a problem in f32, by the largest absolute value of its scores, with the scale:
/// 6 · 10⁻² from 10⁵ on, 2 · 10⁻³ from 5000 on, 2 · 10⁻⁴ from 500 on, and 2 · 10⁻⁵ below. Scores of
/// keys that a mask hides count as well.
///
/// An error in a score is one of the same size in its weight, as a share. The last place of a score
/// of 2¹⁸ is 2⁻⁵, that of one of 10⁴ is 10⁻³, that of one of 1250 is 10⁻⁴.
fn share(forward: &attention::Problem) -> f64 {
    let sizes = forward.sizes();
    let scale = forward.options.scale.unwrap_or(sizes.default_scale());
    let mut largest = 0.0f32;
    for b in 0..sizes.batch {
        for h in 0..sizes.heads {
            let q = forward.q.slice(s![b, h, .., ..]);
            let k = forward.k.slice(s![b, h / sizes.group(), .., ..]);
            let scores = q.dot(&k.t()); // NaN where a key is padding, which `max` leaves out
            largest = scores.fold(largest, |max, score| max.max((score * scale).abs()));
        }
    }
    match largest {
        1e5.. => 6e-2,
        5e3.. => 2e-3,
        5e2.. => 2e-4,
        _ => 2e-5,
    }
}
