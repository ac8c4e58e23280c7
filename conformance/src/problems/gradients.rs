//! Problems for the backward pass of attention: the attention table, and the dense gradient in f64.

use ndarray::{Array4, s};
use stage1_reference::Feature;
use stage3_flash_cpu::Gradients;

use super::{UNWRITTEN, attention, compare};
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
    /// Tolerance, as a share of the largest element of a gradient.
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
        let share = share(&forward);
        Self {
            forward,
            d_o,
            share,
        }
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
        let compare = |name, actual, expected: &Array4<f64>| {
            compare(
                name,
                actual,
                expected,
                Tolerance::of_largest(self.share, expected),
            )
        };
        Ok(vec![
            compare("dq", &output.dq, dq)?,
            compare("dk", &output.dk, dk)?,
            compare("dv", &output.dv, dv)?,
        ])
    }
}

/// The tolerance for the largest score of a problem. An error in a score is one of the same size in
/// its weight, as a share. The last place of a score of 10⁴ is 10⁻³, that of one of 1250 is 10⁻⁴.
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
        5e3.. => 2e-3,
        5e2.. => 2e-4,
        _ => 2e-5,
    }
}
