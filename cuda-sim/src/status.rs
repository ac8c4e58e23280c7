//! CUDA's result codes, and the error type of the simulator: a code, a sentence, and for a kernel
//! fault the whole fault.

use std::{any::Any, ffi::CStr, fmt::Display};

use crate::{fault::Fault, memory::arena::ArenaError};

/// Result code of an exported function: a `CUresult`.
pub(crate) type Code = u32;

/// Result of the simulator's internal functions.
pub(crate) type Result<T = (), E = Error> = std::result::Result<T, E>;

macro_rules! statuses {
    ($($name:ident = $code:literal, $cuda:literal, $text:literal;)*) => {
        /// The result codes this driver uses, with the numbers CUDA gives them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum Status { $($name = $code),* }

        impl Status {
            /// All of them.
            pub(crate) const ALL: &[Status] = &[$(Status::$name),*];

            /// CUDA's name of the code.
            pub(crate) fn name(self) -> &'static CStr {
                match self { $(Status::$name => $cuda),* }
            }

            /// General meaning of the code.
            pub(crate) fn meaning(self) -> &'static CStr {
                match self { $(Status::$name => $text),* }
            }
        }
    };
}

statuses! {
    Success = 0, c"CUDA_SUCCESS", c"no error";
    InvalidValue = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OutOfMemory = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NotInitialized = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NoDevice = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    InvalidDevice = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    InvalidImage = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    InvalidContext = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    NoBinaryForGpu = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device";
    UnsupportedLimit = 215, c"CUDA_ERROR_UNSUPPORTED_LIMIT", c"limit is not supported on this architecture";
    PeerAccessUnsupported = 217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices";
    InvalidPtx = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX compilation failed";
    UnsupportedPtxVersion = 222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"the provided PTX was compiled with an unsupported toolchain";
    FileNotFound = 301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found";
    OperatingSystem = 304, c"CUDA_ERROR_OPERATING_SYSTEM", c"operating system call failed";
    InvalidHandle = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    IllegalState = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state";
    NotFound = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NotReady = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    IllegalAddress = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    LaunchOutOfResources = 701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch";
    LaunchTimeout = 702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated";
    PeerAccessNotEnabled = 705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", c"peer access has not been enabled";
    ContextIsDestroyed = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed";
    Assert = 710, c"CUDA_ERROR_ASSERT", c"device-side assert triggered";
    HostMemoryAlreadyRegistered = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region";
    HardwareStackError = 714, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error";
    IllegalInstruction = 715, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"an illegal instruction was encountered";
    MisalignedAddress = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address";
    InvalidAddressSpace = 717, c"CUDA_ERROR_INVALID_ADDRESS_SPACE", c"operation not supported on global/shared address space";
    InvalidPc = 718, c"CUDA_ERROR_INVALID_PC", c"invalid program counter";
    LaunchFailed = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    CooperativeLaunchTooLarge = 720, c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", c"too many blocks in cooperative launch";
    NotPermitted = 800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted";
    NotSupported = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    StreamCaptureUnsupported = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing";
    StreamCaptureInvalidated = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture";
    StreamCaptureMerge = 902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"operation would result in a merge of separate capture sequences";
    StreamCaptureUnmatched = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"capture was not ended in the same stream as it began";
    StreamCaptureIsolation = 905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"dependency created on uncaptured work in another stream";
    CapturedEvent = 907, c"CUDA_ERROR_CAPTURED_EVENT", c"operation not permitted on an event last recorded in a capturing stream";
    StreamCaptureWrongThread = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"attempt to terminate a thread-local capture sequence from another thread";
    InvalidClusterSize = 912, c"CUDA_ERROR_INVALID_CLUSTER_SIZE", c"cluster misconfiguration";
    Unknown = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

impl Status {
    pub(crate) fn error(self, text: impl Into<String>) -> Error {
        Error {
            status: self,
            text: text.into(),
            fault: None,
        }
    }

    /// The status with this number, if this driver uses it.
    pub(crate) fn from_code(code: Code) -> Option<Status> {
        Status::ALL
            .iter()
            .copied()
            .find(|&status| status as Code == code)
    }
}

/// Error of a call.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    pub(crate) status: Status,
    pub(crate) text: String,
    pub(crate) fault: Option<Box<Fault>>,
}

impl Error {
    /// `CUDA_ERROR_INVALID_VALUE`, by far the most frequent.
    pub(crate) fn value(text: impl Into<String>) -> Self {
        Status::InvalidValue.error(text)
    }

    /// `CUDA_ERROR_NOT_SUPPORTED`: the function exists only so that programs find it.
    pub(crate) fn unsupported(what: &str) -> Self {
        Status::NotSupported.error(format!("cuda-sim does not support {what}"))
    }

    /// The same error, of this argument.
    pub(crate) fn in_argument(self, argument: impl Display) -> Self {
        Self {
            text: format!("{argument}: {}", self.text),
            ..self
        }
    }

    /// Its code.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// Its sentence.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Status::Unknown.error(format!(
            "defect in cuda-sim, please report it: panic: {message}"
        ))
    }
}

impl From<ArenaError> for Error {
    fn from(error: ArenaError) -> Self {
        match error {
            ArenaError::OutOfMemory(text) => Status::OutOfMemory.error(text),
            ArenaError::Invalid(text) => Status::InvalidValue.error(text),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let status = Status::from_code(fault.cuda_error()).unwrap_or(Status::LaunchFailed);
        Self {
            status,
            text: fault.to_string(),
            fault: Some(Box::new(fault)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_cudarc() {
        use cudarc::driver::sys::CUresult;
        // cudarc's enum prints its variant's name. `transmute` is how cudarc reads what a driver
        // returns.
        for &status in Status::ALL {
            // SAFETY: the test's subject. `known_to_cudarc` in tests/symbols.rs checks that the
            // value exists.
            let theirs: CUresult = unsafe { std::mem::transmute(status as u32) };
            assert_eq!(
                format!("{theirs:?}"),
                status.name().to_str().expect("ASCII")
            );
        }
    }
}
