//! Kernels made of random statements, most of them valid, and shapes that only a generator thinks
//! of.

use std::fmt::Write;

use super::instructions;
use super::random::Random;

/// A module with one kernel, `t`, with a pointer and a number as parameters.
pub fn module(random: &mut Random) -> String {
    let mut out = String::from(".version 7.0\n.target sm_75\n.address_size 64\n");
    if random.one_in(3) {
        module_scope(random, &mut out);
    }
    let functions = random.below(4);
    for i in 0..functions {
        let _ = writeln!(
            out,
            ".func (.param .b32 r) f{i}(.param .b32 a)\n{{\n.reg .b32 %x<4>;\n.reg .pred %q;\nld.param.u32 %x0, [a];"
        );
        if i > 0 && random.one_in(2) {
            calls(random, &mut out, i, "%x0");
        }
        let _ = writeln!(
            out,
            "add.u32 %x1, %x0, 1;\nst.param.b32 [r], %x1;\nret;\n}}"
        );
    }
    out += ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n\
        .reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n\
        .local .align 8 .b8 own[64];\n.shared .align 16 .b8 cells[256];\n\
        ld.param.u64 %d0, [p];\nld.param.u32 %r0, [n];\nmov.u32 %r1, %tid.x;\n\
        mov.u32 %r2, 0;\nmov.u32 %r3, 5;\nmov.u64 %d1, cells;\nmov.u64 %d2, own;\nmov.u64 %d3, 1;\n\
        mov.u32 %r4, cells;\nmov.u32 %r5, 0;\nmov.u32 %r6, 0;\nmov.u32 %r7, 0;\nsetp.lt.u32 %p0, %r1, 16;\n\
        setp.eq.u32 %p1, %r1, 0;\n";
    let labels = 1 + random.below(4);
    for label in 0..labels {
        for _ in 0..random.below(12) {
            statement(random, &mut out, labels, functions);
        }
        let _ = writeln!(out, "L{label}:");
    }
    out += "st.global.u32 [%d0], %r2;\nret;\n}\n";
    out
}

fn module_scope(random: &mut Random, out: &mut String) {
    let n = random.number();
    let _ = match random.below(6) {
        0 => writeln!(out, ".global .b8 g{n}[{}];", random.number()),
        1 => writeln!(
            out,
            ".const .align {} .u32 c{n}[4] = {{1, 2, {}}};",
            random.number(),
            random.number()
        ),
        2 => writeln!(
            out,
            ".shared .b32 s{n}[{}][{}];",
            random.number(),
            random.number()
        ),
        3 => writeln!(out, ".extern .shared .align 16 .b8 e{n}[];"),
        4 => writeln!(
            out,
            ".global .u64 a{n} = generic(a{n})+{};",
            random.number()
        ),
        _ => writeln!(out, ".file {n} \"x.cu\""),
    };
}

fn calls(random: &mut Random, out: &mut String, functions: usize, argument: &str) {
    let target = random.below(functions + 1);
    let _ = writeln!(
        out,
        "{{ .param .b32 y; .param .b32 z; st.param.b32 [y], {argument}; call (z), f{target}, (y); ld.param.b32 {argument}, [z]; }}"
    );
}

