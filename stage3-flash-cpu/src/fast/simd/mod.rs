//! The work on tiles, compiled once per instruction set of the host and chosen at run time.
//!
//! The functions are written once, on registers of any length: [`vector::Vector`].

mod exp;
mod matmul;
mod softmax;
mod transpose;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

use ndarray::{ArrayView2, ArrayViewMut2};

pub(crate) use matmul::Old;

/// The columns of every tile are a multiple of this, in every instruction set.
pub(crate) const LANES: usize = 32;

type MatMul = unsafe fn(ArrayView2<'_, f32>, ArrayView2<'_, f32>, Old<'_>, Tile<'_>);
type OnlineSoftmax = unsafe fn(Tile<'_>, &mut [f32], &mut [f32], &mut [f32]);
type Softmax = unsafe fn(Tile<'_>, &[f32]);
type Transpose = unsafe fn(ArrayView2<'_, f32>, ArrayViewMut2<'_, f32>);
type ScoreGradient = unsafe fn(Tile<'_>, ArrayView2<'_, f32>, &[f32]);

/// A tile to be written: rows without gaps, a multiple of [`LANES`] columns.
type Tile<'a> = ArrayViewMut2<'a, f32>;

/// One compiled set. Unsafe to call, because it needs the processor's features;
/// [`kernels`] gives only what it has.
pub(crate) struct Kernels {
    pub name: &'static str,
    mat_mul: MatMul,
    online_softmax: OnlineSoftmax,
    softmax: Softmax,
    score_gradient: ScoreGradient,
    transpose: Transpose,
}

impl Kernels {
    /// `C = A B + old`, or what else [`Old`] says. `A` may have any strides, `B` and `C` are tiles.
    pub fn mat_mul(
        &self,
        a: ArrayView2<'_, f32>, // [m, k]
        b: ArrayView2<'_, f32>, // [k, n]
        old: Old<'_>,
        c: Tile<'_>, // [m, n]
    ) {
        // SAFETY: the processor has what `self` was compiled for: see `sets`.
        unsafe { (self.mat_mul)(a, b, old, c) }
    }

    /// Takes a tile of scores into the running softmax of each column: see
    /// [`softmax::online_softmax`].
    pub fn online_softmax(
        &self,
        s: Tile<'_>,        // [keys, queries]
        m: &mut [f32],      // [queries]
        l: &mut [f32],      // [queries]
        factor: &mut [f32], // [queries]
    ) {
        // SAFETY: as above.
        unsafe { (self.online_softmax)(s, m, l, factor) }
    }

    /// `C = Aᵀ`. `C` may have more columns than `A` has rows; these become 0.
    pub fn transpose(
        &self,
        a: ArrayView2<'_, f32>,    // [m, n]
        c: ArrayViewMut2<'_, f32>, // [n, m or more], without gaps between columns
    ) {
        // SAFETY: as above.
        unsafe { (self.transpose)(a, c) }
    }

    /// Scores to weights, where the log-sum-exp of each row is known: see [`softmax::softmax`].
    pub fn softmax(
        &self,
        s: Tile<'_>, /* [queries, keys] */
        lse: &[f32], /* [queries] */
    ) {
        // SAFETY: as above.
        unsafe { (self.softmax)(s, lse) }
    }

    /// The gradient of the scores from that of the weights: see [`softmax::score_gradient`].
    pub fn score_gradient(
        &self,
        dp: Tile<'_>,           // [queries, keys]
        p: ArrayView2<'_, f32>, // [queries, keys]
        delta: &[f32],          // [queries]
    ) {
        // SAFETY: as above.
        unsafe { (self.score_gradient)(dp, p, delta) }
    }
}

/// `$rows × $width` vectors: what the matrix product keeps in registers.
macro_rules! kernels {
    ($name:ident, $vector:ty, $rows:literal x $width:literal $(, $features:literal)?) => {
        mod $name {
            use super::*;

            $(#[target_feature(enable = $features)])?
            unsafe fn mat_mul(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, old: Old<'_>, c: Tile<'_>) {
                // SAFETY: by the contract of `Kernels`, here and below.
                unsafe { matmul::mat_mul::<$vector, $rows, $width>(a, b, old, c) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn online_softmax(s: Tile<'_>, m: &mut [f32], l: &mut [f32], factor: &mut [f32]) {
                // SAFETY: as above.
                unsafe { softmax::online_softmax::<vector::Pair<$vector>>(s, m, l, factor) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn softmax(s: Tile<'_>, lse: &[f32]) {
                // SAFETY: as above.
                unsafe { softmax::softmax::<$vector>(s, lse) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn score_gradient(dp: Tile<'_>, p: ArrayView2<'_, f32>, delta: &[f32]) {
                // SAFETY: as above.
                unsafe { softmax::score_gradient::<$vector>(dp, p, delta) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn transpose(a: ArrayView2<'_, f32>, c: ArrayViewMut2<'_, f32>) {
                // SAFETY: as above.
                unsafe { transpose::transpose::<$vector>(a, c) }
            }

            pub(super) static KERNELS: Kernels =
                Kernels { name: stringify!($name), mat_mul, online_softmax, softmax, score_gradient, transpose };
        }
    };
}

kernels!(portable, vector::Portable, 4 x 2);
#[cfg(target_arch = "x86_64")]
kernels!(avx2, x86::Avx2, 6 x 2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernels!(avx512, x86::Avx512, 6 x 4, "avx512f,avx2,fma");

/// All sets that this processor can run, the best one first.
pub(crate) fn sets() -> Vec<&'static Kernels> {
    let mut sets = vec![&portable::KERNELS];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        sets.insert(0, &avx2::KERNELS);
        if is_x86_feature_detected!("avx512f") {
            sets.insert(0, &avx512::KERNELS);
        }
    }
    sets
}

/// The best set for this processor.
pub(crate) fn kernels() -> &'static Kernels {
    static BEST: OnceLock<&'static Kernels> = OnceLock::new();
    BEST.get_or_init(|| sets()[0])
}

/// The instruction set in use: `avx512`, `avx2` or `portable`. For reports of measured times.
pub fn instruction_set() -> &'static str {
    kernels().name
}

#[cfg(test)]
mod tests;
