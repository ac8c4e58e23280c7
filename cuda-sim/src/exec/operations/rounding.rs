//! Floating-point modes other than the host's own: directed rounding, flush to zero, saturation.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::program::op::{FloatMode, Rounding};

/// f32 or f64.
pub(crate) trait Float:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;
    /// The quiet NaN that PTX arithmetic returns.
    const NAN: Self;
    fn mul_add(self, b: Self, c: Self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn is_nan(self) -> bool;
    fn is_negative(self) -> bool;
    fn with_sign_of(self, other: Self) -> Self;
    fn next_up(self) -> Self;
    fn next_down(self) -> Self;
    /// Subnormals as zero of the same sign, if `ftz`.
    fn flushed(self, ftz: bool) -> Self;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    /// A number with the sign of `a·b + c - result`, computed exactly enough to have the right
    /// sign.
    fn fma_error(a: Self, b: Self, c: Self, result: Self) -> Self;
}

macro_rules! float {
    ($ty:ident, $nan:expr) => {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const NAN: Self = $ty::from_bits($nan);
        const INFINITY: Self = $ty::INFINITY;
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            $ty::mul_add(self, b, c)
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            $ty::sqrt(self)
        }
        #[inline(always)]
        fn abs(self) -> Self {
            $ty::abs(self)
        }
        #[inline(always)]
        fn is_nan(self) -> bool {
            $ty::is_nan(self)
        }
        #[inline(always)]
        fn is_negative(self) -> bool {
            self.is_sign_negative()
        }
        #[inline(always)]
        fn with_sign_of(self, other: Self) -> Self {
            self.copysign(other)
        }
        #[inline(always)]
        fn next_up(self) -> Self {
            $ty::next_up(self)
        }
        #[inline(always)]
        fn next_down(self) -> Self {
            $ty::next_down(self)
        }
        #[inline(always)]
        fn flushed(self, ftz: bool) -> Self {
            if ftz && self.abs() < $ty::MIN_POSITIVE {
                (0.0 as $ty).copysign(self)
            } else {
                self
            }
        }
        #[inline(always)]
        fn from_f64(x: f64) -> Self {
            x as $ty
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self.into()
        }
    };
}

impl Float for f32 {
    float!(f32, 0x7fff_ffff);

    /// The product of two f32 is exact in f64; the sums are compensated (Knuth's two-sum).
    #[inline(always)]
    fn fma_error(a: f32, b: f32, c: f32, result: f32) -> f32 {
        let (high, low) = two_sum(f64::from(a) * f64::from(b), f64::from(c));
        let rest = high - f64::from(result);
        sign_of_sum(rest, low) as f32
    }
}

impl Float for f64 {
    float!(f64, 0x7ff8_0000_0000_0000);

    /// Sums the three terms in fixed point, wide enough for every product of two numbers.
    fn fma_error(a: f64, b: f64, c: f64, result: f64) -> f64 {
        if ![a, b, c].iter().all(|x| x.is_finite()) {
            return 0.0;
        }
        if result.is_infinite() {
            return -result;
        }
        let mut sum = FixedPoint::ZERO;
        sum.add_product(a, b);
        sum.add_product(c, 1.0);
        sum.add_product(-result, 1.0);
        sum.sign()
    }
}

/// A sum of products of finite f64, without rounding: two's complement, the lowest bit worth
/// 2^-2148.
struct FixedPoint([u64; FixedPoint::WORDS]);

impl FixedPoint {
    /// Products go up to 2^2048; the rest is room for carries and the sign.
    const WORDS: usize = (2148 + 2048) / 64 + 2;
    const ZERO: FixedPoint = FixedPoint([0; FixedPoint::WORDS]);

    fn add_product(&mut self, a: f64, b: f64) {
        // Significand, and its exponent over that of the smallest subnormal, 2^-1074.
        let parts = |x: f64| {
            let (field, fraction) = (x.to_bits() >> 52 & 0x7ff, x.to_bits() & ((1 << 52) - 1));
            match field {
                0 => (u128::from(fraction), 0),
                _ => (u128::from(fraction | 1 << 52), field as usize - 1),
            }
        };
        let ((a_digits, a_shift), (b_digits, b_shift)) = (parts(a), parts(b));
        let (digits, shift) = (a_digits * b_digits, a_shift + b_shift);
        let negative = a.is_sign_negative() != b.is_sign_negative();
        let (first, shift) = (shift / 64, shift % 64);
        let low = digits << shift;
        let high = if shift == 0 {
            0
        } else {
            digits >> (128 - shift)
        };
        let placed = [low as u64, (low >> 64) as u64, high as u64];
        // Subtracting adds the complement, and one.
        let mut carry = negative;
        for (i, word) in self.0.iter_mut().enumerate().skip(first) {
            let term = placed.get(i - first).copied().unwrap_or(0);
            let (sum, over) = word.overflowing_add(if negative { !term } else { term });
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over || again);
        }
    }

    fn sign(&self) -> f64 {
        match self.0 {
            [.., top] if top >> 63 == 1 => -1.0,
            words if words == Self::ZERO.0 => 0.0,
            _ => 1.0,
        }
    }
}

#[inline(always)]
pub(super) fn two_sum<T: Float>(a: T, b: T) -> (T, T) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

#[inline(always)]
fn sign_of_sum(large: f64, small: f64) -> f64 {
    let sum = large + small;
    if sum != 0.0 { sum.signum() } else { 0.0 }
}

/// Applies `mode` to `nearest`, the result rounded to nearest. `error(nearest)` has the sign of the
/// exact result minus `nearest`.
#[inline(always)]
pub(crate) fn finish<T: Float>(mode: FloatMode, nearest: T, error: impl Fn(T) -> T) -> T {
    let rounded = match mode.rounding {
        Rounding::Nearest => nearest,
        _ => directed(mode.rounding, nearest, error),
    };
    let flushed = rounded.flushed(mode.ftz);
    if mode.saturate {
        saturated(flushed)
    } else {
        flushed
    }
}

#[inline(always)]
fn directed<T: Float>(rounding: Rounding, nearest: T, error: impl Fn(T) -> T) -> T {
    if nearest.is_nan() {
        return nearest;
    }
    // An overflow came from a finite value, unless an input was infinite; then the error is NaN.
    let error = error(nearest);
    let toward_zero = if nearest.is_negative() {
        error > T::ZERO
    } else {
        error < T::ZERO
    };
    match rounding {
        Rounding::Down if error < T::ZERO => nearest.next_down(),
        Rounding::Up if error > T::ZERO => nearest.next_up(),
        Rounding::Zero if toward_zero && nearest.is_negative() => nearest.next_up(),
        Rounding::Zero if toward_zero => nearest.next_down(),
        _ => nearest,
    }
}

#[inline(always)]
fn saturated<T: Float>(x: T) -> T {
    if x >= T::ONE {
        T::ONE
    } else if x > T::ZERO {
        x
    } else {
        T::ZERO
    }
}
