//! Conversions of 8-bit floats, two in a register, from and to pairs of f16 and from f32.
//!
//! e5m2 is the upper byte of an f16. e4m3 has a bias of 7 and no infinity: above its largest value,
//! 448, is its NaN.

use crate::exec::half_float::{self, F16, narrow, power_of_two, widen};
use crate::exec::registers::Registers;
use crate::program::op::{ByteConversion, ByteType, BytesFrom, R};

const NAN: u8 = 0x7f;

/// Runs the conversion on the lanes of `mask`.
pub(super) fn convert(registers: &mut Registers, mask: u32, how: ByteConversion, d: R, a: R, b: R) {
    match how.from {
        BytesFrom::Bytes => registers.unary(mask, d, a, |a: u32| {
            let half = |byte: u32| match widened(how.ty, byte as u8) {
                half if how.relu && half >> 15 == 1 => 0,
                half => u32::from(half),
            };
            half(a >> 8) << 16 | half(a)
        }),
        BytesFrom::Halves => registers.unary(mask, d, a, |a: u32| {
            let byte = |half: u32| narrowed(how, widen::<F16>(half as u16));
            byte(a >> 16) << 8 | byte(a)
        }),
        BytesFrom::Floats => registers.binary(mask, d, a, b, |a: f32, b: f32| {
            narrowed(how, a.into()) << 8 | narrowed(how, b.into())
        }),
    }
}

/// The f16 of the same value.
pub(super) fn widened(ty: ByteType, byte: u8) -> u16 {
    let placed = placed(ty, byte);
    match ty {
        // The product moves the bias.
        ByteType::E4m3 if placed != half_float::NAN => narrow::<F16>(widen::<F16>(placed) * 256.0),
        _ => placed,
    }
}

/// Sign, exponent and fraction in the places of an f16: of e5m2 the f16 of the same value, of e4m3
/// that of the value / 256, because its bias is smaller by 8.
pub(super) fn placed(ty: ByteType, byte: u8) -> u16 {
    let (sign, size) = (u16::from(byte & 0x80) << 8, u16::from(byte & 0x7f));
    match ty {
        ByteType::E4m3 if size > 0x7e => half_float::NAN,
        ByteType::E4m3 => sign | size << 7,
        ByteType::E5m2 if size > 0x7c => half_float::NAN,
        ByteType::E5m2 => sign | size << 8,
    }
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
    let unit = power_of_two(exponent - fraction);
    let units = (size / unit).round_ties_even() as i32;
    // A normal value has 2^fraction units, which count as one in the exponent.
    let bits = ((exponent + bias - 1) << fraction) + units;
    u32::from(negative) << 7 | bits.min(largest) as u32
}
