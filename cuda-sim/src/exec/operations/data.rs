//! Moves, packing, selection, conversions and address spaces.

use crate::exec::access::address_space;
use crate::exec::half_float::{BF16, F16, narrow, narrow_by, widen};
use crate::exec::host_simd::HostSimd;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::half::odd_sum;
use crate::exec::operations::predicate::condition;
use crate::exec::operations::rounding::{Float, finish};
use crate::exec::registers::{Raw, Registers};
use crate::program::op::{Conversion, FloatMode, Op, R, Rounding, Type};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute<V: HostSimd>(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::Move { wide: false, d, a } => registers.unary(mask, d, a, |a: u32| a),
        Op::Move { wide: true, d, a } => registers.unary(mask, d, a, |a: u64| a),
        Op::Pack {
            bits,
            count,
            d,
            parts,
        } => pack(registers, mask, bits, count, d, parts),
        Op::Unpack {
            bits,
            count,
            parts,
            a,
        } => unpack(registers, mask, bits, count, parts, a),
        Op::Convert {
            how,
            to_wide,
            from_wide,
            d,
            a,
        } => convert(registers, mask, how, to_wide, from_wide, d, a),
        Op::Select { wide, d, a, b, p } => {
            let bits = condition(registers, p);
            select(registers, mask, bits, wide, d, [a, b]);
        }
        Op::SelectSign {
            wide,
            float,
            ftz,
            d,
            a,
            b,
            c,
        } => {
            let bits = if float {
                registers.test::<V, _>(c, c, |c: f32, _| c.flushed(ftz) >= 0.0)
            } else {
                registers.test::<V, _>(c, c, |c: i32, _| c >= 0)
            };
            select(registers, mask, bits, wide, d, [a, b]);
        }
        Op::Cvta {
            space,
            to_space,
            wide,
            d,
            a,
        } => {
            let base = address_space::window(space);
            let base = if to_space { base.wrapping_neg() } else { base };
            if wide {
                registers.unary(mask, d, a, |a: u64| a.wrapping_add(base));
            } else {
                registers.unary(mask, d, a, |a: u32| a.wrapping_add(base as u32));
            }
        }
        Op::IsSpace { space, d, a } => {
            let bits =
                registers.test::<V, _>(a, a, |a: u64, _| address_space::space_at(a) == space);
            registers.write_predicate(d, mask, bits);
        }
        _ => unreachable!("not a data operation"),
    }
}

/// Of each lane the first value if its bit is set, otherwise the second.
#[inline(always)]
fn select(registers: &mut Registers, mask: u32, bits: u32, wide: bool, d: R, [a, b]: [R; 2]) {
    if wide {
        select_lanes::<u64>(registers, mask, bits, d, [a, b]);
    } else {
        select_lanes::<u32>(registers, mask, bits, d, [a, b]);
    }
}

#[inline(always)]
fn select_lanes<T: Raw>(registers: &mut Registers, mask: u32, bits: u32, d: R, [a, b]: [R; 2]) {
    let (a, b): (&[T; 32], &[T; 32]) = (registers.read(a), registers.read(b));
    let pick = |lane: usize| {
        if bits >> lane & 1 != 0 {
            a[lane]
        } else {
            b[lane]
        }
    };
    let out = std::array::from_fn(pick);
    registers.write(d, mask, &out);
}

/// `mov.b64 d, {a, b}` and the like: parts from low to high.
fn pack(registers: &mut Registers, mask: u32, bits: u8, count: u8, d: R, parts: [R; 4]) {
    let bits = u32::from(bits);
    let mut out = [0u64; 32];
    for (i, &part) in parts[..usize::from(count)].iter().enumerate() {
        let part: &[u32; 32] = registers.read(part);
        for lane in 0..32 {
            let value = u64::from(part[lane]) & (u64::MAX >> (64 - bits));
            out[lane] |= value << (bits * i as u32);
        }
    }
    registers.write_either(d, bits * u32::from(count) == 64, mask, &out);
}

fn unpack(registers: &mut Registers, mask: u32, bits: u8, count: u8, parts: [Option<R>; 4], a: R) {
    let bits = u32::from(bits);
    let all = registers.read_either(a, bits * u32::from(count) == 64);
    for (i, part) in parts.into_iter().enumerate() {
        if let Some(part) = part {
            let out = all.map(|x| (x >> (bits * i as u32) & (u64::MAX >> (64 - bits))) as u32);
            registers.write(part, mask, &out);
        }
    }
}

