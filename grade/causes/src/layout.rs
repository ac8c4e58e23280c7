//! Values are read from another place than where they lie: rows and columns exchanged, rows of another head.

use ndarray::{Array2, ArrayView2};

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with = |cause, detail, change: fn(&mut Formula)| {
        Hypothesis::changed(cause, detail, Formula::right(), change)
    };
    vec![
        with(Cause::TransposedV, "", |it| it.v = transposed),
        with(
            Cause::TransposedProduct,
            "k is read with rows and columns exchanged",
            |it| it.k = transposed,
        ),
        with(Cause::WrongHead, "head h of q reads head h % H_kv", |it| {
            it.kv = |sizes, b, h| (b, h % sizes.kv_heads)
        }),
        with(Cause::WrongHead, "head h of q reads head h", |it| {
            it.kv = |sizes, b, h| {
                let head = b * sizes.kv_heads + h; // of all sequences
                let (b, h) = (head / sizes.kv_heads, head % sizes.kv_heads);
                (b % sizes.batch, h)
            }
        }),
        with(Cause::WrongHead, "all heads read head 0 of k and v", |it| {
            it.kv = |_, b, _| (b, 0)
        }),
        with(
            Cause::WrongHead,
            "all sequences read sequence 0 of k and v",
            |it| it.kv = |sizes, _, h| (0, h / sizes.group()),
        ),
        with(
            Cause::WrongHead,
            "head h reads head h + 1 of k and v",
            |it| it.kv = |sizes, b, h| (b, (h / sizes.group() + 1) % sizes.kv_heads),
        ),
    ]
}

/// The same memory, `[n, D]`, read as if it were `[D, n]`.
fn transposed(x: ArrayView2<'_, f64>) -> Array2<f64> {
    let flat: Vec<f64> = x.iter().copied().collect();
    let n = x.nrows();
    Array2::from_shape_fn(x.raw_dim(), |(j, d)| flat[d * n + j])
}
