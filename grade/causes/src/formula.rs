//! Attention by the textbook, in f64, with parts that a mistake exchanges for its own.

use std::rc::Rc;

use ndarray::{Array2, Array3, Array4, ArrayView2, s};
use stage1_reference::{Options, Sizes};

const FITS: &str = "the shapes of a problem fit each other";

/// o `[B, H, nq, D]` and lse `[B, H, nq]`.
pub(super) type Answer = (Array4<f64>, Array3<f64>);

/// The function from the scores of a row to its weights.
pub(super) type Weigh = Rc<dyn Fn(&Row<'_>) -> Weighed>;

/// The function from the right factor of the scores to the one that is used.
pub(super) type Scale = Box<dyn Fn(&Sizes, f64) -> f64>;

/// One row of scores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// Scaled scores, −inf where a key is hidden.
    pub scores: &'a [f64],
    /// The row sees no key from here on, whether there is one or not.
    pub end: usize,
    /// Its query `i`, and `nk − nq`.
    pub query: (i64, i64),
    /// The factor of the scores.
    pub scale: f64,
}

/// A row after softmax: its output is `Σ weight · v / divisor`.
#[derive(Debug)]
pub(super) struct Weighed {
    pub weights: Vec<f64>,
    pub divisor: f64,
    pub lse: f64,
}

/// The parts of attention.
pub(super) struct Formula {
    /// The factor of the scores, from the right one.
    pub scale: Scale,
    /// The last key that query `i` sees by the causal mask, of `i` and `nk − nq`.
    pub last: Box<dyn Fn(i64, i64) -> i64>,
    /// Changes the options that are no causal mask.
    pub options: fn(&mut Options),
    /// The score of a key that the causal mask hides, from its own.
    pub hidden: fn(f64) -> f64,
    /// The causal mask is applied to the weights, not to the scores.
    pub mask_weights: bool,
    /// Batch and head of `k` and `v` that a batch and head of `q` reads.
    pub kv: fn(&Sizes, usize, usize) -> (usize, usize),
    /// The keys `[nk, D]` that are used, from the right ones.
    pub k: fn(ArrayView2<'_, f64>) -> Array2<f64>,
    /// The values `[nk, D]` that are used, from the right ones.
    pub v: fn(ArrayView2<'_, f64>) -> Array2<f64>,
    /// Softmax.
    pub weigh: Weigh,
}

impl Formula {
    /// All parts right.
    pub(super) fn right() -> Self {
        Self {
            scale: Box::new(|_, scale| scale),
            last: Box::new(|i, diagonal| i + diagonal),
            options: |_| {},
            hidden: |_| f64::NEG_INFINITY,
            mask_weights: false,
            kv: |sizes, b, h| (b, h / sizes.group()),
            k: |k| k.to_owned(),
            v: |v| v.to_owned(),
            weigh: Rc::new(|row| row.weighed()),
        }
    }

    /// Attention of `q` `[B, H, nq, D]` and `k`, `v` `[B, H_kv, nk, D]`.
    pub(super) fn attend(&self, [q, k, v]: [&Array4<f64>; 3], options: &Options) -> Answer {
        let sizes = Sizes::of("cause", q.dim(), k.dim(), v.dim()).expect(FITS);
        let right_scale = options
            .scale
            .map_or(1.0 / (sizes.head_dim as f64).sqrt(), f64::from);
        let scale = (self.scale)(&sizes, right_scale);
        let right = sizes.nk as i64 - sizes.nq as i64;
        let mut others = options.clone();
        others.causal = false;
        (self.options)(&mut others);
        let mask = others.combined("cause", &sizes).expect(FITS);
        let right_of = others.window.map_or(usize::MAX, |window| window.right);
        let window_end = right.saturating_add(i64::try_from(right_of).unwrap_or(i64::MAX / 4));

        let mut o = Array4::zeros(q.raw_dim());
        let mut lse = Array3::zeros((sizes.batch, sizes.heads, sizes.nq));
        for b in 0..sizes.batch {
            for h in 0..sizes.heads {
                let (b_kv, h_kv) = (self.kv)(&sizes, b, h);
                let n = mask.key_length(b_kv);
                let k = (self.k)(k.slice(s![b_kv, h_kv, ..n, ..]));
                let v = (self.v)(v.slice(s![b_kv, h_kv, ..n, ..]));
                let scores = q.slice(s![b, h, .., ..]).dot(&k.t()) * scale;
                for (i, scores) in scores.rows().into_iter().enumerate() {
                    let until = |last: i64| usize::try_from(last.saturating_add(1)).unwrap_or(0);
                    let end = match options.causal {
                        true => until((self.last)(i as i64, right)),
                        false => usize::MAX,
                    };
                    let mut scores: Vec<f64> = scores.to_vec();
                    for (j, score) in scores.iter_mut().enumerate() {
                        *score += f64::from(mask.bias(b, h, i, j));
                        if j >= end && !self.mask_weights {
                            *score = (self.hidden)(*score);
                        }
                    }
                    let mut weighed = (self.weigh)(&Row {
                        scores: &scores,
                        end: end.min(until(window_end.saturating_add(i as i64))),
                        query: (i as i64, right),
                        scale,
                    });
                    if self.mask_weights {
                        weighed
                            .weights
                            .iter_mut()
                            .skip(end)
                            .for_each(|weight| *weight = 0.0);
                    }
                    let Weighed {
                        weights,
                        divisor,
                        lse: of_row,
                    } = weighed;
                    let mut row = o.slice_mut(s![b, h, i, ..]);
                    for (weight, v) in weights.into_iter().zip(v.rows()) {
                        if weight != 0.0 {
                            row.scaled_add(weight, &v);
                        }
                    }
                    // 0 / 0 or x / 0, by the order of sum and quotient: not a number either way.
                    row.mapv_inplace(|x| {
                        if divisor == 0.0 {
                            f64::NAN
                        } else {
                            x / divisor
                        }
                    });
                    lse[[b, h, i]] = of_row;
                }
            }
        }
        (o, lse)
    }
}

impl Row<'_> {
    /// The largest score, −inf if there is none.
    pub(super) fn max(&self) -> f64 {
        self.scores
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// True if it sees no key.
    pub(super) fn is_masked(&self) -> bool {
        self.scores.iter().all(|&score| score == f64::NEG_INFINITY)
    }

    /// Softmax. A row that sees no key is 0.
    pub(super) fn weighed(&self) -> Weighed {
        if self.is_masked() {
            return Weighed {
                weights: vec![0.0; self.scores.len()],
                divisor: 1.0,
                lse: f64::NEG_INFINITY,
            };
        }
        let max = self.max();
        let weights: Vec<f64> = self
            .scores
            .iter()
            .map(|score| (score - max).exp())
            .collect();
        let divisor: f64 = weights.iter().sum();
        Weighed {
            lse: max + divisor.ln(),
            weights,
            divisor,
        }
    }
}
