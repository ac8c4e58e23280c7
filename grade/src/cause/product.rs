//! Matrix products whose operands are read from the wrong place, or whose sums lack terms.

use std::ops::Range;

use conformance::problems::gemm::{Problem, Product};
use ndarray::Array4;

use super::{Cause, Hypothesis};

/// Sizes of a product: `c` `[B, H, m, n]` of `a` `[B, H, m, k]` and `b` `[B, H_b, k, n]` or `[B, H_b, n, k]`.
struct Sizes {
    heads: usize,
    b_heads: usize,
    m: usize,
    n: usize,
    k: usize,
    product: Product,
}

/// The parts of a product.
struct Formula {
    /// Position in a matrix of `a` of row i, column p.
    a: fn(&Sizes, usize, usize) -> usize,
    /// Position in a matrix of `b` of the factor of column j of `c` at p.
    b: fn(&Sizes, usize, usize) -> usize,
    /// Batch and head of `b` for a batch and head of `a`.
    matrix: fn(&Sizes, usize, usize) -> (usize, usize),
    /// The terms that are added, of those of 0..k.
    terms: Box<dyn Fn(usize) -> Range<usize>>,
    /// `c` is written with rows and columns exchanged.
    transposed: bool,
}

impl Formula {
    fn right() -> Self {
        Self {
            a: |sizes, i, p| i * sizes.k + p,
            b: |sizes, p, j| match sizes.product {
                Product::Nn => p * sizes.n + j,
                Product::Nt => j * sizes.k + p,
            },
            matrix: |sizes, b, h| (b, h * sizes.b_heads / sizes.heads),
            terms: Box::new(|k| 0..k),
            transposed: false,
        }
    }

    fn product(&self, problem: &Problem) -> Array4<f64> {
        let (batch, heads, m, k) = problem.a.dim();
        let (_, b_heads, b_rows, b_columns) = problem.b.dim();
        let n = match problem.product {
            Product::Nn => b_columns,
            Product::Nt => b_rows,
        };
        let sizes = Sizes {
            heads,
            b_heads,
            m,
            n,
            k,
            product: problem.product,
        };
        let (a, b) = (flat(&problem.a), flat(&problem.b));
        let terms = (self.terms)(k);
        let mut c = Array4::zeros((batch, heads, m, n));
        for z in 0..batch {
            for h in 0..heads {
                let (b_z, b_h) = (self.matrix)(&sizes, z, h);
                let a = &a[(z * heads + h) * m * k..];
                let b = &b[(b_z * b_heads + b_h) * n * k..];
                for i in 0..m {
                    for j in 0..n {
                        let sum: f64 = terms
                            .clone()
                            .map(|p| a[(self.a)(&sizes, i, p)] * b[(self.b)(&sizes, p, j)])
                            .sum();
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

pub(super) fn mistakes(problem: &Problem) -> Vec<Hypothesis<Array4<f64>>> {
    let right = Formula::right;
    let mut mistakes = vec![
        (
            Cause::TransposedProduct,
            "b is read with rows and columns exchanged".to_owned(),
            Formula {
                b: |sizes, p, j| match sizes.product {
                    Product::Nn => j * sizes.k + p,
                    Product::Nt => p * sizes.n + j,
                },
                ..right()
            },
        ),
        (
            Cause::TransposedProduct,
            "a is read with rows and columns exchanged".to_owned(),
            Formula {
                a: |sizes, i, p| p * sizes.m + i,
                ..right()
            },
        ),
        (
            Cause::TransposedProduct,
            "c is written with rows and columns exchanged".to_owned(),
            Formula {
                transposed: true,
                ..right()
            },
        ),
        (
            Cause::WrongHead,
            "head h of a meets head h % H_b of b".to_owned(),
            Formula {
                matrix: |sizes, b, h| (b, h % sizes.b_heads),
                ..right()
            },
        ),
        (
            Cause::WrongHead,
            "all heads of a meet head 0 of b".to_owned(),
            Formula {
                matrix: |_, b, _| (b, 0),
                ..right()
            },
        ),
        (
            Cause::WrongHead,
            "all batches of a meet batch 0 of b".to_owned(),
            Formula {
                matrix: |sizes, _, h| (0, h * sizes.b_heads / sizes.heads),
                ..right()
            },
        ),
    ];
    let mut terms = |cause, detail: String, terms: Box<dyn Fn(usize) -> Range<usize>>| {
        mistakes.push((cause, detail, Formula { terms, ..right() }));
    };
    terms(
        Cause::TailDropped,
        "the last term of each sum".to_owned(),
        Box::new(|k| 0..k.saturating_sub(1)),
    );
    for tile in [4, 8, 16, 32, 64, 128] {
        terms(
            Cause::TailDropped,
            format!("tiles of {tile}"),
            Box::new(move |k| 0..k - k % tile),
        );
        terms(
            Cause::OneTileOnly,
            format!("the last of the tiles of {tile}"),
            Box::new(move |k| k.saturating_sub(1) / tile * tile..k),
        );
        terms(
            Cause::OneTileOnly,
            format!("the first of the tiles of {tile}"),
            Box::new(move |k| 0..k.min(tile)),
        );
    }
    let answers = mistakes.into_iter();
    let answers = answers
        .map(|(cause, detail, formula)| Hypothesis::new(cause, detail, formula.product(problem)));
    answers.collect()
}

fn flat(x: &Array4<f32>) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}
