//! Atomic operations on 16-bit floats, and on vectors: each element against the exact sum, rounded
//! once.

use cuda_sim::FaultKind;

use super::half::{TYPES, extreme, fused, rows, sizes, values};
use super::rig::*;

/// Sixteen bytes of shared memory for each of 96 threads.
const TILE: &str = ".shared .align 16 .b8 tile[1536];\n";

/// `%d4`: the thread's place in the tile, as a shared address, and `%d5` the same as a generic one.
const PLACE: &str = "mov.u64 %d4, tile;\nmov.u32 %r4, %tid.x;\nmul.wide.u32 %d5, %r4, 16;\nadd.u64 %d4, %d4, %d5;\n\
    cvta.shared.u64 %d5, %d4;\n";

/// Two columns of values.
fn pairs(ty: Ty) -> [Vec<u64>; 2] {
    let columns = rows(&values(ty), 2);
    [columns[0].clone(), columns[1].clone()]
}

#[test]
fn sums_of_16_bit_floats() {
    for ty in TYPES {
        let (sizes, name) = (sizes(ty), ty.name());
        let [a, b] = pairs(ty);
        let n = a.len();
        let sum = |i: usize| fused(ty, &sizes, [ty.float(a[i]), 1.0, ty.float(b[i])]);
        // The thread's own result is the word; the high half gets the values of the row behind.
        for (space, at) in [(".global", "%d30"), (".shared", "%d4"), ("", "%d5")] {
            let plain = if space.is_empty() { ".shared" } else { space };
            let place = if space.is_empty() { "%d4" } else { at };
            let body = format!(
                "{PLACE}st{plain}.b16 [{place}], {{a}};\natom{space}.add.noftz.{name} %h4, [{at}], {{b}};\n\
                 ld{plain}.b16 %h5, [{place}];\nmov.b32 {{d}}, {{%h4, %h5}};"
            );
            let got = run_in(TILE, &body, U32, &[ty, ty], &[a.clone(), b.clone()]);
            for i in 0..n {
                let wanted = sum(i) << 16 | a[i];
                assert_eq!(got[i], wanted, "{body} of {:#x}, {:#x}", a[i], b[i]);
            }
            let both = |x: &[u64], i: usize| x[(i + 1) % n] << 16 | x[i];
            let [words, deltas] = [&a, &b].map(|x| (0..n).map(|i| both(x, i)).collect::<Vec<_>>());
            let body = format!(
                "{PLACE}st{plain}.b32 [{place}], {{a}};\nred.relaxed.gpu{space}.add.noftz.{name}x2 [{at}], {{b}};\n\
                 ld{plain}.b32 %r5, [{place}];\natom{space}.add.noftz.{name}x2 %r6, [{at}], 0;\n\
                 xor.b32 %r6, %r6, %r5;\nor.b32 {{d}}, %r6, %r5;"
            );
            let got = run_in(TILE, &body, U32, &[U32; 2], &[words, deltas]);
            for i in 0..n {
                let wanted = sum((i + 1) % n) << 16 | sum(i);
                assert_eq!(got[i], wanted, "{body} of {:#x}, {:#x}", a[i], b[i]);
            }
        }
    }
}

