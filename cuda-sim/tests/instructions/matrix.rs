//! Matrices of a warp: `mma` against sums of integers, `ldmatrix` against its layout.

use std::env;

use cuda_sim::Class;
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::common;
use crate::rig::*;

/// A type of factors: its name and shape, the bits of fraction and of the exponent's bias, and the columns of A.
struct Form {
    name: &'static str,
    shape: &'static str,
    bits: u32,
    fraction: u32,
    bias: i32,
    depth: usize,
}

const F16_FORM: Form = Form {
    name: "f16",
    shape: "m16n8k16",
    bits: 16,
    fraction: 10,
    bias: 15,
    depth: 16,
};

const BF16_FORM: Form = Form {
    name: "bf16",
    shape: "m16n8k16",
    bits: 16,
    fraction: 7,
    bias: 127,
    depth: 16,
};

const TF32_FORM: Form = Form {
    name: "tf32",
    shape: "m16n8k8",
    bits: 32,
    fraction: 23,
    bias: 127,
    depth: 8,
};

const FORMS: [Form; 3] = [F16_FORM, BF16_FORM, TF32_FORM];

/// A product: A by rows, B by rows, C and D by rows; values as bits.
#[derive(Clone)]
struct Product {
    a: Vec<u32>,
    b: Vec<u32>,
    c: Vec<u32>,
}

impl Form {
    fn product(&self, mut a: impl FnMut() -> u32, mut c: impl FnMut() -> u32) -> Product {
        Product {
            a: (0..16 * self.depth).map(|_| a()).collect(),
            b: (0..8 * self.depth).map(|_| a()).collect(),
            c: (0..16 * 8).map(|_| c()).collect(),
        }
    }

    /// The words of lane 4g + t: of A, of B and of C. The tables of the PTX manual.
    fn fragments(&self, product: &Product, lane: usize) -> ([u32; 4], [u32; 2], [u32; 4]) {
        let (g, t) = (lane / 4, lane % 4);
        let a = |row: usize, column: usize| product.a[row * self.depth + column];
        let b = |row: usize, column: usize| product.b[row * 8 + column];
        let c = |row: usize, column: usize| product.c[row * 8 + column];
        let sums = [
            c(g, 2 * t),
            c(g, 2 * t + 1),
            c(g + 8, 2 * t),
            c(g + 8, 2 * t + 1),
        ];
        if self.bits == 32 {
            let a = [a(g, t), a(g + 8, t), a(g, t + 4), a(g + 8, t + 4)];
            return (a, [b(t, g), b(t + 4, g)], sums);
        }
        let a2 = |row, column| a(row, column) | a(row, column + 1) << 16;
        let b2 = |row, column| b(row, column) | b(row + 1, column) << 16;
        let left = [
            a2(g, 2 * t),
            a2(g + 8, 2 * t),
            a2(g, 2 * t + 8),
            a2(g + 8, 2 * t + 8),
        ];
        (left, [b2(2 * t, g), b2(2 * t + 8, g)], sums)
    }

