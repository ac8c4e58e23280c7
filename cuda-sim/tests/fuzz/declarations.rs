//! Modules of declarations by their grammar, as PTX ISA chapters 5, 10 and 11 write them: each
//! loads.

use std::fmt::Write;

use super::random::Random;

/// The scalar types of variables, with their sizes in bytes.
const TYPES: [(&str, usize); 14] = [
    (".b8", 1),
    (".u8", 1),
    (".s8", 1),
    (".b16", 2),
    (".u16", 2),
    (".s16", 2),
    (".b32", 4),
    (".u32", 4),
    (".s32", 4),
    (".f32", 4),
    (".b64", 8),
    (".u64", 8),
    (".s64", 8),
    (".f64", 8),
];

/// A module with variables, functions and debug information, and one kernel, `t`, which calls the
/// functions.
pub fn module(random: &mut Random) -> String {
    let mut out = format!(
        "//\n// by grammar\n/* and */\n.version {}\n.target {}{}\n.address_size 64\n",
        random.pick(&["7.0", "8.4", "8.8"]),
        random.pick(&["sm_75", "sm_80", "sm_90a"]),
        random.pick(&["", ", debug", ", texmode_independent"]),
    );
    let mut names = Vec::new();
    for number in 0..random.below(8) {
        match random.below(5) {
            0 => aside(random, &mut out),
            _ => variable(random, &mut out, number, &mut names),
        }
    }
    let functions: Vec<bool> = (0..random.below(4)).map(|_| random.one_in(2)).collect();
    for (i, &vector) in functions.iter().enumerate() {
        if random.one_in(2) {
            let _ = writeln!(out, "{};", head(random, i, vector));
        }
        function(random, &mut out, i, vector);
    }
    kernel(random, &mut out, &functions, &names);
    for _ in 0..random.below(3) {
        section(random, &mut out);
    }
    out
}

/// Text that may stand between definitions.
fn aside(random: &mut Random, out: &mut String) {
    let _ = match random.below(4) {
        0 => writeln!(out, ".pragma \"nounroll\", \"own hint\";"),
        1 => writeln!(out, ".file {} \"/k/a b.cu\"", 1 + random.below(9)),
        2 => writeln!(
            out,
            ".file\t{} \"x.cu\", {}, 77",
            1 + random.below(9),
            random.bits() >> 32
        ),
        _ => writeln!(out, "// nothing"),
    };
}

/// A variable at module scope. Those of global and constant memory may have values, and are named
/// in `names`.
fn variable(random: &mut Random, out: &mut String, number: usize, names: &mut Vec<String>) {
    let begin = random.pick(&["v", "_v", "$v", "%v", "_ZN3abcE", "v$_"]);
    let name = format!("{begin}{number}");
    let space = *random.pick(&[".global", ".const", ".shared"]);
    let (ty, bytes) = *random.pick(&TYPES);
    let vector = *random.pick(&["", "", ".v2", ".v4"]);
    let linkage = *random.pick(&["", ".visible ", ".weak "]);
    let align = match random.below(3) {
        0 => format!(".align {} ", 16 << random.below(3)),
        _ => String::new(),
    };
    let elements = match vector {
        ".v2" => 2,
        ".v4" => 4,
        _ => 1,
    };
    let vector = if elements * bytes > 16 { "" } else { vector };
    let elements = if vector.is_empty() { 1 } else { elements };
    let linkage = if space == ".shared" { "" } else { linkage };
    let count = 1 + random.below(4);
    let shape = match random.below(3) {
        0 => String::new(),
        1 => format!("[{count}]"),
        _ => format!("[{count}][2]"),
    };
    let _ = write!(out, "{linkage}{space} {align}{vector} {ty} {name}{shape}");
    if space != ".shared" && random.one_in(2) {
        let of_element = |random: &mut Random| {
            let values: Vec<String> = (0..elements).map(|_| value(random, ty, names)).collect();
            match elements {
                1 => values[0].clone(),
                _ => format!("{{{}}}", values.join(", ")),
            }
        };
        let row = |random: &mut Random, count: usize| {
            let values: Vec<String> = (0..count).map(|_| of_element(random)).collect();
            format!("{{{}}}", values.join(", "))
        };
        let initial = match shape.matches('[').count() {
            0 => of_element(random),
            // Fewer values than elements: the rest is zero.
            1 => {
                let given = 1 + random.below(count);
                row(random, given)
            }
            _ => {
                let rows: Vec<String> = (0..count).map(|_| row(random, 2)).collect();
                format!("{{{}}}", rows.join(","))
            }
        };
        let _ = write!(out, " = {initial}");
    }
    out.push_str(";\n");
    if space == ".global" {
        names.push(name);
    }
}