/// Runs `operation` once for each row, on a vector of sixteen bytes of memory that holds `a`, with
/// the vector `b`; words of 32 bits. Returns the vectors that it left, and those that it returned,
/// if it did.
fn on_vectors(operation: &str, a: &[[u64; 4]], b: &[[u64; 4]]) -> [Vec<[u64; 4]>; 2] {
    let stream = stream();
    let text = format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 a, .param .u64 b, .param .u64 c)\n{{\n\
         .reg .b16 %h<40>;\n.reg .b32 %r<40>;\n.reg .b64 %d<40>;\n\
         mov.u32 %r30, %ctaid.x;\nmov.u32 %r31, %ntid.x;\nmov.u32 %r32, %tid.x;\nmad.lo.u32 %r30, %r30, %r31, %r32;\n\
         mul.wide.u32 %d30, %r30, 16;\nld.param.u64 %d0, [a];\nadd.u64 %d0, %d0, %d30;\n\
         ld.param.u64 %d1, [b];\nadd.u64 %d1, %d1, %d30;\nld.param.u64 %d2, [c];\nadd.u64 %d2, %d2, %d30;\n\
         ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d1];\n\
         mov.b32 {{%h0, %h1}}, %r0;\nmov.b32 {{%h2, %h3}}, %r1;\nmov.b32 {{%h4, %h5}}, %r2;\nmov.b32 {{%h6, %h7}}, %r3;\n\
         mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nmov.u32 %r12, 0;\nmov.u32 %r13, 0;\n{operation}\n\
         st.global.v4.b32 [%d2], {{%r10, %r11, %r12, %r13}};\n}}\n"
    );
    let kernel = stream
        .context()
        .load_module(cudarc::nvrtc::Ptx::from_src(text));
    let kernel = kernel.unwrap().load_function("t").unwrap();
    let flat = |x: &[[u64; 4]]| x.iter().flatten().map(|&x| x as u32).collect::<Vec<_>>();
    let mut left = stream.clone_htod(&flat(a)).unwrap();
    let values = stream.clone_htod(&flat(b)).unwrap();
    let mut old = stream.alloc_zeros::<u32>(4 * a.len()).unwrap();
    let shape = cudarc::driver::LaunchConfig {
        grid_dim: (a.len() as u32 / 32, 1, 1),
        block_dim: (32, 1, 1),
        shared_mem_bytes: 0,
    };
    use cudarc::driver::PushKernelArg;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut left).arg(&values).arg(&mut old);
    // SAFETY: the arguments are those of the kernel, and each thread stays at its element.
    unsafe { launch.launch(shape) }.unwrap_or_else(|e| panic!("{operation}: {e}"));
    [&left, &old].map(|words| {
        let words = stream.clone_dtoh(words).unwrap();
        let row = |row: &[u32]| std::array::from_fn(|i| u64::from(row[i]));
        words.chunks(4).map(row).collect()
    })
}

/// Vectors of four words, of which the elements are all of `values` in turn.
fn vectors(values: &[u64]) -> Vec<[u64; 4]> {
    let n = values.len() / 32 * 32;
    (0..n)
        .map(|i| std::array::from_fn(|word| values[(i + 7 * word) % values.len()]))
        .collect()
}

#[test]
fn vectors_of_f32() {
    let columns = combinations(&[F32, F32]);
    let [a, b] = [0, 1].map(|column| vectors(&columns[column]));
    for (count, registers, old) in [
        (2, "{%r0, %r1}", "{%r10, %r11}"),
        (4, "{%r0, %r1, %r2, %r3}", "{%r10, %r11, %r12, %r13}"),
    ] {
        let atom = format!("atom.global.add.v{count}.f32 {old}, [%d0], {registers};");
        let red = format!("red.global.add.v{count}.f32 [%d0], {registers};");
        for (operation, returns) in [(atom, true), (red, false)] {
            let [left, old] = on_vectors(&operation, &a, &b);
            for i in 0..a.len() {
                for word in 0..4 {
                    let [x, y] = [a[i][word], b[i][word]];
                    let flushed = |x: u64| match f32::from_bits(x as u32) {
                        x if x.is_subnormal() => 0.0_f32.copysign(x),
                        x => x,
                    };
                    let sum = flushed(u64::from((flushed(x) + flushed(y)).to_bits()));
                    let touched = word < count;
                    let wanted = if touched { u64::from(sum.to_bits()) } else { x };
                    let nan =
                        touched && sum.is_nan() && f32::from_bits(left[i][word] as u32).is_nan();
                    assert!(
                        nan || left[i][word] == wanted,
                        "{operation} of {x:#x}, {y:#x}"
                    );
                    let wanted = if touched && returns { x } else { 0 };
                    assert_eq!(old[i][word], wanted, "{operation} of {x:#x}, {y:#x}");
                }
            }
        }
    }
}

