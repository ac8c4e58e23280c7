//! Headers of the C++ library and of host libraries. NVRTC has none of them, and kernel files
//! include them out of habit.

/// The name that the compiler is given for a header of the C++ library. By its own name, headers of
/// libcu++ would include it in place of theirs.
pub fn given_name(name: &str) -> String {
    format!("c++/{name}")
}

/// The text of a header of the C++ library: what kernels use of it, as far as NVRTC does not have
/// that built in. Templates are those of libcu++, which `fetch-nvrtc --headers` installs.
pub fn text(name: &str) -> Option<String> {
    let text = match name {
        // Of the types that libcu++ gives them.
        "stdint.h" | "cstdint" | "inttypes.h" | "cinttypes" => {
            concat!(include_str!("limits.cuh"), include_str!("integers.cuh"))
        }
        "stddef.h" | "cstddef" => include_str!("difference.cuh"),
        "float.h" | "cfloat" => include_str!("float.cuh"),
        "limits.h" | "climits" => include_str!("limits.cuh"),
        // The functions are built into NVRTC, the constants are not. `INFINITY` is written as in
        // prelude.cuh, which may come after it.
        "math.h" | "cmath" => include_str!("math.cuh"),
        "stdlib.h" | "cstdlib" | "sys/types.h" => include_str!("short_names.cuh"),
        "algorithm" => include_str!("algorithm.cuh"),
        // What kernels take of CUDA's driver interface as a parameter.
        "cuda.h" | "cudaTypedefs.h" => include_str!("driver.cuh"),
        // They include these, and kernels rely on it.
        _ if is_of(&WITH_HALVES, name) => "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n",
        _ if is_of(&TORCH, name) => concat!(
            "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n",
            include_str!("torch.cuh")
        ),
        _ if OF_LIBCUXX.contains(&name) => {
            let (before, behind) = match name {
                "limits" => (
                    concat!(
                        "#include <cuda/std/climits>\n#include <cuda/std/type_traits>\n",
                        include_str!("infinities.cuh")
                    ),
                    "#if defined(CCCL_VERSION) && CCCL_VERSION < 2008000\n\
                     #define _CCCL_COMPILER_NVRTC\n#define _LIBCUDACXX_COMPILER_NVRTC\n#endif\n",
                ),
                "bit" => ("", include_str!("bit_width.cuh")),
                _ => ("", ""),
            };
            return Some(format!(
                "#pragma once\n{before}#include <cuda/std/{name}>\nnamespace cuda {{ namespace std {{}} }}\n\
                 namespace std {{ using namespace cuda::std; }}\n{behind}"
            ));
        }
        _ if EMPTY.contains(&name) => "namespace std {}\n",
        _ => return None,
    };
    Some(format!("#pragma once\n{text}"))
}

/// True for a header of a host library, or one that declares what NVRTC has built in: it is taken
/// as empty.
pub fn is_of_host(name: &str) -> bool {
    BUILT_IN.contains(&name) || is_of(&HOST_LIBRARIES, name)
}

/// True for a header that is one of these, or in one of these folders.
fn is_of(libraries: &[&str], name: &str) -> bool {
    libraries
        .iter()
        .any(|library| match library.ends_with('/') {
            true => name.starts_with(library),
            false => name == *library,
        })
}

/// True for a header that kernels need, so that taking it as empty would only give other errors.
pub fn is_of_device(name: &str) -> bool {
    let of_cuda = [
        "cuda_fp",
        "cuda_bf16",
        "mma.h",
        "cooperative_groups",
        "cuda_pipeline",
    ];
    of_cuda.iter().any(|device| name.starts_with(device)) || name.starts_with("cuda/")
}

/// Headers with templates that kernels use.
const OF_LIBCUXX: [&str; 17] = [
    "array",
    "atomic",
    "barrier",
    "bit",
    "chrono",
    "complex",
    "concepts",
    "functional",
    "initializer_list",
    "iterator",
    "limits",
    "optional",
    "ratio",
    "span",
    "tuple",
    "type_traits",
    "utility",
];

