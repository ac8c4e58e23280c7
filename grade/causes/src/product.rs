//! Matrix products whose operands are read from the wrong place, or whose sums lack terms.

use std::ops::Range;

use conformance::Dtype;
use conformance::problems::gemm::{Problem, Product};
use ndarray::Array4;

use super::{Cause, Hypothesis};

/// Sizes of a product: `c` `[m, n]` of `a` `[m, k]` and `b` `[k, n]` or `[n, k]`.
pub(super) struct Sizes {
    m: usize,
    n: usize,
    k: usize,
    product: Product,
}

/// From the column j of `c` and p to a position in a matrix of `b`.
type InB = Box<dyn Fn(&Sizes, usize, usize) -> Option<usize>>;

/// From an element to the one that is used.
type Element = fn(f32) -> f32;

/// The parts of a product.
pub(super) struct Formula {
    /// Position in a matrix of `a` of row i, column p.
    a: fn(&Sizes, usize, usize) -> usize,
    /// Position in a matrix of `b` of the factor of column j of `c` at p; `None` if that is 0.
    b: InB,
    /// Matrix of `b` for a matrix of `a`.
    matrix: fn(usize) -> usize,
    /// The terms that are added, of those of 0..k.
    terms: Box<dyn Fn(usize) -> Range<usize>>,
    /// `c` is written with rows and columns exchanged.
    transposed: bool,
    /// The element that is used, from the right one.
    element: Element,
}

impl Sizes {
    /// Position in a matrix of `b` of the factor of column j of `c` at p.
    fn in_b(&self, p: usize, j: usize) -> usize {
        match self.product {
            Product::Nn => p * self.n + j,
            Product::Nt => j * self.k + p,
        }
    }

    /// As [`Sizes::in_b`], from square tiles that were not transposed or once too often. Beyond the
    /// edges they hold 0.
    fn in_transposed_tile(&self, tile: usize, p: usize, j: usize) -> Option<usize> {
        let (p0, j0) = (p / tile * tile, j / tile * tile);
        let (p, j) = (p0 + (j - j0), j0 + (p - p0));
        (p < self.k && j < self.n).then(|| self.in_b(p, j))
    }
}

impl Formula {
    fn right() -> Self {
        Self {
            a: |sizes, i, p| i * sizes.k + p,
            b: Box::new(|sizes, p, j| Some(sizes.in_b(p, j))),
            matrix: |matrix| matrix,
            terms: Box::new(|k| 0..k),
            transposed: false,
            element: |x| x,
        }
    }

    /// The product of a problem without grouped heads, `[B, H, m, n]`.
    pub(super) fn product(&self, problem: &Problem) -> Array4<f64> {
        let (batch, heads, m, k) = problem.a.dim();
        let (_, _, b_rows, b_columns) = problem.b.dim();
        let n = match problem.product {
            Product::Nn => b_columns,
            Product::Nt => b_rows,
        };
        let sizes = Sizes {
            m,
            n,
            k,
            product: problem.product,
        };
        let elements = |x: &Array4<f32>| -> Vec<f64> {
            x.iter().map(|&x| f64::from((self.element)(x))).collect()
        };
        let (a, b) = (elements(&problem.a), elements(&problem.b));
        let terms = (self.terms)(k);
        let mut c = Array4::zeros((batch, heads, m, n));
        for z in 0..batch {
            for h in 0..heads {
                let matrix = z * heads + h;
                let a = &a[matrix * m * k..];
                let b = &b[(self.matrix)(matrix) * n * k..];
                for i in 0..m {
                    for j in 0..n {
                        let term = |p| {
                            let of_b = (self.b)(&sizes, p, j).map_or(0.0, |at| b[at]);
                            a[(self.a)(&sizes, i, p)] * of_b
                        };
                        let sum: f64 = terms.clone().map(term).sum();
                        let (i, j) = match self.transposed {
                            true => ((j * m + i) / n, (j * m + i) % n),
                            false => (i, j),
                        };
                        c[[z, h, i, j]] = sum;
                    }
                }
            }
        }
        c
    }
}

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let mut mistakes = Vec::new();
    let mut with = |cause, detail: &str, change: &dyn Fn(&mut Formula)| {
        mistakes.push(Hypothesis::changed(cause, detail, Formula::right(), change));
    };
    with(
        Cause::TransposedProduct,
        "b is read with rows and columns exchanged",
        &|it| {
            it.b = Box::new(|sizes, p, j| {
                Some(match sizes.product {
                    Product::Nn => j * sizes.k + p,
                    Product::Nt => p * sizes.n + j,
                })
            });
        },
    );
    with(
        Cause::TransposedProduct,
        "a is read with rows and columns exchanged",
        &|it| it.a = |sizes, i, p| p * sizes.m + i,
    );
    with(
        Cause::TransposedProduct,
        "c is written with rows and columns exchanged",
        &|it| it.transposed = true,
    );
    with(
        Cause::WrongHead,
        "all matrices of a meet the first of b",
        &|it| it.matrix = |_| 0,
    );
    for tile in [8, 16, 32] {
        let within = format!("within the tiles of {tile} of b");
        with(Cause::TransposedProduct, &within, &|it| {
            it.b = Box::new(move |sizes, p, j| sizes.in_transposed_tile(tile, p, j));
        });
    }
    let types: [(&str, Element); 4] = [
        ("to TF32", |x| {
            truncated(f32::from_bits(x.to_bits() + 0x1000))
        }),
        ("to TF32, towards 0", truncated),
        ("to f16", |x| Dtype::F16.round(x)),
        ("to bf16", |x| Dtype::Bf16.round(x)),
    ];
    for (to, round) in types {
        with(Cause::LowPrecision, to, &|it| it.element = round);
    }
    let last = "the last term of each sum";
    with(Cause::TailDropped, last, &|it| {
        it.terms = Box::new(|k| 0..k.saturating_sub(1));
    });
    for tile in [4, 8, 16, 32, 64, 128] {
        with(Cause::TailDropped, &format!("tiles of {tile}"), &|it| {
            it.terms = Box::new(move |k| 0..k - k % tile);
        });
        let last = format!("the last of the tiles of {tile}");
        with(Cause::OneTileOnly, &last, &|it| {
            it.terms = Box::new(move |k| k.saturating_sub(1) / tile * tile..k);
        });
        let first = format!("the first of the tiles of {tile}");
        with(Cause::OneTileOnly, &first, &|it| {
            it.terms = Box::new(move |k| 0..k.min(tile));
        });
    }
    mistakes
}

/// The number with 10 bits of mantissa below `x`, in size.
fn truncated(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & !0x1fff)
}
