//! `mma.m8n8k4` of f16, four products at once, against the definition in `tensor_core`.

use std::env;

use cuda_sim::{Class, MmaMode};

use super::fragments::Mma;
use super::matrix::{F16_FORM, Form, random};
use super::rig::*;
use super::tensor_core::{expected, expected_fast, fused};
use crate::common;

/// Types of D and C.
const TYPES: [[&str; 2]; 3] = [["f16", "f16"], ["f32", "f16"], ["f32", "f32"]];

fn mma<'a>(opcode: &'a str, [d_type, c_type]: [&str; 2]) -> Mma<'a> {
    let sums = |ty| if ty == "f16" { 4 } else { 8 };
    Mma {
        opcode,
        target: 70,
        bits: 32,
        registers: [sums(d_type), 2, 2, sums(c_type)],
        in_place: &[],
    }
}

/// Registers of D: of some layouts into registers of its own, of others into those of C backwards,
/// or of A, B and C.
fn in_place(a_layout: &str, b_layout: &str, types: [&str; 2]) -> &'static [&'static str] {
    match (a_layout, b_layout, types) {
        ("row", "col", ["f16", _]) => &["%c3", "%c2", "%c1", "%c0"],
        ("row", "col", [_, "f16"]) => &["%c3", "%c2", "%c1", "%c0", "%b1", "%b0", "%a1", "%a0"],
        ("row", "col", _) => &["%c7", "%c6", "%c5", "%c4", "%c3", "%c2", "%c1", "%c0"],
        ("col", "row", ["f16", _]) => &["%a0", "%b1", "%a1", "%b0"],
        ("col", "row", _) => &["%a0", "%a1", "%b0", "%b1", "%c0", "%c1", "%c2", "%c3"],
        _ => &[],
    }
}

/// The formulas of the PTX manual: row and column of element `i` of a lane.
fn place_in_a(layout: &str, lane: usize, i: usize) -> (usize, usize) {
    match layout {
        "row" if lane < 16 => (lane % 4, i),
        "row" => (lane % 4 + 4, i),
        _ if lane < 16 => (i % 4, lane % 4),
        _ => (i % 4 + 4, lane % 4),
    }
}

fn place_in_b(layout: &str, lane: usize, i: usize) -> (usize, usize) {
    match layout {
        "row" if lane < 16 => (lane % 4, i),
        "row" => (lane % 4, i + 4),
        _ if lane < 16 => (i, lane % 4),
        _ => (i, lane % 4 + 4),
    }
}

fn place_in_sums(ty: &str, lane: usize, i: usize) -> (usize, usize) {
    let x = match ty {
        "f16" => lane % 4,
        _ => (lane & 0b1) + (i & 0b10),
    };
    let column = match ty {
        "f16" => i,
        _ => (i & 0b100) + (lane & 0b10) + (i & 0b1),
    };
    (if lane < 16 { x } else { x + 4 }, column)
}

/// Lanes 0 to 3 and 16 to 19 have the first of the four products, and so on.
fn computation(lane: usize) -> usize {
    lane % 16 / 4
}

/// Bits of four products by rows: A of 8 × 4, B of 4 × 8, C of 8 × 8.
struct Products {
    a: Vec<u32>,
    b: Vec<u32>,
    c: Vec<u32>,
}

impl Products {
    fn new(mut factor: impl FnMut() -> u32, mut sum: impl FnMut() -> u32) -> Products {
        Products {
            a: (0..4 * 32).map(|_| factor()).collect(),
            b: (0..4 * 32).map(|_| factor()).collect(),
            c: (0..4 * 64).map(|_| sum()).collect(),
        }
    }