#[test]
fn vectors_of_16_bit_floats() {
    for ty in TYPES {
        let (sizes, name) = (sizes(ty), ty.name());
        let [a, b] = pairs(ty);
        let halves = |x: &[u64]| {
            let n = x.len();
            vectors(
                &(0..n)
                    .map(|i| x[(i + 3) % n] << 16 | x[i])
                    .collect::<Vec<_>>(),
            )
        };
        let [a, b] = [halves(&a), halves(&b)];
        for operation in ["add", "min", "max"] {
            let one = |x: u64, y: u64| match operation {
                "add" => fused(ty, &sizes, [ty.float(x), 1.0, ty.float(y)]),
                _ => extreme(ty, operation == "max", x, y),
            };
            for (words, count, element, value, old) in [
                (1, 2, "", "{%h0, %h1}", "{%h10, %h11}"),
                (2, 4, "", "{%h0, %h1, %h2, %h3}", "{%h10, %h11, %h12, %h13}"),
                (
                    4,
                    8,
                    "",
                    "{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}",
                    "{%h10, %h11, %h12, %h13, %h14, %h15, %h16, %h17}",
                ),
                (2, 2, "x2", "{%r0, %r1}", "{%r10, %r11}"),
                (
                    4,
                    4,
                    "x2",
                    "{%r0, %r1, %r2, %r3}",
                    "{%r10, %r11, %r12, %r13}",
                ),
            ] {
                let mut text = format!(
                    "atom.global.v{count}.{name}{element}.{operation}.noftz {old}, [%d0], {value};"
                );
                for word in (0..words).filter(|_| element.is_empty()) {
                    text += &format!(
                        "mov.b32 %r{}, {{%h{}, %h{}}};",
                        10 + word,
                        10 + 2 * word,
                        11 + 2 * word
                    );
                }
                let [left, old] = on_vectors(&text, &a, &b);
                for i in 0..a.len() {
                    for word in 0..4 {
                        let [x, y] = [a[i][word], b[i][word]];
                        let half = |at: u32| one(x >> at & 0xffff, y >> at & 0xffff);
                        let (wanted, was) = match word < words {
                            true => (half(16) << 16 | half(0), x),
                            false => (x, 0),
                        };
                        assert_eq!(left[i][word], wanted, "{text} of {x:#x}, {y:#x}");
                        assert_eq!(old[i][word], was, "{text} of {x:#x}, {y:#x}");
                    }
                }
            }
        }
    }
}

#[test]
fn contended_sums_lose_nothing() {
    // 1 + 1 + … is exact up to 256 in bf16.
    for (name, one, last) in [("f16", 0x3c00, 0x5600), ("bf16", 0x3f80, 0x42c0)] {
        let body = format!(
            "mov.u32 %r4, %tid.x;\nmov.u64 %d4, tile;\nsetp.eq.u32 %p4, %r4, 0;\n@%p4 st.shared.u32 [%d4], 0;\nbar.sync 0;\n\
             mov.u32 %r5, {one};\nshl.b32 %r6, %r5, 16;\nor.b32 %r5, %r5, %r6;\nred.shared.add.noftz.{name}x2 [%d4], %r5;\n\
             bar.sync 0;\nld.shared.u32 {{d}}, [%d4];"
        );
        let threads: Vec<u64> = (0..96).collect();
        let got = run_in(TILE, &body, U32, &[U32], &[threads]);
        assert_eq!(got, [last << 16 | last; 96], "{name}");
    }
}

/// The kind of the fault of the first thread that runs `body`.
fn fault_of(body: &str) -> FaultKind {
    let stream = stream();
    let text = format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n.global .align 32 .b8 words[64];\n.visible .entry t()\n{{\n\
         .reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\nmov.u64 %d0, words;\n\
         mov.u32 %r0, 0;\nmov.u16 %h0, 0;\nmov.u64 %d1, 0;\n{body}\nret;\n}}\n"
    );
    let kernel = stream
        .context()
        .load_module(cudarc::nvrtc::Ptx::from_src(text));
    let kernel = kernel.unwrap().load_function("t").unwrap();
    let one = cudarc::driver::LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel has no parameters, and its accesses are checked.
    let launched = unsafe { stream.launch_builder(&kernel).launch(one) };
    launched.map(drop).expect_err(body);
    cuda_sim::take_fault().expect("a fault").kind
}