const SATURATED: FloatMode = FloatMode {
    saturate: true,
    ..FloatMode::PLAIN
};

#[inline(always)]
fn convert(
    registers: &mut Registers,
    mask: u32,
    how: Conversion,
    to_wide: bool,
    from_wide: bool,
    d: R,
    a: R,
) {
    let plain = !how.mode.saturate && !how.mode.ftz;
    match (how.to, how.from, to_wide, from_wide) {
        (Type::U64 | Type::S64, Type::U32, true, false) if plain => {
            registers.unary(mask, d, a, |a: u32| u64::from(a))
        }
        (Type::U64 | Type::S64, Type::S32, true, false) if plain => {
            registers.unary(mask, d, a, |a: i32| i64::from(a))
        }
        (Type::U32 | Type::S32, Type::U64 | Type::S64, false, true) if plain => {
            registers.unary(mask, d, a, |a: u64| a as u32)
        }
        (Type::F32, Type::S32, false, false) if plain && how.mode.rounding == Rounding::Nearest => {
            registers.unary(mask, d, a, |a: i32| a as f32);
        }
        (Type::F32, Type::U32, false, false) if plain && how.mode.rounding == Rounding::Nearest => {
            registers.unary(mask, d, a, |a: u32| a as f32);
        }
        (Type::F64, Type::F32, true, false) if plain && !how.integral => {
            registers.unary(mask, d, a, |a: f32| f64::from(a))
        }
        // As in `expf`.
        (Type::F32, Type::F32, false, false) if !how.integral && how.mode == SATURATED => {
            registers.unary(mask, d, a, |a: f32| finish(SATURATED, a, |_| 0.0));
        }
        (Type::F32, Type::F16, false, false) if plain => {
            registers.unary(mask, d, a, |a: u16| widen::<F16>(a) as f32)
        }
        (Type::F32, Type::Bf16, false, false) if plain => {
            registers.unary(mask, d, a, |a: u16| u32::from(a) << 16)
        }
        (Type::F16, Type::F32, false, false) if how.mode == FloatMode::PLAIN && !how.integral => {
            registers.unary(mask, d, a, |a: f32| narrow::<F16>(f64::from(a)))
        }
        (Type::Bf16, Type::F32, false, false) if how.mode == FloatMode::PLAIN && !how.integral => {
            registers.unary(mask, d, a, |a: f32| narrow::<BF16>(f64::from(a)))
        }
        _ => {
            let (from, mut to) = (registers.read_either(a, from_wide), [0; 32]);
            lanes(mask).for_each(|lane| to[lane] = convert_one(how, from[lane]));
            registers.write_either(d, to_wide, mask, &to);
        }
    }
}

/// Any conversion of one value: bits in, bits out, extended to 64 by the sign of the result type.
fn convert_one(how: Conversion, bits: u64) -> u64 {
    let Conversion {
        to,
        from,
        mode,
        integral,
    } = how;
    match (from.is_float(), to.is_float()) {
        (false, false) => int_bits(to, int_value(from, bits), mode.saturate),
        (false, true) => int_to_float(to, int_value(from, bits), mode),
        (true, false) => {
            let x = float_value(from, bits, mode.ftz);
            let x = rounded_to_integer(x, mode.rounding);
            // Conversion to an integer always saturates. NaN gives the top bit if one side is f64
            // or the result has 64 bits, else 0.
            if x.is_nan() {
                let top = from == Type::F64 || to.is_wide();
                int_bits(to, i128::from(top) << (to.bytes() * 8 - 1), false)
            } else {
                int_bits(to, x as i128, true)
            }
        }
        (true, true) => {
            let x = float_value(from, bits, mode.ftz);
            if x.is_nan() {
                return convert_nan(how, bits);
            }
            let x = if integral {
                rounded_to_integer(x, mode.rounding)
            } else {
                x
            };
            let mode = if integral {
                FloatMode {
                    rounding: Rounding::Nearest,
                    ..mode
                }
            } else {
                mode
            };
            narrow_float(to, x, mode)
        }
    }
}

