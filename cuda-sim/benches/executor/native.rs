//! Native loops with the arithmetic and memory traffic of the kernels.
//!
//! They are written so that every compiler and machine runs the same operations: f32
//! multiplications and additions, no fused multiply-add, no call of a mathematical library. The
//! compiler may use the vectors of the target's baseline.

use std::hint::black_box;

/// Rows and columns of a tile.
const TILE: usize = 16;

/// C = A · B for matrices of `n` × `n`, with copies of the tiles, as `kernels/tiled_gemm.cu` does
/// it.
pub fn tiled_gemm(a: &[f32], b: &[f32], c: &mut [f32], n: usize) {
    type Tile = [[f32; TILE]; TILE];
    let load = |tile: &mut Tile, from: &[f32], row: usize, column: usize| {
        for (i, words) in tile.iter_mut().enumerate() {
            words.copy_from_slice(&from[(row + i) * n + column..][..TILE]);
        }
    };
    let (mut a_tile, mut b_tile): (Tile, Tile) = Default::default();
    for row in (0..n).step_by(TILE) {
        for column in (0..n).step_by(TILE) {
            let mut sums = Tile::default();
            for k in (0..n).step_by(TILE) {
                load(&mut a_tile, a, row, k);
                load(&mut b_tile, b, k, column);
                for (sums, a_row) in sums.iter_mut().zip(&a_tile) {
                    for (x, b_row) in a_row.iter().zip(&b_tile) {
                        for (sum, y) in sums.iter_mut().zip(b_row) {
                            *sum += x * y;
                        }
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                c[(row + i) * n + column..][..TILE].copy_from_slice(sums);
            }
        }
    }
}

/// C = `times` · A · B for each of `warps` warps, added up, for A of 16 × 16 and B of 16 × 64, as
/// `kernels/matrix_products.cu` does it.
pub fn matrix_products(a: &[f32], b: &[f32], c: &mut [f32], warps: usize, times: usize) {
    for c in c.chunks_exact_mut(16 * 64).take(warps) {
        c.fill(0.0);
        for _ in 0..times {
            for (row, sums) in a.chunks_exact(16).zip(c.chunks_exact_mut(64)) {
                for (x, b_row) in row.iter().zip(b.chunks_exact(64)) {
                    for (sum, y) in sums.iter_mut().zip(b_row) {
                        *sum += x * y;
                    }
                }
            }
        }
    }
}

/// C = `times` · A · B, element by element, added up, as `kernels/half_fma.cu` does it in f16.
pub fn half_fma(a: &[f32], b: &[f32], c: &mut [f32], times: usize) {
    const WORDS: usize = 8;
    let factors = a.chunks_exact(WORDS).zip(b.chunks_exact(WORDS));
    for ((a, b), c) in factors.zip(c.chunks_exact_mut(WORDS)) {
        let mut sums = [0.0; WORDS];
        for _ in 0..times {
            for (sum, (x, y)) in sums.iter_mut().zip(a.iter().zip(black_box(b))) {
                *sum += x * y;
            }
        }
        c.copy_from_slice(&sums);
    }
}

/// The softmax of each row of `n` elements, in three passes, as `kernels/row_softmax.cu` does it.
pub fn row_softmax(x: &[f32], y: &mut [f32], n: usize) {
    /// Running results of a row, so that one addition need not wait for the other.
    const LANES: usize = 8;
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    for (row, out) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
        let mut most = [f32::NEG_INFINITY; LANES];
        for words in row.chunks_exact(LANES) {
            for (most, &word) in most.iter_mut().zip(words) {
                *most = if word > *most { word } else { *most };
            }
        }
        let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);

        let mut sums = [0.0; LANES];
        for words in row.chunks_exact(LANES) {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum += exp2((word - most) * LOG2_E);
            }
        }
        let scale = 1.0 / sums.iter().sum::<f32>();

        for (out, word) in out.iter_mut().zip(row) {
            *out = exp2((word - most) * LOG2_E) * scale;
        }
    }
}

/// 2^x for -126 ≤ x ≤ 0: 2^x = 2^i · e^r, with a Taylor polynomial for |r| ≤ ln 2 / 2.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    // A cast rounds toward zero, so this rounds x to the nearest integer.
    let whole = (x - 0.5) as i32;
    let r = (x - whole as f32) * std::f32::consts::LN_2;
    let mut power = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = power * r + coefficient;
    }
    power * f32::from_bits(((whole + 127) as u32) << 23)
}