/// Headers of which kernels can use nothing, or nothing that NVRTC does not have.
const EMPTY: [&str; 61] = [
    "assert.h",
    "cassert",
    "ctype.h",
    "cctype",
    "errno.h",
    "cerrno",
    "signal.h",
    "csignal",
    "stdarg.h",
    "cstdarg",
    "stdbool.h",
    "stdio.h",
    "cstdio",
    "string.h",
    "cstring",
    "time.h",
    "ctime",
    "unistd.h",
    "dirent.h",
    "fcntl.h",
    "getopt.h",
    "pthread.h",
    "sys/mman.h",
    "sys/stat.h",
    "sys/time.h",
    "condition_variable",
    "deque",
    "exception",
    "filesystem",
    "forward_list",
    "fstream",
    "future",
    "iomanip",
    "ios",
    "iosfwd",
    "iostream",
    "istream",
    "list",
    "map",
    "memory",
    "mutex",
    "new",
    "numeric",
    "ostream",
    "queue",
    "random",
    "regex",
    "set",
    "sstream",
    "stack",
    "stdexcept",
    "string",
    "string_view",
    "thread",
    "typeinfo",
    "typeindex",
    "unordered_map",
    "unordered_set",
    "variant",
    "vector",
    "malloc.h",
];

/// Headers of CUDA that are empty if they are not installed.
const BUILT_IN: [&str; 8] = [
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "cuda_profiler_api.h",
    "device_functions.h",
    "device_launch_parameters.h",
    "driver_types.h",
    "vector_functions.h",
    "vector_types.h",
];

/// Headers that only host code uses, and folders of such. Others of their libraries are empty as
/// any in `<…>`.
const HOST_LIBRARIES: [&str; 21] = [
    "cudnn.h",
    "cudnn_frontend.h",
    "curand.h",
    "cusolverDn.h",
    "cusolverSp.h",
    "cusolver_common.h",
    "cusparse.h",
    "cusparse_v2.h",
    "gtest/",
    "hip/",
    "mpi.h",
    "nccl.h",
    "nvml.h",
    "nvrtc.h",
    "nvtx3/",
    "nvToolsExt.h",
    "nvToolsExtCuda.h",
    "nvToolsExtCudaRt.h",
    "omp.h",
    "pybind11/",
    "Python.h",
];

/// Folders of PyTorch's headers.
const TORCH: [&str; 3] = ["ATen/", "c10/", "torch/"];

/// Headers of host libraries that include those of 16-bit floats.
const WITH_HALVES: [&str; 5] = [
    "cublas.h",
    "cublas_api.h",
    "cublas_v2.h",
    "cublasLt.h",
    "cublasXt.h",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_header_has_one_text() {
        for name in [
            "stdint.h",
            "cstdint",
            "cmath",
            "algorithm",
            "vector",
            "limits",
        ] {
            assert!(text(name).unwrap().starts_with("#pragma once\n"), "{name}");
        }
        for name in OF_LIBCUXX {
            assert!(!EMPTY.contains(&name), "{name}");
            assert!(
                text(name).unwrap().contains("#include <cuda/std/"),
                "{name}"
            );
        }
        for name in [
            "",
            "mma.h",
            "cuda_fp16.h",
            "own.h",
            "vector.h",
            "../vector",
            "cublas_utils.h",
        ] {
            assert_eq!(text(name), None, "{name}");
        }
    }

    #[test]
    fn headers_of_the_host_are_told_from_those_of_kernels() {
        for name in ["torch/extension.h", "cublas_v2.h", "cublasLt.h"] {
            assert!(text(name).unwrap().contains("cuda_bf16.h"), "{name}");
        }
        for name in ["torch/extension.h", "c10/core/ScalarType.h", "ATen/ATen.h"] {
            assert!(text(name).unwrap().contains("kFloat16"), "{name}");
        }
        for name in ["nccl.h", "cuda_runtime.h", "pybind11/pybind11.h"] {
            assert!(is_of_host(name) && !is_of_device(name), "{name}");
        }
        for name in [
            "cuda_fp16.h",
            "mma.h",
            "cuda/barrier",
            "cooperative_groups/reduce.h",
        ] {
            assert!(is_of_device(name) && !is_of_host(name), "{name}");
        }
        for name in [
            "curand_kernel.h",
            "cudnn_att.h",
            "cusolver_utils.h",
            "mpi.hpp",
        ] {
            assert!(!is_of_host(name), "{name}");
        }
    }
}
