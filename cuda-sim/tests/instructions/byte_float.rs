//! Conversions of 8-bit floats against the definition of their values.

use std::cmp::Ordering;

use super::rig::*;

struct Format {
    name: &'static str,
    fraction: u32,
    bias: i32,
    /// The bits of the largest finite value.
    largest: u8,
}

const FORMATS: [Format; 2] = [
    Format {
        name: "e4m3x2",
        fraction: 3,
        bias: 7,
        largest: 0x7e,
    },
    Format {
        name: "e5m2x2",
        fraction: 2,
        bias: 15,
        largest: 0x7b,
    },
];

/// The only NaN that conversions make.
const NAN: u64 = 0x7f;
const NAN_F16: u64 = 0x7fff;

impl Format {
    /// The value of a byte.
    fn value(&self, bits: u8) -> f64 {
        let size = bits & 0x7f;
        let (exponent, digits) = (size >> self.fraction, size & ((1 << self.fraction) - 1));
        let fraction = f64::from(digits) / f64::from(1 << self.fraction);
        let value = match exponent {
            _ if size == 0x7c && self.fraction == 2 => f64::INFINITY,
            _ if size > self.largest => f64::NAN,
            0 => fraction * 2f64.powi(1 - self.bias),
            _ => (1.0 + fraction) * 2f64.powi(i32::from(exponent) - self.bias),
        };
        if bits & 0x80 == 0 { value } else { -value }
    }

    /// The byte whose value is nearest, found among all of them.
    fn nearest(&self, x: f64) -> u64 {
        if x.is_nan() {
            return NAN;
        }
        let size = x.abs();
        let distance = |bits| (self.value(bits) - size).abs();
        let not_above = |&bits: &u8| self.value(bits) <= size;
        let below = (0..=self.largest)
            .rev()
            .find(not_above)
            .expect("0 is not above");
        let above = (below + 1).min(self.largest);
        let nearest = match distance(below).total_cmp(&distance(above)) {
            Ordering::Less => below,
            Ordering::Greater => above,
            Ordering::Equal if below % 2 == 0 => below,
            Ordering::Equal => above,
        };
        u64::from(nearest) | u64::from(x.is_sign_negative()) << 7
    }
}

/// Runs an instruction on columns of operands, and compares each result with what `expected` says.
fn compare(
    body: &str,
    d: Ty,
    operands: &[Ty],
    columns: &[Vec<u64>],
    expected: impl Fn(&[u64]) -> u64,
) {
    for (at, got) in run(body, d, operands, columns).into_iter().enumerate() {
        let case: Vec<u64> = columns.iter().map(|column| column[at]).collect();
        let want = expected(&case);
        assert_eq!(got, want, "{body} of {case:x?}: {got:#x}, not {want:#x}");
    }
}

/// `bits`, or zero if `.relu` makes it so.
fn relu(relu: bool, negative: bool, bits: u64) -> u64 {
    if relu && negative { 0 } else { bits }
}

#[test]
fn every_byte_has_its_value_as_f16() {
    let cases = [(0..=0xff).map(|byte| byte << 8 | (byte ^ 0x95)).collect()];
    for format in &FORMATS {
        for (modifier, clamps) in [("", false), (".relu", true)] {
            let half = |bits: u64| {
                let value = format.value(bits as u8);
                match value.is_nan() {
                    true => NAN_F16,
                    false => relu(clamps, value.is_sign_negative(), float_bits(F16, value)),
                }
            };
            let body = format!("cvt.rn{modifier}.f16x2.{} {{d}}, {{a}};", format.name);
            compare(&body, U32, &[U16], &cases, |x| {
                half(x[0] >> 8) << 16 | half(x[0] & 0xff)
            });
        }
    }
}

#[test]
fn every_f16_goes_to_the_nearest_byte() {
    // An odd factor gives every value in the low half too.
    let cases = [(0..=0xffff_u64)
        .map(|bits| bits << 16 | (bits.wrapping_mul(0x9e37) & 0xffff))
        .collect()];
    for format in &FORMATS {
        for (modifier, clamps) in [("", false), (".relu", true)] {
            let byte = |bits: u64| {
                let value = F16.float(bits);
                let negative = value.is_sign_negative() && !value.is_nan();
                relu(clamps, negative, format.nearest(value))
            };
            let body = format!(
                "cvt.rn.satfinite{modifier}.{}.f16x2 {{d}}, {{a}};",
                format.name
            );
            compare(&body, U16, &[U32], &cases, |x| {
                byte(x[0] >> 16) << 8 | byte(x[0] & 0xffff)
            });
        }
    }
}

#[test]
fn an_f32_is_rounded_once() {
    for format in &FORMATS {
        let mut values = F32.nasty();
        for bits in 0..format.largest {
            let middle = (format.value(bits) + format.value(bits + 1)) as f32 / 2.0;
            let near = [middle, middle.next_up(), middle.next_down(), -middle];
            values.extend(near.map(|x| u64::from(x.to_bits())));
        }
        let backwards = values.iter().copied().rev().collect();
        let columns = [values, backwards];
        let byte = |bits| format.nearest(F32.float(bits));
        let body = format!("cvt.rn.satfinite.{}.f32 {{d}}, {{a}}, {{b}};", format.name);
        compare(&body, U16, &[F32, F32], &columns, |x| {
            byte(x[0]) << 8 | byte(x[1])
        });
    }
}
