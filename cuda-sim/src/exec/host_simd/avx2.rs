//! Memory accesses with AVX2. Records are compared by loops that the compiler turns into vector instructions.

use std::arch::asm;
use std::arch::x86_64::{
    __m128, _mm_movehl_ps, _mm_movelh_ps, _mm_store_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
};

use super::{Aligned, HostSimd};

/// AVX2.
pub(crate) struct Avx2;

impl HostSimd for Avx2 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn move_row(from: u64, to: u64) {
        // SAFETY: the caller promises 128 readable and 128 writable bytes.
        unsafe {
            asm!(
                "vmovdqu {0}, [{from}]", "vmovdqu {1}, [{from} + 32]",
                "vmovdqu {2}, [{from} + 64]", "vmovdqu {3}, [{from} + 96]",
                "vmovdqu [{to}], {0}", "vmovdqu [{to} + 32], {1}",
                "vmovdqu [{to} + 64], {2}", "vmovdqu [{to} + 96], {3}",
                out(ymm_reg) _, out(ymm_reg) _, out(ymm_reg) _, out(ymm_reg) _,
                from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_vectors(base: u64, deltas: &[i32; 32]) -> [[u32; 32]; 4] {
        let mut words = [const { Aligned([0; 32]) }; 4];
        for (group, deltas) in deltas.as_chunks::<4>().0.iter().enumerate() {
            let [a, b, c, d] = deltas.map(|delta| {
                let place = base.wrapping_add_signed(i64::from(delta));
                let vector: __m128;
                // SAFETY: the caller promises 16 readable bytes.
                unsafe {
                    asm!(
                        "vmovups {0}, [{1}]",
                        out(xmm_reg) vector, in(reg) place,
                        options(nostack, preserves_flags, readonly),
                    );
                }
                vector
            });
            // Four vectors of four become the first words, the second words, and so on.
            let low = [_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d)];
            let high = [_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d)];
            let columns = [
                _mm_movelh_ps(low[0], low[1]),
                _mm_movehl_ps(low[1], low[0]),
                _mm_movelh_ps(high[0], high[1]),
                _mm_movehl_ps(high[1], high[0]),
            ];
            for (words, column) in words.iter_mut().zip(columns) {
                // SAFETY: there are 32 words, of which these are four.
                unsafe { _mm_store_ps(words.0.as_mut_ptr().add(4 * group).cast(), column) };
            }
        }
        words.map(|words| words.0)
    }
}
