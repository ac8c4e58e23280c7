//! Memory accesses with AVX-512, and records eight at a time.

use std::arch::{asm, x86_64::*};
use std::sync::atomic::AtomicU64;

use super::{Aligned, HostSimd};
use crate::exec::access::owners::WordOwners;
use crate::exec::checks::independence_records::{self, IndependenceBounds};

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
    unsafe fn nonzero(words: &[u32; 32]) -> u32 {
        // SAFETY: sixteen words are 64 bytes, and loads need no alignment.
        let (low, high) = unsafe {
            (
                _mm512_loadu_si512(words.as_ptr().cast()),
                _mm512_loadu_si512(words.as_ptr().add(16).cast()),
            )
        };
        u32::from(_mm512_test_epi32_mask(low, low))
            | u32::from(_mm512_test_epi32_mask(high, high)) << 16
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn permute(words: &[u32; 32], sources: &[u32; 32]) -> [u32; 32] {
        let mut out = Aligned([0; 32]);
        // SAFETY: sixteen words are 64 bytes, and loads and stores need no alignment.
        unsafe {
            let low = _mm512_loadu_si512(words.as_ptr().cast());
            let high = _mm512_loadu_si512(words.as_ptr().add(16).cast());
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

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn reads_on_record(
        reads: &[AtomicU64],
        bounds: &IndependenceBounds,
        own: WordOwners,
    ) -> bool {
        if !reads.len().is_multiple_of(8) {
            return bounds.reads_on_record(reads, own);
        }
        let mine = _mm512_set1_epi64((bounds.me | independence_records::ALL_BYTES) as i64);
        let several = _mm512_set1_epi64(bounds.several as i64);
        let everyone = _mm512_set1_epi64(bounds.everyone as i64);
        let (mut threads, step) = lane_threads(Some(own));
        let mut good = 0xff;
        for read in reads.as_chunks::<8>().0 {
            let r = load_eight(read);
            good &= _mm512_cmpeq_epi64_mask(r, _mm512_or_si512(mine, threads))
                | _mm512_cmpeq_epi64_mask(r, several)
                | _mm512_cmpeq_epi64_mask(r, everyone);
            threads = _mm512_add_epi64(threads, step);
        }
        good == 0xff
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn record_reads_alone(
        writes: &[AtomicU64],
        reads: &[AtomicU64],
        bounds: &IndependenceBounds,
        own: WordOwners,
    ) -> bool {
        if !writes.len().is_multiple_of(8) {
            return bounds.record_reads_alone(writes, reads, own);
        }
        let (writes, reads) = (writes.as_chunks::<8>().0, reads.as_chunks::<8>().0);
        let old = _mm512_set1_epi64(bounds.old as i64);
        let flags = _mm512_set1_epi64(
            (independence_records::SYNC | independence_records::ALL_BYTES) as i64,
        );
        let whole = _mm512_set1_epi64(independence_records::ALL_BYTES as i64);
        let (start, step) = lane_threads(Some(own));
        let mut threads = start;
        let mut good = 0xff;
        for (write, read) in writes.iter().zip(reads) {
            let (w, r) = (load_eight(write), load_eight(read));
            good &= before(w, threads, bounds)
                & (_mm512_cmplt_epu64_mask(r, old)
                    | _mm512_cmpeq_epi64_mask(_mm512_and_si512(r, flags), whole));
            threads = _mm512_add_epi64(threads, step);
        }
        if good != 0xff {
            return false;
        }
        let block = _mm512_set1_epi64((bounds.me >> independence_records::SERIAL) as i64);
        let mine = _mm512_set1_epi64((bounds.me | independence_records::ALL_BYTES) as i64);
        let several = _mm512_set1_epi64(bounds.several as i64);
        let everyone = _mm512_set1_epi64(bounds.everyone as i64);
        let mut threads = start;
        for read in reads {
            let r = load_eight(read);
            let mine = _mm512_or_si512(mine, threads);
            let reader = _mm512_srli_epi64::<{ independence_records::SERIAL }>(r);
            let joined =
                _mm512_mask_mov_epi64(everyone, _mm512_cmpeq_epi64_mask(reader, block), several);
            let over = _mm512_cmplt_epu64_mask(r, old) | _mm512_cmpeq_epi64_mask(r, mine);
            store_eight(read, _mm512_mask_mov_epi64(joined, over, mine));
            threads = _mm512_add_epi64(threads, step);
        }
        true
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn record_writes_alone(
        writes: &[AtomicU64],
        reads: &[AtomicU64],
        bounds: &IndependenceBounds,
        own: WordOwners,
    ) -> Option<bool> {
        if !writes.len().is_multiple_of(8) {
            return bounds.record_writes_alone(writes, reads, own);
        }
        let (writes, reads) = (writes.as_chunks::<8>().0, reads.as_chunks::<8>().0);
        let old = _mm512_set1_epi64(bounds.old as i64);
        let me = _mm512_set1_epi64(bounds.me as i64);
        let who = _mm512_set1_epi64(independence_records::WHO as i64);
        let whole = _mm512_set1_epi64(independence_records::ALL_BYTES as i64);
        let (start, step) = lane_threads(Some(own));
        let mut threads = start;
        let (mut good, mut first) = (0xff, 0);
        for (write, read) in writes.iter().zip(reads) {
            let (w, r) = (load_eight(write), load_eight(read));
            let mine =
                _mm512_cmpeq_epi64_mask(_mm512_and_si512(r, who), _mm512_or_si512(me, threads));
            good &= before(w, threads, bounds) & (_mm512_cmplt_epu64_mask(r, old) | mine);
            let parts = _mm512_cmpneq_epi64_mask(_mm512_and_si512(w, whole), whole);
            first |= _mm512_cmplt_epu64_mask(w, old) | parts;
            threads = _mm512_add_epi64(threads, step);
        }
        if good != 0xff {
            return None;
        }
        let now = _mm512_set1_epi64((bounds.now | independence_records::ALL_BYTES) as i64);
        let mut threads = start;
        for write in writes {
            store_eight(write, _mm512_or_si512(now, threads));
            threads = _mm512_add_epi64(threads, step);
        }
        Some(first != 0)
    }
}

/// [`IndependenceBounds::is_before`] for eight writes, a bit each.
#[inline]
#[target_feature(enable = "avx512f")]
fn before(writes: __m512i, threads: __m512i, bounds: &IndependenceBounds) -> u8 {
    let (old, me) = (bounds.old as i64, bounds.me as i64);
    let block = _mm512_set1_epi64((bounds.me >> independence_records::SERIAL) as i64);
    let now = _mm512_set1_epi64((bounds.now >> independence_records::EPOCH) as i64);
    let who = _mm512_set1_epi64(independence_records::WHO as i64);
    let writer = _mm512_and_si512(writes, who);
    let mine = _mm512_cmpeq_epi64_mask(
        _mm512_srli_epi64::<{ independence_records::SERIAL }>(writes),
        block,
    );
    let earlier = _mm512_cmpneq_epi64_mask(
        _mm512_srli_epi64::<{ independence_records::EPOCH }>(writes),
        now,
    );
    _mm512_cmplt_epu64_mask(writes, _mm512_set1_epi64(old))
        | (mine & earlier)
        | _mm512_cmpeq_epi64_mask(writer, _mm512_or_si512(_mm512_set1_epi64(me), threads))
}

/// Eight records as they are now; each is read at once.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_eight(records: &[AtomicU64; 8]) -> __m512i {
    let eight;
    // SAFETY: reads the 64 bytes of the records.
    unsafe {
        asm!("vmovdqu64 {}, [{}]", out(zmm_reg) eight, in(reg) records.as_ptr(),
            options(nostack, preserves_flags, readonly));
    }
    eight
}

/// Writes eight records, each at once.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_eight(records: &[AtomicU64; 8], eight: __m512i) {
    // SAFETY: writes the 64 bytes of the records, which are atomics.
    unsafe {
        asm!("vmovdqu64 [{}], {}", in(reg) records.as_ptr(), in(zmm_reg) eight,
            options(nostack, preserves_flags));
    }
}

/// The threads that own the first eight words, and what the next eight have on top. Without owners, numbers that no
/// thread has.
#[inline]
#[target_feature(enable = "avx512f")]
fn lane_threads(own: Option<WordOwners>) -> (__m512i, __m512i) {
    let Some(own) = own else {
        return (_mm512_set1_epi64(-1), _mm512_setzero_si512());
    };
    let i = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    let shift = _mm_set1_epi64x(i64::from(own.shift));
    let first = _mm512_set1_epi64(own.first as i64);
    let step = _mm512_set1_epi64(own.step as i64);
    (
        _mm512_add_epi64(first, _mm512_mul_epu32(_mm512_srl_epi64(i, shift), step)),
        _mm512_set1_epi64((8 >> own.shift) * own.step as i64),
    )
}
