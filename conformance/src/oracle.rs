//! The same mathematics once more, in f64, without tiles or an online softmax, and with nothing
//! shared with the code that it judges. Answers to the same problem are computed once.
//!
//! The functions expect shapes that fit, as those of the [tables](crate::problems) do, and panic
//! otherwise.

use ndarray::{Array1, Array2, Array3, Array4, indices, s};

use stage1_reference::{Dropout, Linear, MultiHeadAttention, Options};

use crate::{Dtype, memo};

/// `o` `[B, H, nq, D]` and `lse` `[B, H, nq]` of `softmax(scale · q kᵀ + mask) v`, in f64.
///
/// `q` is `[B, H, nq, D]`, `k` and `v` are `[B, H_kv, nk, D]`. A row that sees no key
/// has `o = 0`, `lse = −inf`.
pub fn attention<T: Copy + Into<f64>>(
    q: &Array4<T>,
    k: &Array4<T>,
    v: &Array4<T>,
    options: &Options,
) -> (Array4<f64>, Array3<f64>) {
    attention_with([q, k, v], options, None)
}

/// `o` of the same, as one operation after the other computes it on tensors of `dtype`: weights and
/// result are rounded, and scores if `rounds_scores`. Sums are not.
pub fn attention_in(
    dtype: Dtype,
    rounds_scores: bool,
    q: &Array4<f32>,
    k: &Array4<f32>,
    v: &Array4<f32>,
    options: &Options,
) -> Array4<f64> {
    let stored = Stored {
        dtype,
        rounds_scores,
    };
    let (o, _) = attention_with([q, k, v], options, Some(stored));
    o.mapv_into(|x| stored.round(x))
}

/// What is stored between the operations.
#[derive(Clone, Copy, Hash)]
struct Stored {
    dtype: Dtype,
    rounds_scores: bool,
}

impl Stored {
    fn round(self, x: f64) -> f64 {
        self.dtype.round(x as f32).into()
    }
}

/// Attention whose scores and weights are rounded as they are stored, or are not.
fn attention_with<T: Copy + Into<f64>>(
    tensors: [&Array4<T>; 3],
    options: &Options,
    stored: Option<Stored>,
) -> (Array4<f64>, Array3<f64>) {
    let [q, k, v] = tensors.map(|x| x.mapv(T::into));
    let digest = memo::digest([&q, &k, &v], stored);
    memo::remembered(digest, options, || computed(&q, &k, &v, options, stored))
}

fn computed(
    q: &Array4<f64>,
    k: &Array4<f64>,
    v: &Array4<f64>,
    options: &Options,
    stored: Option<Stored>,
) -> (Array4<f64>, Array3<f64>) {
    let stored_score = |x| match stored {
        Some(stored) if stored.rounds_scores => stored.round(x),
        _ => x,
    };
    let stored_weight = |x| stored.map_or(x, |stored| stored.round(x));
    let (batch, heads, nq, d) = q.dim();
    let (_, kv_heads, nk, _) = k.dim();
    let scale = options.scale.map_or(1.0 / (d as f64).sqrt(), f64::from);
    let mut o = Array4::zeros((batch, heads, nq, d));
    let mut lse = Array3::from_elem((batch, heads, nq), f64::NEG_INFINITY);
    for (b, h) in indices((batch, heads)) {
        let h_kv = h * kv_heads / heads;
        let q = q.slice(s![b, h, .., ..]);
        let v = v.slice(s![b, h_kv, .., ..]);
        // [D, nk]: the sums of all keys grow side by side.
        let k = Array2::from_shape_fn((d, nk), |(c, j)| k[[b, h_kv, j, c]]);
        let mut of_head = o.slice_mut(s![b, h, .., ..]);
        for (i, (q, mut o)) in q.rows().into_iter().zip(of_head.rows_mut()).enumerate() {
            let mut products = Array1::zeros(nk);
            for (&q, k) in q.iter().zip(k.rows()) {
                products.scaled_add(q, &k);
            }
            let mut scores = Vec::new();
            for (j, product) in products.into_iter().enumerate() {
                let ahead = (j + nq) as i128 - (i + nk) as i128; // of the query's own position
                let hidden = options.causal && ahead > 0
                    || (options.window)
                        .is_some_and(|w| -ahead > w.left as i128 || ahead > w.right as i128)
                    || (options.key_lengths.as_ref()).is_some_and(|lengths| j >= lengths[b])
                    || (options.blocks.as_ref())
                        .is_some_and(|x| !x[[b % x.dim().0, h % x.dim().1, i / 64, j / 64]]);
                let added = (options.mask.as_ref())
                    .map_or(0.0, |x| x[[b % x.dim().0, h % x.dim().1, i, j]]);
                if !hidden && added != f32::NEG_INFINITY {
                    scores.push((j, stored_score(scale * product + f64::from(added))));
                }
            }
            let max = scores.iter().map(|x| x.1).fold(f64::NEG_INFINITY, f64::max);
            let weights = Vec::from_iter(scores.iter().map(|x| (x.1 - max).exp()));
            let sum: f64 = weights.iter().sum();
            lse[[b, h, i]] = max + sum.ln(); // −inf without scores: the logarithm of an empty sum
            for ((j, _), weight) in scores.into_iter().zip(weights) {
                let weight = stored_weight(weight / sum);
                let factor = (options.dropout).map_or(1.0, |x| factor(x, b * heads + h, i, j));
                o.scaled_add(stored_weight(weight * factor), &v.row(j));
            }
        }
    }
    (o, lse)
}