    /// Runs the products, one a warp, and returns D of each by rows.
    fn run(&self, products: &[Product]) -> Vec<Vec<u32>> {
        let stream = stream();
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for product in products {
            for lane in 0..32 {
                let (left, right, sums) = self.fragments(product, lane);
                a.extend(left);
                b.extend(right);
                c.extend(sums);
            }
        }
        let Form { name, shape, .. } = self;
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64\n\
             .visible .entry t(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{{\n\
             .reg .b32 %r<20>;\n.reg .f32 %f<9>;\n.reg .b64 %d<9>;\n\
             mov.u32 %r16, %ctaid.x;\nmov.u32 %r17, %tid.x;\nmad.lo.u32 %r16, %r16, 32, %r17;\n\
             mul.wide.u32 %d5, %r16, 16;\nmul.wide.u32 %d6, %r16, 8;\n\
             ld.param.u64 %d1, [pa];\nadd.s64 %d1, %d1, %d5;\nld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d1];\n\
             ld.param.u64 %d2, [pb];\nadd.s64 %d2, %d2, %d6;\nld.global.v2.u32 {{%r4, %r5}}, [%d2];\n\
             ld.param.u64 %d3, [pc];\nadd.s64 %d3, %d3, %d5;\nld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%d3];\n\
             mma.sync.aligned.{shape}.row.col.f32.{name}.{name}.f32 \
             {{%f4, %f5, %f6, %f7}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};\n\
             ld.param.u64 %d4, [pd];\nadd.s64 %d4, %d4, %d5;\nst.global.v4.f32 [%d4], {{%f4, %f5, %f6, %f7}};\n\
             ret;\n}}\n"
        );
        let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
        let kernel = module.load_function("t").unwrap();
        let [a, b, c] = [a, b, c].map(|words| stream.clone_htod(&words).unwrap());
        let mut d = stream.alloc_zeros::<u32>(128 * products.len()).unwrap();
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&a).arg(&b).arg(&c).arg(&mut d);
        let shape = LaunchConfig {
            grid_dim: (products.len() as u32, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are those of the kernel, and each thread stays at its words.
        unsafe { launch.launch(shape) }.unwrap();
        let words = stream.clone_dtoh(&d).unwrap();
        let matrix = |words: &[u32]| {
            let mut matrix = vec![0; 128];
            for (at, &word) in words.iter().enumerate() {
                let (g, t, i) = (at / 16, at / 4 % 4, at % 4);
                matrix[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = word;
            }
            matrix
        };
        words.chunks(128).map(matrix).collect()
    }

    /// Significand and exponent of a factor: its size is significand · 2^(exponent - fraction).
    fn parts(&self, bits: u32) -> Number {
        let bits = if self.bits == 32 {
            bits & !0x1fff
        } else {
            bits << 16
        };
        // As if it had 32 bits.
        let width = 31 - if self.bits == 32 { 0 } else { 16 };
        let size = (bits & 0x7fff_ffff) >> (31 - width);
        let field = (size >> self.fraction) as i32;
        let digits = i128::from(size & ((1 << self.fraction) - 1));
        let largest = 2 * self.bias + 1;
        Number {
            negative: bits >> 31 == 1,
            digits: if field == 0 {
                digits
            } else {
                digits | 1 << self.fraction
            },
            exponent: field.max(1) - self.bias,
            fraction: self.fraction as i32,
            infinite: field == largest && digits == 0,
            nan: field == largest && digits != 0,
        }
    }
}

/// Size digits · 2^(exponent - fraction).
#[derive(Clone, Copy, Debug)]
struct Number {
    negative: bool,
    digits: i128,
    exponent: i32,
    fraction: i32,
    infinite: bool,
    nan: bool,
}

fn f32_parts(bits: u32) -> Number {
    let form = Form {
        fraction: 23,
        bias: 127,
        ..TF32_FORM
    };
    let kept = form.parts(bits & !0x1fff);
    let low = i128::from(bits & 0x1fff);
    let nan = kept.nan || (kept.infinite && low != 0);
    Number {
        digits: kept.digits | low,
        nan,
        infinite: kept.infinite && !nan,
        ..kept
    }
}

/// How tensor cores add.
struct Addition {
    /// Products of 16-bit factors that are added at once; of tf32 they are half as many.
    step: usize,
    /// Bits below the largest exponent that a term keeps.
    kept: i32,
}

/// That of the tests' device, and of the one that a child process is given.
fn addition() -> Addition {
    match env::var("CUDA_SIM_DEVICE").as_deref() {
        Ok("a100") => Addition { step: 8, kept: 24 },
        _ => Addition { step: 16, kept: 25 },
    }
}

/// A sum of products and `c` as the device's tensor cores have it.
fn expected(form: &Form, row: &[u32], column: &[u32], c: u32) -> u32 {
    let mut terms = vec![f32_parts(c)];
    for (&a, &b) in row.iter().zip(column) {
        let (a, b) = (form.parts(a), form.parts(b));
        let infinite = a.infinite || b.infinite;
        let zero = (a.digits == 0 && !a.infinite) || (b.digits == 0 && !b.infinite);
        terms.push(Number {
            negative: a.negative != b.negative,
            digits: a.digits * b.digits,
            exponent: a.exponent + b.exponent,
            fraction: a.fraction + b.fraction,
            nan: a.nan || b.nan || (infinite && zero),
            infinite,
        });
    }
    let infinite = |negative: bool| {
        let mut terms = terms.iter();
        terms.any(|term| term.infinite && term.negative == negative)
    };
    match (infinite(false), infinite(true)) {
        _ if terms.iter().any(|term| term.nan) => return 0x7fff_ffff,
        (true, true) => return 0x7fff_ffff,
        (true, false) => return 0x7f80_0000,
        (false, true) => return 0xff80_0000,
        (false, false) => {}
    }
    let Addition { step, kept } = addition();
    let products = terms[1..].chunks(if form.bits == 32 { step / 2 } else { step });
    let mut sum = c;
    for products in products {
        sum = sum_of(f32_parts(sum), products, kept);
        if f32_parts(sum).infinite {
            break;
        }
    }
    sum
}

/// The terms of one step, all cut off `kept` bits below the largest exponent, and added.
fn sum_of(first: Number, products: &[Number], kept: i32) -> u32 {
    let terms: Vec<Number> = [&[first], products].concat();
    let nonzero = terms.iter().filter(|term| term.digits != 0);
    let Some(largest) = nonzero.map(|term| term.exponent).max() else {
        return 0;
    };
    let sum: i128 = terms
        .iter()
        .map(|term| {
            let shift = term.exponent - term.fraction - largest + kept;
            let size = match shift {
                0.. => term.digits << shift,
                _ => term.digits >> (-shift).min(127),
            };
            if term.negative { -size } else { size }
        })
        .sum();
    toward_zero(sum, largest - kept)
}

/// `sum` · 2^`scale` as f32.
fn toward_zero(sum: i128, scale: i32) -> u32 {
    let sign = if sum < 0 { 1 << 31 } else { 0 };
    let size = sum.unsigned_abs();
    if size == 0 {
        return 0;
    }
    let top = 127 - size.leading_zeros() as i32 + scale;
    if top > 127 {
        return sign | 0x7f80_0000;
    }
    // Units of the last digit: 2^(top - 23), or that of subnormals.
    let unit = (top - 23).max(-149);
    let digits = match scale - unit {
        shift @ 0.. => size << shift,
        shift => size >> (-shift).min(127),
    } as u32;
    match top < -126 {
        true => sign | digits,
        false => sign | ((((top + 126) as u32) << 23) + digits),
    }
}

#[track_caller]
fn check_products(form: &Form, products: &[Product]) {
    for (product, d) in products.iter().zip(form.run(products)) {
        for (at, &got) in d.iter().enumerate() {
            let (row, column) = (at / 8, at % 8);
            let left = &product.a[row * form.depth..][..form.depth];
            let right: Vec<u32> = (0..form.depth).map(|k| product.b[k * 8 + column]).collect();
            let wanted = expected(form, left, &right, product.c[at]);
            assert_eq!(
                got, wanted,
                "{} at {row}, {column}: {got:#x}, not {wanted:#x}\n{left:x?}\n{right:x?}\n{:#x}",
                form.name, product.c[at]
            );
        }
    }
}

fn random(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    }
}

