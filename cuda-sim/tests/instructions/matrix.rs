//! Products of matrices, `mma`, against the definition in `tensor_core`.

use cuda_sim::{Class, MmaMode};
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::rig::*;
use super::tensor_core::{expected, expected_fast};
use crate::common;

/// A type of factors: its name, the bits of an element, of its fraction and of the exponent's bias;
/// the shape, the rows and columns of A, and the type of the sums.
pub struct Form {
    pub name: &'static str,
    pub bits: u32,
    pub fraction: u32,
    pub bias: i32,
    pub shape: &'static str,
    pub rows: usize,
    pub depth: usize,
    pub sums: &'static str,
}

pub const F16_FORM: Form = Form {
    name: "f16",
    bits: 16,
    fraction: 10,
    bias: 15,
    shape: "m16n8k16",
    rows: 16,
    depth: 16,
    sums: "f32",
};

const BF16_FORM: Form = Form {
    name: "bf16",
    fraction: 7,
    bias: 127,
    ..F16_FORM
};

pub const TF32_FORM: Form = Form {
    name: "tf32",
    bits: 32,
    fraction: 23,
    bias: 127,
    shape: "m16n8k8",
    rows: 16,
    depth: 8,
    sums: "f32",
};

const FORMS: [Form; 8] = [
    F16_FORM,
    Form {
        shape: "m16n8k8",
        depth: 8,
        ..F16_FORM
    },
    Form {
        sums: "f16",
        ..F16_FORM
    },
    Form {
        shape: "m16n8k8",
        depth: 8,
        sums: "f16",
        ..F16_FORM
    },
    BF16_FORM,
    Form {
        shape: "m16n8k8",
        depth: 8,
        ..BF16_FORM
    },
    TF32_FORM,
    Form {
        shape: "m16n8k4",
        depth: 4,
        ..TF32_FORM
    },
];

/// Products of 8-bit integers.
pub const BYTES: Form = Form {
    name: "",
    bits: 8,
    fraction: 0,
    bias: 0,
    shape: "m16n8k32",
    rows: 16,
    depth: 32,
    sums: "s32",
};

/// A product: A by rows, B by rows, C and D by rows; values as bits.
#[derive(Clone)]
pub struct Product {
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<u32>,
}

impl Form {
    pub fn product(&self, mut a: impl FnMut() -> u32, mut c: impl FnMut() -> u32) -> Product {
        Product {
            a: (0..self.rows * self.depth).map(|_| a()).collect(),
            b: (0..8 * self.depth).map(|_| a()).collect(),
            c: (0..self.rows * 8).map(|_| c()).collect(),
        }
    }

    /// The words of lane 4g + t: of A, of B and of C. The tables of the PTX manual, in which
    /// element i of A is in row g or g + 8 by turns, one register after the other, and sums lie
    /// side by side.
    fn fragments(&self, product: &Product, lane: usize) -> [Vec<u32>; 3] {
        let (g, t) = (lane / 4, lane % 4);
        let each = 32 / self.bits as usize;
        let registers = self.depth / (4 * each);
        let left = |i: usize| {
            let register = i / each;
            let (row, column) = (
                g + 8 * (register % 2),
                each * t + i % each + 4 * each * (register / 2),
            );
            product.a[row * self.depth + column]
        };
        let right = |i: usize| product.b[(each * t + i % each + 4 * each * (i / each)) * 8 + g];
        let sum = |i: usize| product.c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
        let packed = |count: usize, bits: u32, element: &dyn Fn(usize) -> u32| {
            let elements: Vec<u32> = (0..count).map(element).collect();
            let words = elements.chunks(32 / bits as usize);
            let pack = |word: u32, (i, element): (usize, &u32)| word | element << (i as u32 * bits);
            words
                .map(|word| word.iter().enumerate().fold(0, pack))
                .collect::<Vec<u32>>()
        };
        [
            packed(registers * each * self.rows / 8, self.bits, &left),
            packed(registers * each, self.bits, &right),
            packed(self.rows / 4, self.sum_bits(), &sum),
        ]
    }

    fn sum_bits(&self) -> u32 {
        if self.sums == "f16" { 16 } else { 32 }
    }

    /// Runs the products, one a warp, and returns D of each by rows.
    fn run(&self, products: &[Product]) -> Vec<Vec<u32>> {
        let Form {
            name, shape, sums, ..
        } = self;
        self.run_as(
            &format!("{shape}.row.col.{sums}.{name}.{name}.{sums}"),
            products,
        )
    }

