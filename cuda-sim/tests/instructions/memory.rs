//! Loads, stores, atomic operations, address spaces, calls and branches in PTX written by hand.

use super::rig::*;

#[test]
fn loads_extend_and_stores_truncate() {
    let declared = ".shared .align 16 .b8 tile[1536];\n.const .align 8 .b64 table[2] = {0x8182838485868788, 1};\n";
    let spaces = [
        // Space, and its address of 16 bytes of each thread's own in %d4.
        (
            "shared",
            "mov.u64 %d4, tile;\nmov.u32 %r4, %tid.x;\nmul.wide.u32 %d5, %r4, 16;\nadd.u64 %d4, %d4, %d5;\n",
        ),
        (
            "local",
            ".local .align 16 .b8 own[16];\nmov.u64 %d4, own;\n",
        ),
        ("global", "mov.u64 %d4, %d30;\n"),
    ];
    for ty in [U8, S8, U16, S16, U32, S32, U64, S64] {
        for (space, address) in spaces {
            let (name, bytes) = (ty.name(), ty.bits() / 8);
            // Through the space itself, into a register that is wider than the element.
            let body = format!(
                "{address}st.{space}.b64 [%d4], 0;\nst.{space}.u{} [%d4], {{a}};\nld.{space}.{name} {{d}}, [%d4];",
                ty.bits()
            );
            let (d, source) = if ty.bits() == 64 {
                (U64, U64)
            } else {
                (S64, U64)
            };
            let wanted = |x: &[u64]| ty.int(x[0]) as u64;
            let values = [U64.nasty()];
            for (x, got) in values[0]
                .iter()
                .zip(run_in(declared, &body, d, &[source], &values))
            {
                assert_eq!(got, wanted(&[*x]), "{body}");
            }
            // Through a generic address, with an offset; every byte around stays.
            if space == "global" || bytes == 8 {
                continue;
            }
            let body = format!(
                "{address}st.{space}.b64 [%d4], -1;\ncvta.{space}.u64 %d6, %d4;\nst.u{} [%d6+{bytes}], {{a}};\ncvta.to.{space}.u64 %d7, %d6;\nld.{space}.b64 {{d}}, [%d7];",
                ty.bits()
            );
            for (x, got) in values[0]
                .iter()
                .zip(run_in(declared, &body, U64, &[U64], &values))
            {
                let at = 8 * bytes;
                assert_eq!(got, !(ty.mask() << at) | (x & ty.mask()) << at, "{body}");
            }
        }
    }
    let word = |body: &str| run_in(declared, body, U64, &[], &[])[0];
    assert_eq!(word("ld.const.s8 {d}, [table+7];"), 0x81u8 as i8 as u64);
    assert_eq!(
        word("mov.u64 %d4, table;\ncvta.const.u64 %d4, %d4;\nld.u16 {d}, [%d4+2];"),
        0x8586
    );
    assert_eq!(word("ld.param.u32 {d}, [n];"), 32);
    // Narrow addresses are modulo 2³², however the offset is written.
    for minus_eight in ["-8", "4294967288"] {
        assert_eq!(
            word(&format!(
                "mov.u32 %r4, tile;\nadd.u32 %r4, %r4, 16;\nst.shared.u64 [%r4+{minus_eight}], 7;\nbar.warp.sync -1;\n\
                 ld.shared.u64 {{d}}, [tile+8];"
            )),
            7
        );
    }
}

/// Accesses through one register have the lanes' distances in common, unless the register changes
/// in between.
#[test]
fn a_register_that_some_lanes_change_between_two_accesses() {
    let words = ".shared .align 16 .b8 words[1536];\n";
    let body = "\
        mov.u64 %d4, words;
        mov.u32 %r4, %tid.x;
        mul.wide.u32 %d5, %r4, 16;
        add.u64 %d4, %d4, %d5;
        st.shared.u32 [%d4], {a};
        add.u32 %r4, {a}, 100;
        st.shared.u32 [%d4+4], %r4;
        add.u32 %r4, {a}, 200;
        st.shared.u32 [%d4+8], %r4;
        mov.u32 %r5, 0;
        mov.u32 %r6, 0;
        and.b32 %r7, {a}, 1;
        again:
        ld.shared.u32 %r8, [%d4];
        add.u32 %r6, %r6, %r8;
        setp.eq.u32 %p5, %r5, 2;
        setp.ne.and.u32 %p5, %r7, 0, %p5;
        @%p5 add.u64 %d4, %d4, 4;
        ld.shared.u32 %r8, [%d4+4];
        add.u32 %r6, %r6, %r8;
        add.u32 %r5, %r5, 1;
        setp.lt.u32 %p6, %r5, 4;
        @%p6 bra again;
        mov.u32 {d}, %r6;";
    let values: [Vec<u64>; 1] = [(0..64).collect()];
    for (x, got) in values[0]
        .iter()
        .zip(run_in(words, body, U32, &[U32], &values))
    {
        // Four turns of two loads. In the third turn odd lanes move on by a word, before the second
        // load.
        let odd = x & 1;
        assert_eq!(got, 8 * x + 400 + odd * (100 + 200), "lane {x}");
    }
}

