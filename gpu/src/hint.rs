//! Advice on a kernel that does not compile, because NVRTC has neither the C library's headers nor
//! CUDA's, or because an instruction needs a later architecture.

use crate::library_headers;
use crate::unit::Missing;

/// Headers that nothing takes the place of, the names that are missing without them, and what to
/// write instead. `{program}` stands for the command of
/// `checkout::program`.
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

/// The advice for a compiler's log of a unit without these headers, with a blank line before it;
/// empty if there is none.
pub(crate) fn advice(absent: &[&Missing], log: &str) -> String {
    let empty = absent
        .iter()
        .filter(|missing| missing.is_empty && !library_headers::is_of_host(&missing.include));
    let empty: Vec<&str> = empty.map(|missing| &*missing.include).collect();
    advice_without(&empty, log)
}

/// The advice for the log of a unit with nothing in place of these headers.
fn advice_without(empty: &[&str], log: &str) -> String {
    let between = |before: &str, after: &str| {
        let (_, rest) = log.split_once(before)?;
        rest.split_once(after).map(|(name, _)| name.to_owned())
    };
    let header = between("could not open source file \"", "\"");
    let undefined = |name: &&str| log.contains(&format!("identifier \"{name}\" is undefined"));
    let mut advice = Vec::new();
    if let Some(header) = &header {
        advice.push(format!(
            "NVRTC has no {header:?}: it compiles device code alone. Leave the line out: printf, assert, the \
             mathematical functions and threadIdx need no include. A kernel may include prelude.cuh, headers that \
             lie beside it or in a folder of -I, and as \"<package>/<file>.cuh\" those of packages below its own."
        ));
        if library_headers::is_of_device(header) {
            let install = "`{program} fetch-nvrtc --headers` installs CUDA's headers for kernels.";
            advice.push(install.to_owned());
        }
    }
    let (of_cuda, others): (Vec<&str>, Vec<&str>) = empty
        .iter()
        .partition(|header| library_headers::is_of_device(header));
    if !of_cuda.is_empty() {
        advice.push(format!(
            "These headers of CUDA are not installed and were taken as empty: {}. `{{program}} fetch-nvrtc --headers` \
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
            advice.push(instead.to_owned());
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

/// The highest architecture that the assembler asks for, such as 80: "Feature 'cp.async' requires
/// .target sm_80 or higher".
fn needed_architecture(log: &str) -> Option<u32> {
    let numbers = log.split("requires .target sm_").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    });
    numbers.flatten().max()
}

#[cfg(test)]
mod tests {
    use super::advice_without;

    fn advice_on(log: &str) -> String {
        advice_without(&[], log)
    }

    #[test]
    fn headers_that_were_taken_as_empty_are_named() {
        let text = advice_without(&["cuda/std/limits", "lib.hpp", "cuda_fp16.h"], "");
        for part in [
            "taken as empty: lib.hpp. -I FOLDER names",
            "taken as empty: cuda/std/limits, cuda_fp16.h. `{program} fetch-nvrtc --headers` installs",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_architecture_that_all_instructions_have_is_named() {
        let line = |feature: &str, sm: u32| {
            format!(
                "ptxas application ptx input, line 40; error   : Feature '{feature}' requires .target sm_{sm} or higher\n"
            )
        };
        let advice = advice_on(
            &[
                line("cp.async", 80),
                line("stmatrix", 90),
                line("redux", 80),
            ]
            .concat(),
        );
        assert!(advice.contains("--arch compute_90"), "{advice}");
        assert_eq!(advice_on("error: something else"), "");
    }

    #[test]
    fn each_header_has_its_advice() {
        let of_header = |name: &str| {
            advice_on(&format!(
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
            advice_on(&format!(
                "k.cu(2): error: identifier \"{name}\" is undefined\n"
            ))
        };
        assert!(of_name("uint32_t").contains("#include <cstdint>"));
        assert!(of_name("__half").starts_with("\n\n16-bit floats need #include <cuda_fp16.h>"));
        assert!(of_name("half").contains("`{program} fetch-nvrtc --headers` installs. Without"));
        assert_eq!(
            of_name("INFINITY"),
            "\n\nINFINITY is in prelude.cuh: #include \"prelude.cuh\".\n"
        );
        assert_eq!(of_name("nonsense"), "");
        assert_eq!(advice_on(""), "");
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
