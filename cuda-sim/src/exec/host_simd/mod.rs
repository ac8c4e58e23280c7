//! Vector instructions of the host that the compiler does not choose by itself, and every access to
//! memory needs: comparing the distances of 32 addresses, and moving 32 words.
//!
//! Device memory may be written by another block at the same time. Rows of it are moved by
//! assembly, which the compiler assumes nothing about: each word is read or written at once, as on
//! a GPU, in no order among the words.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::mem::MaybeUninit;

use crate::exec::access::word::Word;
use crate::exec::fused::multiply_add;
use crate::exec::half_float::{F16, narrow};

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;

/// Memory accesses with one instruction set.
pub(crate) trait HostSimd {
    /// A bit for each lane whose address is not `first` plus its delta.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn differ(addresses: &[u64; 32], first: u64, deltas: &[i32; 32]) -> u32 {
        let differs = |i: usize| addresses[i].wrapping_sub(first) != deltas[i] as u64;
        (0..32).fold(0, |bits, i| bits | u32::from(differs(i)) << i)
    }

    /// The same for addresses of 32 bits.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn differ_narrow(addresses: &[u32; 32], first: u32, deltas: &[i32; 32]) -> u32 {
        let differs = |i: usize| addresses[i].wrapping_sub(first) != deltas[i] as u32;
        (0..32).fold(0, |bits, i| bits | u32::from(differs(i)) << i)
    }

    /// Copies the 32 words from `from` on to those from `to` on.
    ///
    /// # Safety
    /// The processor has the instruction set; the words are aligned, and readable or writable.
    unsafe fn move_row(from: u64, to: u64);

    /// The 16 words from `low` on, and the 16 from `high` on.
    ///
    /// # Safety
    /// The words are readable, aligned, and nobody writes them now.
    #[inline(always)]
    unsafe fn load_halves(low: u64, high: u64) -> [u32; 32] {
        let mut words = [0; 32];
        let (first, second) = words.split_at_mut(16);
        // SAFETY: promised by the caller.
        unsafe {
            first.copy_from_slice(std::slice::from_raw_parts(low as *const u32, 16));
            second.copy_from_slice(std::slice::from_raw_parts(high as *const u32, 16));
        }
        words
    }

    /// The words of the vectors of four at `base + deltas`, by their place in the vector.
    ///
    /// # Safety
    /// The processor has the instruction set; the vectors are readable and aligned to words.
    #[inline(always)]
    unsafe fn load_vectors(base: u64, deltas: &[i32; 32]) -> [[u32; 32]; 4] {
        let mut words = [[0; 32]; 4];
        for lane in 0..32 {
            let place = base.wrapping_add_signed(i64::from(deltas[lane]));
            for i in 0..4 {
                // SAFETY: promised by the caller.
                words[i][lane] = unsafe { u32::load(place + 4 * i as u64) };
            }
        }
        words
    }

    /// `words[sources[i]]` for each i. Only the low five bits of a source count.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn permute(words: &[u32; 32], sources: &[u32; 32]) -> [u32; 32] {
        sources.map(|source| words[source as usize & 31])
    }

    /// The values of eight f16.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn widen(halves: &[u16; 8], to: &mut [f32; 8]) {
        for j in 0..8 {
            let bits = halves[j];
            let placed = u32::from(bits & 0x7fff) << 13;
            // The product moves the bias, and makes subnormals normal.
            let finite = f32::from_bits(placed) * f32::from_bits((127 + 127 - 15) << 23);
            let is_special = bits & 0x7fff >= 0x7c00;
            let size = if is_special {
                placed | 0x7f80_0000
            } else {
                finite.to_bits()
            };
            to[j] = f32::from_bits(size | u32::from(bits & 0x8000) << 16);
        }
    }

    /// Eight f32 as f16, rounded to nearest even; of a NaN, any NaN.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn narrow(floats: &[f32; 8], to: &mut [u16; 8]) {
        for j in 0..8 {
            to[j] = narrow::<F16>(f64::from(floats[j]));
        }
    }

    /// Adds the product of two matrices to sums, as the bits of f32: fused multiply-adds in the
    /// order of the columns of `left`, as many as `right` has rows. Of row 8h + g, the words 4g to
    /// 4g + 3 of `from[2h]` have the first four sums, those of `from[2h + 1]` the others, and so
    /// the results in `to`. A NaN becomes 0x7fffffff.
    ///
    /// # Safety
    /// The processor has the instruction set. Each of `from` has 32 words to read, each of `to` as
    /// many to write; both may be the same.
    #[inline(always)]
    unsafe fn multiply_add(
        left: &[[f32; 16]; 16],
        right: &[[f32; 8]],
        from: [*const u32; 4],
        to: [*mut u32; 4],
    ) {
        // SAFETY: promised by the caller.
        let sums = from.map(|words| unsafe { *words.cast::<[u32; 32]>() });
        for (row, left) in left.iter().enumerate() {
            for j in 0..8 {
                let (part, lane) = (row / 8 * 2 + j / 4, row % 8 * 4 + j % 4);
                let terms = left.iter().zip(right);
                let add = |sum, (a, b): (&f32, &[f32; 8])| multiply_add(*a, b[j], sum);
                let sum = terms.fold(f32::from_bits(sums[part][lane]), add);
                let bits = if sum.is_nan() {
                    0x7fff_ffff
                } else {
                    sum.to_bits()
                };
                // SAFETY: as above.
                unsafe { *to[part].add(lane) = bits };
            }
        }
    }

    /// Eight sums of terms, in units of the last of `fraction` bits below the largest exponent of
    /// each: `first`, and `a` times each of `terms`. Every term is cut off to a whole number of
    /// units.
    ///
    /// # Safety
    /// The processor has the instruction set. Significands are finite and below 2, products of them
    /// exact in f32. There are at most 32 terms, and `fraction` is at most 25.
    #[inline(always)]
    unsafe fn add_terms(a: &[Term], terms: &[Terms], first: &Terms, fraction: i32) -> TermSums {
        let mut largest = first.exponents;
        for (a, terms) in a.iter().zip(terms) {
            for j in 0..8 {
                largest[j] = largest[j].max(a.exponent + terms.exponents[j]);
            }
        }
        let mut totals = [0.0; 8];
        for j in 0..8 {
            let term = |significand: f32, exponent: i32| {
                let field = (exponent - largest[j] + fraction + 127).max(0);
                f64::from((significand * f32::from_bits((field as u32) << 23)) as i32)
            };
            totals[j] = term(first.significands[j], first.exponents[j]);
            for (a, b) in a.iter().zip(terms) {
                totals[j] += term(
                    a.significand * b.significands[j],
                    a.exponent + b.exponents[j],
                );
            }
        }
        TermSums { totals, largest }
    }

    /// A bit for each word that is not zero.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn nonzero(words: &[u32; 32]) -> u32 {
        (0..32).fold(0, |bits, i| bits | u32::from(words[i] != 0) << i)
    }
}