/// The factor of the weight of query `i` and key `j` in a head, of number `b H + h`.
pub(crate) fn factor(dropout: Dropout, matrix: usize, i: usize, j: usize) -> f64 {
    match dropout.keeps(matrix, i, j) {
        true => 1.0 / (1.0 - f64::from(dropout.threshold()) / 2f64.powi(32)),
        false => 0.0,
    }
}

/// Softmax of `x` `[batch, rows, columns]` over the columns, and its log-sum-exp
/// `[batch, rows]`, in f64.
///
/// A row that is empty or all −inf becomes 0 and has −inf.
pub fn softmax(x: &Array3<f32>) -> (Array3<f64>, Array2<f64>) {
    let mut y = x.mapv(f64::from);
    let mut lse = Array2::from_elem((x.dim().0, x.dim().1), f64::NEG_INFINITY);
    for ((b, i), lse) in lse.indexed_iter_mut() {
        let mut row = y.slice_mut(ndarray::s![b, i, ..]);
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
        if max == f64::NEG_INFINITY {
            row.fill(0.0);
        } else {
            row.mapv_inplace(|x| (x - max).exp() / sum);
            *lse = max + sum.ln();
        }
    }
    (y, lse)
}

/// The layer applied to `x` `[B, N, hidden]`, in f64.
pub fn multi_head(layer: &MultiHeadAttention, x: &Array3<f32>, options: &Options) -> Array3<f64> {
    let (batch, n, hidden) = x.dim();
    let d = hidden / layer.heads;
    let apply = |linear: &Linear, x: &Array3<f64>| {
        let mut y = Array3::zeros((batch, n, hidden));
        for (x, mut y) in x.rows().into_iter().zip(y.rows_mut()) {
            for (x, weights) in x.iter().zip(linear.weight.rows()) {
                y.zip_mut_with(&weights, |y, &weight| *y += x * f64::from(weight));
            }
            if let Some(bias) = &linear.bias {
                y.zip_mut_with(bias, |y, &bias| *y += f64::from(bias));
            }
        }
        y
    };
    let x = x.mapv(f64::from);
    let [q, k, v] = [&layer.w_q, &layer.w_k, &layer.w_v].map(|linear| {
        let y = apply(linear, &x);
        Array4::from_shape_fn((batch, layer.heads, n, d), |(b, h, i, c)| {
            y[[b, i, h * d + c]]
        })
    });
    let (o, _) = attention(&q, &k, &v, options);
    let merged = Array3::from_shape_fn((batch, n, hidden), |(b, i, c)| o[[b, c / d, i, c % d]]);
    apply(&layer.w_o, &merged)
}

/// `a · b`, `[B, H, m, n]` in f64, of `a` `[B, H, m, k]` and `b` `[B, H_b, k, n]`; head `h`
/// uses `b`'s `h · H_b / H`.
pub fn gemm(a: &Array4<f32>, b: &Array4<f32>) -> Array4<f64> {
    let (batch, heads, m, _) = a.dim();
    let (_, b_heads, _, n) = b.dim();
    let mut products = Array4::zeros((batch, heads, m, n));
    for (z, h) in indices((batch, heads)) {
        let a = a.slice(s![z, h, .., ..]).mapv(f64::from);
        let b = b.slice(s![z, h * b_heads / heads, .., ..]).mapv(f64::from);
        let b = b.as_standard_layout();
        let mut of_head = products.slice_mut(s![z, h, .., ..]);
        for (a, mut row) in a.rows().into_iter().zip(of_head.rows_mut()) {
            for (&a, b) in a.iter().zip(b.rows()) {
                row.scaled_add(a, &b);
            }
        }
    }
    products
}
