//! What the compiler does not turn into vector instructions by itself, and every access to memory needs: comparing
//! the distances of 32 addresses, and moving 32 words.
//!
//! Device memory may be written by another block at the same time. Rows of it are moved by assembly, which the
//! compiler assumes nothing about: each word is read or written at once, as on a GPU, in no order among the words.

#[cfg(target_arch = "x86_64")]
use std::arch::{asm, x86_64::*};

use super::memory::Word;

/// Memory accesses with one instruction set.
pub(super) trait Vectors {
    /// A bit for each lane whose address is not `first` plus its delta.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn differ(addresses: &[u64; 32], first: u64, deltas: &[i32; 32]) -> u32;

    /// The same for addresses of 32 bits.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn differ_narrow(addresses: &[u32; 32], first: u32, deltas: &[i32; 32]) -> u32;

    /// The 32 words from `address` on.
    ///
    /// # Safety
    /// The processor has the instruction set; the words are readable and aligned.
    unsafe fn load_row(address: u64) -> [u32; 32];

    /// The 16 words from `address` on.
    ///
    /// # Safety
    /// As [`Vectors::load_row`].
    unsafe fn load_half_row(address: u64) -> [u32; 16];

    /// Writes 32 words from `address` on.
    ///
    /// # Safety
    /// The processor has the instruction set; the words are writable and aligned.
    unsafe fn store_row(address: u64, words: &[u32; 32]);

    /// The words at `base + deltas`.
    ///
    /// # Safety
    /// The processor has the instruction set; the words are readable, aligned, and nobody writes them now.
    unsafe fn gather(base: u64, deltas: &[i32; 32]) -> [u32; 32];
}

/// Any processor.
pub(super) struct Portable;

impl Vectors for Portable {
    #[inline(always)]
    unsafe fn differ(addresses: &[u64; 32], first: u64, deltas: &[i32; 32]) -> u32 {
        let differs = |i: usize| addresses[i].wrapping_sub(first) != deltas[i] as u64;
        (0..32).fold(0, |bits, i| bits | u32::from(differs(i)) << i)
    }

    #[inline(always)]
    unsafe fn differ_narrow(addresses: &[u32; 32], first: u32, deltas: &[i32; 32]) -> u32 {
        let differs = |i: usize| addresses[i].wrapping_sub(first) != deltas[i] as u32;
        (0..32).fold(0, |bits, i| bits | u32::from(differs(i)) << i)
    }

    #[inline(always)]
    unsafe fn load_row(address: u64) -> [u32; 32] {
        // SAFETY: promised by the caller.
        std::array::from_fn(|i| unsafe { u32::load(address + 4 * i as u64) })
    }

    #[inline(always)]
    unsafe fn load_half_row(address: u64) -> [u32; 16] {
        // SAFETY: promised by the caller.
        std::array::from_fn(|i| unsafe { u32::load(address + 4 * i as u64) })
    }

    #[inline(always)]
    unsafe fn store_row(address: u64, words: &[u32; 32]) {
        for (i, word) in words.iter().enumerate() {
            // SAFETY: promised by the caller.
            unsafe { word.store(address + 4 * i as u64) };
        }
    }

    #[inline(always)]
    unsafe fn gather(base: u64, deltas: &[i32; 32]) -> [u32; 32] {
        // SAFETY: promised by the caller.
        deltas.map(|delta| unsafe { u32::load(base.wrapping_add_signed(i64::from(delta))) })
    }
}

