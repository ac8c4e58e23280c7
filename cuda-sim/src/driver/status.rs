//! Result codes, and the texts that go with them.
//!
//! Inside the driver an error is an [`Error`]: a code and a sentence, and for a kernel fault the whole fault. At the
//! boundary [`guard`] turns it into the code, and keeps the sentence for `cuGetErrorString`: per thread and code,
//! until the next error with that code in that thread.

use std::{
    any::Any,
    cell::RefCell,
    collections::HashMap,
    ffi::{CStr, CString},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock, Mutex},
};

use crate::{
    driver::ffi::Out,
    fault::Fault,
    memory::arena::ArenaError,
    profile::{LaunchProfile, Record},
    sync::lock,
};

/// What an exported function returns: a `CUresult`.
pub(crate) type Code = u32;

/// What the driver's own functions return.
pub(crate) type Result<T = (), E = Error> = std::result::Result<T, E>;

macro_rules! statuses {
    ($($name:ident = $code:literal, $cuda:literal, $text:literal;)*) => {
        /// The result codes this driver uses, with the numbers CUDA gives them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum Status { $($name = $code),* }

        impl Status {
            /// All of them.
            const ALL: &[Status] = &[$(Status::$name),*];

            /// CUDA's name of the code.
            fn name(self) -> &'static CStr {
                match self { $(Status::$name => $cuda),* }
            }

            /// What the code means, when no more is known.
            fn meaning(self) -> &'static CStr {
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
    ContextIsDestroyed = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed";
    Assert = 710, c"CUDA_ERROR_ASSERT", c"device-side assert triggered";
    HardwareStackError = 714, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error";
    IllegalInstruction = 715, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"an illegal instruction was encountered";
    MisalignedAddress = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address";
    InvalidAddressSpace = 717, c"CUDA_ERROR_INVALID_ADDRESS_SPACE", c"operation not supported on global/shared address space";
    InvalidPc = 718, c"CUDA_ERROR_INVALID_PC", c"invalid program counter";
    LaunchFailed = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NotPermitted = 800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted";
    NotSupported = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    StreamCaptureUnsupported = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing";
    StreamCaptureInvalidated = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture";
    StreamCaptureMerge = 902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"operation would result in a merge of separate capture sequences";
    StreamCaptureUnmatched = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"capture was not ended in the same stream as it began";
    StreamCaptureIsolation = 905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"dependency created on uncaptured work in another stream";
    CapturedEvent = 907, c"CUDA_ERROR_CAPTURED_EVENT", c"operation not permitted on an event last recorded in a capturing stream";
    StreamCaptureWrongThread = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"attempt to terminate a thread-local capture sequence from another thread";
    Unknown = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

impl Status {
    /// The status with this number, if this driver uses it.
    pub(crate) fn from_code(code: Code) -> Option<Status> {
        Status::ALL
            .iter()
            .copied()
            .find(|&status| status as Code == code)
    }
}

/// Why a driver call failed.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    status: Status,
    text: String,
    fault: Option<Box<Fault>>,
}

impl Error {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            fault: None,
        }
    }

    /// `CUDA_ERROR_INVALID_VALUE`, by far the most frequent.
    pub(crate) fn value(text: impl Into<String>) -> Self {
        Self::new(Status::InvalidValue, text)
    }

    /// A call that exists so that programs find it, and does nothing here.
    pub(crate) fn unsupported(what: &str) -> Self {
        Self::new(
            Status::NotSupported,
            format!("cuda-sim does not support {what}"),
        )
    }

    fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Self::new(
            Status::Unknown,
            format!("defect in cuda-sim, please report it: panic: {message}"),
        )
    }
}

impl From<ArenaError> for Error {
    fn from(error: ArenaError) -> Self {
        match error {
            ArenaError::OutOfMemory(text) => Self::new(Status::OutOfMemory, text),
            ArenaError::Invalid(text) => Self::new(Status::InvalidValue, text),
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

/// Longest text kept for `cuGetErrorString`, in bytes.
const TEXT_LIMIT: usize = 16 << 10;

thread_local! {
    /// The text of the last error with each code in this thread. At most one per code of [`Status`].
    static TEXTS: RefCell<HashMap<Code, CString>> = RefCell::default();
    static LAST_FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
    static LAST_LAUNCH: RefCell<Option<Arc<Record>>> = const { RefCell::new(None) };
}

/// The text of the last error with each code in any thread: for a thread that is handed another's error.
static SHARED_TEXTS: LazyLock<Mutex<HashMap<Code, CString>>> = LazyLock::new(Mutex::default);

/// Runs the body of an exported function: errors and panics become codes, their texts are kept.
pub(crate) fn guard(body: impl FnOnce() -> Result) -> Code {
    match catch(body) {
        Ok(()) => Status::Success as Code,
        Err(error) => {
            let code = error.status as Code;
            if error.status != Status::NotReady {
                keep(error);
            }
            code
        }
    }
}

/// Runs `body` and turns a panic into an error.
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // Whatever `body` shares with others is behind a `Mutex` or atomic, whose data stays valid (see `sync`).
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Error::of_panic(&*payload)))
}

