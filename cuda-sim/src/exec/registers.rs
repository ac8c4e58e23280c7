//! A warp's registers: one plane of 32 lanes per 32-bit register, two per 64-bit register.
//!
//! Operations are loops over 32 lanes with no branches in them, which the compiler turns into
//! vector instructions. Lanes that are not active compute too, on whatever they hold; only the
//! write is masked.

use crate::exec::host_simd::HostSimd;
use crate::exec::lane_mask::{FULL, lanes};
use crate::program::op::{P, R};

#[derive(Clone, Copy, PartialEq)]
#[repr(C, align(128))]
struct Plane([u32; 32]);

/// General registers, predicates and the carry bit of one warp.
#[derive(Clone, PartialEq, Default)]
pub(crate) struct Registers {
    planes: Vec<Plane>,
    predicates: Vec<u32>,
    /// One carry bit per lane.
    pub carry: u32,
}

/// Value of a register as bits: 32 or 64.
pub(crate) trait Raw: Copy + Default {
    fn view(registers: &Registers, r: R) -> &[Self; 32];
    fn view_mut(registers: &mut Registers, r: R) -> &mut [Self; 32];
}

/// A value that operations compute with.
pub(crate) trait Value: Copy {
    type Raw: Raw;
    fn from_raw(raw: Self::Raw) -> Self;
    fn to_raw(self) -> Self::Raw;
    /// Whether one of the results is a NaN of f32, of which a GPU's arithmetic has a single one.
    #[inline(always)]
    fn any_nan(_results: &[Self::Raw; 32]) -> bool {
        false
    }
}

impl Registers {
    /// Zeroes everything but the first `kept` planes, for a new warp.
    pub(crate) fn reset(&mut self, planes: u32, kept: u32, predicates: u32) {
        self.planes.resize(planes as usize, Plane([0; 32]));
        self.planes[kept as usize..].fill(Plane([0; 32]));
        self.predicates.clear();
        self.predicates.resize(predicates as usize, 0);
        // Predicate 0 is false and 1 is true: see `program::lower`.
        self.predicates[1] = FULL;
        self.carry = 0;
    }