#[test]
fn products_of_small_integers_are_exact() {
    for form in FORMS {
        let number = |x: i32| match form.name {
            "f16" => float_bits(F16, x.into()) as u32,
            "bf16" => float_bits(Bf16, x.into()) as u32,
            _ => (x as f32).to_bits(),
        };
        // All elements differ in value or in place.
        let a: Vec<i32> = (0..16 * form.depth as i32).map(|i| i % 61 - 30).collect();
        let b: Vec<i32> = (0..8 * form.depth as i32)
            .map(|i| i * 7 % 53 - 26)
            .collect();
        let c: Vec<i32> = (0..128).map(|i| 100 * i - 5000).collect();
        let product = Product {
            a: a.iter().map(|&x| number(x)).collect(),
            b: b.iter().map(|&x| number(x)).collect(),
            c: c.iter().map(|&x| (x as f32).to_bits()).collect(),
        };
        let d = &form.run(&[product])[0];
        for row in 0..16 {
            for column in 0..8 {
                let terms = (0..form.depth).map(|k| a[row * form.depth + k] * b[k * 8 + column]);
                let wanted = terms.sum::<i32>() + c[row * 8 + column];
                let got = f32::from_bits(d[row * 8 + column]);
                assert_eq!(got, wanted as f32, "{} at {row}, {column}", form.name);
            }
        }
    }
}

#[test]
fn sums_are_cut_off_below_the_largest_exponent() {
    for form in FORMS {
        let mut bits = random(0x1234_5678);
        let one = (form.bias as u32) << form.fraction;
        let mut products = Vec::new();
        for round in 0..40u32 {
            // Exponents near one; of some rounds, further apart.
            let spread = 1 + round % 12;
            let mut draw = random(round + 1);
            let value = move || {
                let x = draw();
                let digits = x & ((1 << form.fraction) - 1);
                let exponent = x >> 24 & 0xf;
                let sign = x >> 31 << (form.bits - 1);
                sign | ((one | digits) - ((exponent % spread) << form.fraction))
            };
            let sum = || (bits() & 0x80ff_ffff) + 0x3d00_0000 + ((round % 8) << 23);
            products.push(form.product(value, sum));
        }
        check_products(&form, &products);
    }
}

#[test]
fn special_values_and_all_exponents() {
    for form in FORMS {
        let mut bits = random(77);
        let infinity = (2 * form.bias as u32 + 1) << form.fraction;
        let sign = 1 << (form.bits - 1);
        let least = if form.bits == 32 { 0x2000 } else { 1 };
        let special = [
            0,
            sign,
            least,
            sign | least,
            infinity - least,
            infinity,
            infinity + least,
        ];
        let mut products = Vec::new();
        for round in 0..40u32 {
            let mut draw = random(round + 1000);
            let value = move || {
                let x = draw();
                // Every value; now and then a special one, most of them finite.
                let all = x >> (32 - form.bits);
                match x % 64 {
                    0 => special[(x >> 6) as usize % special.len()],
                    1..8 => special[(x >> 6) as usize % 5],
                    _ if all & !sign >= infinity => all & !infinity,
                    _ => all,
                }
            };
            let sum = || match bits() % 16 {
                0 => 0x7f7f_ffff,
                1 => 0x8000_0001,
                2 => 0,
                3 if round % 4 == 0 => 0xff80_0000,
                _ => bits() & 0xbfff_ffff,
            };
            products.push(form.product(value, sum));
        }
        products.push(form.product(|| 0, || 0));
        products.push(form.product(|| 0, || 0x8000_0000));
        check_products(&form, &products);
    }
}