fn keep(error: Error) {
    let code = error.status as Code;
    let mut text = error.text.replace('\0', " ");
    let end = (0..=TEXT_LIMIT.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
    let text = CString::new(text).unwrap_or_default();
    lock(&SHARED_TEXTS).insert(code, text.clone());
    // `try_with`: a call from another thread-local's destructor may come after ours is gone.
    let _ = TEXTS.try_with(|texts| texts.borrow_mut().insert(code, text));
    if let Some(fault) = error.fault {
        let _ = LAST_FAULT.try_with(|last| last.replace(Some(*fault)));
    }
}

/// Keeps `record` as that of the last launch this thread has seen the end of.
pub(crate) fn keep_launch(record: Arc<Record>) {
    let _ = LAST_LAUNCH.try_with(|last| last.replace(Some(record)));
}

/// The fault that a driver call returned last in this thread, if any.
///
/// The full report behind an error like `CUDA_ERROR_ILLEGAL_ADDRESS`. It stays until the next fault.
pub fn last_fault() -> Option<Fault> {
    LAST_FAULT.with_borrow(Clone::clone)
}

/// [`last_fault`], which is then forgotten.
pub fn take_fault() -> Option<Fault> {
    LAST_FAULT.take()
}

/// The counters of the last launch whose end this thread has seen: in the launch itself, or, if the stream has a
/// worker, in the call that waited for it. A launch that ended in a fault changes nothing.
pub fn last_launch() -> Option<LaunchProfile> {
    LAST_LAUNCH.with_borrow(|last| last.as_ref().map(|record| record.profile()))
}

/// Name of a result code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: Code, name: Out<*const i8>) -> Code {
    guard(|| name.set("pStr", known(error)?.name().as_ptr()))
}

/// Text of a result code: the last error's own, if this code has been returned, else its general meaning.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: Code, text: Out<*const i8>) -> Code {
    guard(|| {
        let status = known(error)?;
        let own = TEXTS.try_with(|texts| {
            let mut texts = texts.borrow_mut();
            if let Some(text) = texts.get(&error) {
                return Some(text.as_ptr());
            }
            let shared = lock(&SHARED_TEXTS).get(&error)?.clone();
            Some(texts.entry(error).or_insert(shared).as_ptr())
        });
        text.set(
            "pStr",
            own.ok().flatten().unwrap_or(status.meaning().as_ptr()),
        )
    })
}

fn known(code: Code) -> Result<Status> {
    Status::from_code(code)
        .ok_or_else(|| Error::value(format!("{code} is no result code of this driver")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_unknown_error_with_its_message() {
        let code = guard(|| panic!("at the {}", "disco"));
        assert_eq!(code, 999);
        let text = TEXTS.with_borrow(|texts| texts[&code].to_string_lossy().into_owned());
        assert!(text.contains("at the disco"), "{text}");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        keep(Error::value("é".repeat(TEXT_LIMIT)));
        let text = TEXTS.with_borrow(|texts| texts[&1].clone());
        assert_eq!(text.to_str().expect("whole characters").len(), TEXT_LIMIT);
        keep(Error::value("a\0b"));
        assert_eq!(
            TEXTS.with_borrow(|texts| texts[&1].clone()),
            c"a b".to_owned()
        );
    }

    #[test]
    fn codes_are_those_of_cudarc() {
        use cudarc::driver::sys::CUresult;
        // cudarc's enum prints its variant's name. `transmute` is how cudarc reads what a driver returns.
        for &status in Status::ALL {
            // SAFETY: the test's subject. `known_to_cudarc` in tests/symbols.rs checks that the value exists.
            let theirs: CUresult = unsafe { std::mem::transmute(status as u32) };
            assert_eq!(
                format!("{theirs:?}"),
                status.name().to_str().expect("ASCII")
            );
        }
    }
}