/// A value for an element of a type: a number in one of its notations, or the address of a
/// variable.
fn value(random: &mut Random, ty: &str, names: &[String]) -> String {
    let few = random.below(100);
    if ty.starts_with(".f") {
        return match (ty, random.below(3)) {
            (".f32", 0) => format!("0f{:08X}", random.bits() as u32),
            (_, 0) => format!("0d{:016X}", random.bits()),
            (_, 1) => format!("-{few}.5"),
            _ => format!("{few}.0"),
        };
    }
    if ty.ends_with("64") && !names.is_empty() && random.one_in(2) {
        let name = random.pick(names);
        return match random.below(3) {
            0 => name.clone(),
            1 => format!("{name}+{few}"),
            _ => format!("generic({name})+{few}"),
        };
    }
    if ty == ".b8" && !names.is_empty() && random.one_in(4) {
        return format!(
            "{}({})",
            random.pick(&["0xFF", "0xFF00", "0xFF000000"]),
            random.pick(names)
        );
    }
    match random.below(5) {
        0 => format!("0x{few:X}"),
        1 => format!("0{few:o}"),
        2 => format!("0b{few:b}"),
        3 => format!("{few}U"),
        _ => format!("{}{few}", random.pick(&["", "-"])),
    }
}

fn head(random: &mut Random, i: usize, vector: bool) -> String {
    let linkage = random.pick(&["", ".visible ", ".weak "]);
    let result = if vector {
        ".param .align 16 .b8 r[16]"
    } else {
        ".param .b32 r"
    };
    format!("{linkage}.func ({result}) f{i}(.param .b32 a, .param .align 8 .b8 s[16])")
}

fn function(random: &mut Random, out: &mut String, i: usize, vector: bool) {
    let head = head(random, i, vector);
    let _ = writeln!(
        out,
        "{head}\n{}{{",
        random.pick(&["", ".noinline\n", ".pragma \"x\";\n"])
    );
    let _ = writeln!(
        out,
        ".reg .b32 %r<4>; .reg .f32 %f0, %f1;\n.reg .v4 .b32 %w;"
    );
    location(random, out);
    let _ = writeln!(
        out,
        "ld.param.b32 %r0, [a];\nld.param.v2.b32 {{%r1, %r2}}, [s+8];"
    );
    location(random, out);
    let _ = match vector {
        true => writeln!(out, "st.param.v4.b32 [r], {{%r0, %r1, %r2, %r0}};"),
        false => writeln!(out, "st.param.b32 [r+0], %r1;"),
    };
    out.push_str("ret;\n}\n");
}

/// A line of the source, with or without the call that it was inlined at.
fn location(random: &mut Random, out: &mut String) {
    let line = random.below(1000);
    let _ = match random.below(5) {
        0 => writeln!(out, "\t.loc\t1 {line} {}", random.below(80)),
        1 => writeln!(
            out,
            ".loc 1 {line} 0, function_name $L__info_string0, inlined_at 1 {line} 3"
        ),
        2 => writeln!(
            out,
            ".loc 2 {line} 7, function_name $L__info_string0+12, inlined_at 1 9 3"
        ),
        3 => writeln!(out, "$L__tmp{}:", random.bits()),
        _ => Ok(()),
    };
}