/// A value: `significand` · 2^`exponent`.
#[derive(Clone, Copy)]
pub(crate) struct Term {
    pub significand: f32,
    pub exponent: i32,
}

/// Eight values.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub significands: [f32; 8],
    pub exponents: [i32; 8],
}

/// Eight sums, and the largest exponent among the terms of each.
#[derive(Clone, Copy)]
pub(crate) struct TermSums {
    pub totals: [f64; 8],
    pub largest: [i32; 8],
}

/// Any processor.
pub(crate) struct Portable;

impl HostSimd for Portable {
    #[inline(always)]
    unsafe fn move_row(from: u64, to: u64) {
        for place in (0..128).step_by(4) {
            // SAFETY: promised by the caller.
            unsafe { u32::load(from + place).store(to + place) };
        }
    }
}

/// Copies words of device memory from `address` on, each of which another block may write now.
///
/// # Safety
/// The words are readable and aligned.
#[inline(always)]
pub(crate) unsafe fn copy_words(address: u64, to: &mut [MaybeUninit<u32>]) {
    // SAFETY: promised by the caller.
    let done = unsafe { copy_eights(address, to) };
    for (at, word) in (address..).step_by(4).zip(to).skip(done) {
        // SAFETY: promised by the caller.
        word.write(unsafe { u32::load(at) });
    }
}

