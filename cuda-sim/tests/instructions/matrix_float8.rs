//! Products of matrices of 8-bit floats, `mma` of e4m3 and e5m2, against the definition in
//! `tensor_core`.

use std::env;

use cuda_sim::MmaMode;

use super::matrix::{BYTES, F16_FORM, Form, Product, random};
use super::rig::*;
use super::tensor_core::{Addition, Number, addition, fused, sum_in_steps};
use crate::common;

/// An 8-bit float: its name, bits of its fraction, the bias, the largest finite value, and infinity
/// if it has one.
pub struct Format {
    pub name: &'static str,
    fraction: u32,
    bias: i32,
    largest: u32,
    infinity: Option<u32>,
}

pub const FORMATS: [Format; 2] = [
    Format {
        name: "e4m3",
        fraction: 3,
        bias: 7,
        largest: 0x7e,
        infinity: None,
    },
    Format {
        name: "e5m2",
        fraction: 2,
        bias: 15,
        largest: 0x7b,
        infinity: Some(0x7c),
    },
];

impl Format {
    pub fn number(&self, byte: u32) -> Number {
        let size = byte & 0x7f;
        let (field, digits) = (size >> self.fraction, size & ((1 << self.fraction) - 1));
        let infinite = Some(size) == self.infinity;
        let hidden = if field == 0 { 0 } else { 1 << self.fraction };
        Number {
            negative: byte >> 7 == 1,
            digits: i128::from(digits | hidden),
            exponent: (field as i32).max(1) - self.bias,
            fraction: self.fraction as i32,
            infinite,
            nan: size > self.largest && !infinite,
        }
    }

    pub fn value(&self, byte: u32) -> f64 {
        let Number {
            negative,
            digits,
            exponent,
            fraction,
            infinite,
            nan,
        } = self.number(byte);
        let size = match (infinite, nan) {
            (true, _) => f64::INFINITY,
            (_, true) => f64::NAN,
            _ => digits as f64 * 2f64.powi(exponent - fraction),
        };
        if negative { -size } else { size }
    }

    /// Operand of the device's tensor cores: on compute 9.0 an f16 of this value.
    fn given(&self) -> Vec<Number> {
        let is_native = is_native();
        let number = |byte| match is_native {
            true => self.number(byte),
            false => F16_FORM.parts(float_bits(F16, self.value(byte)) as u32),
        };
        (0..256).map(number).collect()
    }
}

/// A child process is given a device of compute 8.9, whose tensor cores have 8-bit floats.
fn is_native() -> bool {
    env::var("CUDA_SIM_DEVICE").as_deref() == Ok("rtx4090")
}

const NATIVE: Addition = Addition {
    step: 16,
    kept: 13,
    digits: 13,
};

/// Code of NVIDIA's assembler 12.9 for compute 9.0: two products of f16 from zero on, the first
/// with the first two of every four columns, and an addition of C.
fn as_assembled(sums: &str, row: &[Number], column: &[Number], c: u32) -> u32 {
    let half = |numbers: &[Number], first: usize| -> Vec<Number> {
        let chosen = numbers.chunks(4).flat_map(|four| &four[first..first + 2]);
        chosen.copied().collect()
    };
    let mut sum = 0;
    for first in [0, 2] {
        sum = sum_in_steps(
            sums,
            &half(row, first),
            &half(column, first),
            sum,
            &addition(),
        );
    }
    let value = match sums {
        "f16" => F16.float(sum.into()) as f32,
        _ => f32::from_bits(sum),
    };
    fused(sums, &[value], &[1.0], c)
}

