//! The gradient of attention by the textbook, in f64: the oracle of the backward pass.

use ndarray::{Array2, Array4, Axis, s};
use stage1_reference::{Dropout, Mask, Options, Sizes};

use crate::oracle::factor;

const FITS: &str = "the shapes of the tables fit each other";

/// Attention's inputs in f64, as far as they may be read.
#[derive(Debug)]
pub struct Dense<'a> {
    /// `[B, H, nq, D]`.
    pub q: Array4<f64>,
    /// `[B, H_kv, nk, D]`.
    pub k: Array4<f64>,
    /// `[B, H_kv, nk, D]`.
    pub v: Array4<f64>,
    mask: Mask<'a>,
    dropout: Option<Dropout>,
    sizes: Sizes,
    scale: f64,
}

impl<'a> Dense<'a> {
    /// Widens the inputs of a problem.
    pub fn new(q: &Array4<f32>, k: &Array4<f32>, v: &Array4<f32>, options: &'a Options) -> Self {
        let sizes = Sizes::of("dense", q.dim(), k.dim(), v.dim()).expect(FITS);
        let default = 1.0 / (sizes.head_dim as f64).sqrt();
        Self {
            q: q.mapv(f64::from),
            k: k.mapv(f64::from),
            v: v.mapv(f64::from),
            mask: options.combined("dense", &sizes).expect(FITS),
            dropout: options.dropout,
            sizes,
            scale: options.scale.map_or(default, f64::from),
        }
    }

    /// The weights of one head, `[nq, n]`, where `n` is the sequence's key length.
    fn weights(&self, b: usize, h: usize) -> Array2<f64> {
        let n = self.mask.key_length(b);
        let k = self.k.slice(s![b, h / self.sizes.group(), ..n, ..]);
        let mut p = self.q.slice(s![b, h, .., ..]).dot(&k.t()) * self.scale;
        for ((i, j), s) in p.indexed_iter_mut() {
            *s += f64::from(self.mask.bias(b, h, i, j));
        }
        for mut row in p.rows_mut() {
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.mapv_inplace(|s| {
                if s == f64::NEG_INFINITY {
                    0.0
                } else {
                    (s - max).exp()
                }
            });
            let sum = row.sum();
            row.mapv_inplace(|p| if sum == 0.0 { 0.0 } else { p / sum });
        }
        p
    }

    /// Multiplies the weights of one head, or their gradients, by the factors of dropout.
    fn drop(&self, b: usize, h: usize, mut weights: Array2<f64>) -> Array2<f64> {
        if let Some(dropout) = self.dropout {
            for ((i, j), weight) in weights.indexed_iter_mut() {
                *weight *= factor(dropout, b * self.sizes.heads + h, i, j);
            }
        }
        weights
    }

    /// `Σ d_o ∘ o`: a loss whose gradient by `o` is `d_o`.
    pub fn loss(&self, d_o: &Array4<f64>) -> f64 {
        let mut loss = 0.0;
        for b in 0..self.sizes.batch {
            for h in 0..self.sizes.heads {
                let n = self.mask.key_length(b);
                let v = self.v.slice(s![b, h / self.sizes.group(), ..n, ..]);
                let p = self.drop(b, h, self.weights(b, h));
                loss += (p.dot(&v) * d_o.slice(s![b, h, .., ..])).sum();
            }
        }
        loss
    }

    /// `dq`, `dk`, `dv` by the textbook: the whole weight matrix, and the Jacobian of softmax.
    pub fn gradients(&self, d_o: &Array4<f64>) -> [Array4<f64>; 3] {
        self.rounded_gradients(d_o, |x| x)
    }

    /// The same, as one operation after the other computes it with o at hand, whose products with
    /// d_o are the sums of the rows: o, the weights, their gradients, those of the scores and the
    /// results are rounded. Sums are not, and no score is.
    pub fn rounded_gradients(
        &self,
        d_o: &Array4<f64>,
        round: impl Fn(f64) -> f64,
    ) -> [Array4<f64>; 3] {
        let mut dq = Array4::zeros(self.q.raw_dim());
        let mut dk = Array4::zeros(self.k.raw_dim());
        let mut dv = Array4::zeros(self.v.raw_dim());
        for b in 0..self.sizes.batch {
            for h in 0..self.sizes.heads {
                let n = self.mask.key_length(b);
                let kv = s![b, h / self.sizes.group(), ..n, ..];
                let p = self.weights(b, h);
                let mut o = self.drop(b, h, p.clone()).dot(&self.v.slice(kv));
                o.mapv_inplace(&round);
                let p = p.mapv_into(&round);
                let dropped = self.drop(b, h, p.clone()).mapv_into(&round);
                let d_o = d_o.slice(s![b, h, .., ..]);
                let dp = d_o.dot(&self.v.slice(kv).t()).mapv_into(&round);
                let dp = self.drop(b, h, dp).mapv_into(&round);
                let mut ds = &p * &dp;
                let sums = (&d_o * &o).sum_axis(Axis(1));
                for ((mut ds, p), sum) in ds.rows_mut().into_iter().zip(p.rows()).zip(sums) {
                    ds.scaled_add(-sum, &p);
                }
                ds.mapv_inplace(|x| round(x * self.scale));
                let mut part = dv.slice_mut(kv);
                part += &dropped.t().dot(&d_o);
                let mut part = dk.slice_mut(kv);
                part += &ds.t().dot(&self.q.slice(s![b, h, .., ..]));
                dq.slice_mut(s![b, h, .., ..])
                    .assign(&ds.dot(&self.k.slice(kv)));
            }
        }
        [dq, dk, dv].map(|x| x.mapv_into(&round))
    }
}
