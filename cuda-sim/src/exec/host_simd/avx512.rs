//! Memory accesses with AVX-512.

use std::arch::{asm, x86_64::*};

use super::{Aligned, Avx2, HostSimd, Term, TermSums, Terms};

/// AVX-512.
pub(crate) struct Avx512;

impl HostSimd for Avx512 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn differ(addresses: &[u64; 32], first: u64, deltas: &[i32; 32]) -> u32 {
        let first = _mm512_set1_epi64(first as i64);
        let mut differ = 0;
        for (i, (eight, deltas)) in addresses
            .as_chunks::<8>()
            .0
            .iter()
            .zip(deltas.as_chunks::<8>().0)
            .enumerate()
        {
            // SAFETY: eight addresses are 64 bytes, eight deltas 32, and the loads need no
            // alignment.
            let (eight, deltas) = unsafe {
                (
                    _mm512_loadu_si512(eight.as_ptr().cast()),
                    _mm256_loadu_si256(deltas.as_ptr().cast()),
                )
            };
            let expected = _mm512_add_epi64(first, _mm512_cvtepi32_epi64(deltas));
            differ |= u32::from(_mm512_cmpneq_epi64_mask(eight, expected)) << (8 * i);
        }
        differ
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn differ_narrow(addresses: &[u32; 32], first: u32, deltas: &[i32; 32]) -> u32 {
        let first = _mm512_set1_epi32(first as i32);
        let mut differ = 0;
        for (i, (sixteen, deltas)) in addresses
            .as_chunks::<16>()
            .0
            .iter()
            .zip(deltas.as_chunks::<16>().0)
            .enumerate()
        {
            // SAFETY: sixteen words are 64 bytes, and the loads need no alignment.
            let (sixteen, deltas) = unsafe {
                (
                    _mm512_loadu_si512(sixteen.as_ptr().cast()),
                    _mm512_loadu_si512(deltas.as_ptr().cast()),
                )
            };
            let expected = _mm512_add_epi32(first, deltas);
            differ |= u32::from(_mm512_cmpneq_epi32_mask(sixteen, expected)) << (16 * i);
        }
        differ
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn move_row(from: u64, to: u64) {
        // SAFETY: the caller promises 128 readable and 128 writable bytes.
        unsafe {
            asm!(
                "vmovdqu32 {0}, [{from}]", "vmovdqu32 {1}, [{from} + 64]",
                "vmovdqu32 [{to}], {0}", "vmovdqu32 [{to} + 64], {1}",
                out(zmm_reg) _, out(zmm_reg) _,
                from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_vectors(base: u64, deltas: &[i32; 32]) -> [[u32; 32]; 4] {
        // SAFETY: the same promise, and a processor with AVX-512 has AVX2.
        unsafe { Avx2::load_vectors(base, deltas) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx2,f16c")]
    unsafe fn widen(halves: &[u16; 8], to: &mut [f32; 8]) {
        // SAFETY: the same promise, and a processor with AVX-512 has AVX2.
        unsafe { Avx2::widen(halves, to) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2")]
    unsafe fn add_terms(a: &[Term], terms: &[Terms], first: &Terms, fraction: i32) -> TermSums {
        // SAFETY: promised by the caller, and a processor with AVX-512 has AVX2.
        unsafe { Avx2::add_terms(a, terms, first, fraction) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx2,f16c")]
    unsafe fn narrow(floats: &[f32; 8], to: &mut [u16; 8]) {
        // SAFETY: as above.
        unsafe { Avx2::narrow(floats, to) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    unsafe fn multiply_add(
        left: &[[f32; 16]; 16],
        right: &[[f32; 8]],
        from: [*const u32; 4],
        to: [*mut u32; 4],
    ) {
        // SAFETY: promised by the caller, and a processor with AVX-512 has AVX2.
        unsafe { super::avx2::multiply_add::<16>(left, right, from, to) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn nonzero(words: &[u32; 32]) -> u32 {
        let (low, high) = halves(words);
        u32::from(_mm512_test_epi32_mask(low, low))
            | u32::from(_mm512_test_epi32_mask(high, high)) << 16
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn permute(words: &[u32; 32], sources: &[u32; 32]) -> [u32; 32] {
        let mut out = Aligned([0; 32]);
        let (low, high) = halves(words);
        // SAFETY: sixteen words are 64 bytes, and loads and stores need no alignment.
        unsafe {
            for (sources, out) in sources
                .as_chunks::<16>()
                .0
                .iter()
                .zip(out.0.as_chunks_mut::<16>().0)
            {
                let sources = _mm512_loadu_si512(sources.as_ptr().cast());
                let picked = _mm512_permutex2var_epi32(low, sources, high);
                _mm512_storeu_si512(out.as_mut_ptr().cast(), picked);
            }
        }
        out.0
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn halves(words: &[u32; 32]) -> (__m512i, __m512i) {
    // SAFETY: sixteen words are 64 bytes, and loads need no alignment.
    unsafe {
        (
            _mm512_loadu_si512(words.as_ptr().cast()),
            _mm512_loadu_si512(words.as_ptr().add(16).cast()),
        )
    }
}
