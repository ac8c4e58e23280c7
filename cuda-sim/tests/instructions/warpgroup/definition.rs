//! What a product gives, element by element: exact arithmetic as in `tensor_core`.

use cuda_sim::MmaMode;

use super::rig::{Case, Matrices};
use crate::instructions::matrix::{F16_FORM, Form, TF32_FORM};
use crate::instructions::matrix_float8::FORMATS;
use crate::instructions::rig::*;
use crate::instructions::tensor_core::{Addition, Number, fused, sum_in_steps};

/// A factor as its type has it, and as f32.
pub fn number(ty: &str, bits: u32) -> (Number, f32) {
    let bf16 = Form {
        fraction: 7,
        bias: 127,
        ..F16_FORM
    };
    match ty {
        "f16" => (F16_FORM.parts(bits), F16.float(bits.into()) as f32),
        "bf16" => (bf16.parts(bits), f32::from_bits(bits << 16)),
        "tf32" => {
            let number = TF32_FORM.parts(bits);
            let is_nan = f32::from_bits(bits).is_nan();
            let value = if is_nan {
                f32::NAN
            } else {
                f32::from_bits(bits & !0x1fff)
            };
            (
                Number {
                    nan: is_nan,
                    infinite: number.infinite && !is_nan,
                    ..number
                },
                value,
            )
        }
        _ => {
            let format = FORMATS.iter().find(|format| format.name == ty).unwrap();
            (format.number(bits), format.value(bits) as f32)
        }
    }
}

/// Element (row, column) of D.
pub fn element(case: &Case, mode: MmaMode, matrices: &Matrices, row: usize, column: usize) -> u32 {
    let depth = case.depth();
    let pairs = (0..depth).map(|k| {
        (
            matrices.a[row * depth + k],
            matrices.b[k * case.columns + column],
        )
    });
    let c = match case.adds {
        true => matrices.c[row * case.columns + column],
        false => 0,
    };
    if case.sums == "s32" {
        let value = |ty: &str, bits: u32| match ty {
            "s8" => i64::from(bits as u8 as i8),
            _ => i64::from(bits as u8),
        };
        let products = pairs.map(|(a, b)| value(case.a, a) * value(case.b, b));
        let sum = products.sum::<i64>() + i64::from(c as i32);
        return match case.saturate {
            true => sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32,
            false => sum as u32,
        };
    }
    let (mut numbers, mut values) = ([vec![], vec![]], [vec![], vec![]]);
    for (a, b) in pairs {
        for (i, (ty, bits)) in [(case.a, a), (case.b, b)].into_iter().enumerate() {
            let (mut number, mut value) = number(ty, bits);
            if case.negated[i] {
                number.negative = !number.negative;
                value = -value;
            }
            numbers[i].push(number);
            values[i].push(value);
        }
    }
    match mode {
        MmaMode::Fast => fused(case.sums, &values[0], &values[1], c),
        _ => {
            // MMA-Sim: all products in one step; of 8-bit floats 13 bits are kept.
            let kept = if case.bits() == 8 { 13 } else { 25 };
            let addition = Addition {
                step: depth,
                kept,
                digits: kept.min(23) as u32,
            };
            sum_in_steps(case.sums, &numbers[0], &numbers[1], c, &addition)
        }
    }
}
