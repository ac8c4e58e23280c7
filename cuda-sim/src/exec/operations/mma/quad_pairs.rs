//! `mma.m8n8k4` of f16: the four products of a warp, one for each quad pair, as
//! [`QuadPairProducts`](crate::program::op::QuadPairProducts) has them.

use crate::exec::fused::multiply_add;
use crate::exec::half_float::{F16, narrow, widen};
use crate::exec::registers::Registers;
use crate::program::op::{Columns, Layout, QuadPairProducts, Sums};

/// Half of one of the products, by rows.
pub(super) struct QuadPair {
    /// A, and four columns of B, as bits of f16.
    pub left: [[u16; 4]; 8],
    pub right: [[u16; 4]; 4],
    /// These columns of C as bits of the type of D. A sum turns them into D.
    pub sums: [[u32; 4]; 8],
}

impl QuadPair {
    /// Reads A, B and C of product `p`.
    pub(super) fn read(registers: &Registers, products: &QuadPairProducts, p: usize) -> QuadPair {
        let word = |r, lane: usize| registers.read::<u32>(r)[lane];
        let first_column = first_column(products);
        let mut pair = QuadPair {
            left: [[0; 4]; 8],
            right: [[0; 4]; 4],
            sums: [[0; 4]; 8],
        };
        for (h, t, lane) in lanes(p) {
            for i in 0..4 {
                let half = |r| (word(r, lane) >> (16 * (i % 2))) as u16;
                let (row, column) = match products.a_layout {
                    Layout::Row => (4 * h + t, i),
                    Layout::Column => (4 * h + i, t),
                };
                pair.left[row][column] = half(products.a[i / 2]);
                let (row, column) = match products.b_layout {
                    Layout::Row => (t, 4 * h + i),
                    Layout::Column => (i, 4 * h + t),
                };
                if column / 4 == first_column / 4 {
                    pair.right[row][column % 4] = half(products.b[i / 2]);
                }
                let (row, column) = place(products.c_type, h, t, first_column + i);
                pair.sums[row][column % 4] = match (products.c_type, products.d_type) {
                    (Sums::F16, Sums::F16) => half(products.c[i / 2]).into(),
                    (Sums::F16, _) => (widen::<F16>(half(products.c[i / 2])) as f32).to_bits(),
                    _ => word(products.c[i], lane),
                };
            }
        }
        pair
    }

    /// Puts D of product `p` into its lanes of the registers of `d`.
    pub(super) fn write(&self, products: &QuadPairProducts, p: usize, d: &mut [[u32; 32]; 4]) {
        for (h, t, lane) in lanes(p) {
            for i in 0..4 {
                let (row, column) = place(products.d_type, h, t, first_column(products) + i);
                let sum = self.sums[row][column % 4];
                match products.d_type {
                    Sums::F16 => d[i / 2][lane] |= sum << (16 * (i % 2)),
                    _ => d[i][lane] = sum,
                }
            }
        }
    }

    /// Replaces each element of C by what `sum` makes of a row of A, a column of B and the element,
    /// rounded to `d_type`.
    #[inline(always)]
    pub(super) fn add(&mut self, d_type: Sums, sum: impl Fn([f32; 4], [f32; 4], f32) -> f32) {
        let value = |half| widen::<F16>(half) as f32;
        for (row, sums) in self.left.iter().zip(&mut self.sums) {
            for (column, element) in sums.iter_mut().enumerate() {
                let c = match d_type {
                    Sums::F16 => value(*element as u16),
                    _ => f32::from_bits(*element),
                };
                let d = sum(row.map(value), self.right.map(|row| value(row[column])), c);
                *element = match d_type {
                    Sums::F16 => narrow::<F16>(d.into()).into(),
                    _ if d.is_nan() => 0x7fff_ffff,
                    _ => d.to_bits(),
                };
            }
        }
    }
}

/// A chain of fused multiply-adds from `c` on.
#[inline(always)]
pub(super) fn fused(a: [f32; 4], b: [f32; 4], c: f32) -> f32 {
    let mut sum = c;
    for k in 0..4 {
        sum = multiply_add(a[k], b[k], sum);
    }
    sum
}

/// A sum in f32 as NVIDIA's assembler has it computed from compute 8.0 on, where tensor cores have
/// no products of this shape.
#[inline(always)]
pub(super) fn without_tensor_cores(a: [f32; 4], b: [f32; 4], c: f32) -> f32 {
    c + fused(a, b, 0.0)
}

/// The same, if D is f16.
#[inline(always)]
pub(super) fn halves_without_tensor_cores(a: [f32; 4], b: [f32; 4], c: f32) -> f32 {
    let pair = |k: usize| multiply_add(a[k + 1], b[k + 1], a[k] * b[k]);
    (c + pair(0)) + pair(2)
}

/// The lanes 16h + 4p + t of product `p`: h, t and the lane.
fn lanes(p: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..8).map(move |i| (i / 4, i % 4, 16 * (i / 4) + 4 * p + i % 4))
}

/// The first of the columns of D. A lane has as many elements before those of the columns.
fn first_column(products: &QuadPairProducts) -> usize {
    match products.columns {
        Columns::Low => 0,
        Columns::High => 4,
    }
}

/// Row and column of element `i` of C or D of this type.
fn place(ty: Sums, h: usize, t: usize, i: usize) -> (usize, usize) {
    match ty {
        Sums::F16 => (4 * h + t, i),
        _ => (4 * h + (t & 1) + (i & 2), (i & 4) + (t & 2) + (i & 1)),
    }
}
