//! The driver's functions by name, with their codes as plain numbers: cudarc's enum must not hold
//! an unknown one.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUresult};

/// Every function takes its arguments as the first few of these.
type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// The codes that may come back. `CUDA_ERROR_UNKNOWN` is not among them: it stands for a panic.
const KNOWN: [CUresult; 45] = {
    use CUresult::*;
    [
        CUDA_SUCCESS,
        CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_INVALID_IMAGE,
        CUDA_ERROR_INVALID_CONTEXT,
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUDA_ERROR_UNSUPPORTED_LIMIT,
        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
        CUDA_ERROR_INVALID_PTX,
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        CUDA_ERROR_FILE_NOT_FOUND,
        CUDA_ERROR_OPERATING_SYSTEM,
        CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_ILLEGAL_STATE,
        CUDA_ERROR_NOT_FOUND,
        CUDA_ERROR_NOT_READY,
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
        CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUDA_ERROR_ASSERT,
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        CUDA_ERROR_INVALID_CLUSTER_SIZE,
        CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        CUDA_ERROR_STREAM_CAPTURE_MERGE,
        CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
        CUDA_ERROR_CAPTURED_EVENT,
        CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
        CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
    ]
};

/// Installs the driver and initialises it.
pub fn start() {
    cuda_sim::install().unwrap();
    assert_eq!(call("cuInit", &[0]), 0);
}

/// Calls a function of the driver. Its code must be a known one.
///
/// Each argument must be what the function asks for: a pointer that is not null must be valid.
/// Handles, sizes, numbers and addresses of device memory may be anything.
#[track_caller]
pub fn call(name: &'static str, arguments: &[u64]) -> u32 {
    let mut a = [0; 11];
    a[..arguments.len()].copy_from_slice(arguments);
    let function = function(name);
    // SAFETY: integers and pointers only. By the calling convention of x86-64 Linux, each of them
    // is in a register or a slot of 64 bits, a narrower one in its low bits, and arguments too many
    // are not looked at.
    let code = unsafe {
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],
        )
    };
    assert!(
        KNOWN.iter().any(|&known| known as u32 == code),
        "{name}{arguments:x?} returns {code}: {}",
        text(code)
    );
    code
}

fn text(code: u32) -> String {
    let mut at: *const std::ffi::c_char = std::ptr::null();
    let function = function("cuGetErrorString");
    // SAFETY: as above; `at` outlives the call, and the driver gives it a zero-terminated text.
    unsafe {
        function(code.into(), &raw mut at as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        match at.is_null() {
            true => "no such code".to_owned(),
            false => std::ffi::CStr::from_ptr(at).to_string_lossy().into_owned(),
        }
    }
}

fn function(name: &'static str) -> Function {
    static KEPT: OnceLock<Mutex<HashMap<&'static str, Function>>> = OnceLock::new();
    let mut kept = KEPT
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    *kept.entry(name).or_insert_with(|| {
        // SAFETY: the type is right for every function in this use of it; see `call`.
        *unsafe { sys::culib().get::<Function>(name.as_bytes()) }.expect(name)
    })
}