/// AVX2.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
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
    unsafe fn load_half_row(address: u64) -> [u32; 16] {
        let mut words = Aligned([0; 16]);
        // SAFETY: the caller promises 64 readable bytes; `words` has as many to write.
        unsafe {
            asm!(
                "vmovdqu {0}, [{from}]", "vmovdqu {1}, [{from} + 32]",
                "vmovdqu [{to}], {0}", "vmovdqu [{to} + 32], {1}",
                out(ymm_reg) _, out(ymm_reg) _,
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

/// AVX-512.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Vectors for Avx512 {
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
            // SAFETY: eight addresses are 64 bytes, eight deltas 32, and the loads need no alignment.
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
    unsafe fn load_row(address: u64) -> [u32; 32] {
        let mut words = Aligned([0; 32]);
        // SAFETY: the caller promises 128 readable bytes; `words` has as many to write.
        unsafe {
            asm!(
                "vmovdqu32 {0}, [{from}]", "vmovdqu32 {1}, [{from} + 64]",
                "vmovdqu32 [{to}], {0}", "vmovdqu32 [{to} + 64], {1}",
                out(zmm_reg) _, out(zmm_reg) _,
                from = in(reg) address, to = in(reg) words.0.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
        words.0
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_half_row(address: u64) -> [u32; 16] {
        let mut words = Aligned([0; 16]);
        // SAFETY: the caller promises 64 readable bytes; `words` has as many to write.
        unsafe {
            asm!(
                "vmovdqu32 {0}, [{from}]", "vmovdqu32 [{to}], {0}",
                out(zmm_reg) _,
                from = in(reg) address, to = in(reg) words.0.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
        words.0
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_row(address: u64, words: &[u32; 32]) {
        // SAFETY: the caller promises 128 writable bytes; `words` has as many to read.
        unsafe {
            asm!(
                "vmovdqu32 {0}, [{from}]", "vmovdqu32 {1}, [{from} + 64]",
                "vmovdqu32 [{to}], {0}", "vmovdqu32 [{to} + 64], {1}",
                out(zmm_reg) _, out(zmm_reg) _,
                from = in(reg) words.as_ptr(), to = in(reg) address,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn gather(base: u64, deltas: &[i32; 32]) -> [u32; 32] {
        let mut words = Aligned([0; 32]);
        for (deltas, words) in deltas
            .as_chunks::<16>()
            .0
            .iter()
            .zip(words.0.as_chunks_mut::<16>().0)
        {
            // SAFETY: sixteen words are 64 bytes, and loads and stores need no alignment; the words at the addresses
            // are readable, which the caller promises.
            unsafe {
                let deltas = _mm512_loadu_si512(deltas.as_ptr().cast());
                let values = _mm512_i32gather_epi32::<1>(deltas, base as *const i32);
                _mm512_storeu_si512(words.as_mut_ptr().cast(), values);
            }
        }
        words.0
    }
}

/// Words that vector instructions move without crossing cache lines.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Aligned<const N: usize>([u32; N]);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `check` for each instruction set that this processor has.
    macro_rules! on_each_set {
        ($check:ident) => {
            $check::<Portable>();
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2") {
                    $check::<Avx2>();
                }
                if is_x86_feature_detected!("avx512f") {
                    $check::<Avx512>();
                }
            }
        };
    }

    fn deltas() -> [i32; 32] {
        std::array::from_fn(|lane| (lane as i32 * 37) % 64 * 4 - 100)
    }

    fn every_lane_that_differs_is_named<V: Vectors>() {
        let deltas = deltas();
        for first in [100, 0x1000_0000_0000, u64::MAX - 50] {
            let right = deltas.map(|delta| first.wrapping_add_signed(i64::from(delta)));
            for lane in 0..32 {
                for wrong in [1, 1 << 31, 1 << 32, 1 << 63] {
                    let mut addresses = right;
                    addresses[lane] ^= wrong;
                    let narrow = addresses.map(|a| a as u32);
                    // SAFETY: only sets that this processor has are tried.
                    let (wide, narrow) = unsafe {
                        (
                            V::differ(&addresses, first, &deltas),
                            V::differ_narrow(&narrow, first as u32, &deltas),
                        )
                    };
                    assert_eq!(wide, 1 << lane, "lane {lane}: {wrong:#x}");
                    let expected = if wrong > u64::from(u32::MAX) {
                        0
                    } else {
                        1 << lane
                    };
                    assert_eq!(narrow, expected, "lane {lane}: {wrong:#x}");
                }
            }
        }
    }

    fn words_are_moved<V: Vectors>() {
        let mut memory: Vec<u32> = (0..128).map(|i| i * 0x0101_0101).collect();
        let deltas = deltas();
        let at = memory.as_mut_ptr() as u64 + 4 * 33;
        // SAFETY: only sets that this processor has are tried; all words lie in `memory`, which nothing else uses.
        unsafe {
            assert_eq!(V::load_row(at), memory[33..65]);
            assert_eq!(V::load_half_row(at), memory[33..49]);
            let gathered = deltas.map(|delta| memory[(33 + delta / 4) as usize]);
            assert_eq!(V::gather(at, &deltas), gathered);
            let row: [u32; 32] = std::array::from_fn(|lane| lane as u32);
            V::store_row(at, &row);
            assert_eq!(memory[33..65], row);
        }
        assert_eq!(
            (memory[32], memory[65]),
            (32 * 0x0101_0101, 65 * 0x0101_0101)
        );
    }

    #[test]
    fn all_sets_compare_addresses() {
        on_each_set!(every_lane_that_differs_is_named);
    }

    #[test]
    fn all_sets_move_words() {
        on_each_set!(words_are_moved);
    }
}
