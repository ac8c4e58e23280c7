//! Fused multiply-add of f32.

/// `a · b + c`, rounded once.
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
pub(crate) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// `a · b + c`, rounded once: WebAssembly has no instruction for it, and its library's function is
/// not vectorised.
#[cfg(target_arch = "wasm32")]
#[inline(always)]
pub(crate) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    by_f64(a, b, c)
}

/// The product is exact in f64. Their sum is rounded to odd there, which leaves enough bits for the
/// second rounding to be right (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded
/// sums").
#[cfg(any(test, target_arch = "wasm32"))]
#[inline(always)]
fn by_f64(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // What the sum lacks (Knuth's TwoSum); NaN if it is not finite.
    let of_c = sum - product;
    let error = (product - (sum - of_c)) + (c - of_c);
    let bits = sum.to_bits() as i64;
    let is_inexact = (error < 0.0) | (error > 0.0);
    // Away from zero if the error has the sum's sign.
    let away = 1 - 2 * i64::from((error < 0.0) != (sum < 0.0));
    let is_even = bits & 1 == 0;
    let odd = bits + away * i64::from(is_inexact & is_even);
    f64::from_bits(odd as u64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_in_f64_are_rounded_once() {
        let mut values = vec![0.0, 1.0, 1.0 + f32::EPSILON, 1.0 - f32::EPSILON / 2.0, 3.0];
        values.extend([
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::from_bits(0x7f_ffff),
        ]);
        values.extend([
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
            16_777_216.0,
            16_777_215.0,
        ]);
        values.extend((0..40).map(|i| f32::from_bits(0x9e37_79b9u32.wrapping_mul(i + 1))));
        let all: Vec<f32> = values.iter().flat_map(|&x| [x, -x]).collect();
        for &a in &all {
            for &b in &all {
                for &c in &all {
                    let (wanted, got) = (a.mul_add(b, c), by_f64(a, b, c));
                    let same = wanted.to_bits() == got.to_bits() || wanted.is_nan() && got.is_nan();
                    assert!(same, "{a:e} * {b:e} + {c:e}: {got:e}, not {wanted:e}");
                }
            }
        }
        // Halfway between two f32 but for a term that f64 drops.
        let (a, b) = (1.0 + f32::EPSILON, 1.0 + f32::EPSILON);
        for c in [f32::from_bits(1), -f32::from_bits(1), 1e-30, -1e-30] {
            assert_eq!(by_f64(a, b, c).to_bits(), a.mul_add(b, c).to_bits());
        }
    }
}