    /// Runs the products in all layouts, types and modes. `wanted` is an element of D, of its type:
    /// from a row of A, a column of B, and C.
    fn check(
        &self,
        [d_type, c_type]: [&str; 2],
        wanted: impl Fn(MmaMode, &[u32], &[u32], u32) -> u32,
    ) {
        for a_layout in ["row", "col"] {
            for b_layout in ["row", "col"] {
                let opcode = format!(
                    "mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d_type}.f16.f16.{c_type}"
                );
                let mma = Mma {
                    in_place: in_place(a_layout, b_layout, [d_type, c_type]),
                    ..mma(&opcode, [d_type, c_type])
                };
                let a = held(&self.a, 4, 4, "f16", |lane, i| {
                    place_in_a(a_layout, lane, i)
                });
                let b = held(&self.b, 4, 8, "f16", |lane, i| {
                    place_in_b(b_layout, lane, i)
                });
                let c = held(&self.c, 8, 8, c_type, |lane, i| {
                    place_in_sums(c_type, lane, i)
                });
                for mode in [MmaMode::Exact, MmaMode::Fast] {
                    cuda_sim::set_mma(Some(mode));
                    let d = mma.run([&a, &b, &c]);
                    cuda_sim::set_mma(None);
                    for (lane, d) in d.iter().enumerate() {
                        for i in 0..8 {
                            let got = match d_type {
                                "f16" => d[i / 2] as u32 >> (16 * (i % 2)) & 0xffff,
                                _ => d[i] as u32,
                            };
                            let (row, column) = place_in_sums(d_type, lane, i);
                            let p = computation(lane);
                            let left = &self.a[32 * p + 4 * row..][..4];
                            let right: Vec<u32> =
                                (0..4).map(|k| self.b[32 * p + 8 * k + column]).collect();
                            let c = self.c[64 * p + 8 * row + column];
                            let wanted = wanted(mode, left, &right, c);
                            assert_eq!(
                                got, wanted,
                                "{mode:?} {opcode}: lane {lane}, element {i}: {got:#x}, not {wanted:#x}\n\
                                 {left:x?}\n{right:x?}\n{c:#x}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Fragments of four matrices with so many columns: `count` elements each, two of f16 in a
/// register.
fn held(
    matrices: &[u32],
    count: usize,
    columns: usize,
    ty: &str,
    place: impl Fn(usize, usize) -> (usize, usize),
) -> Vec<Vec<u64>> {
    let one = matrices.len() / 4;
    let lane = |lane: usize| {
        let elements = (0..count).map(|i| {
            let (row, column) = place(lane, i);
            u64::from(matrices[one * computation(lane) + columns * row + column])
        });
        let elements: Vec<u64> = elements.collect();
        match ty {
            "f16" => elements
                .chunks(2)
                .map(|pair| pair[0] | pair[1] << 16)
                .collect(),
            _ => elements,
        }
    };
    (0..32).map(lane).collect()
}

/// An element of D: C of f16 becomes f32 first if D is f32.
fn definition(types: [&'static str; 2]) -> impl Fn(MmaMode, &[u32], &[u32], u32) -> u32 {
    let [d_type, c_type] = types;
    let form = Form {
        shape: "m8n8k4",
        rows: 8,
        depth: 4,
        sums: d_type,
        ..F16_FORM
    };
    move |mode, row, column, c| {
        let c = match (d_type, c_type) {
            ("f32", "f16") => (F16.float(c.into()) as f32).to_bits(),
            _ => c,
        };
        match mode {
            MmaMode::Exact if is_native() => expected(&form, row, column, c),
            MmaMode::Exact => as_assembled(d_type, row, column, c),
            MmaMode::Fast => expected_fast(&form, row, column, c),
        }
    }
}

/// A child process is given a device of compute 7.5, whose tensor cores have these products.
fn is_native() -> bool {
    env::var("CUDA_SIM_DEVICE").as_deref() == Ok("t4")
}

/// The operations in f32 that NVIDIA's assembler 12.9 makes of the instruction for compute 8.0 and
/// 9.0.
fn as_assembled(d_type: &str, row: &[u32], column: &[u32], c: u32) -> u32 {
    let value = |bits: &u32| F16.float((*bits).into()) as f32;
    let a: Vec<f32> = row.iter().map(value).collect();
    let b: Vec<f32> = column.iter().map(value).collect();
    if d_type == "f16" {
        let first = a[1].mul_add(b[1], a[0] * b[0]);
        let second = a[3].mul_add(b[3], a[2] * b[2]);
        // A last product with one only rounds to f16.
        let sum = (value(&c) + first) + second;
        return fused("f16", &[sum], &[1.0], 0x8000);
    }
    let first = a[0].mul_add(b[0], 0.0);
    let second = a[1].mul_add(b[1], first);
    let third = a[2].mul_add(b[2], second);
    let sum = f32::from_bits(c) + a[3].mul_add(b[3], third);
    if sum.is_nan() {
        0x7fff_ffff
    } else {
        sum.to_bits()
    }
}

#[test]
fn small_integers_are_where_ptx_has_them() {
    for types in TYPES {
        let bits = |ty: &str, x: i32| match ty {
            "f16" => float_bits(F16, x.into()) as u32,
            _ => (x as f32).to_bits(),
        };
        let value = |ty: &str, bits: u32| match ty {
            "f16" => F16.float(bits.into()),
            _ => f32::from_bits(bits).into(),
        };
        let [d_type, c_type] = types;
        let (mut i, mut j) = (0, 0);
        // All elements differ in value or in place.
        let products = Products::new(
            || {
                i += 1;
                bits("f16", i * 7 % 31 - 15)
            },
            || {
                j += 1;
                bits(c_type, j - 100)
            },
        );
        products.check(types, |_, row, column, c| {
            let terms = row
                .iter()
                .zip(column)
                .map(|(&a, &b)| value("f16", a) * value("f16", b));
            bits(d_type, (terms.sum::<f64>() + value(c_type, c)) as i32)
        });
    }
}

#[test]
fn sums_are_cut_off_below_the_largest_exponent() {
    for types in TYPES {
        for round in 0..12 {
            let (mut factor, mut sum) = (random(round + 1), random(round + 100));
            // Exponents from 2⁰ down, and sums around them.
            let spread = 1 + round % 12;
            let products = Products::new(
                || {
                    let x = factor();
                    (x & 0x83ff | 0x3c00) - (((x >> 24 & 0xf) % spread) << 10)
                },
                || match types[1] {
                    "f16" => (sum() & 0x83ff) + 0x2c00 + ((round % 8) << 10),
                    _ => (sum() & 0x80ff_ffff) + 0x3d00_0000 + ((round % 8) << 23),
                },
            );
            products.check(types, definition(types));
        }
    }
}

#[test]
fn special_values_and_all_exponents() {
    const F16_VALUES: [u32; 9] = [0, 0x8000, 1, 0x83ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01];
    const F32_VALUES: [u32; 9] = [
        0,
        0x8000_0000,
        1,
        0x807f_ffff,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7f80_0001,
    ];
    for types in TYPES {
        for round in 0..12 {
            let (mut factor, mut sum) = (random(round + 7), random(round + 70));
            let products = Products::new(
                || match factor() {
                    // Mostly finite.
                    x if x % 16 == 0 => F16_VALUES[(x >> 8) as usize % 9],
                    x if x % 4 == 0 => F16_VALUES[(x >> 8) as usize % 6],
                    x => x >> 16 & 0xbbff,
                },
                || match (types[1], sum()) {
                    ("f16", x) if x % 8 == 0 => F16_VALUES[(x >> 8) as usize % 9],
                    ("f16", x) => x >> 16 & 0xbbff,
                    (_, x) if x % 8 == 0 => F32_VALUES[(x >> 8) as usize % 9],
                    (_, x) => x & 0xbfff_ffff,
                },
            );
            products.check(types, definition(types));
        }
        for zero in [0, 0x8000] {
            let sum = if types[1] == "f16" { zero } else { zero << 16 };
            Products::new(|| zero, || sum).check(types, definition(types));
        }
    }
}

/// Its tensor cores add four products at once, and a term keeps 24 bits.
#[test]
fn quad_pairs_of_a_t4() {
    common::run(
        "instructions::matrix_quad_pairs::child_multiplies",
        "CUDA_SIM_DEVICE",
        "t4",
    );
}

#[test]
#[ignore = "run by the test above"]
fn child_multiplies() {
    small_integers_are_where_ptx_has_them();
    sums_are_cut_off_below_the_largest_exponent();
    special_values_and_all_exponents();
}

#[test]
fn counters_of_quad_pairs() {
    for [d_type, c_type] in TYPES {
        let opcode = format!("mma.sync.aligned.m8n8k4.col.row.{d_type}.f16.f16.{c_type}");
        let mma = mma(&opcode, [d_type, c_type]);
        let [_, a, b, c] = &mma.registers.map(|count| vec![vec![0; count]; 64]);
        let (_, launches) = cuda_sim::profile(|| mma.run([a, b, c]));
        let total = launches[0].total;
        assert_eq!(total.of(Class::Tensor), 2);
        assert_eq!(total.flops_tensor, 2 * 4 * 2 * 8 * 8 * 4);
        assert_eq!((total.flops_tensor_f64, total.ops_tensor_int8), (0, 0));
    }
}
