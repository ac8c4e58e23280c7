//! WMMA: products of small integers, loaded from and stored to matrices with gaps, in all shapes, types and layouts.

use cuda_sim::Class;
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::rig::*;

/// A type of elements: its name, and its bytes in memory.
type Element = (&'static str, usize);

const F16_TYPE: Element = ("f16", 2);
const F32_TYPE: Element = ("f32", 4);
const S32_TYPE: Element = ("s32", 4);

/// Types of factors and sums.
const TYPES: [(Element, Element); 6] = [
    (F16_TYPE, F32_TYPE),
    (F16_TYPE, F16_TYPE),
    (("bf16", 2), F32_TYPE),
    (("tf32", 4), F32_TYPE),
    (("s8", 1), S32_TYPE),
    (("u8", 1), S32_TYPE),
];

/// Rows, columns, depth.
const SHAPES: [[usize; 3]; 4] = [[16, 16, 16], [32, 8, 16], [8, 32, 16], [16, 16, 8]];

/// Bits of a whole number.
fn bits((name, _): Element, x: i32) -> u32 {
    match name {
        "f16" => float_bits(F16, x.into()) as u32,
        "bf16" => (x as f32).to_bits() >> 16,
        "f32" | "tf32" => (x as f32).to_bits(),
        "s8" | "u8" => u32::from(x as u8),
        _ => x as u32,
    }
}

/// A matrix in memory: rows or columns one after the other, with gaps of eight elements that are all ones.
struct Matrix {
    rows: usize,
    columns: usize,
    ty: Element,
    by_rows: bool,
}

impl Matrix {
    fn stride(&self) -> usize {
        8 + if self.by_rows {
            self.columns
        } else {
            self.rows
        }
    }

    fn offset(&self, row: usize, column: usize) -> usize {
        let (line, place) = if self.by_rows {
            (row, column)
        } else {
            (column, row)
        };
        (line * self.stride() + place) * self.ty.1
    }

    fn memory(&self, value: impl Fn(usize, usize) -> i32) -> Vec<u8> {
        let lines = if self.by_rows {
            self.rows
        } else {
            self.columns
        };
        let mut memory = vec![0xff; lines * self.stride() * self.ty.1];
        for row in 0..self.rows {
            for column in 0..self.columns {
                let bytes = bits(self.ty, value(row, column)).to_le_bytes();
                let at = self.offset(row, column);
                memory[at..at + self.ty.1].copy_from_slice(&bytes[..self.ty.1]);
            }
        }
        memory
    }
}

fn layout(by_rows: bool) -> &'static str {
    if by_rows { "row" } else { "col" }
}