/// A NaN as another float type. One of f64 keeps its sign and its first digits, except as bf16;
/// others do if they become f64, but not with `.ftz`. The rest become the NaN of arithmetic.
///
/// In integers, because compilers may choose a NaN's digits: LLVM has left out such a choice.
fn convert_nan(how: Conversion, bits: u64) -> u64 {
    let Conversion { to, from, mode, .. } = how;
    if mode.saturate {
        return 0;
    }
    let (sign, digits) = match from {
        Type::F16 => (bits >> 15, bits << 42),
        Type::Bf16 => (bits >> 15, bits << 45),
        Type::F32 => (bits >> 31, bits << 29),
        _ => (bits >> 63, bits),
    };
    let (sign, quiet) = ((sign & 1) << 63, digits & ((1 << 52) - 1) | 0xfff << 51);
    match to {
        Type::F64 if from == Type::F64 || !mode.ftz => sign | quiet,
        Type::F64 => 0x7fff_ffff_e000_0000,
        Type::F32 if from == Type::F64 => sign >> 32 | 0x7fc0_0000 | quiet >> 29 & 0x007f_ffff,
        Type::F16 if from == Type::F64 => sign >> 48 | 0x7e00 | quiet >> 42 & 0x03ff,
        Type::F32 => 0x7fff_ffff,
        _ => 0x7fff,
    }
}

fn int_value(ty: Type, bits: u64) -> i128 {
    match ty {
        Type::U8 => i128::from(bits as u8),
        Type::S8 => i128::from(bits as i8),
        Type::U16 => i128::from(bits as u16),
        Type::S16 => i128::from(bits as i16),
        Type::U32 => i128::from(bits as u32),
        Type::S32 => i128::from(bits as i32),
        Type::S64 => i128::from(bits as i64),
        Type::U64 | Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => i128::from(bits),
    }
}

/// The bits of `value` as `ty`, clamped to its range or truncated to its width, extended to 64
/// bits.
fn int_bits(ty: Type, value: i128, clamp: bool) -> u64 {
    let width = ty.bytes() * 8;
    let (low, high) = if ty.is_signed() {
        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    };
    let value = if clamp { value.clamp(low, high) } else { value };
    let kept = value & ((1i128 << width) - 1);
    int_value(ty, kept as u64) as u64
}

fn float_value(ty: Type, bits: u64, ftz: bool) -> f64 {
    match ty {
        Type::F16 => widen::<F16>(bits as u16),
        Type::Bf16 => widen::<BF16>(bits as u16),
        Type::F32 => f64::from(f32::from_bits(bits as u32).flushed(ftz)),
        _ => f64::from_bits(bits),
    }
}

fn rounded_to_integer(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

fn int_to_float(to: Type, value: i128, mode: FloatMode) -> u64 {
    match to {
        Type::F32 => {
            let x = finish(mode, value as f32, |x| (value - x as i128).signum() as f32);
            u64::from(x.to_bits())
        }
        Type::F64 => finish(mode, value as f64, |x| (value - x as i128).signum() as f64).to_bits(),
        // An integer of 64 bits may need more digits than f64 has. The sum has an odd last digit
        // then, so that the half is as if rounded once.
        _ => {
            let (high, low) = (value >> 32 << 32, value & 0xffff_ffff);
            narrow_float(to, odd_sum(high as f64, low as f64), mode)
        }
    }
}

/// `x` as a float type of at most 64 bits.
fn narrow_float(to: Type, x: f64, mode: FloatMode) -> u64 {
    let error = |near: f64| {
        if near.is_infinite() && x.is_infinite() {
            0.0
        } else {
            x - near
        }
    };
    match to {
        Type::F64 => finish(mode, x, |_| 0.0).to_bits(),
        Type::F32 => u64::from(
            finish(mode, x as f32, |near| {
                error(f64::from(near)).signum_or_zero() as f32
            })
            .to_bits(),
        ),
        Type::F16 => u64::from(narrow_by::<F16>(clamp_to_unit(x, mode), mode.rounding)),
        _ => u64::from(narrow_by::<BF16>(clamp_to_unit(x, mode), mode.rounding)),
    }
}

fn clamp_to_unit(x: f64, mode: FloatMode) -> f64 {
    match mode.saturate {
        true if x > 0.0 => x.min(1.0),
        // NaN and -0 too.
        true => 0.0,
        false => x,
    }
}

trait SignumOrZero {
    fn signum_or_zero(self) -> Self;
}

impl SignumOrZero for f64 {
    fn signum_or_zero(self) -> f64 {
        if self == 0.0 { 0.0 } else { self.signum() }
    }
}
