//! Memory accesses with AVX2. Records are compared by loops that the compiler turns into vector
//! instructions.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Aligned, HostSimd, Term, TermSums, Terms};

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

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn widen(halves: &[u16; 8], to: &mut [f32; 8]) {
        // SAFETY: eight halves are 16 bytes, eight values 32, and the accesses need no alignment.
        unsafe {
            let halves = _mm_loadu_si128(halves.as_ptr().cast());
            _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(halves));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn narrow(floats: &[f32; 8], to: &mut [u16; 8]) {
        // SAFETY: eight values are 32 bytes, eight halves 16, and the accesses need no alignment.
        unsafe {
            let floats = _mm256_loadu_ps(floats.as_ptr());
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats);
            _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn multiply_add(
        left: &[[f32; 16]; 16],
        right: &[[f32; 8]],
        from: [*const u32; 4],
        to: [*mut u32; 4],
    ) {
        // SAFETY: promised by the caller.
        unsafe { multiply_add::<8>(left, right, from, to) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn add_terms(a: &[Term], terms: &[Terms], first: &Terms, fraction: i32) -> TermSums {
        // SAFETY: eight words are 32 bytes, and the loads need no alignment.
        let split = |terms: &Terms| unsafe {
            let exponents = _mm256_loadu_si256(terms.exponents.as_ptr().cast());
            (_mm256_loadu_ps(terms.significands.as_ptr()), exponents)
        };
        let (significands, exponents) = split(first);
        let mut largest = exponents;
        for (a, terms) in a.iter().zip(terms) {
            let exponents = _mm256_add_epi32(_mm256_set1_epi32(a.exponent), split(terms).1);
            largest = _mm256_max_epi32(largest, exponents);
        }
        let scale = _mm256_sub_epi32(_mm256_set1_epi32(fraction + 127), largest);
        let term = |significands: __m256, exponents: __m256i| {
            let field =
                _mm256_max_epi32(_mm256_add_epi32(exponents, scale), _mm256_setzero_si256());
            let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(field));
            _mm256_cvttps_epi32(_mm256_mul_ps(significands, power))
        };
        // Each term is below 2^27, so 32 bits have room for the first one and eight more.
        let mut part = term(significands, exponents);
        let mut totals = [_mm256_setzero_pd(); 2];
        for (a, terms) in a.chunks(8).zip(terms.chunks(8)) {
            for (a, terms) in a.iter().zip(terms) {
                let (significands, exponents) = split(terms);
                let product = _mm256_mul_ps(_mm256_set1_ps(a.significand), significands);
                let exponent = _mm256_add_epi32(_mm256_set1_epi32(a.exponent), exponents);
                part = _mm256_add_epi32(part, term(product, exponent));
            }
            let halves = [
                _mm256_castsi256_si128(part),
                _mm256_extracti128_si256::<1>(part),
            ];
            for (total, half) in totals.iter_mut().zip(halves) {
                *total = _mm256_add_pd(*total, _mm256_cvtepi32_pd(half));
            }
            part = _mm256_setzero_si256();
        }
        let mut sums = TermSums {
            totals: [0.0; 8],
            largest: [0; 8],
        };
        // SAFETY: four values are 32 bytes, eight words too, and the stores need no alignment.
        unsafe {
            for (to, total) in sums.totals.as_chunks_mut::<4>().0.iter_mut().zip(totals) {
                _mm256_storeu_pd(to.as_mut_ptr(), total);
            }
            _mm256_storeu_si256(sums.largest.as_mut_ptr().cast(), largest);
        }
        sums
    }
}

/// [`HostSimd::multiply_add`], with the sums of so many rows in registers: 8 or 16, of which 8 hide
/// the latency of a multiply-add.
///
/// # Safety
/// As for that function.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply_add<const ROWS: usize>(
    left: &[[f32; 16]; 16],
    right: &[[f32; 8]],
    from: [*const u32; 4],
    to: [*mut u32; 4],
) {
    let nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
    // The registers with a row's sums, and the first lane.
    let places = |row: usize| (row / 8 * 2, row / 8 * 2 + 1, row % 8 * 4);
    let mut results = [_mm256_setzero_ps(); 16];
    for (first, results) in (0..16).step_by(ROWS).zip(results.as_chunks_mut::<ROWS>().0) {
        for i in 0..ROWS {
            let (even, odd, lane) = places(first + i);
            // SAFETY: promised by the caller; the loads need no alignment.
            results[i] = unsafe {
                let (low, high) = (from[even].add(lane), from[odd].add(lane));
                _mm256_loadu2_m128(high.cast(), low.cast())
            };
        }
        for (k, b) in right.iter().enumerate().take(16) {
            // SAFETY: eight values are 32 bytes, and the load needs no alignment.
            let b = unsafe { _mm256_loadu_ps(b.as_ptr()) };
            for i in 0..ROWS {
                results[i] = _mm256_fmadd_ps(_mm256_set1_ps(left[first + i][k]), b, results[i]);
            }
        }
    }
    for (row, result) in results.into_iter().enumerate() {
        let (even, odd, lane) = places(row);
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(result, result);
        let result = _mm256_blendv_ps(result, nan, is_nan);
        // SAFETY: promised by the caller; the stores need no alignment.
        unsafe {
            let (low, high) = (to[even].add(lane), to[odd].add(lane));
            _mm256_storeu2_m128(high.cast(), low.cast(), result);
        }
    }
}
