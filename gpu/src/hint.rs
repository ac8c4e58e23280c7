//! Advice on a kernel that does not compile, because NVRTC has neither the C library's headers nor CUDA's, because the file is
//! a whole program, or because an instruction needs a later architecture.

use crate::host_code::HostFunction;
use crate::unit::Unit;
use crate::{find_nvrtc, host_headers};

/// Headers that nothing takes the place of, the names that are missing without them, and what to write instead. `{program}` is this
/// crate's program.
const INSTEAD: [(&[&str], &[&str], &str); 3] = [
    (
        &[],
        &[
            "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t",
            "uint64_t",
        ],
        "Fixed-width integers need #include <cstdint>.",
    ),
    (
        &[
            "cuda_fp16.h",
            "cuda_fp16.hpp",
            "cuda_bf16.h",
            "cuda_bf16.hpp",
        ],
        &[
            "half",
            "half2",
            "__half",
            "__half2",
            "__nv_bfloat16",
            "__nv_bfloat162",
            "__float2half",
            "__half2float",
        ],
        "16-bit floats need #include <cuda_fp16.h> or <cuda_bf16.h>, which `{program} fetch-nvrtc --headers` installs. Without \
         these headers, a 16-bit float is an unsigned short, its bits: prelude.cuh converts it by cvt_f32_f16 and \
         cvt_rn_f16_f32, bf16 by f32_from_bf16 and bf16_from_f32. Arithmetic is that of float.",
    ),
    (
        &[],
        &["INFINITY"],
        "INFINITY is in prelude.cuh: #include \"prelude.cuh\".",
    ),
];

/// Advice on a program whose host code was not found.
const MAIN: &str = "The file has a main(), and its host code could not be told from its kernels, because brackets do not pair \
                    outside of comments and strings. Put what runs on the host between #ifndef __CUDACC_RTC__ and #endif.";

/// The advice for a compiler's log of a unit, with a blank line before it; empty if there is none.
pub(crate) fn of(unit: &Unit, log: &str) -> String {
    let missing = unit.missing().iter();
    let empty = missing.filter(|missing| {
        unit.does_without(missing) && !host_headers::is_of_host(&missing.include)
    });
    let empty: Vec<&str> = empty.map(|missing| &*missing.include).collect();
    advice(unit.source(), unit.left_out(), &empty, log)
}

/// The advice for the log of a source without these functions of the host, and with nothing in place of these headers.
fn advice(source: &str, left_out: &[HostFunction], empty: &[&str], log: &str) -> String {
    let program = find_nvrtc::program();
    let between = |before: &str, after: &str| {
        let (_, rest) = log.split_once(before)?;
        rest.split_once(after).map(|(name, _)| name.to_owned())
    };
    let header = between("could not open source file \"", "\"");
    let undefined = |name: &&str| log.contains(&format!("identifier \"{name}\" is undefined"));
    let mut advice = Vec::new();
    if has_main(source) {
        advice.push(MAIN.to_owned());
    } else if let Some(header) = &header {
        advice.push(format!(
            "NVRTC has no {header:?}: it compiles device code alone. Leave the line out: printf, assert, the \
             mathematical functions and threadIdx need no include. A kernel may include prelude.cuh, headers that \
             lie beside it or in a folder of -I, and as \"<package>/<file>.cuh\" those of packages below its own."
        ));
        if host_headers::is_of_device(header) {
            advice.push(format!(
                "`{program} fetch-nvrtc --headers` installs CUDA's headers for kernels."
            ));
        }
    }
    for function in left_out
        .iter()
        .filter(|function| undefined(&&*function.name))
    {
        advice.push(format!(
            "{}, line {} of {}, is a function of the host: a kernel calls it if it is marked __device__.",
            function.name, function.lines.0, function.file
        ));
    }
    if !left_out.is_empty() {
        advice.push(HostFunction::list(left_out));
    }
    let (of_cuda, others): (Vec<&str>, Vec<&str>) = empty
        .iter()
        .partition(|header| host_headers::is_of_device(header));
    if !of_cuda.is_empty() {
        advice.push(format!(
            "These headers of CUDA are not installed and were taken as empty: {}. `{program} fetch-nvrtc --headers` \
             installs them.",
            of_cuda.join(", ")
        ));
    }
    if !others.is_empty() {
        advice.push(format!(
            "These headers were not found and were taken as empty: {}. -I FOLDER names a folder that has them.",
            others.join(", ")
        ));
    }
    for (headers, names, instead) in INSTEAD {
        let asked_for = header
            .as_ref()
            .is_some_and(|header| headers.contains(&&**header));
        if asked_for || names.iter().any(undefined) {
            advice.push(instead.replace("{program}", &program));
        }
    }
    if let Some(needed) = needed_architecture(log) {
        advice.push(format!(
            "For an instruction of a later architecture, pass --arch compute_{needed}, or begin the file with \
             `// arch: compute_{needed}`."
        ));
    }
    if advice.is_empty() {
        return String::new();
    }
    format!("\n\n{}\n", advice.join("\n"))
}

/// The highest architecture that the assembler asks for, such as 80: "Feature 'cp.async' requires .target sm_80 or higher".
fn needed_architecture(log: &str) -> Option<u32> {
    let numbers = log.split("requires .target sm_").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    });
    numbers.flatten().max()
}