#[test]
fn vectors_of_every_width() {
    for (ty, class, count) in [
        (U8, 'h', 2),
        (U8, 'h', 4),
        (U16, 'h', 2),
        (U16, 'h', 4),
        (U32, 'r', 2),
        (U32, 'r', 4),
        (U64, 'd', 2),
    ] {
        for space in ["shared", "local", "global"] {
            let (bits, bytes) = (ty.bits(), ty.bits() / 8 * count);
            let list = |first: u32| {
                (first..first + count)
                    .map(|i| format!("%{class}{i}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let reversed = (0..count)
                .map(|i| format!("%{class}{}", 13 - i))
                .collect::<Vec<_>>()
                .join(", ");
            // Bytes of a 64-bit word, twice, into registers and out again in another order.
            let address = match space {
                "shared" => {
                    "mov.u64 %d20, tile;\nmov.u32 %r20, %tid.x;\nmul.wide.u32 %d21, %r20, 16;\nadd.u64 %d20, %d20, %d21;\n"
                }
                "local" => ".local .align 16 .b8 own[16];\nmov.u64 %d20, own;\n",
                _ => {
                    // Behind the third operand's values, which each thread reads.
                    "ld.param.u64 %d20, [p3];\nmov.u32 %r20, %tid.x;\nmul.wide.u32 %d21, %r20, 16;\nadd.u64 %d20, %d20, %d21;\nadd.u64 %d20, %d20, 256;\n"
                }
            };
            let scratch = vec![0u64; 32 + 64];
            let body = format!(
                "{address}st.{space}.v2.b64 [%d20], {{{{a}}, {{b}}}};\nld.{space}.v{count}.b{bits} {{{}}}, [%d20];\n\
                 st.{space}.v{count}.b{bits} [%d20], {{{reversed}}};\nld.{space}.v2.b64 {{%d5, %d6}}, [%d20];\nxor.b64 {{d}}, %d5, %d6;",
                list(14 - count)
            );
            let a: Vec<u64> = (1..=32)
                .map(|i| 0x0123_4567_89ab_cdefu64.wrapping_mul(2 * i + 1))
                .collect();
            let b: Vec<u64> = a.iter().map(|x| x.rotate_left(17)).collect();
            let got = run_in(
                ".shared .align 16 .b8 tile[1536];\n",
                &body,
                U64,
                &[U64, U64, U64],
                &[a.clone(), b.clone(), scratch],
            );
            for (i, got) in got.into_iter().enumerate() {
                let mut all = u128::from(b[i]) << 64 | u128::from(a[i]);
                let width = 8 * bytes;
                let part = |k: u32| all >> (bits * k) & u128::from(ty.mask());
                let swapped =
                    (0..count).fold(0u128, |sum, k| sum | part(k) << (bits * (count - 1 - k)));
                if width == 128 {
                    all = swapped
                } else {
                    all = all >> width << width | swapped
                }
                assert_eq!(got, all as u64 ^ (all >> 64) as u64, "{body}");
            }
        }
    }
}

/// Runs `red.op` of all threads on one word that starts as `start`; returns the word at the end.
fn atomic(space: &str, op: &str, ty: Ty, start: u64, values: &[u64]) -> u64 {
    let bits = ty.bits();
    let class = if bits == 64 { 'd' } else { 'r' };
    let address = if space == "shared" {
        "mov.u64 %d20, word;"
    } else {
        "ld.param.u64 %d20, [p2];"
    };
    let body = format!(
        "{address}\nsetp.eq.u32 %p4, %r30, 0;\nmov.b{bits} %{class}21, {start};\n@%p4 st.{space}.b{bits} [%d20], %{class}21;\nbar.sync 0;\n\
         red.{space}.{op} [%d20], {{a}};\nbar.sync 0;\nld.{space}.b{bits} {{d}}, [%d20];"
    );
    let word = vec![0; values.len()];
    run_in(
        ".shared .align 8 .b64 word;\n",
        &body,
        ty,
        &[ty, U64],
        &[values.to_vec(), word],
    )[0]
}

#[test]
fn atomic_operations() {
    let values: Vec<u64> = (0..96u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    for space in ["shared", "global"] {
        for ty in [U32, S32, U64, S64] {
            let values: Vec<u64> = values.iter().map(|x| x & ty.mask()).collect();
            let start = 0x7fff_1234u64;
            let fold = |f: &dyn Fn(i128, i128) -> i128| {
                values
                    .iter()
                    .fold(ty.int(start), |a, &b| ty.int(f(a, ty.int(b)) as u64))
                    as u64
                    & ty.mask()
            };
            let name = ty.name();
            assert_eq!(
                atomic(space, &format!("min.{name}"), ty, start, &values),
                fold(&|a, b| a.min(b))
            );
            assert_eq!(
                atomic(space, &format!("max.{name}"), ty, start, &values),
                fold(&|a, b| a.max(b))
            );
            if ty != S64 {
                assert_eq!(
                    atomic(space, &format!("add.{name}"), ty, start, &values),
                    fold(&|a, b| a + b)
                );
            }
            if !ty.is_signed() {
                let name = format!("b{}", ty.bits());
                assert_eq!(
                    atomic(
                        space,
                        &format!("and.{name}"),
                        ty,
                        start,
                        &[start | 8, 0xff34]
                    ),
                    start & 0xff34
                );
                assert_eq!(
                    atomic(space, &format!("or.{name}"), ty, start, &values),
                    fold(&|a, b| a | b)
                );
                assert_eq!(
                    atomic(space, &format!("xor.{name}"), ty, start, &values),
                    fold(&|a, b| a ^ b)
                );
            }
        }
        // Additions of f32 flush subnormals in device memory only.
        let tiny = vec![1u64; 8];
        assert_eq!(
            atomic(space, "add.f32", F32, 0, &tiny),
            if space == "global" { 0 } else { 8 }
        );
        assert_eq!(
            atomic(
                space,
                "add.f32",
                F32,
                1f32.to_bits().into(),
                &[u64::from(0.5f32.to_bits()); 4]
            ),
            u64::from(3f32.to_bits())
        );
        assert_eq!(
            atomic(
                space,
                "add.f64",
                F64,
                1f64.to_bits(),
                &[0.25f64.to_bits(); 4]
            ),
            2f64.to_bits()
        );
        // 96 steps of 0, 1, … 9, 0, … from 5, up and down.
        assert_eq!(atomic(space, "inc.u32", U32, 5, &[9; 96]), (5 + 96) % 10);
        assert_eq!(atomic(space, "inc.u32", U32, 12, &[9; 1]), 0);
        assert_eq!(atomic(space, "dec.u32", U32, 5, &[9; 96]), 9);
        assert_eq!(atomic(space, "dec.u32", U32, 12, &[9; 1]), 9);
    }
}

#[test]
fn atomics_return_the_old_value() {
    let get = |op: &str, ty: Ty, start: u64, b: u64, c: u64| {
        let (bits, class) = (ty.bits(), ["h", "r", "", "d"][ty.bits() as usize / 16 - 1]);
        let extra = if op.starts_with("cas") { ", {b}" } else { "" };
        let body = format!(
            "ld.param.u64 %d20, [p3];\nst.global.b{bits} [%d20], {start};\natom.global.{op} %{class}9, [%d20], {{a}}{extra};\nld.global.b{bits} %{class}10, [%d20];\n\
             xor.b{bits} %{class}10, %{class}10, %{class}9;\nmov.b{bits} {{d}}, %{class}10;"
        );
        let new_and_old = run(&body, ty, &[ty, ty, U64], &[vec![b], vec![c], vec![0]])[0];
        let old = run(
            &body.replace(
                &format!("xor.b{bits} %{class}10, %{class}10, %{class}9;\n"),
                &format!("mov.b{bits} %{class}10, %{class}9;\n"),
            ),
            ty,
            &[ty, ty, U64],
            &[vec![b], vec![c], vec![0]],
        )[0];
        (old, new_and_old ^ old)
    };
    assert_eq!(get("exch.b32", U32, 5, 9, 0), (5, 9));
    assert_eq!(get("exch.b64", U64, 5, 9, 0), (5, 9));
    assert_eq!(get("cas.b32", U32, 5, 5, 7), (5, 7));
    assert_eq!(get("cas.b32", U32, 5, 6, 7), (5, 5));
    assert_eq!(get("cas.b64", U64, 5, 5, 7), (5, 7));
    assert_eq!(get("cas.b16", U16, 5, 5, 7), (5, 7));
    assert_eq!(get("add.u32", U32, 5, u64::from(u32::MAX), 0), (5, 4));
}

#[test]
fn vector_additions_add_each_element_and_return_the_old_ones() {
    let bits = |x: f32| u64::from(x.to_bits());
    let (a, b, start) = (bits(1.5), bits(-2.25), bits(4.0) | bits(8.0) << 32);
    let get = |body: &str| {
        let values = [vec![a], vec![b], vec![start]];
        run(
            &format!("ld.param.u64 %d20, [p3];\n{body}"),
            U64,
            &[F32, F32, U64],
            &values,
        )[0]
    };
    let old =
        get("atom.global.add.v2.f32 {%r9, %r10}, [%d20], {{a}, {b}};\nmov.b64 {d}, {%r9, %r10};");
    assert_eq!(old, start);
    let new = get("red.global.add.v2.f32 [%d20], {{a}, {b}};\nld.global.b64 {d}, [%d20];");
    assert_eq!(new, bits(5.5) | bits(5.75) << 32);
}

#[test]
fn an_address_in_a_32_bit_register_wraps() {
    let body = ".shared .b32 word[4];\nmov.u32 %r9, word;\nst.shared.u32 [%r9+4], {a};\nadd.u32 %r9, %r9, -12;\nld.shared.u32 {d}, [%r9+16];";
    assert_eq!(run(body, U32, &[U32], &[vec![77]]), [77]);
}

#[test]
fn policies_of_the_cache_change_nothing() {
    for policy in [
        "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %d6, 0.5;",
        "createpolicy.range.global.L2::evict_last.b64 %d6, [%d4], 64, 128;",
        "mov.u64 %d7, 1;\ncreatepolicy.cvt.L2.b64 %d6, %d7;",
    ] {
        let body = format!(
            "mov.u64 %d4, %d30;\n{policy}\nst.global.L2::cache_hint.u32 [%d4], {{a}}, %d6;\n\
             red.global.add.L2::cache_hint.u32 [%d4], 3, %d6;\nld.global.nc.L1::no_allocate.L2::cache_hint.u32 {{d}}, [%d4], %d6;"
        );
        assert_eq!(run(&body, U32, &[U32], &[vec![77]]), [80], "{policy}");
    }
}

#[test]
fn guards_and_tables() {
    check(
        "mov.u32 {d}, 3;\nsetp.lt.s32 %p4, {a}, 2;\n@%p4 mov.u32 {d}, 4;\n@!%p4 add.u32 {d}, {d}, {a};",
        U32,
        &[S32],
        |x| {
            if S32.int(x[0]) < 2 { 4 } else { 3 + x[0] }
        },
    );
    check(
        "min.u32 %r4, {a}, 3;\nT: .branchtargets L0, L1, L2, L1;\nbrx.idx %r4, T;\nL0: mov.u32 {d}, 10;\nbra.uni E;\nL1: mov.u32 {d}, 11;\nbra E;\nL2: mov.u32 {d}, 12;\nE:",
        U32,
        &[U32],
        |x| [10, 11, 12, 11][x[0].min(3) as usize],
    );
    let module = ".func (.param .b32 result) twice(.param .align 8 .b8 pair[16])\n{\n.reg .b32 %r<4>;\n.reg .pred %p;\n\
        ld.param.u32 %r1, [pair];\nld.param.u32 %r2, [pair+8];\nsetp.gt.s32 %p, %r1, 7;\nst.param.b32 [result], %r2;\n@%p ret;\n\
        add.u32 %r3, %r1, %r1;\nst.param.b32 [result], %r3;\nret;\n}\n";
    for guard in ["", "@%p4 "] {
        // A guarded call leaves the other threads alone.
        let body = format!(
            "setp.lt.s32 %p4, {{a}}, 40;\n{{\n.param .align 8 .b8 given[16];\n.param .b32 back;\nst.param.b32 [back], 5;\nst.param.b32 [given], {{a}};\n\
             st.param.b32 [given+8], 99;\n{guard}call.uni (back), twice, (given);\nld.param.b32 {{d}}, [back];\n}}"
        );
        let values = [S32.nasty()];
        for (&x, got) in values[0]
            .iter()
            .zip(run_in(module, &body, U32, &[S32], &values))
        {
            let a = S32.int(x);
            let called = if a > 7 { 99 } else { (2 * a) as u32 as u64 };
            let wanted = if a >= 40 && !guard.is_empty() {
                5
            } else {
                called
            };
            assert_eq!(got, wanted, "{body} of {a}");
        }
    }
}
