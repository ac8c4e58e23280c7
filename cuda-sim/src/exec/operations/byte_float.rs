//! Conversions of 8-bit floats, two in a register, from and to pairs of f16 and from f32.
//!
//! e5m2 is the upper byte of an f16. e4m3 has a bias of 7 and no infinity: above its largest value, 448, is its NaN.

use crate::exec::operations::half;
use crate::exec::registers::Registers;
use crate::program::op::{ByteConversion, ByteType, BytesFrom, R};

const NAN: u8 = 0x7f;

/// Runs the conversion on the lanes of `mask`.
pub(super) fn convert(registers: &mut Registers, mask: u32, how: ByteConversion, d: R, a: R, b: R) {
    match how.from {
        BytesFrom::Bytes => registers.unary(mask, d, a, |a: u32| {
            let half = |byte: u32| u32::from(widened(how, byte as u8));
            half(a >> 8) << 16 | half(a)
        }),
        BytesFrom::Halves => registers.unary(mask, d, a, |a: u32| {
            let byte = |half: u32| narrowed(how, half::widen::<{ half::F16 }>(half as u16));
            byte(a >> 16) << 8 | byte(a)
        }),
        BytesFrom::Floats => registers.binary(mask, d, a, b, |a: f32, b: f32| {
            narrowed(how, a.into()) << 8 | narrowed(how, b.into())
        }),
    }
}

/// The f16 of the same value.
fn widened(how: ByteConversion, byte: u8) -> u16 {
    let (sign, size) = (byte & 0x80, byte & 0x7f);
    let largest = match how.ty {
        ByteType::E4m3 => 0x7e,
        ByteType::E5m2 => 0x7c,
    };
    if size > largest {
        return half::NAN;
    }
    if how.relu && sign != 0 {
        return 0;
    }
    let size = match how.ty {
        // Exponent and fraction in their places; the product moves the bias.
        ByteType::E4m3 => {
            let placed = half::widen::<{ half::F16 }>(u16::from(size) << 7);
            half::narrow::<{ half::F16 }>(placed * 256.0)
        }
        ByteType::E5m2 => u16::from(size) << 8,
    };
    u16::from(sign) << 8 | size
}

/// The nearest 8-bit float, of two the even one, and of those beyond the largest the largest.
fn narrowed(how: ByteConversion, x: f64) -> u32 {
    if x.is_nan() {
        return NAN.into();
    }
    let negative = x.is_sign_negative();
    if how.relu && negative {
        return 0;
    }
    let (fraction, bias, largest) = match how.ty {
        ByteType::E4m3 => (3, 7, 0x7e),
        ByteType::E5m2 => (2, 15, 0x7b),
    };
    let size = x.abs().min(65536.0);
    // Subnormals have the unit of the smallest normal values.
    let exponent = ((size.to_bits() >> 52) as i32 - 1023).max(1 - bias);
    let unit = half::power_of_two(exponent - fraction);
    let units = (size / unit).round_ties_even() as i32;
    // A normal value has 2^fraction units, which count as one in the exponent.
    let bits = ((exponent + bias - 1) << fraction) + units;
    u32::from(negative) << 7 | bits.min(largest) as u32
}