#[test]
fn forms_that_ptx_does_not_have_are_unknown() {
    for body in [
        "red.global.add.f16x2 [%d0], %r0;",
        "red.global.add.noftz.f32 [%d0], %r0;",
        "red.global.min.noftz.f16x2 [%d0], %r0;",
        "red.global.xor.noftz.f16 [%d0], %h0;",
        "red.shared.add.v2.f32 [%d0], {%r0, %r0};",
        "red.global.add.v8.f32 [%d0], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};",
        "red.global.add.v2.u32 [%d0], {%r0, %r0};",
        "red.global.min.v2.f32 [%d0], {%r0, %r0};",
        "red.global.add.v2.f32 [%d0], {%r0, %r0, %r0, %r0};",
        "red.global.add.v2.f32 [%d0], %r0;",
        "red.global.add.f32 [%d0], {%r0, %r0};",
        "red.global.add.noftz.v8.f16x2 [%d0], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};",
        "atom.global.add.v2.f32 %r1, [%d0], {%r0, %r0};",
    ] {
        let kind = fault_of(body);
        assert!(
            matches!(kind, FaultKind::UnknownInstruction { .. }),
            "{body}: {kind:?}"
        );
    }
}

#[test]
fn a_vector_is_aligned_and_in_bounds_as_a_whole() {
    for body in [
        "red.global.add.v4.f32 [%d0+8], {%r0, %r0, %r0, %r0};",
        "red.global.add.noftz.v8.f16 [%d0+8], {%h0, %h0, %h0, %h0, %h0, %h0, %h0, %h0};",
        "red.global.add.noftz.v2.f16 [%d0+2], {%h0, %h0};",
        "red.global.add.noftz.f16x2 [%d0+2], %r0;",
        "red.global.add.noftz.bf16 [%d0+1], %h0;",
    ] {
        let kind = fault_of(body);
        assert!(matches!(kind, FaultKind::Misaligned(_)), "{body}: {kind:?}");
    }
    let kind = fault_of("red.global.add.v4.f32 [%d0+64], {%r0, %r0, %r0, %r0};");
    assert!(matches!(kind, FaultKind::OutOfBounds(_)), "{kind:?}");
}

/// One request of a vector, not one of each element.
#[test]
fn a_vector_is_one_request() {
    let [a, b] = [vectors(&[0; 32]), vectors(&[0; 32])];
    for (operation, bytes, flops) in [
        ("red.global.add.v4.f32 [%d0], {%r0, %r1, %r2, %r3};", 16, 4),
        (
            "red.global.add.noftz.v4.f16 [%d0], {%h0, %h1, %h2, %h3};",
            8,
            4,
        ),
        ("red.global.add.noftz.bf16 [%d0], %h0;", 2, 1),
        ("red.global.add.f64 [%d0], 0d3FF0000000000000;", 8, 1),
    ] {
        let (_, profiles) = cuda_sim::profile(|| on_vectors(operation, &a, &b));
        let total = &profiles[0].total;
        let atomics = total.global_atomics;
        assert_eq!(total.flops(), 32 * flops, "{operation}");
        let of_type = match operation {
            _ if operation.contains("f32") => total.flops_f32,
            _ if operation.contains("f64") => total.flops_f64,
            _ => total.flops_half,
        };
        assert_eq!(of_type, 32 * flops, "{operation}");
        assert_eq!(atomics.requests, 1, "{operation}");
        // Sixteen bytes lie between the threads' places.
        assert_eq!(
            (atomics.sectors, atomics.bytes),
            (16, 32 * bytes),
            "{operation}"
        );
    }
}