fn statement(random: &mut Random, out: &mut String, labels: usize, functions: usize) {
    let kind = random.below(22);
    if random.one_in(8) {
        let mask = random.number() as u32;
        let _ = writeln!(out, ".pragma \"used_bytes_mask {mask}\";");
    }
    // A guard before a scope is no PTX.
    if random.one_in(4) && (kind < 18 || random.one_in(50)) {
        let _ = write!(out, "@{}%p{} ", random.pick(&["", "!"]), random.below(3));
    }
    let types32 = ["u32", "s32", "b32", "f32"];
    let (d, a, b) = (random.below(8), random.below(8), random.below(8));
    let ty = *random.pick(&types32);
    let (number, few) = (random.number(), random.bits() % 64);
    let size = if random.one_in(10) { number } else { few };
    let space = *random.pick(&["", ".global", ".shared", ".local", ".param", ".const"]);
    let _ = match kind {
        0 => writeln!(out, "add.{ty} %r{d}, %r{a}, %r{b};"),
        1 => writeln!(out, "mad.lo.u32 %r{d}, %r{a}, {number}, %r{b};"),
        2 => writeln!(out, "shf.l.wrap.b32 %r{d}, %r{a}, %r{b}, {number};"),
        3 => writeln!(
            out,
            "setp.{}.{ty} %p{}, %r{a}, %r{b};",
            random.pick(&["lt", "eq", "geu", "hi"]),
            random.below(4)
        ),
        4 => writeln!(out, "cvt.rzi.s32.f32 %r{d}, %r{a};"),
        5 => writeln!(out, "cvt.u64.u32 %d{d}, %r{a};"),
        6 => writeln!(out, "div.{ty} %r{d}, %r{a}, %r{b};"),
        7 => writeln!(
            out,
            "ld{space}.u32 %r{d}, [%d{}+{}];",
            random.below(8),
            random.below(70)
        ),
        8 => writeln!(
            out,
            "st{space}.u32 [%d{}+{}], %r{a};",
            random.below(8),
            random.below(70)
        ),
        9 => writeln!(
            out,
            "ld{space}.v4.u8 {{%h0, %h1, %h2, %h3}}, [%d{}+{number}];",
            random.below(8)
        ),
        10 => writeln!(
            out,
            "atom{space}.add.u32 %r{d}, [%d{}], %r{a};",
            random.below(8)
        ),
        11 => writeln!(
            out,
            "shfl.sync.{}.b32 %r{d}|%p2, %r{a}, %r{b}, {number}, {:#x};",
            random.pick(&["up", "idx", "bfly"]),
            random.pick(&[0xffff_ffffu32, 0xffff, 0, 0x8000_0001])
        ),
        12 => writeln!(out, "vote.sync.ballot.b32 %r{d}, %p0, %r{a};"),
        13 => writeln!(
            out,
            "bar.sync {};",
            random.pick(&["0", "1", "15", "16", "%r3", "0, 32", "0, 33", "1, %r1"])
        ),
        14 => writeln!(
            out,
            "bar.{} ;",
            random.pick(&[
                "warp.sync 0xffffffff",
                "arrive 2, 64",
                "red.popc.u32 %r2, 0, %p0"
            ])
        ),
        15 | 16 => writeln!(out, "bra L{};", random.below(labels)),
        17 => writeln!(
            out,
            "{};",
            random.pick(&[
                "ret",
                "exit",
                "trap",
                "nanosleep.u32 100",
                "membar.gl",
                "brkpt"
            ])
        ),
        18 => writeln!(
            out,
            "B{number}: .branchtargets L0, L{};\nbrx.idx %r{a}, B{number};",
            random.below(labels)
        ),
        19 => writeln!(
            out,
            "{{ .reg .b32 %r<{size}>; .local .b8 own[{size}]; mov.u32 %r0, {number}; }}"
        ),
        20 => writeln!(out, ".reg .pred %x{number}<{size}>;"),
        _ => {
            calls(random, out, functions, "%r2");
            Ok(())
        }
    };
}

/// A module with one kernel, `t`, of nested branches and loops, all of which end, and of
/// instructions by their grammar.
pub fn structured(random: &mut Random) -> String {
    let mut out = String::from(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p, .param .u32 n)\n{\n\
         .reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .b64 %x<4>;\n.reg .b64 %a<3>;\n.reg .b32 %i<4>;\n\
         .local .align 16 .b8 own[64];\n.shared .align 16 .b8 cells[4096];\n\
         ld.param.u64 %x0, [p];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, 2;\nmov.u32 %r7, -1;\n\
         and.b32 %i0, %r0, 7;\nmul.wide.u32 %x3, %i0, 32;\nadd.u64 %x1, %x0, %x3;\nmov.u64 %x2, cells;\n\
         add.u64 %x2, %x2, %x3;\nmov.u64 %d0, cells;\ncvta.shared.u64 %a0, %d0;\nmov.u64 %a1, %x1;\nmov.u64 %a2, own;\n\
         setp.lt.u32 %p0, %r0, 16;\nsetp.eq.u32 %p1, %r0, 0;\nsetp.lt.u32 %p2, %r0, 1024;\n",
    );
    if random.one_in(2) {
        // All registers and shared memory are set: no fault ends the kernel early because of them.
        out += "mov.u32 %r3, 3;\nmov.u32 %r4, 1065353216;\nmov.u32 %r5, 5;\nmov.u32 %r6, 6;\nmov.u64 %d1, 1;\nmov.u64 %d2, 2;\nmov.u64 %d3, 3;\n\
                mov.u64 %d4, 4;\nmov.u64 %d5, 5;\nmov.u64 %d6, 6;\nmov.u64 %d7, 7;\nmov.u16 %h0, 1;\nmov.u16 %h1, 1;\nmov.u16 %h2, 2;\nmov.u16 %h3, 3;\n\
                mov.u32 %i1, 0;\nF:\nmul.wide.u32 %x3, %i1, 4;\nadd.u64 %x3, %x3, %d0;\nst.volatile.shared.u32 [%x3], %r2;\n\
                add.u32 %i1, %i1, 1;\nsetp.lt.u32 %p3, %i1, 160;\n@%p3 bra F;\nbar.sync 0;\n";
    }
    statements(random, &mut out, 0, &mut 0);
    out += "st.global.u32 [%x1], %r2;\nret;\n}\n";
    out
}