/// Whether a line begins with the definition of `main`.
fn has_main(source: &str) -> bool {
    source.lines().any(|line| {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut words = words.filter(|word| !word.is_empty());
        line.starts_with("int")
            && words.next() == Some("int")
            && words.next() == Some("main")
            && line.contains('(')
    })
}

#[cfg(test)]
mod tests {
    use super::{HostFunction, advice};

    fn of_log(log: &str) -> String {
        advice("", &[], &[], log)
    }

    #[test]
    fn the_architecture_that_all_instructions_have_is_named() {
        let line = |feature: &str, sm: u32| {
            format!(
                "ptxas application ptx input, line 40; error   : Feature '{feature}' requires .target sm_{sm} or higher\n"
            )
        };
        let advice = of_log(
            &[
                line("cp.async", 80),
                line("stmatrix", 90),
                line("redux", 80),
            ]
            .concat(),
        );
        assert!(advice.contains("--arch compute_90"), "{advice}");
        assert_eq!(of_log("error: something else"), "");
    }

    #[test]
    fn a_program_is_told_what_was_left_out() {
        let main = HostFunction {
            file: "k.cu".to_owned(),
            name: "main".to_owned(),
            lines: (3, 9),
        };
        let log = "k.cu(2): error: identifier \"helper\" is undefined\n";
        let helper = HostFunction {
            name: "helper".to_owned(),
            lines: (1, 1),
            ..main.clone()
        };
        let empty = ["cuda/std/limits", "lib.hpp", "cuda_fp16.h"];
        let text = advice("", &[helper, main], &empty, log);
        for part in [
            "helper, line 1 of k.cu, is a function of the host: a kernel calls it if it is marked __device__.\n",
            "Host code is not compiled: helper (k.cu:1), main (k.cu:3-9).\n",
            "taken as empty: lib.hpp. -I FOLDER names",
            "taken as empty: cuda/std/limits, cuda_fp16.h. `cargo run -p gpu -- fetch-nvrtc --headers` installs",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_program_is_told_from_a_kernel() {
        let log = "k.cu(2): error: identifier \"cudaMalloc\" is undefined\n";
        for main in [
            "int main() {",
            "int main(int argc, char** argv)\n{",
            "\nint  main ()",
        ] {
            let source = format!("__global__ void k() {{}}\n{main}\n");
            assert!(
                advice(&source, &[], &[], log).contains("#ifndef __CUDACC_RTC__"),
                "{main}"
            );
        }
        for other in [
            "// int main()",
            "int main_loop()",
            "print main()",
            "  int main;",
        ] {
            assert_eq!(advice(other, &[], &[], log), "", "{other}");
        }
    }

    #[test]
    fn each_header_has_its_advice() {
        let of_header = |name: &str| {
            of_log(&format!(
                "k.cu(2): catastrophic error: cannot open source file \"{name}\"\n\
                 k.cu(2): catastrophic error: could not open source file \"{name}\" (no directories in search list)\n"
            ))
        };
        for (header, instead) in [
            ("cuda_fp16.h", Some("by cvt_f32_f16 and cvt_rn_f16_f32")),
            ("cuda_bf16.h", Some("f32_from_bf16 and bf16_from_f32")),
            ("own.h", None),
            ("mma.h", None),
            ("fp16.h", None),
        ] {
            let advice = of_header(header);
            let lines: Vec<&str> = advice.trim().lines().collect();
            assert!(
                lines[0].starts_with(&format!("NVRTC has no {header:?}: ")),
                "{advice}"
            );
            assert!(lines[0].contains("Leave the line out: printf"), "{advice}");
            let of_cuda = header.starts_with("cuda_") || header == "mma.h";
            let count = 1 + usize::from(of_cuda) + usize::from(instead.is_some());
            assert_eq!(lines.len(), count, "{advice}");
            assert_eq!(
                lines[1..]
                    .iter()
                    .any(|line| line.contains("fetch-nvrtc --headers")),
                of_cuda
            );
            assert!(
                instead.is_none_or(|instead| lines[count - 1].contains(instead)),
                "{advice}"
            );
        }
    }

    #[test]
    fn each_name_that_is_undefined_without_its_header_has_its_advice() {
        let of_name = |name: &str| {
            of_log(&format!(
                "k.cu(2): error: identifier \"{name}\" is undefined\n"
            ))
        };
        assert!(of_name("uint32_t").contains("#include <cstdint>"));
        assert!(of_name("__half").starts_with("\n\n16-bit floats need #include <cuda_fp16.h>"));
        assert!(of_name("half").contains("-p gpu -- fetch-nvrtc --headers` installs. Without"));
        assert_eq!(
            of_name("INFINITY"),
            "\n\nINFINITY is in prelude.cuh: #include \"prelude.cuh\".\n"
        );
        assert_eq!(of_name("nonsense"), "");
        assert_eq!(of_log(""), "");
    }

    #[test]
    fn the_prelude_has_what_the_advice_names() {
        let prelude = include_str!("../kernels/prelude.cuh");
        for name in [
            "cvt_f32_f16(",
            "cvt_rn_f16_f32(",
            "f32_from_bf16(",
            "bf16_from_f32(",
            "#define INFINITY ",
        ] {
            assert!(prelude.contains(name), "{name}");
        }
    }
}
