//! Floating-point formats of 16 bits: `f16` has 10 bits of fraction, `bf16` has 7.

/// The value with these bits.
pub(crate) fn widened(bits: u16, fraction: u32) -> f64 {
    let bits = u64::from(bits);
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = (bits & 0x7fff) >> fraction;
    let digits = bits & ((1 << fraction) - 1);
    if exponent == largest(fraction) {
        return sign * if digits == 0 { f64::INFINITY } else { f64::NAN };
    }
    let (digits, exponent) = match exponent {
        0 => (digits, 1), // subnormal
        _ => (digits + (1 << fraction), exponent),
    };
    sign * digits as f64 * power_of_two(exponent as i64 - bias(fraction) - i64::from(fraction))
}

/// The bits of the nearest value, of two the even one.
pub(crate) fn rounded(value: f64, fraction: u32) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let infinity = largest(fraction) << fraction;
    if value.is_nan() {
        return sign | infinity as u16 | 1 << (fraction - 1);
    }
    let exponent = (value.abs().to_bits() >> 52) as i64 - 1023;
    let exponent = exponent.max(1 - bias(fraction)); // below it, values are subnormal
    let digits = value.abs() / power_of_two(exponent - i64::from(fraction));
    // Digits have the leading one, which adds 1 to the exponent; so does a carry.
    let below = ((exponent + bias(fraction) - 1) as u64) << fraction;
    sign | (digits.round_ties_even() as u64)
        .saturating_add(below)
        .min(infinity) as u16
}

/// The exponent of infinity and NaN.
fn largest(fraction: u32) -> u64 {
    (1 << (15 - fraction)) - 1
}

fn bias(fraction: u32) -> i64 {
    largest(fraction) as i64 / 2
}

fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    /// All values, and for each the numbers around the middle to the next one.
    #[test]
    fn they_are_those_of_the_crate_half() {
        type Format = (u32, fn(u16) -> f64, fn(f64) -> u16);
        let formats: [Format; 2] = [
            (
                10,
                |bits| f16::from_bits(bits).to_f64(),
                |value| f16::from_f64(value).to_bits(),
            ),
            (
                7,
                |bits| bf16::from_bits(bits).to_f64(),
                |value| bf16::from_f64(value).to_bits(),
            ),
        ];
        for (fraction, wide, narrow) in formats {
            for bits in 0..=u16::MAX {
                let value = wide(bits);
                let same = widened(bits, fraction);
                assert!(
                    same == value || same.is_nan() && value.is_nan(),
                    "{bits:#x}"
                );
                if value.is_nan() {
                    continue;
                }
                let next = wide(bits.wrapping_add(1));
                let middle = if next.is_finite() {
                    (value + next) / 2.0
                } else {
                    value * 1.001
                };
                let little = (middle - value) / 64.0; // `half` looks at 32 bits of an f64
                for value in [
                    value,
                    middle,
                    middle + little,
                    middle - little,
                    value * 1e300,
                ] {
                    assert_eq!(rounded(value, fraction), narrow(value), "{value:e}");
                }
            }
            assert_eq!(rounded(f64::NAN, fraction), narrow(f64::NAN));
        }
    }
}
