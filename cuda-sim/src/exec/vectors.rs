//! What the compiler does not turn into vector instructions by itself, and every access to memory needs:
//! the test of 32 addresses, and reading 32 words of shared memory.

/// Memory accesses with one instruction set.
pub(super) trait Vectors {
    /// Whether every address lies in `start..=last` and has no bit of `misaligned` set.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn all_fit(addresses: &[u64; 32], start: u64, last: u64, misaligned: u64) -> bool;

    /// Every address plus `offset`, wrapping.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn shifted(addresses: &[u64; 32], offset: u64) -> [u64; 32];

    /// The words at `base + addresses`.
    ///
    /// # Safety
    /// The processor has the instruction set; the words are readable, aligned, and nobody writes them now.
    unsafe fn load_words(base: u64, addresses: &[u64; 32]) -> [u32; 32];
}

/// Any processor.
pub(super) struct Portable;

impl Vectors for Portable {
    #[inline(always)]
    unsafe fn all_fit(addresses: &[u64; 32], start: u64, last: u64, misaligned: u64) -> bool {
        let fits =
            |a: u64| a.wrapping_sub(start) <= last.wrapping_sub(start) && a & misaligned == 0;
        start <= last && addresses.iter().fold(true, |all, &a| all & fits(a))
    }

    #[inline(always)]
    unsafe fn shifted(addresses: &[u64; 32], offset: u64) -> [u64; 32] {
        addresses.map(|a| a.wrapping_add(offset))
    }

    #[inline(always)]
    unsafe fn load_words(base: u64, addresses: &[u64; 32]) -> [u32; 32] {
        // SAFETY: promised by the caller.
        addresses.map(|a| unsafe { *((base + a) as *const u32) })
    }
}

