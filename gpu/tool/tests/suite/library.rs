//! The C++ library as programs use it with nvcc.

use std::path::PathBuf;

use gpu::find_nvrtc;
use gpu::nvrtc::Nvrtc;

use crate::common::{folder, run, write};

/// A folder for kernel files, and the compiler that they need.
fn place(name: &str) -> (PathBuf, Nvrtc) {
    let path = find_nvrtc::search()
        .unwrap()
        .found
        .expect("NVRTC, which this test needs, is installed");
    (folder(name), Nvrtc::open(&path).unwrap())
}

/// Compiles a text and the header `own.cuh` beside it.
fn ptx(folder: &std::path::Path, nvrtc: &Nvrtc, text: &str) -> crate::common::Run {
    write(folder, "k.cu", text);
    write(
        folder,
        "own.cuh",
        "#pragma once\nconstexpr int blocks(int n, int size) { return (n + size - 1) / size; }\n",
    );
    let variables = [
        ("NVRTC_PATH", nvrtc.path().to_str().unwrap()),
        ("GPU_CACHE_DIR", folder.to_str().unwrap()),
    ];
    run(folder, &["ptx", "k.cu"], &variables)
}

#[test]
#[ignore = "needs NVRTC"]
fn constexpr_functions_of_a_file_without_host_code_are_the_devices() {
    let (folder, nvrtc) = place("constexpr");
    for text in [
        "#include \"own.cuh\"\n__global__ void k(int* x) { x[0] = blocks(x[1], 32); }\n",
        "#include \"own.cuh\"\n__global__ void k(int* x) { static_assert(blocks(33, 32) == 2); }\n",
        "struct Pair { int a, b; constexpr int sum() const { return a + b; } };\n\
         __global__ void k(int* x, Pair p) { x[0] = p.sum(); }\n",
    ] {
        ptx(&folder, &nvrtc, text).succeeds();
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn constants_of_c_and_gnus_bit_width_are_there() {
    let (folder, nvrtc) = place("constants");
    let text = "#include <bit>\n#include <cstdint>\n#include <climits>\n\
        static_assert(std::__bit_width(5u) == 3 && std::__bit_width(0ull) == 0);\n\
        static_assert(INT8_MIN == -128 && UINT16_MAX == 65535 && INT64_MIN < INT32_MIN && CHAR_BIT == 8);\n\
        static_assert(LONG_MAX == INT64_MAX && ULLONG_MAX == UINT64_MAX && UINT_MAX == 4294967295u);\n\
        __global__ void k(unsigned* x) { x[0] = std::__bit_width(x[1]); }\n";
    for end in ["", "int main() {}\n"] {
        ptx(&folder, &nvrtc, &format!("{text}{end}")).succeeds();
    }
}

/// With libcu++ beside the compiler; without it, the error says what installs it.
#[test]
#[ignore = "needs NVRTC"]
fn limits_are_constants_and_errors_come_without_warnings() {
    let (folder, nvrtc) = place("limits");
    let limits = "#include <cstdint>\n#include <climits>\n#include <limits>\n#include <type_traits>\n\
        constexpr float INF = std::numeric_limits<float>::infinity();\n\
        static_assert(-INF < 0 && std::numeric_limits<double>::infinity() > 1e308);\n\
        static_assert(std::numeric_limits<int>::max() == INT_MAX && std::is_same<int, int>::value);\n\
        __global__ void k(float* x) { x[0] = INF + std::numeric_limits<float>::quiet_NaN(); }\n";
    for end in ["", "int main() {}\n"] {
        let compiled = ptx(&folder, &nvrtc, &format!("{limits}{end}"));
        if nvrtc.headers().is_empty() {
            compiled
                .fails()
                .says("taken as empty: cuda/std/climits, cuda/std/limits, cuda/std/type_traits.");
            continue;
        }
        compiled.succeeds();
        let error = ptx(
            &folder,
            &nvrtc,
            &format!("{limits}__device__ int x = nonsense;\n{end}"),
        );
        error.fails().says("k.cu(9): error");
        error.omits("warning").omits("taken as empty");
    }
}