/// In two steps, each of which keeps 24 bits.
#[test]
fn products_of_an_a100() {
    common::run("matrix::child_multiplies", "CUDA_SIM_DEVICE", "a100");
}

#[test]
#[ignore = "run by the test above"]
fn child_multiplies() {
    products_of_small_integers_are_exact();
    sums_are_cut_off_below_the_largest_exponent();
    special_values_and_all_exponents();
}

/// Four matrices of 8 rows with 8 elements each, whose value is 8 · row + column, of all 32 rows. `order` is the row whose address
/// a lane has; the fragments of lane l.
fn matrices(which: &str, count: usize, order: impl Fn(u64) -> u64) -> Vec<Vec<u64>> {
    let module = ".shared .align 16 .b8 tile[512];\n";
    let names = ["%r10", "%r11", "%r12", "%r13"];
    (0..count)
        .map(|matrix| {
            let body = format!(
                "mov.u32 %r5, tile;\nmov.u32 %r6, %tid.x;\nmad.lo.u32 %r7, %r6, 16, %r5;\n\
                 mul.lo.u32 %r8, %r6, 524296;\nadd.u32 %r8, %r8, 65536;\n\
                 st.shared.u32 [%r7], %r8;\nadd.u32 %r8, %r8, 131074;\nst.shared.u32 [%r7+4], %r8;\n\
                 add.u32 %r8, %r8, 131074;\nst.shared.u32 [%r7+8], %r8;\nadd.u32 %r8, %r8, 131074;\n\
                 st.shared.u32 [%r7+12], %r8;\nbar.sync 0;\n\
                 mad.lo.u32 %r7, {{a}}, 16, %r5;\n\
                 ldmatrix.sync.aligned.m8n8.{which}.shared.b16 {{{}}}, [%r7];\nmov.u32 {{d}}, {};",
                names[..count].join(", "),
                names[matrix]
            );
            // Lanes that name no row have an address far away.
            let row = |lane: u64| if lane < 8 * count as u64 { order(lane) } else { 1 << 24 };
            run_in(module, &body, U32, &[U32], &[(0..32).map(row).collect()])
        })
        .collect()
}

#[test]
fn rows_and_columns_of_loaded_matrices() {
    let order = |lane: u64| (lane * 5 + 3) % 32;
    for (name, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for transposed in [false, true] {
            let which = format!("{name}{}", if transposed { ".trans" } else { "" });
            for (matrix, fragment) in matrices(&which, count, order).iter().enumerate() {
                for (lane, &got) in fragment.iter().enumerate() {
                    let (g, t) = (lane as u64 / 4, lane as u64 % 4);
                    let element = |row, column| 8 * order(8 * matrix as u64 + row) + column;
                    let wanted = match transposed {
                        false => element(g, 2 * t) | element(g, 2 * t + 1) << 16,
                        true => element(2 * t, g) | element(2 * t + 1, g) << 16,
                    };
                    assert_eq!(got, wanted, "{which}, matrix {matrix}, lane {lane}");
                }
            }
        }
    }
}

#[test]
fn counters_of_products_and_matrix_loads() {
    for form in FORMS {
        let product = form.product(|| 0, || 0);
        let (_, launches) = cuda_sim::profile(|| form.run(&[product.clone(), product.clone()]));
        let total = launches[0].total;
        assert_eq!(total.of(Class::Tensor), 2);
        assert_eq!(total.flops_tensor, 2 * 2 * 16 * 8 * form.depth as u64);
    }
    // Rows side by side: eight of them a wavefront.
    let (_, launches) = cuda_sim::profile(|| matrices("x4", 4, |lane| lane));
    let loads = launches[0].total.shared_loads;
    assert_eq!((loads.requests, loads.wavefronts, loads.ideal), (1, 4, 4));
    assert_eq!(loads.bytes, 512);
    // Every second row: rows 0, 8, … of a matrix lie in the same banks.
    let (_, launches) = cuda_sim::profile(|| matrices("x2", 2, |lane| 2 * lane));
    let loads = launches[0].total.shared_loads;
    assert_eq!((loads.requests, loads.wavefronts, loads.ideal), (1, 4, 2));
}