fn check(form: &Form, products: &[Product]) {
    for a in &FORMATS {
        for b in &FORMATS {
            let Form { shape, sums, .. } = form;
            let modifiers = format!("{shape}.row.col.{sums}.{}.{}.{sums}", a.name, b.name);
            let (a_given, b_given) = (a.given(), b.given());
            for mode in [MmaMode::Exact, MmaMode::Fast] {
                cuda_sim::set_mma(Some(mode));
                let results = form.run_as(&modifiers, products);
                cuda_sim::set_mma(None);
                for (product, d) in products.iter().zip(results) {
                    for (at, &got) in d.iter().enumerate() {
                        let (row, column) = (at / 8, at % 8);
                        let left = &product.a[row * form.depth..][..form.depth];
                        let right = (0..form.depth).map(|k| product.b[k * 8 + column]);
                        let right: Vec<u32> = right.collect();
                        let c = product.c[at];
                        let wanted = match mode {
                            MmaMode::Exact => {
                                let numbers = |given: &[Number], bytes: &[u32]| -> Vec<Number> {
                                    bytes.iter().map(|&byte| given[byte as usize]).collect()
                                };
                                let (left, right) =
                                    (numbers(&a_given, left), numbers(&b_given, &right));
                                match is_native() {
                                    true => sum_in_steps(sums, &left, &right, c, &NATIVE),
                                    false => as_assembled(sums, &left, &right, c),
                                }
                            }
                            MmaMode::Fast => {
                                let values = |format: &Format, bytes: &[u32]| -> Vec<f32> {
                                    bytes.iter().map(|&x| format.value(x) as f32).collect()
                                };
                                fused(sums, &values(a, left), &values(b, &right), c)
                            }
                        };
                        assert_eq!(
                            got, wanted,
                            "{mode:?} {modifiers} at {row}, {column}: {got:#x}, not {wanted:#x}\n\
                             {left:x?}\n{right:x?}\n{c:#x}"
                        );
                    }
                }
            }
        }
    }
}

fn forms() -> impl Iterator<Item = Form> {
    [("m16n8k16", 16), ("m16n8k32", 32)]
        .into_iter()
        .flat_map(|(shape, depth)| {
            ["f32", "f16"].map(|sums| Form {
                shape,
                depth,
                sums,
                ..BYTES
            })
        })
}

/// Values near one, whose sums have more digits than are kept, and values of all sizes.
#[test]
fn sums_are_cut_off_below_the_largest_exponent() {
    for form in forms() {
        let products: Vec<Product> = (0..12)
            .map(|round| {
                let (mut factor, mut sum) = (random(round + 1), random(round + 50));
                let mask = [0x87, 0x8f, 0x9f, 0xff][round as usize % 4];
                form.product(
                    // From 0.5 on as e4m3 and from 2⁻³ on as e5m2, or anything but NaN and
                    // infinity.
                    || match (mask, factor() >> 24) {
                        (0xff, x) if x & 0x7f > 0x7b => x & 0x83,
                        (0xff, x) => x,
                        (mask, x) => (x & mask) + 0x30,
                    },
                    || match form.sums {
                        "f16" => (sum() & 0x83ff) + 0x2c00 + ((round % 8) << 10),
                        _ => (sum() & 0x80ff_ffff) + 0x3d00_0000 + ((round % 8) << 23),
                    },
                )
            })
            .collect();
        check(&form, &products);
    }
}

#[test]
fn special_values_and_subnormals() {
    const VALUES: [u32; 10] = [0, 0x80, 1, 0x87, 0x7b, 0x7e, 0x7c, 0xfc, 0x7f, 0xfd];
    for form in forms() {
        let mut products: Vec<Product> = (0..12)
            .map(|round| {
                let (mut factor, mut sum) = (random(round + 7), random(round + 70));
                form.product(
                    || match factor() {
                        x if x % 64 == 0 => VALUES[(x >> 8) as usize % 10],
                        x if x % 4 == 0 => VALUES[(x >> 8) as usize % 5],
                        x => x >> 24 & 0xbf,
                    },
                    || match (form.sums, sum()) {
                        ("f16", x) if x % 8 == 0 => {
                            [0x7bff, 0xfc00, 0x7e01, 0x8001][(x >> 8) as usize % 4]
                        }
                        ("f16", x) => x >> 16 & 0xbbff,
                        (_, x) if x % 8 == 0 => {
                            [0x7f7f_ffff, 0xff80_0000, 0x7f80_0001, 0x8000_0001]
                                [(x >> 8) as usize % 4]
                        }
                        (_, x) => x & 0xbfff_ffff,
                    },
                )
            })
            .collect();
        let (largest, minus_zero) = match form.sums {
            "f16" => (0x7bff, 0x8000),
            _ => (0x7f7f_ffff, 0x8000_0000),
        };
        products.push(form.product(|| 0, || 0));
        products.push(form.product(|| 0, || minus_zero));
        products.push(form.product(|| 0x80, || largest));
        // Sums beyond the largest one.
        products.push(form.product(|| 0x7b, || largest));
        check(&form, &products);
    }
}

/// Tensor cores of compute 8.9 keep 13 bits.
#[test]
fn float8_of_an_rtx_4090() {
    common::run(
        "instructions::matrix_float8::child_multiplies",
        "CUDA_SIM_DEVICE",
        "rtx4090",
    );
}

#[test]
#[ignore = "run by the test above"]
fn child_multiplies() {
    sums_are_cut_off_below_the_largest_exponent();
    special_values_and_subnormals();
}