    /// [`Form::run`], with the modifiers of the instruction.
    pub fn run_as(&self, modifiers: &str, products: &[Product]) -> Vec<Vec<u32>> {
        let stream = stream();
        let mut inputs = [const { Vec::new() }; 3];
        let mut counts = [0; 3];
        for product in products {
            for lane in 0..32 {
                let fragments = self.fragments(product, lane);
                counts = fragments.each_ref().map(Vec::len);
                for (input, mut words) in inputs.iter_mut().zip(fragments) {
                    words.resize(4, 0);
                    input.extend(words);
                }
            }
        }
        let names = |first: usize, count: usize, register: char| {
            let names: Vec<String> = (0..count)
                .map(|i| format!("%{register}{}", first + i))
                .collect();
            format!("{{{}}}", names.join(", "))
        };
        let [a, b, c] = counts;
        let register = if self.sums == "f32" { 'f' } else { 'r' };
        let [d_names, a_names, b_names, c_names] = [
            names(24, c, register),
            names(0, a, 'r'),
            names(4, b, 'r'),
            names(20, c, register),
        ];
        let target = if modifiers.contains(".e") { 89 } else { 80 };
        let text = format!(
            ".version 8.4\n.target sm_{target}\n.address_size 64\n\
             .visible .entry t(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{{\n\
             .reg .b32 %r<30>;\n.reg .f32 %f<30>;\n.reg .b64 %d<9>;\n\
             mov.u32 %r16, %ctaid.x;\nmov.u32 %r17, %tid.x;\nmad.lo.u32 %r16, %r16, 32, %r17;\n\
             mul.wide.u32 %d5, %r16, 16;\n\
             ld.param.u64 %d1, [pa];\nadd.s64 %d1, %d1, %d5;\nld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d1];\n\
             ld.param.u64 %d2, [pb];\nadd.s64 %d2, %d2, %d5;\nld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d2];\n\
             ld.param.u64 %d3, [pc];\nadd.s64 %d3, %d3, %d5;\n\
             ld.global.v4.b32 {{%{register}20, %{register}21, %{register}22, %{register}23}}, [%d3];\n\
             mov.b32 %{register}26, 0;\nmov.b32 %{register}27, 0;\n\
             mma.sync.aligned.{modifiers} {d_names}, {a_names}, {b_names}, {c_names};\n\
             ld.param.u64 %d4, [pd];\nadd.s64 %d4, %d4, %d5;\n\
             st.global.v4.b32 [%d4], {{%{register}24, %{register}25, %{register}26, %{register}27}};\nret;\n}}\n"
        );
        let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
        let kernel = module.load_function("t").unwrap();
        let [a, b, c] = inputs.map(|words| stream.clone_htod(&words).unwrap());
        let mut d = stream.alloc_zeros::<u32>(128 * products.len()).unwrap();
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&a).arg(&b).arg(&c).arg(&mut d);
        let shape = LaunchConfig {
            grid_dim: (products.len() as u32, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are those of the kernel, and each thread stays at its words.
        unsafe { launch.launch(shape) }.unwrap_or_else(|e| panic!("{modifiers}: {e}"));
        let words = stream.clone_dtoh(&d).unwrap();
        let bits = self.sum_bits();
        let matrix = |words: &[u32]| {
            let mut matrix = vec![0; 8 * self.rows];
            for lane in 0..32 {
                let (g, t) = (lane / 4, lane % 4);
                for i in 0..self.rows / 4 {
                    let at = i * bits as usize;
                    let sum = words[4 * lane + at / 32] >> (at % 32) & (u32::MAX >> (32 - bits));
                    matrix[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = sum;
                }
            }
            matrix
        };
        words.chunks(128).map(matrix).collect()
    }
}

#[track_caller]
fn check_products(form: &Form, products: &[Product]) {
    type Definition = fn(&Form, &[u32], &[u32], u32) -> u32;
    let modes: [(MmaMode, Definition); 2] =
        [(MmaMode::Exact, expected), (MmaMode::Fast, expected_fast)];
    for (mode, definition) in modes {
        cuda_sim::set_mma(Some(mode));
        let results = form.run(products);
        cuda_sim::set_mma(None);
        for (product, d) in products.iter().zip(results) {
            for (at, &got) in d.iter().enumerate() {
                let (row, column) = (at / 8, at % 8);
                let left = &product.a[row * form.depth..][..form.depth];
                let right: Vec<u32> = (0..form.depth).map(|k| product.b[k * 8 + column]).collect();
                let c = product.c[at];
                let wanted = definition(form, left, &right, c);
                assert_eq!(
                    got, wanted,
                    "{mode:?} {} {} {} at {row}, {column}: {got:#x}, not {wanted:#x}\n{left:x?}\n{right:x?}\n{c:#x}",
                    form.shape, form.name, form.sums
                );
            }
        }
    }
}

pub fn random(seed: u32) -> impl FnMut() -> u32 {
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
        let number = |ty: &str, x: i32| match ty {
            "f16" => float_bits(F16, x.into()) as u32,
            "bf16" => float_bits(Bf16, x.into()) as u32,
            _ => (x as f32).to_bits(),
        };
        // All elements differ in value or in place; sums in f16 stay below 2048.
        let a: Vec<i32> = (0..16 * form.depth as i32).map(|i| i % 19 - 9).collect();
        let b: Vec<i32> = (0..8 * form.depth as i32)
            .map(|i| i * 7 % 23 - 11)
            .collect();
        let c: Vec<i32> = (0..128).map(|i| 3 * i - 200).collect();
        let product = Product {
            a: a.iter().map(|&x| number(form.name, x)).collect(),
            b: b.iter().map(|&x| number(form.name, x)).collect(),
            c: c.iter().map(|&x| number(form.sums, x)).collect(),
        };
        for mode in [MmaMode::Exact, MmaMode::Fast] {
            cuda_sim::set_mma(Some(mode));
            let d = &form.run(std::slice::from_ref(&product))[0];
            cuda_sim::set_mma(None);
            for row in 0..16 {
                for column in 0..8 {
                    let terms =
                        (0..form.depth).map(|k| a[row * form.depth + k] * b[k * 8 + column]);
                    let wanted = terms.sum::<i32>() + c[row * 8 + column];
                    let got = match form.sums {
                        "f16" => F16.float(d[row * 8 + column].into()),
                        _ => f32::from_bits(d[row * 8 + column]).into(),
                    };
                    let Form {
                        name, shape, sums, ..
                    } = form;
                    assert_eq!(
                        got,
                        wanted.into(),
                        "{shape} {name} {sums} at {row}, {column}"
                    );
                }
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
            let sum = || match form.sums {
                "f16" => (bits() & 0x83ff) + 0x2c00 + ((round % 8) << 10),
                _ => (bits() & 0x80ff_ffff) + 0x3d00_0000 + ((round % 8) << 23),
            };
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
            let half_sums = form.sums == "f16";
            let sum = || match bits() % 16 {
                0 => {
                    if half_sums {
                        0x7bff
                    } else {
                        0x7f7f_ffff
                    }
                }
                1 => {
                    if half_sums {
                        0x8001
                    } else {
                        0x8000_0001
                    }
                }
                2 => 0,
                3 if round % 4 == 0 => {
                    if half_sums {
                        0xfc00
                    } else {
                        0xff80_0000
                    }
                }
                4 if round % 4 == 1 => {
                    if half_sums {
                        0x7e01
                    } else {
                        0x7f80_0001
                    }
                }
                _ => bits() & if half_sums { 0xbbff } else { 0xbfff_ffff },
            };
            products.push(form.product(value, sum));
        }
        products.push(form.product(|| 0, || 0));
        products.push(form.product(|| 0, || 1 << (form.sum_bits() - 1)));
        check_products(&form, &products);
    }
}

/// In two steps, each of which keeps 24 bits.
#[test]
fn products_of_an_a100() {
    common::run(
        "instructions::matrix::child_multiplies",
        "CUDA_SIM_DEVICE",
        "a100",
    );
}

#[test]
#[ignore = "run by the test above"]
fn child_multiplies() {
    products_of_small_integers_are_exact();
    sums_are_cut_off_below_the_largest_exponent();
    special_values_and_all_exponents();
}

#[test]
fn counters_of_products() {
    let byte_form = |name| Form { name, ..BYTES };
    let small = Form {
        shape: "m8n8k16",
        rows: 8,
        depth: 16,
        ..byte_form("u8")
    };
    let float8 = Form {
        sums: "f32",
        ..byte_form("e4m3")
    };
    for form in FORMS.into_iter().chain([byte_form("s8"), small, float8]) {
        let product = form.product(|| 0, || 0);
        let (_, launches) = cuda_sim::profile(|| form.run(&[product.clone(), product.clone()]));
        let total = launches[0].total;
        assert_eq!(total.of(Class::Tensor), 2);
        let operations = 2 * 2 * (form.rows * 8 * form.depth) as u64;
        let (floats, tf32, bytes) = match form.name {
            "s8" | "u8" => (0, 0, operations),
            "tf32" => (operations, operations, 0),
            _ => (operations, 0, 0),
        };
        let counted = (
            total.flops_tensor,
            total.flops_tensor_tf32,
            total.ops_tensor_int8,
        );
        assert_eq!(counted, (floats, tf32, bytes), "{}", form.name);
        assert_eq!(total.flops_f32, 0);
    }
}
