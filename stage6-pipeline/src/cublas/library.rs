//! The functions of `libcublas.so` that this crate calls, loaded at run time. cudarc's feature `cublas` binds all of them, which
//! doubles its build time.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::Error;

/// Names of the library, those of the CUDA versions first that the repository compiles for.
const NAMES: [&str; 4] = [
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublas.so.11",
    "libcublas.so",
];

/// `cublasHandle_t`.
pub(super) type Handle = *mut c_void;

/// `cublasOperation_t`.
pub(super) const OP_N: c_int = 0;
pub(super) const OP_T: c_int = 1;
/// `cudaDataType`.
pub(super) const R_32F: c_int = 0;
pub(super) const R_16F: c_int = 2;
pub(super) const R_16BF: c_int = 14;
/// `cublasComputeType_t`.
pub(super) const COMPUTE_32F: c_int = 68;
/// `cublasGemmAlgo_t`.
pub(super) const GEMM_DEFAULT: c_int = -1;

/// Handle, two operations; m, n, k; alpha; A, B and beta and C, each matrix with its dtype and leading dimension; compute type and
/// algorithm.
type GemmEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// Functions by their names without `cublas` and `_v2`. Each returns a `cublasStatus_t`.
#[derive(Debug)]
pub(super) struct Functions {
    pub(super) create: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(Handle) -> c_int,
    /// Handle and `cudaStream_t`, which is the driver's stream.
    pub(super) set_stream: unsafe extern "C" fn(Handle, *mut c_void) -> c_int,
    /// Handle, device memory, its bytes.
    pub(super) set_workspace: unsafe extern "C" fn(Handle, *mut c_void, usize) -> c_int,
    pub(super) gemm_ex: GemmEx,
    /// Loaded as long as its functions can be called.
    _library: Library,
}

/// The functions, loaded once in a process, or the reason why they are not there.
pub(super) fn functions() -> Result<&'static Functions, String> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    FUNCTIONS.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Functions, String> {
    // SAFETY: loads NVIDIA's library by its names, which runs its initialisers.
    let library = NAMES
        .iter()
        .find_map(|name| unsafe { Library::new(*name) }.ok());
    let library = library.ok_or("no libcublas.so is found")?;
    // SAFETY: the types are those of cublas_v2.h, where an enumeration is an int.
    unsafe {
        Ok(Functions {
            create: symbol(&library, "cublasCreate_v2")?,
            destroy: symbol(&library, "cublasDestroy_v2")?,
            set_stream: symbol(&library, "cublasSetStream_v2")?,
            set_workspace: symbol(&library, "cublasSetWorkspace_v2")?,
            gemm_ex: symbol(&library, "cublasGemmEx")?,
            _library: library,
        })
    }
}

/// A function of the library.
///
/// # Safety
///
/// `F` must be its type, and not be called after the library is unloaded.
unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: as above.
    let symbol = unsafe { library.get::<F>(name.as_bytes()) };
    symbol
        .map(|symbol| *symbol)
        .map_err(|error| error.to_string())
}

/// The status that `function` has returned, as an error unless it is success.
pub(super) fn check(function: &'static str, status: c_int) -> Result<(), Error> {
    match status {
        0 => Ok(()),
        status => Err(Error::Cublas { function, status }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the library is, it has all functions.
    #[test]
    fn a_library_that_is_there_has_the_functions() {
        match functions() {
            Ok(_) => println!("all functions are found"),
            Err(reason) => assert_eq!(reason, "no libcublas.so is found"),
        }
    }
}