fn names(first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|i| format!("%r{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Registers of a fragment: the table of the PTX manual.
fn registers(role: char, [m, n, k]: [usize; 3], ty: &str) -> usize {
    let elements = match role {
        'a' => m * k,
        'b' => k * n,
        _ => m * n,
    };
    match ty {
        "f16" if role != 'c' => 8,
        "f16" | "bf16" => elements / 64,
        "s8" | "u8" => elements / 128,
        _ => elements / 32,
    }
}

/// The value of an element of A, of B, of C. Elements differ in value or in place, and u8 has no signs.
fn value(role: char, ty: &str, row: usize, column: usize) -> i32 {
    let x = (row * 7 + column * 3 + row * column) as i32;
    match role {
        'c' => x % 201 - 100,
        _ if ty == "u8" => x % 7,
        'a' => x % 7 - 3,
        _ => x % 5 - 2,
    }
}

#[test]
fn products_of_all_shapes_types_and_layouts() {
    let stream = stream();
    for (factor, sum) in TYPES {
        for shape @ [m, n, k] in SHAPES {
            // Bytes have a fragment of one register in the shapes that are not square.
            if (k == 8) != (factor.0 == "tf32") || (factor.1 == 1 && m != 16) {
                continue;
            }
            for layouts in 0..8 {
                let [a_rows, b_rows, c_rows] = [1, 2, 4].map(|bit| layouts & bit != 0);
                let a = Matrix {
                    rows: m,
                    columns: k,
                    ty: factor,
                    by_rows: a_rows,
                };
                let b = Matrix {
                    rows: k,
                    columns: n,
                    ty: factor,
                    by_rows: b_rows,
                };
                let c = Matrix {
                    rows: m,
                    columns: n,
                    ty: sum,
                    by_rows: c_rows,
                };
                let d = Matrix {
                    rows: m,
                    columns: n,
                    ty: sum,
                    by_rows: !c_rows,
                };
                let name = format!("m{m}n{n}k{k}");
                let types = match factor.0 {
                    "f16" => format!("{}.{}", sum.0, sum.0),
                    ty => format!("{}.{ty}.{ty}.{}", sum.0, sum.0),
                };
                let [ra, rb, rc] = ['a', 'b', 'c']
                    .map(|role| registers(role, shape, if role == 'c' { sum.0 } else { factor.0 }));
                let [fa, fb, fc, fd] = [names(10, ra), names(20, rb), names(30, rc), names(40, rc)];
                let (al, bl, cl, dl) = (
                    layout(a_rows),
                    layout(b_rows),
                    layout(c_rows),
                    layout(!c_rows),
                );
                let (ty, sum_ty) = (factor.0, sum.0);
                let text = format!(
                    ".version 7.8\n.target sm_80\n.address_size 64\n\
                     .visible .entry t(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{{\n\
                     .reg .b32 %r<50>;\n.reg .b64 %d<9>;\n\
                     ld.param.u64 %d1, [pa];\nld.param.u64 %d2, [pb];\nld.param.u64 %d3, [pc];\nld.param.u64 %d4, [pd];\n\
                     mov.u32 %r1, {};\n\
                     wmma.load.a.sync.aligned.{al}.{name}.global.{ty} {fa}, [%d1], %r1;\n\
                     wmma.load.b.sync.aligned.{bl}.{name}.{ty} {fb}, [%d2], {};\n\
                     wmma.load.c.sync.aligned.{cl}.{name}.global.{sum_ty} {fc}, [%d3], {};\n\
                     wmma.mma.sync.aligned.{al}.{bl}.{name}.{types} {fd}, {fa}, {fb}, {fc};\n\
                     wmma.store.d.sync.aligned.{dl}.{name}.global.{sum_ty} [%d4], {fd}, {};\nret;\n}}\n",
                    a.stride(),
                    b.stride(),
                    c.stride(),
                    d.stride()
                );
                let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
                let kernel = module.load_function("t").unwrap();
                let inputs = [
                    a.memory(|row, column| value('a', ty, row, column)),
                    b.memory(|row, column| value('b', ty, row, column)),
                    c.memory(|row, column| value('c', ty, row, column)),
                ];
                let [ga, gb, gc] = inputs.map(|memory| stream.clone_htod(&memory).unwrap());
                let untouched = vec![0xff; d.memory(|_, _| 0).len()];
                let mut gd = stream.clone_htod(&untouched).unwrap();
                let mut launch = stream.launch_builder(&kernel);
                launch.arg(&ga).arg(&gb).arg(&gc).arg(&mut gd);
                // SAFETY: the arguments are those of the kernel, and each matrix has its shape and stride.
                unsafe { launch.launch(LaunchConfig::for_num_elems(32)) }
                    .unwrap_or_else(|e| panic!("{name} {types} {al} {bl} {cl}: {e}"));
                let wanted = d.memory(|row, column| {
                    let terms = (0..k).map(|i| value('a', ty, row, i) * value('b', ty, i, column));
                    terms.sum::<i32>() + value('c', ty, row, column)
                });
                let got = stream.clone_dtoh(&gd).unwrap();
                assert!(got == wanted, "{name} {types} {al} {bl} {cl}");
            }
        }
    }
}

/// Each lane's elements of an accumulator, as GPUs from compute 8.0 on have them: two blocks of the fragment of `mma`.
#[test]
fn an_accumulator_has_the_fragments_of_mma() {
    let matrix: Vec<u64> = (0..128).map(|i| (2 * i) | (2 * i + 1) << 32).collect();
    let loaded = |i: usize| {
        let body = format!(
            "ld.param.u64 %d1, [p1];\n\
             wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {}, [%d1], 16;\nmov.u32 {{d}}, %r{};",
            names(10, 8),
            10 + i
        );
        run(&body, U32, &[U64], std::slice::from_ref(&matrix))
    };
    for i in 0..8 {
        let fragment = loaded(i);
        for (lane, &got) in fragment.iter().take(32).enumerate() {
            let (g, t) = (lane / 4, lane % 4);
            let (row, column) = (g + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * t + i % 2);
            assert_eq!(got, (16 * row + column) as u64, "register {i}, lane {lane}");
        }
    }
}

#[test]
fn counters_of_wmma() {
    let body = format!(
        "mov.b32 %r9, 0;\nmov.u32 %r8, tile;\n\
         wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {d}, {zeros}, {zeros}, {zeros};\n\
         wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r8], {d}, 16;\nmov.u32 {{d}}, {{a}};",
        d = names(10, 8),
        zeros = format!("{{{}}}", ["%r9"; 8].join(", ")),
    );
    let module = ".shared .align 32 .b8 tile[1024];\n";
    let lanes = [(0..32).collect()];
    let (_, launches) = cuda_sim::profile(|| run_in(module, &body, U32, &[U32], &lanes));
    let total = launches[0].total;
    assert_eq!(total.of(Class::Tensor), 2);
    assert_eq!(total.flops_tensor, 2 * 16 * 16 * 16);
    // Four stores of two words for each lane.
    assert_eq!(total.shared_stores.requests, 4);
    assert_eq!(total.shared_stores.bytes, 1024);
}