    #[inline(always)]
    pub(crate) fn read<T: Raw>(&self, r: R) -> &[T; 32] {
        T::view(self, r)
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn write<T: Raw>(&mut self, r: R, mask: u32, new: &[T; 32]) {
        let old = T::view_mut(self, r);
        if mask == FULL {
            *old = *new;
        } else {
            for lane in 0..32 {
                old[lane] = if mask >> lane & 1 != 0 {
                    new[lane]
                } else {
                    old[lane]
                };
            }
        }
    }

    /// Writes results of arithmetic. To look for NaNs behind the write costs the least.
    #[inline(always)]
    fn write_results<D: Value>(&mut self, r: R, mask: u32, results: &[D::Raw; 32]) {
        self.write(r, mask, results);
        if D::any_nan(results) {
            self.settle_nans(r, mask);
        }
    }

    /// Makes every NaN of f32 the one of a GPU's arithmetic.
    #[cold]
    #[inline(never)]
    fn settle_nans(&mut self, r: R, mask: u32) {
        let words = u32::view_mut(self, r);
        for lane in lanes(mask) {
            words[lane] = f32_bits(f32::from_bits(words[lane]));
        }
    }

    /// A register of either width, a narrow one extended by zeros.
    #[inline(always)]
    pub(crate) fn read_either(&self, r: R, wide: bool) -> [u64; 32] {
        if wide {
            *self.read(r)
        } else {
            self.read::<u32>(r).map(u64::from)
        }
    }

    /// Writes a register of either width, a narrow one the low halves.
    #[inline(always)]
    pub(crate) fn write_either(&mut self, r: R, wide: bool, mask: u32, new: &[u64; 32]) {
        if wide {
            self.write(r, mask, new);
        } else {
            self.write(r, mask, &new.map(|x| x as u32));
        }
    }

    /// The address of a register's 32 words.
    #[inline(always)]
    pub(crate) fn row(&mut self, r: R) -> u64 {
        u32::view_mut(self, r).as_mut_ptr() as u64
    }

    /// The addresses of the 32 words of several registers. No reference is made of them, so all
    /// stay valid until the registers are used again.
    #[inline(always)]
    pub(crate) fn rows(&mut self, registers: [R; 4]) -> [*mut u32; 4] {
        let (first, count) = (self.planes.as_mut_ptr(), self.planes.len());
        registers.map(|r| {
            let index = r.0 as usize;
            assert!(index < count, "register {index} of {count}");
            first.wrapping_add(index).cast()
        })
    }

    /// A predicate: one bit per lane.
    #[inline(always)]
    pub(crate) fn predicate(&self, p: P) -> u32 {
        self.predicates[p.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn write_predicate(&mut self, p: P, mask: u32, bits: u32) {
        let old = &mut self.predicates[p.0 as usize];
        *old = (*old & !mask) | (bits & mask);
    }

    #[inline(always)]
    pub(crate) fn unary<A: Value, D: Value>(&mut self, mask: u32, d: R, a: R, f: impl Fn(A) -> D) {
        let a: &[A::Raw; 32] = self.read(a);
        let mut out = [D::Raw::default(); 32];
        for lane in 0..32 {
            out[lane] = f(A::from_raw(a[lane])).to_raw();
        }
        self.write_results::<D>(d, mask, &out);
    }

    #[inline(always)]
    pub(crate) fn binary<A: Value, B: Value, D: Value>(
        &mut self,
        mask: u32,
        d: R,
        a: R,
        b: R,
        f: impl Fn(A, B) -> D,
    ) {
        let (a, b): (&[A::Raw; 32], &[B::Raw; 32]) = (self.read(a), self.read(b));
        let mut out = [D::Raw::default(); 32];
        for lane in 0..32 {
            out[lane] = f(A::from_raw(a[lane]), B::from_raw(b[lane])).to_raw();
        }
        self.write_results::<D>(d, mask, &out);
    }

    #[inline(always)]
    pub(crate) fn ternary<A: Value, B: Value, C: Value, D: Value>(
        &mut self,
        mask: u32,
        d: R,
        [a, b, c]: [R; 3],
        f: impl Fn(A, B, C) -> D,
    ) {
        let a = self.read::<A::Raw>(a);
        let b = self.read::<B::Raw>(b);
        let c = self.read::<C::Raw>(c);
        let mut out = [D::Raw::default(); 32];
        for lane in 0..32 {
            out[lane] = f(
                A::from_raw(a[lane]),
                B::from_raw(b[lane]),
                C::from_raw(c[lane]),
            )
            .to_raw();
        }
        self.write_results::<D>(d, mask, &out);
    }

    /// As [`Registers::unary`], for operations that are rare or slow anyway: one call per active
    /// lane keeps the code small.
    pub(crate) fn unary_by<A: Value, D: Value>(
        &mut self,
        mask: u32,
        d: R,
        a: R,
        f: &dyn Fn(A) -> D,
    ) {
        self.ternary_by(mask, d, [a; 3], &|a: A, _: A, _: A| f(a));
    }

    /// As [`Registers::binary`], one call per active lane.
    pub(crate) fn binary_by<A: Value, B: Value, D: Value>(
        &mut self,
        mask: u32,
        d: R,
        a: R,
        b: R,
        f: &dyn Fn(A, B) -> D,
    ) {
        self.ternary_by(mask, d, [a, b, b], &|a: A, b: B, _: B| f(a, b));
    }

    /// As [`Registers::ternary`], one call per active lane.
    #[inline(never)]
    pub(crate) fn ternary_by<A: Value, B: Value, C: Value, D: Value>(
        &mut self,
        mask: u32,
        d: R,
        [a, b, c]: [R; 3],
        f: &dyn Fn(A, B, C) -> D,
    ) {
        let a = self.read::<A::Raw>(a);
        let b = self.read::<B::Raw>(b);
        let c = self.read::<C::Raw>(c);
        let mut out = [D::Raw::default(); 32];
        for lane in lanes(mask) {
            out[lane] = f(
                A::from_raw(a[lane]),
                B::from_raw(b[lane]),
                C::from_raw(c[lane]),
            )
            .to_raw();
        }
        self.write_results::<D>(d, mask, &out);
    }

    /// As [`Registers::test`], one call per lane.
    #[inline(never)]
    pub(crate) fn test_by<A: Value>(&self, a: R, b: R, f: &dyn Fn(A, A) -> bool) -> u32 {
        let (a, b): (&[A::Raw; 32], &[A::Raw; 32]) = (self.read(a), self.read(b));
        (0..32).fold(0, |bits, lane| {
            bits | u32::from(f(A::from_raw(a[lane]), A::from_raw(b[lane]))) << lane
        })
    }

    /// One bit per lane: `f(a, b)`.
    #[inline(always)]
    pub(crate) fn test<V: HostSimd, A: Value>(&self, a: R, b: R, f: impl Fn(A, A) -> bool) -> u32 {
        let (a, b): (&[A::Raw; 32], &[A::Raw; 32]) = (self.read(a), self.read(b));
        let mut yes = [0; 32];
        for lane in 0..32 {
            yes[lane] = u32::from(f(A::from_raw(a[lane]), A::from_raw(b[lane])));
        }
        // SAFETY: the handlers of an instruction set run only where it is there.
        unsafe { V::nonzero(&yes) }
    }
}

impl Raw for u32 {
    #[inline(always)]
    fn view(registers: &Registers, r: R) -> &[u32; 32] {
        &registers.planes[r.0 as usize].0
    }

    #[inline(always)]
    fn view_mut(registers: &mut Registers, r: R) -> &mut [u32; 32] {
        &mut registers.planes[r.0 as usize].0
    }
}

impl Raw for u64 {
    #[inline(always)]
    fn view(registers: &Registers, r: R) -> &[u64; 32] {
        let first = r.0 as usize;
        let planes = &registers.planes[first..first + 2];
        // SAFETY: two planes in a row are 256 bytes, aligned to 128, and every bit pattern is a
        // u64.
        unsafe { &*planes.as_ptr().cast::<[u64; 32]>() }
    }

    #[inline(always)]
    fn view_mut(registers: &mut Registers, r: R) -> &mut [u64; 32] {
        let first = r.0 as usize;
        let planes = &mut registers.planes[first..first + 2];
        // SAFETY: as in `view`, and the planes are borrowed mutably.
        unsafe { &mut *planes.as_mut_ptr().cast::<[u64; 32]>() }
    }
}

/// Integers narrower than 32 bits are kept zero-extended; reading truncates.
macro_rules! value {
    ($($ty:ty: $raw:ty, |$r:ident| $from:expr, |$v:ident| $to:expr;)*) => {$(
        impl Value for $ty {
            type Raw = $raw;
            #[inline(always)]
            fn from_raw($r: $raw) -> Self { $from }
            #[inline(always)]
            fn to_raw(self) -> $raw { let $v = self; $to }
        }
    )*};
}

value! {
    u8: u32, |r| r as u8, |v| u32::from(v);
    i8: u32, |r| r as i8, |v| u32::from(v as u8);
    u16: u32, |r| r as u16, |v| u32::from(v);
    i16: u32, |r| r as i16, |v| u32::from(v as u16);
    u32: u32, |r| r, |v| v;
    i32: u32, |r| r as i32, |v| v as u32;
    u64: u64, |r| r, |v| v;
    i64: u64, |r| r as i64, |v| v as u64;
    f64: u64, |r| f64::from_bits(r), |v| v.to_bits();
}

impl Value for f32 {
    type Raw = u32;

    #[inline(always)]
    fn from_raw(raw: u32) -> f32 {
        f32::from_bits(raw)
    }

    #[inline(always)]
    fn to_raw(self) -> u32 {
        self.to_bits()
    }

    /// In pairs: one comparison of vectors.
    #[inline(always)]
    fn any_nan(results: &[u32; 32]) -> bool {
        let mut any = false;
        for lane in 0..16 {
            let [low, high] = [results[lane], results[lane + 16]].map(f32::from_bits);
            any |= low.is_nan() | high.is_nan();
        }
        any
    }
}

/// The bits of a result of arithmetic on f32, of which a GPU has one NaN.
#[inline(always)]
pub(crate) fn f32_bits(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}
