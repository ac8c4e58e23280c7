//! Memory accesses with AVX2. Records are compared by loops that the compiler turns into vector instructions.

use std::arch::asm;

use super::{Aligned, HostSimd};

/// AVX2.
pub(crate) struct Avx2;

impl HostSimd for Avx2 {
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
}
