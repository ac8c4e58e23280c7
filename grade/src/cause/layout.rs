//! Values are read from another place than where they lie: rows and columns exchanged, rows of another head.

use ndarray::{Array2, ArrayView2};

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let right = Formula::right;
    let known = |cause, detail, formula| Hypothesis::new(cause, detail, formula);
    let head = |detail, kv| {
        let formula = Formula { kv, ..right() };
        known(Cause::WrongHead, detail, formula)
    };
    vec![
        known(
            Cause::TransposedV,
            "",
            Formula {
                v: transposed,
                ..right()
            },
        ),
        known(
            Cause::TransposedProduct,
            "k is read with rows and columns exchanged",
            Formula {
                k: transposed,
                ..right()
            },
        ),
        head("head h of q reads head h % H_kv", |sizes, b, h| {
            (b, h % sizes.kv_heads)
        }),
        head("all heads read head 0 of k and v", |_, b, _| (b, 0)),
        head("all sequences read sequence 0 of k and v", |sizes, _, h| {
            (0, h / sizes.group())
        }),
        head("head h reads head h + 1 of k and v", |sizes, b, h| {
            (b, (h / sizes.group() + 1) % sizes.kv_heads)
        }),
    ]
}

/// The same memory, `[n, D]`, read as if it were `[D, n]`.
fn transposed(x: ArrayView2<'_, f64>) -> Array2<f64> {
    let flat: Vec<f64> = x.iter().copied().collect();
    let n = x.nrows();
    Array2::from_shape_fn(x.raw_dim(), |(j, d)| flat[d * n + j])
}