fn statements(random: &mut Random, out: &mut String, depth: usize, labels: &mut usize) {
    for _ in 0..random.below(14) {
        let kind = random.below(12);
        if kind < 3 && depth < 3 {
            *labels += 1;
            let (label, not) = (*labels, random.pick(&["", "!"]));
            let p = random.below(3);
            let _ = match kind {
                0 | 1 => writeln!(out, "@{not}%p{p} bra E{label};"),
                _ => writeln!(out, "mov.u32 %i{depth}, 0;\nE{label}:"),
            };
            statements(random, out, depth + 1, labels);
            let _ = match kind {
                0 => writeln!(out, "E{label}:"),
                1 => {
                    let _ = writeln!(out, "bra J{label};\nE{label}:");
                    statements(random, out, depth + 1, labels);
                    writeln!(out, "J{label}:")
                }
                _ => writeln!(
                    out,
                    "add.u32 %i{depth}, %i{depth}, 1;\nsetp.lt.u32 %p3, %i{depth}, {};\n@%p3 bra E{label};",
                    random.pick(&["3", "%r2", "%r0"])
                ),
            };
            continue;
        }
        if random.one_in(6) {
            let _ = write!(out, "@{}%p{} ", random.pick(&["", "!"]), random.below(3));
        }
        let _ = match kind {
            3 if depth == 0 => writeln!(out, "bar.sync 0;"),
            _ => writeln!(out, "{}", instructions::instruction(random)),
        };
    }
}

/// Modules that would need very much of something.
pub fn excess(random: &mut Random) -> String {
    let n = *random.pick(&[10usize, 100, 1000, 5000]);
    let head = ".version 7.0\n.target sm_75\n.address_size 64\n";
    let kernel =
        |body: &str| format!("{head}.visible .entry t(.param .u64 p)\n{{\n{body}\nret;\n}}\n");
    let big = random.number();
    match random.below(14) {
        0 => kernel(&"{".repeat(n)),
        1 => kernel(&format!("{}{}", "{".repeat(n), "}".repeat(n))),
        2 => kernel(&format!(
            ".reg .b32 %r<{big}>;\nmov.u32 %r{}, 1;",
            big.wrapping_sub(1)
        )),
        3 => kernel(
            &(0..n)
                .map(|i| format!(".reg .b64 %r{i}_<{big}>;\n"))
                .collect::<String>(),
        ),
        4 => kernel(
            &(0..n)
                .map(|i| format!(".reg .pred %p{i}_<{big}>;\n"))
                .collect::<String>(),
        ),
        5 => kernel(&format!(".shared .b8 x[{big}];\n.local .b8 y[{big}];")),
        6 => format!(
            "{head}.global .b8 x[{big}];\n.global .b8 y[{}];\n",
            random.number()
        ),
        7 => format!(
            "{head}.shared .b8 x[{big}];\n{}",
            &kernel("mov.u64 %d, x;")[head.len()..]
        ),
        8 => {
            // Each function calls the one before it twice.
            let depth = 1 + random.below(60);
            let mut text = format!("{head}.func f0() {{ .reg .b32 %r; mov.u32 %r, 1; ret; }}\n");
            for i in 1..=depth {
                let _ = writeln!(
                    text,
                    ".func f{i}() {{ call f{}; call f{}; ret; }}",
                    i - 1,
                    i - 1
                );
            }
            let _ = writeln!(
                text,
                ".visible .entry t(.param .u64 p) {{ call f{depth}; ret; }}"
            );
            text
        }
        9 => format!(
            "{head}.func f() {{ call f; ret; }}\n.func g() {{ call h; ret; }}\n.func h() {{ call g; ret; }}\n{}",
            &kernel("call f;\ncall g;")[head.len()..]
        ),
        10 => format!(
            "{head}.global .u32 x[4] = {}1{};\n",
            "{".repeat(n),
            "}".repeat(n)
        ),
        11 => format!(
            "{head}.visible .entry t({})\n{{ ret; }}\n",
            (0..n)
                .map(|i| format!(".param .b8 p{i}[{}]", big % 3))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        12 => kernel(&format!("ld.u32 %x, {};", "[".repeat(n))),
        _ => kernel(&format!("call {}x{};", "(".repeat(n), ")".repeat(n))),
    }
}
