//! Memory accesses with AVX2. Records are compared by loops that the compiler turns into vector instructions.

use std::arch::{asm, x86_64::*};

use super::{Aligned, Portable, Vectors};

/// AVX2.
pub(crate) struct Avx2;

impl Vectors for Avx2 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn differ(addresses: &[u64; 32], first: u64, deltas: &[i32; 32]) -> u32 {
        let first = _mm256_set1_epi64x(first as i64);
        let mut equal = 0;
        for (i, (four, deltas)) in addresses
            .as_chunks::<4>()
            .0
            .iter()
            .zip(deltas.as_chunks::<4>().0)
            .enumerate()
        {
            // SAFETY: four addresses are 32 bytes, four deltas 16, and the loads need no alignment.
            let (four, deltas) = unsafe {
                (
                    _mm256_loadu_si256(four.as_ptr().cast()),
                    _mm_loadu_si128(deltas.as_ptr().cast()),
                )
            };
            let expected = _mm256_add_epi64(first, _mm256_cvtepi32_epi64(deltas));
            let same = _mm256_castsi256_pd(_mm256_cmpeq_epi64(four, expected));
            equal |= (_mm256_movemask_pd(same) as u32) << (4 * i);
        }
        !equal
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn differ_narrow(addresses: &[u32; 32], first: u32, deltas: &[i32; 32]) -> u32 {
        let first = _mm256_set1_epi32(first as i32);
        let mut equal = 0;
        for (i, (eight, deltas)) in addresses
            .as_chunks::<8>()
            .0
            .iter()
            .zip(deltas.as_chunks::<8>().0)
            .enumerate()
        {
            // SAFETY: eight words are 32 bytes, and the loads need no alignment.
            let (eight, deltas) = unsafe {
                (
                    _mm256_loadu_si256(eight.as_ptr().cast()),
                    _mm256_loadu_si256(deltas.as_ptr().cast()),
                )
            };
            let same = _mm256_cmpeq_epi32(eight, _mm256_add_epi32(first, deltas));
            equal |= (_mm256_movemask_ps(_mm256_castsi256_ps(same)) as u32) << (8 * i);
        }
        !equal
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_row(address: u64) -> [u32; 32] {
        let mut words = Aligned([0; 32]);
        // SAFETY: the caller promises 128 readable bytes; `words` has as many to write.
        unsafe {
            asm!(
                "vmovdqu {0}, [{from}]", "vmovdqu {1}, [{from} + 32]",
                "vmovdqu {2}, [{from} + 64]", "vmovdqu {3}, [{from} + 96]",
                "vmovdqu [{to}], {0}", "vmovdqu [{to} + 32], {1}",
                "vmovdqu [{to} + 64], {2}", "vmovdqu [{to} + 96], {3}",
                out(ymm_reg) _, out(ymm_reg) _, out(ymm_reg) _, out(ymm_reg) _,
                from = in(reg) address, to = in(reg) words.0.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
        words.0
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store_row(address: u64, words: &[u32; 32]) {
        // SAFETY: the caller promises 128 writable bytes; `words` has as many to read.
        unsafe {
            asm!(
                "vmovdqu {0}, [{from}]", "vmovdqu {1}, [{from} + 32]",
                "vmovdqu {2}, [{from} + 64]", "vmovdqu {3}, [{from} + 96]",
                "vmovdqu [{to}], {0}", "vmovdqu [{to} + 32], {1}",
                "vmovdqu [{to} + 64], {2}", "vmovdqu [{to} + 96], {3}",
                out(ymm_reg) _, out(ymm_reg) _, out(ymm_reg) _, out(ymm_reg) _,
                from = in(reg) words.as_ptr(), to = in(reg) address,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather(base: u64, deltas: &[i32; 32]) -> [u32; 32] {
        // SAFETY: promised by the caller.
        unsafe { Portable::gather(base, deltas) }
    }
}