/// AVX2.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Vectors for Avx2 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn all_fit(addresses: &[u64; 32], start: u64, last: u64, misaligned: u64) -> bool {
        use std::arch::x86_64::*;
        if start > last {
            return false;
        }
        // There is no unsigned comparison: flipping the top bit makes the signed one do.
        let flip = _mm256_set1_epi64x(i64::MIN);
        let first = _mm256_set1_epi64x(start as i64);
        let size = _mm256_xor_si256(_mm256_set1_epi64x((last - start) as i64), flip);
        let misaligned = _mm256_set1_epi64x(misaligned as i64);
        let mut bad = _mm256_setzero_si256();
        let mut bits = _mm256_setzero_si256();
        for four in addresses.as_chunks::<4>().0 {
            // SAFETY: four addresses are 32 bytes, and the load needs no alignment.
            let four = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
            bits = _mm256_or_si256(bits, four);
            let offset = _mm256_xor_si256(_mm256_sub_epi64(four, first), flip);
            bad = _mm256_or_si256(bad, _mm256_cmpgt_epi64(offset, size));
        }
        _mm256_testz_si256(bits, misaligned) == 1 && _mm256_testz_si256(bad, bad) == 1
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn shifted(addresses: &[u64; 32], offset: u64) -> [u64; 32] {
        // SAFETY: it needs nothing.
        unsafe { Portable::shifted(addresses, offset) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_words(base: u64, addresses: &[u64; 32]) -> [u32; 32] {
        // SAFETY: promised by the caller.
        unsafe { Portable::load_words(base, addresses) }
    }
}

/// AVX-512.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Vectors for Avx512 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn all_fit(addresses: &[u64; 32], start: u64, last: u64, misaligned: u64) -> bool {
        use std::arch::x86_64::*;
        if start > last {
            return false;
        }
        let first = _mm512_set1_epi64(start as i64);
        let size = _mm512_set1_epi64((last - start) as i64);
        let misaligned = _mm512_set1_epi64(misaligned as i64);
        let mut bad = 0;
        for eight in addresses.as_chunks::<8>().0 {
            // SAFETY: eight addresses are 64 bytes, and the load needs no alignment.
            let eight = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
            bad |= _mm512_cmpgt_epu64_mask(_mm512_sub_epi64(eight, first), size);
            bad |= _mm512_test_epi64_mask(eight, misaligned);
        }
        bad == 0
    }

    /// Whole vectors, so that [`Avx512::all_fit`] can read them back without waiting for narrower stores.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn shifted(addresses: &[u64; 32], offset: u64) -> [u64; 32] {
        use std::arch::x86_64::*;
        let offset = _mm512_set1_epi64(offset as i64);
        let mut out = [0; 32];
        for (eight, out) in addresses
            .as_chunks::<8>()
            .0
            .iter()
            .zip(out.as_chunks_mut::<8>().0)
        {
            // SAFETY: eight addresses are 64 bytes, and loads and stores need no alignment.
            unsafe {
                let sum = _mm512_add_epi64(_mm512_loadu_si512(eight.as_ptr().cast()), offset);
                _mm512_storeu_si512(out.as_mut_ptr().cast(), sum);
            }
        }
        out
    }

    /// Half a warp often reads words in a row, or all the same word.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_words(base: u64, addresses: &[u64; 32]) -> [u32; 32] {
        use std::arch::x86_64::*;
        let in_a_row = [
            _mm512_set_epi64(28, 24, 20, 16, 12, 8, 4, 0),
            _mm512_set_epi64(60, 56, 52, 48, 44, 40, 36, 32),
        ];
        let mut out = [0u32; 32];
        for (half, out) in addresses
            .as_chunks::<16>()
            .0
            .iter()
            .zip(out.as_chunks_mut::<16>().0)
        {
            let at = (base + half[0]) as *const i32;
            let first = _mm512_set1_epi64(half[0] as i64);
            // SAFETY: sixteen addresses are two vectors of 64 bytes; sixteen words are one; the words at the
            // addresses are readable, which the caller promises, and in the first case they lie in a row.
            unsafe {
                let low = _mm512_loadu_si512(half.as_ptr().cast());
                let high = _mm512_loadu_si512(half.as_ptr().add(8).cast());
                let (low_offset, high_offset) =
                    (_mm512_sub_epi64(low, first), _mm512_sub_epi64(high, first));
                let row = _mm512_cmpneq_epi64_mask(low_offset, in_a_row[0])
                    | _mm512_cmpneq_epi64_mask(high_offset, in_a_row[1]);
                let words = if row == 0 {
                    _mm512_loadu_si512(at.cast())
                } else if _mm512_test_epi64_mask(low_offset, low_offset)
                    | _mm512_test_epi64_mask(high_offset, high_offset)
                    == 0
                {
                    _mm512_set1_epi32(at.read())
                } else {
                    let low = _mm512_i64gather_epi32::<1>(low, base as *const i32);
                    let high = _mm512_i64gather_epi32::<1>(high, base as *const i32);
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
                };
                _mm512_storeu_si512(out.as_mut_ptr().cast(), words);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fit = unsafe fn(&[u64; 32], u64, u64, u64) -> bool;
    type Load = unsafe fn(u64, &[u64; 32]) -> [u32; 32];

    fn instruction_sets() -> Vec<(Fit, Load)> {
        let mut sets: Vec<(Fit, Load)> = vec![(Portable::all_fit, Portable::load_words)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                sets.push((Avx2::all_fit, Avx2::load_words));
            }
            if is_x86_feature_detected!("avx512f") {
                sets.push((Avx512::all_fit, Avx512::load_words));
            }
        }
        sets
    }

    #[test]
    fn one_address_out_of_range_or_misaligned_is_found_in_every_lane() {
        for (fit, _) in instruction_sets() {
            let all_fit = |addresses: &[u64; 32]| {
                // SAFETY: only sets that this processor has are listed.
                unsafe { fit(addresses, 0x1000, 0x10fc, 3) }
            };
            for lane in 0..32 {
                let mut addresses = [0x1000; 32];
                for good in [0x1000, 0x1004, 0x10fc] {
                    addresses[lane] = good;
                    assert!(all_fit(&addresses), "lane {lane}: {good:#x}");
                }
                for bad in [
                    0,
                    0xffc,
                    0x1001,
                    0x1002,
                    0x1100,
                    1 << 40,
                    u64::MAX,
                    1 << 63,
                    (1 << 63) + 0x1000,
                ] {
                    addresses[lane] = bad;
                    assert!(!all_fit(&addresses), "lane {lane}: {bad:#x}");
                }
            }
            assert!(
                // SAFETY: as above.
                !unsafe { fit(&[8; 32], 8, 4, 0) },
                "an empty range holds nothing"
            );
        }
    }

    #[test]
    fn words_in_a_row_the_same_word_and_any_words() {
        let memory: Vec<u32> = (0..64).map(|i| i * 0x0101_0101).collect();
        let row: [u64; 32] = std::array::from_fn(|lane| 4 * (lane as u64 % 16));
        let same: [u64; 32] = std::array::from_fn(|lane| if lane < 16 { 20 } else { 24 });
        let any: [u64; 32] = std::array::from_fn(|lane| 4 * ((lane as u64 * 37) % 64));
        for addresses in [row, same, any] {
            for (_, load) in instruction_sets() {
                // SAFETY: all addresses are multiples of 4 below 256, and the set is there.
                let words = unsafe { load(memory.as_ptr() as u64, &addresses) };
                assert_eq!(words, addresses.map(|a| memory[a as usize / 4]));
            }
        }
    }
}