fn kernel(random: &mut Random, out: &mut String, functions: &[bool], names: &[String]) {
    let pointer = random.pick(&["", " .ptr", " .ptr .global", " .ptr .global .align 16"]);
    let _ = writeln!(
        out,
        ".visible .entry t(\n.param .u64{pointer} p,\n.param .align 8 .b8 s[24], .param .f32 x\n)"
    );
    for directive in [
        ".maxntid 128, 1, 1",
        ".maxntid 1024",
        ".minnctapersm 1",
        ".maxnreg 64",
        ".pragma \"nounroll\";",
    ] {
        if random.one_in(4) {
            let _ = writeln!(out, "{directive}");
        }
    }
    let _ = writeln!(
        out,
        "{{\n.local .align 16 .b8 __local_depot0[32];\n.shared .align 16 .b8 cells[256];\n.reg .pred %p<3>, %q;\n\
         .reg .b16 %rs<3>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<6>, %SP;\n.reg .f32 %f<3>;"
    );
    let _ = writeln!(
        out,
        "mov.u64 %SP, __local_depot0;\nld.param.u64 %rd0, [p];\nmov.u32 %r0, 7;"
    );
    for (i, &vector) in functions.iter().enumerate() {
        location(random, out);
        let result = if vector {
            ".align 16 .b8 q[16]"
        } else {
            ".b32 q"
        };
        let uni = random.pick(&["", ".uni"]);
        let _ = writeln!(
            out,
            "{{ // callseq {i}, 0\n.reg .b32 temp_param_reg;\n.param .b32 a0;\n.param .align 8 .b8 a1[16];\n.param {result};\n\
             st.param.b32 [a0+0], %r0;\nst.param.v4.b32 [a1], {{%r0, 1, 0x2, 3U}};\n\
             call{uni} (q), f{i}, (a0, a1);\nld.param.b32 %r1, [q+0];\n}} // callseq {i}"
        );
    }
    for name in names {
        let _ = match random.one_in(2) {
            true => writeln!(out, "mov.u64 %rd1, {name};"),
            false => writeln!(out, "mov.u64 %rd1, {name}+8;\ncvta.global.u64 %rd2, %rd1;"),
        };
    }
    for _ in 0..random.below(6) {
        location(random, out);
        let _ = match random.below(8) {
            0 => writeln!(out, ".pragma \"nounroll\";"),
            1 => writeln!(
                out,
                "mov.b64 %rd3, {{%r0, %r0}};\nmov.b64 {{%r2, _}}, %rd3;"
            ),
            2 => writeln!(out, "setp.lt.and.s32 %p0|%p1, %r0, -5, !%q;").map(|()| {
                let at = out.rfind("setp").expect("just written");
                out.insert_str(at, "setp.eq.u32 %q, %r0, WARP_SZ;\n");
            }),
            3 => writeln!(
                out,
                "st.local.v2.b32 [%SP+-0], {{%r0, %r0}};\nld.local.b32 %r3, [__local_depot0+4];"
            ),
            4 => writeln!(out, "{{ .reg .b32 %r<2>; mov.u32 %r1, -0x10; }};;"),
            5 => writeln!(
                out,
                "proto{}: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);",
                random.bits()
            ),
            6 => writeln!(out, "@!%q bra END;").map(|()| {
                let at = out.rfind("@!").expect("just written");
                out.insert_str(at, "setp.ne.u32 %q, %r0, %r0;\n");
            }),
            _ => writeln!(
                out,
                "mov.f32 %f1, 0f3F800000; add.rn.f32 %f1, %f1, 0f00000000;"
            ),
        };
    }
    out.push_str("END:\nst.global.u32 [%rd0], %r0;\nret;\n\n}\n");
}

/// Debug information, which is passed over.
fn section(random: &mut Random, out: &mut String) {
    let _ = writeln!(
        out,
        "\t.section\t{}\n\t{{\n.b8 1, 0x11, 0\n.b32 $L__info_string0\n.b64 .debug_abbrev\n.b32 END-{}\n.b8 0\n$L__x:\n\t}}",
        random.pick(&[".debug_abbrev", ".debug_info", ".debug_str", ".debug_loc"]),
        random.below(9)
    );
}
