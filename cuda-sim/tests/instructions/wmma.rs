//! WMMA: products of small integers, loaded from and stored to matrices with gaps, in all shapes,
//! types and layouts.

use cuda_sim::{Class, FaultKind};
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::rig::*;

/// A type of elements: its name, and its bytes in memory.
type Element = (&'static str, usize);

const F16_TYPE: Element = ("f16", 2);
const F32_TYPE: Element = ("f32", 4);
const F64_TYPE: Element = ("f64", 8);
const S32_TYPE: Element = ("s32", 4);
const S8_TYPE: Element = ("s8", 1);
const U8_TYPE: Element = ("u8", 1);

/// Types of factors, of C and of D.
const TYPES: [[Element; 3]; 9] = [
    [F16_TYPE, F32_TYPE, F32_TYPE],
    [F16_TYPE, F16_TYPE, F16_TYPE],
    [F16_TYPE, F32_TYPE, F16_TYPE],
    [F16_TYPE, F16_TYPE, F32_TYPE],
    [("bf16", 2), F32_TYPE, F32_TYPE],
    [("tf32", 4), F32_TYPE, F32_TYPE],
    [F64_TYPE, F64_TYPE, F64_TYPE],
    [S8_TYPE, S32_TYPE, S32_TYPE],
    [U8_TYPE, S32_TYPE, S32_TYPE],
];

/// Rows, columns, depth.
const SHAPES: [[usize; 3]; 5] = [
    [16, 16, 16],
    [32, 8, 16],
    [8, 32, 16],
    [16, 16, 8],
    [8, 8, 4],
];

/// Bits of a whole number, rounded.
fn bits((name, _): Element, x: i64) -> u64 {
    match name {
        "f16" => nearest_f16(x as f64),
        "bf16" => u64::from((x as f32).to_bits() >> 16),
        "f32" | "tf32" => u64::from((x as f32).to_bits()),
        "f64" => (x as f64).to_bits(),
        _ => x as u64,
    }
}

/// The nearest f16, of two of them the even one.
fn nearest_f16(x: f64) -> u64 {
    let value = |bits: u64| match bits {
        0x7c00 => 65536.0,
        bits => F16.float(bits),
    };
    // The bits of positive numbers are in their order.
    let all: Vec<u64> = (0..=0x7c00).collect();
    let above = all
        .partition_point(|&bits| value(bits) < x.abs())
        .min(0x7c00) as u64;
    let below = above.saturating_sub(1);
    let distance = |bits: u64| (value(bits) - x.abs()).abs();
    let is_lower = distance(below) < distance(above)
        || (distance(below) == distance(above) && below.is_multiple_of(2));
    u64::from(x < 0.0) << 15 | if is_lower { below } else { above }
}

/// A matrix in memory: rows or columns one after the other, with gaps of `gap` elements that are
/// all ones.
struct Matrix {
    rows: usize,
    columns: usize,
    ty: Element,
    by_rows: bool,
    gap: usize,
}

impl Matrix {
    fn stride(&self) -> usize {
        self.gap
            + if self.by_rows {
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

    fn memory(&self, value: impl Fn(usize, usize) -> i64) -> Vec<u8> {
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
    class_registers('r', first, count)
}

/// A vector of registers, or the only one.
fn class_registers(class: char, first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count)
        .map(|i| format!("%{class}{i}"))
        .collect();
    match &*names {
        [name] => name.clone(),
        names => format!("{{{}}}", names.join(", ")),
    }
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

/// The value of an element of A, of B, of C. Elements differ in value or in place, and u8 has no
/// signs.
fn value(role: char, ty: &str, row: usize, column: usize) -> i64 {
    let x = (row * 7 + column * 3 + row * column) as i64;
    match role {
        'c' => x % 201 - 100,
        _ if ty == "u8" => x % 7,
        'a' => x % 7 - 3,
        _ => x % 5 - 2,
    }
}

/// A product, with the layouts of A, B and C: by rows, or by columns. D has the other layout than
/// C.
#[derive(Clone, Copy)]
struct Case {
    types: [Element; 3],
    shape: [usize; 3],
    by_rows: [bool; 3],
    saturates: bool,
    strides: Strides,
}

/// The last operand of a load or store.
#[derive(Clone, Copy, PartialEq)]
enum Strides {
    /// There is a gap between two lines.
    Given,
    /// No operand: there is no gap.
    LeftOut,
}

impl Case {
    /// All that PTX has, without saturation and with strides.
    fn all() -> impl Iterator<Item = Case> {
        let shapes = TYPES
            .into_iter()
            .flat_map(|types| SHAPES.map(|shape| (types, shape)));
        let shapes = shapes.filter(|(types, shape)| {
            shape[2]
                == match types[0].0 {
                    "tf32" => 8,
                    "f64" => 4,
                    _ => 16,
                }
        });
        shapes.flat_map(|(types, shape)| {
            (0..8).map(move |layouts| Case {
                types,
                shape,
                by_rows: [1, 2, 4].map(|bit| layouts & bit != 0),
                saturates: false,
                strides: Strides::Given,
            })
        })
    }

    /// Asserts that D is what exact arithmetic on these values gives, and that the gaps stay as
    /// they are.
    fn check(&self, value: impl Fn(char, usize, usize) -> i64) {
        let Case {
            types: [factor, c_type, d_type],
            shape: [m, n, k],
            by_rows: [a_rows, b_rows, c_rows],
            saturates,
            strides,
        } = *self;
        let matrix = |rows, columns, ty, by_rows| Matrix {
            rows,
            columns,
            ty,
            by_rows,
            gap: if strides == Strides::Given { 16 } else { 0 },
        };
        let a = matrix(m, k, factor, a_rows);
        let b = matrix(k, n, factor, b_rows);
        let c = matrix(m, n, c_type, c_rows);
        let d = matrix(m, n, d_type, !c_rows);
        let name = format!("m{m}n{n}k{k}");
        let modifiers = match factor.0 {
            "f16" => format!("{}.{}", d_type.0, c_type.0),
            ty => format!("{}.{ty}.{ty}.{}", d_type.0, c_type.0),
        };
        let clamp = if saturates { ".satfinite" } else { "" };
        let fragment = |role: char, first: usize, ty: &str| {
            let class = if ty == "f64" { 'v' } else { 'r' };
            class_registers(class, first, registers(role, self.shape, ty))
        };
        let (fa, fb) = (fragment('a', 10, factor.0), fragment('b', 20, factor.0));
        let (fc, fd) = (fragment('c', 30, c_type.0), fragment('c', 40, d_type.0));
        let operand = |stride: String| match strides {
            Strides::Given => format!(", {stride}"),
            Strides::LeftOut => String::new(),
        };
        let [al, bl, cl, dl] = [a_rows, b_rows, c_rows, !c_rows].map(layout);
        let (ty, c_name, d_name) = (factor.0, c_type.0, d_type.0);
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64\n\
             .visible .entry t(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{{\n\
             .reg .b32 %r<50>;\n.reg .b64 %d<9>;\n.reg .f64 %v<50>;\n\
             ld.param.u64 %d1, [pa];\nld.param.u64 %d2, [pb];\nld.param.u64 %d3, [pc];\nld.param.u64 %d4, [pd];\n\
             mov.u32 %r1, {};\n\
             wmma.load.a.sync.aligned.{al}.{name}.global.{ty} {fa}, [%d1]{};\n\
             wmma.load.b.sync.aligned.{bl}.{name}.{ty} {fb}, [%d2]{};\n\
             wmma.load.c.sync.aligned.{cl}.{name}.global.{c_name} {fc}, [%d3]{};\n\
             wmma.mma.sync.aligned.{al}.{bl}.{name}.{modifiers}{clamp} {fd}, {fa}, {fb}, {fc};\n\
             wmma.store.d.sync.aligned.{dl}.{name}.global.{d_name} [%d4], {fd}{};\nret;\n}}\n",
            a.stride(),
            operand("%r1".into()),
            operand(b.stride().to_string()),
            operand(c.stride().to_string()),
            operand(d.stride().to_string())
        );
        let stream = stream();
        let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
        let kernel = module.load_function("t").unwrap();
        let inputs = [(&a, 'a'), (&b, 'b'), (&c, 'c')]
            .map(|(matrix, role)| matrix.memory(|row, column| value(role, row, column)));
        let [ga, gb, gc] = inputs.map(|memory| stream.clone_htod(&memory).unwrap());
        let untouched = vec![0xff; d.memory(|_, _| 0).len()];
        let mut gd = stream.clone_htod(&untouched).unwrap();
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&ga).arg(&gb).arg(&gc).arg(&mut gd);
        let case = format!("{name} {modifiers}{clamp} {al} {bl} {cl}");
        // SAFETY: the arguments are those of the kernel, and each matrix has its shape and stride.
        unsafe { launch.launch(LaunchConfig::for_num_elems(32)) }
            .unwrap_or_else(|e| panic!("{case}: {e}"));
        let wanted = d.memory(|row, column| {
            let terms = (0..k).map(|i| value('a', row, i) * value('b', i, column));
            let sum = terms.sum::<i64>() + value('c', row, column);
            match saturates {
                true => sum.clamp(i32::MIN.into(), i32::MAX.into()),
                false => sum,
            }
        });
        let got = stream.clone_dtoh(&gd).unwrap();
        assert!(got == wanted, "{case}");
    }
}

#[test]
fn products_of_all_shapes_types_and_layouts() {
    for case in Case::all() {
        let ty = case.types[0].0;
        case.check(|role, row, column| value(role, ty, row, column));
    }
}

/// PTX makes the stride optional. Without one, lines follow one another.
#[test]
fn matrices_without_a_stride_have_no_gaps() {
    for case in Case::all() {
        let strides = Strides::LeftOut;
        let ty = case.types[0].0;
        Case { strides, ..case }.check(|role, row, column| value(role, ty, row, column));
    }
}

/// The largest factors, and sums near the ends of their range.
#[test]
fn sums_of_bytes_wrap_or_saturate() {
    for case in Case::all().filter(|case| case.types[0].1 == 1) {
        for saturates in [false, true] {
            let least = if case.types[0].0 == "u8" { 0 } else { -128 };
            let extreme = |i: usize| [least, least + 255, least + 1, least + 254][i % 4];
            let case = Case { saturates, ..case };
            case.check(|role, row, column| match role {
                'c' if (row + column).is_multiple_of(2) => {
                    i64::from(i32::MAX) - (row * 4000) as i64
                }
                'c' => i64::from(i32::MIN) + (column * 4000) as i64,
                _ => extreme(row / 3 + column),
            });
        }
    }
}

/// Sums that f16 does not hold, some of them too large.
#[test]
fn sums_in_f32_are_rounded_once_to_f16() {
    for case in Case::all().filter(|case| case.types[1..] == [F32_TYPE, F16_TYPE]) {
        case.check(|role, row, column| match role {
            'c' => value('c', "f32", row, column) * 701 + 1,
            role => value(role, "f16", row, column),
        });
    }
}

/// PTX asks for a start at a multiple of the fragment's size, and the programming guide for a
/// stride of a multiple of 16 bytes.
#[test]
fn misaligned_matrices() {
    let of_f16 = names(10, 8);
    let of_f32 = names(20, 8);
    for (instruction, offset, stride, fault) in [
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {F}, [%r1], %r2;",
            32,
            24,
            None,
        ),
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {F}, [%r1], %r2;",
            16,
            24,
            Some((16, 32, false)),
        ),
        (
            "wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {F}, [%r1], %r2;",
            32,
            20,
            Some((72, 16, false)),
        ),
        (
            "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1], {D}, %r2;",
            0,
            18,
            Some((72, 16, true)),
        ),
        (
            "wmma.store.d.sync.aligned.col.m16n16k16.shared.f32 [%r1], {D}, %r2;",
            8,
            16,
            Some((8, 32, true)),
        ),
        // A fragment of 8 bytes, and one of 4.
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {%r10, %r11}, [%r1], %r2;",
            8,
            24,
            None,
        ),
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {%r10, %r11}, [%r1], %r2;",
            4,
            24,
            Some((4, 8, false)),
        ),
        (
            "wmma.load.b.sync.aligned.col.m32n8k16.shared.u8 {%r10}, [%r1], %r2;",
            4,
            20,
            None,
        ),
    ] {
        let instruction = instruction.replace("{F}", &of_f16).replace("{D}", &of_f32);
        let zeros: String = (20..28).map(|i| format!("mov.b32 %r{i}, 0;\n")).collect();
        let body = format!(
            "{zeros}mov.u32 %r5, tile;\nmov.u32 %r6, %tid.x;\nshl.b32 %r7, %r6, 2;\nadd.u32 %r7, %r7, %r5;\n\
             mov.u32 %r4, 0;\nfill:\nst.shared.u32 [%r7], %r6;\nadd.u32 %r7, %r7, 128;\nadd.u32 %r4, %r4, 1;\n\
             setp.lt.u32 %p1, %r4, 16;\n@%p1 bra fill;\nbar.sync 0;\n\
             add.u32 %r1, %r5, {offset};\nmov.u32 %r2, {stride};\n{instruction}\nret;"
        );
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry t()\n{{\n.reg .pred %p<2>;\n.reg .b32 %r<50>;\n\
             .shared .align 32 .b8 tile[2048];\n{body}\n}}\n"
        );
        let stream = stream();
        let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
        let kernel = module.load_function("t").unwrap();
        let mut launch = stream.launch_builder(&kernel);
        let one_warp = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel has no arguments.
        let result = unsafe { launch.launch(one_warp) };
        let found = cuda_sim::take_fault().map(|fault| match fault.kind {
            FaultKind::Misaligned(access) => (access.address, access.bytes, access.write),
            other => panic!("{instruction}: {other}"),
        });
        assert_eq!(
            found, fault,
            "{instruction} from {offset} on, stride {stride}"
        );
        assert_eq!(result.is_ok(), fault.is_none());
    }
}

/// Each lane's elements of an accumulator, as GPUs from compute 8.0 on have them: two blocks of the
/// fragment of `mma`.
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

/// PTX has 32 bits for an offset. The elements of a matrix are at larger ones than its start.
#[test]
fn an_offset_that_no_element_may_have_is_no_instruction() {
    let fault = |offset: i64| {
        let text = format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry t() {{ .reg .b32 %r<9>; .reg .b64 %d;\n\
             mov.u64 %d, 0;\nwmma.load.c.sync.aligned.row.m16n16k16.global.f32 \
             {{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}}, [%d+{offset}];\nret; }}"
        );
        let stream = stream();
        let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
        let kernel = module.load_function("t").unwrap();
        let one_warp = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel has no arguments.
        unsafe { stream.launch_builder(&kernel).launch(one_warp) }.expect_err("a fault");
        cuda_sim::take_fault().expect("a fault").kind
    };
    for unknown in [1 << 31, i64::from(i32::MAX) - 31] {
        let kind = fault(unknown);
        assert!(
            matches!(&kind, FaultKind::UnknownInstruction { text } if text.starts_with("wmma.load.c")),
            "{kind}"
        );
    }
    assert!(matches!(fault(1 << 30), FaultKind::OutOfBounds(_)));
}
