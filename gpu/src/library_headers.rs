//! Headers of the C++ library and of host libraries. NVRTC has none of them, and kernel files
//! include them out of habit.

/// The text of a header of the C++ library: what kernels use of it, as far as NVRTC does not have
/// that built in. Templates are those of libcu++, which `fetch-nvrtc --headers` installs.
pub fn text(name: &str) -> Option<String> {
    let text = match name {
        "stdint.h" | "cstdint" | "inttypes.h" | "cinttypes" => INTEGERS,
        "stddef.h" | "cstddef" => DIFFERENCE,
        "float.h" | "cfloat" => FLOAT,
        "limits.h" | "climits" => LIMITS,
        "math.h" | "cmath" => MATH,
        "stdlib.h" | "cstdlib" | "sys/types.h" => SHORT_NAMES,
        "algorithm" => ALGORITHM,
        "cuda.h" | "cudaTypedefs.h" => DRIVER,
        // They include these, and kernels rely on it.
        _ if is_of(&WITH_HALVES, name) => "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n",
        _ if OF_LIBCUXX.contains(&name) => {
            return Some(format!(
                "#pragma once\n#include <cuda/std/{name}>\nnamespace cuda {{ namespace std {{}} }}\n\
                 namespace std {{ using namespace cuda::std; }}\n"
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

/// Fixed-width integers, of the types that libcu++ gives them.
const INTEGERS: &str = "\
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef signed short int16_t; typedef unsigned short uint16_t;
typedef signed int int32_t; typedef unsigned int uint32_t;
typedef signed long long int64_t; typedef unsigned long long uint64_t;
typedef int64_t intptr_t; typedef uint64_t uintptr_t; typedef int64_t intmax_t; typedef uint64_t uintmax_t;
namespace std {
using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t;
using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t;
using ::uintptr_t; using ::intptr_t;
}
#define UINT8_MAX 255
#define INT8_MAX 127
#define INT8_MIN (-128)
#define UINT16_MAX 65535
#define INT16_MAX 32767
#define INT16_MIN (-32768)
#define UINT32_MAX 4294967295u
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT64_MAX 18446744073709551615ull
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-9223372036854775807ll - 1)
";

const DIFFERENCE: &str = "\
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
namespace std { using ::ptrdiff_t; typedef decltype(sizeof(0)) size_t; typedef decltype(nullptr) nullptr_t; }
";

const SHORT_NAMES: &str = "\
typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
namespace std { using ::abs; }
";

/// CUDA's driver interface: what kernels take of it as a parameter.
const DRIVER: &str = "\
#ifndef __cuda_cuda_h__
#define __cuda_cuda_h__
typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;
enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT16, CU_TENSOR_MAP_DATA_TYPE_UINT32,
    CU_TENSOR_MAP_DATA_TYPE_INT32, CU_TENSOR_MAP_DATA_TYPE_UINT64, CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
};
typedef unsigned long long CUdeviceptr;
#endif
";

const FLOAT: &str = "\
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define FLT_DIG 6
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-016
#define DBL_DIG 15
";

const LIMITS: &str = "\
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-9223372036854775807l - 1)
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-9223372036854775807ll - 1)
#define ULLONG_MAX 18446744073709551615ull
";

/// The functions are built into NVRTC, the constants are not. `INFINITY` is written as in
/// prelude.cuh, which may come after it.
const MATH: &str = "\
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#endif
#define HUGE_VALF INFINITY
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
namespace std {
using ::abs; using ::fabs; using ::sqrt; using ::exp; using ::exp2; using ::log; using ::log2; using ::pow;
using ::sin; using ::cos; using ::tan; using ::tanh; using ::erf; using ::floor; using ::ceil; using ::round;
using ::fma; using ::fmax; using ::fmin; using ::isnan; using ::isinf; using ::isfinite;
}
";

const ALGORITHM: &str = "\
namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T& clamp(const T& x, const T& low, const T& high) {
    return x < low ? low : high < x ? high : x;
}
}
";

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

/// Headers of host libraries, and their folders, that include those of 16-bit floats.
const WITH_HALVES: [&str; 8] = [
    "ATen/",
    "c10/",
    "cublas.h",
    "cublas_api.h",
    "cublas_v2.h",
    "cublasLt.h",
    "cublasXt.h",
    "torch/",
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
