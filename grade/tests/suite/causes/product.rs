//! Matrix products by positions in memory.

use conformance::problems::gemm::Product;
use conformance::problems::{Problem, gemm};
use grade::cause::{Cause, probes};
use ndarray::Array4;

use super::{Mistake, named};

/// A product by positions in memory.
#[derive(Clone, Copy)]
struct Flat {
    b_transposed: bool,
    c_transposed: bool,
    b_matrix: fn(usize) -> usize,
    k: fn(usize) -> std::ops::Range<usize>,
    rows: fn(usize) -> usize,
    element: fn(f32) -> f32,
}

const FLAT: Flat = Flat {
    b_transposed: false,
    c_transposed: false,
    b_matrix: |matrix| matrix,
    k: |k| 0..k,
    rows: |m| m,
    element: |x| x,
};

fn product(problem: &gemm::Problem, how: &Flat) -> Array4<f32> {
    let mut c = problem.poisoned();
    let (batch, heads, m, n) = c.dim();
    let k = problem.a.dim().3;
    let (a, b) = (problem.a.as_slice().unwrap(), problem.b.as_slice().unwrap());
    let out = c.as_slice_mut().unwrap();
    let nt = (problem.product == Product::Nt) != how.b_transposed;
    for matrix in 0..batch * heads {
        let b_matrix = (how.b_matrix)(matrix);
        for i in 0..(how.rows)(m) {
            for j in 0..n {
                let mut sum = 0f32;
                for p in (how.k)(k) {
                    let at = if nt { j * k + p } else { p * n + j };
                    let [a, b] = [a[matrix * m * k + i * k + p], b[b_matrix * n * k + at]];
                    sum += (how.element)(a) * (how.element)(b);
                }
                let at = if how.c_transposed {
                    j * m + i
                } else {
                    i * n + j
                };
                out[matrix * m * n + at] = sum;
            }
        }
    }
    c
}

#[test]
fn mistakes_in_products_are_named() {
    let mistakes: [Mistake<Flat>; 8] = [
        (Cause::LowPrecision, |it| {
            it.element = |x| f32::from_bits(x.to_bits() & !0x1fff)
        }),
        (Cause::TransposedProduct, |it| it.b_transposed = true),
        (Cause::TransposedProduct, |it| it.c_transposed = true),
        (Cause::WrongHead, |it| it.b_matrix = |_| 0),
        (Cause::TailDropped, |it| it.k = |k| 0..k / 16 * 16),
        (Cause::TailDropped, |it| it.k = |k| 0..k - 1),
        (Cause::OneTileOnly, |it| it.k = |k| (k - 1) / 16 * 16..k),
        (Cause::NotWritten, |it| it.rows = |m| m / 16 * 16),
    ];
    for kind in [Product::Nn, Product::Nt] {
        named(probes::gemm(kind), product, FLAT, mistakes);
    }
}