/// Copies as many of the words as vector instructions can, and gives their number.
///
/// # Safety
/// As for [`copy_words`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn copy_eights(address: u64, to: &mut [MaybeUninit<u32>]) -> usize {
    let mut done = 0;
    while to.len() - done >= 8 {
        let from = address + 4 * done as u64;
        let eight = &mut to[done..done + 8];
        // SAFETY: the caller promises that the words are readable, and as many are there to write.
        // Every processor of this architecture has these instructions.
        unsafe {
            std::arch::asm!(
                "movdqu {0}, [{from}]", "movdqu {1}, [{from} + 16]",
                "movdqu [{to}], {0}", "movdqu [{to} + 16], {1}",
                out(xmm_reg) _, out(xmm_reg) _,
                from = in(reg) from, to = in(reg) eight.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
        done += 8;
    }
    done
}

/// None: other targets have no such instructions here, and Miri runs no assembly.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn copy_eights(_address: u64, _to: &mut [MaybeUninit<u32>]) -> usize {
    0
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

    fn every_lane_that_differs_is_named<V: HostSimd>() {
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

    fn words_are_moved<V: HostSimd>() {
        let mut memory: Vec<u32> = (0..128).map(|i| i * 0x0101_0101).collect();
        let at = memory.as_mut_ptr() as u64 + 4 * 33;
        // SAFETY: only sets that this processor has are tried; all words lie in `memory`, which
        // nothing else uses.
        unsafe {
            let mut words = [0; 32];
            V::move_row(at, words.as_mut_ptr() as u64);
            assert_eq!(words, memory[33..65]);
            let mut row: [u32; 32] = std::array::from_fn(|lane| lane as u32);
            V::move_row(row.as_mut_ptr() as u64, at);
            assert_eq!(memory[33..65], row);
        }
        assert_eq!(
            (memory[32], memory[65]),
            (32 * 0x0101_0101, 65 * 0x0101_0101)
        );
    }

    #[test]
    fn copied_words_are_the_words() {
        let mut memory: Vec<u32> = (0..128).map(|i| i * 0x0101_0101).collect();
        for start in 0..9 {
            for count in 0..100 {
                let mut words = Vec::with_capacity(count + 1);
                let room = &mut words.spare_capacity_mut()[..=count];
                room[count].write(7);
                // SAFETY: the words lie in `memory`; behind the call and the line before it all of
                // `room` is set.
                unsafe {
                    copy_words(memory[start..].as_mut_ptr() as u64, &mut room[..count]);
                    words.set_len(count + 1);
                }
                assert_eq!(words[..count], memory[start..start + count]);
                assert_eq!(
                    words[count], 7,
                    "nothing is written behind the {count} words"
                );
            }
        }
    }

    fn vectors_are_loaded<V: HostSimd>() {
        let memory: Vec<u32> = (0..128).map(|i| i * 0x0101_0101).collect();
        let deltas = deltas();
        // SAFETY: only sets that this processor has are tried; all words lie in `memory`, which
        // nothing else uses.
        let words = unsafe { V::load_vectors(memory.as_ptr() as u64 + 100, &deltas) };
        for (lane, delta) in deltas.iter().enumerate() {
            let at = (100 + delta) as usize / 4;
            assert_eq!(
                words.map(|word| word[lane]),
                memory[at..at + 4],
                "lane {lane}"
            );
        }
    }

    #[test]
    fn all_sets_load_vectors() {
        on_each_set!(vectors_are_loaded);
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
