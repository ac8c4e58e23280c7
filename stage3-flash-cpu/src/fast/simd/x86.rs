//! The registers of x86-64. Its instruction sets differ in the names of their intrinsics.

use std::arch::x86_64::*;
use std::array::from_fn;

use super::vector::Vector;

/// [`Vector::transpose`]. A register holds four elements of row i and four of row i + 4, so that
/// shuffles within its halves are enough.
///
/// # Safety
///
/// The processor has AVX2, and the elements of both exist.
#[inline(always)]
unsafe fn transpose(a: *const f32, row_a: isize, c: *mut f32, row_c: isize) {
    // SAFETY: by the contract.
    unsafe {
        let row = |i: isize| _mm_loadu_ps(a.offset(i * row_a));
        let [r0, r1, r2, r3] = from_fn(|i| _mm256_set_m128(row(i as isize + 4), row(i as isize)));
        let (left, right) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
        let (left_2, right_2) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
        _mm256_storeu_ps(c, _mm256_shuffle_ps::<0x44>(left, left_2));
        _mm256_storeu_ps(c.offset(row_c), _mm256_shuffle_ps::<0xee>(left, left_2));
        _mm256_storeu_ps(
            c.offset(2 * row_c),
            _mm256_shuffle_ps::<0x44>(right, right_2),
        );
        _mm256_storeu_ps(
            c.offset(3 * row_c),
            _mm256_shuffle_ps::<0xee>(right, right_2),
        );
    }
}

macro_rules! vector {
    (
        $name:ident($register:ident), $lanes:literal,
        $splat:ident, $load:ident, $store:ident, $add:ident, $sub:ident, $mul:ident, $mul_add:ident, $max:ident,
        $as_integers:ident, $shift_left:ident, $as_floats:ident
    ) => {
        #[derive(Clone, Copy)]
        pub(super) struct $name($register);

        impl Vector for $name {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: by the contract.
                Self(unsafe { $splat(x) })
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: by the contract.
                Self(unsafe { $load(from) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: by the contract; the processor has the instruction, as `self` exists.
                unsafe { $store(to, self.0) }
            }

            #[inline(always)]
            fn add(self, b: Self) -> Self {
                // SAFETY: the processor has the instruction, as `self` exists. So it is below.
                Self(unsafe { $add(self.0, b.0) })
            }

            #[inline(always)]
            fn sub(self, b: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $sub(self.0, b.0) })
            }

            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $mul(self.0, b.0) })
            }

            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $mul_add(self.0, b.0, c.0) })
            }

            #[inline(always)]
            fn max(self, b: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $max(self.0, b.0) })
            }

            #[inline(always)]
            fn low_bits_as_exponent(self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $as_floats($shift_left::<23>($as_integers(self.0))) })
            }

            #[inline(always)]
            unsafe fn transpose(a: *const f32, row_a: isize, c: *mut f32, row_c: isize) {
                // SAFETY: by the contract; whichever type it is, the processor has AVX2.
                unsafe { transpose(a, row_a, c, row_c) }
            }
        }
    };
}

vector!(
    Avx2(__m256),
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    _mm256_max_ps,
    _mm256_castps_si256,
    _mm256_slli_epi32,
    _mm256_castsi256_ps
);
vector!(
    Avx512(__m512),
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_fmadd_ps,
    _mm512_max_ps,
    _mm512_castps_si512,
    _mm512_slli_epi32,
    _mm512_castsi512_ps
);
