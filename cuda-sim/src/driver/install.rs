//! Making this process find the simulated driver under the name `libcuda.so`.

use std::{
    error::Error,
    ffi::c_void,
    fs::File,
    io::{self, Write as _},
    iter,
    os::fd::{AsRawFd, FromRawFd},
    sync::OnceLock,
};

use libloading::Library;

use crate::{
    driver::{self, report},
    install_error::InstallError,
};

/// The jump table that `build.rs` compiled: a shared library with the soname `libcuda.so`.
static STUB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda.so"));

/// The address of an exported function.
#[repr(transparent)]
struct Address(*const ());

// SAFETY: the address of a function, which is the same and callable in every thread.
unsafe impl Sync for Address {}

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// The address of an exported function, by its name in `symbols.txt`, which is sorted.
pub(crate) fn address_of(name: &str) -> Option<*const c_void> {
    let index = NAMES.binary_search(&name).ok()?;
    Some(TABLE[index].0.cast())
}

/// Makes the simulated driver this process's `libcuda.so`, for cudarc and for whoever else looks it
/// up by that name.
///
/// Call it before the first CUDA call: a library that has found another driver keeps it. Calling it
/// again, from any thread, does nothing and returns the same result.
///
/// # Errors
/// [`InstallError`]: a variable `CUDA_SIM_…` with a value that it does not take, no address space
/// for device memory, a system without `memfd_create` or `/proc`, or another `libcuda.so` that is
/// already loaded.
pub fn install() -> Result<(), InstallError> {
    static DONE: OnceLock<Result<(), InstallError>> = OnceLock::new();
    report::leave_to_program();
    DONE.get_or_init(|| {
        driver::started()?;
        load()
    })
    .clone()
}

fn load() -> Result<(), InstallError> {
    let file = stub_file().map_err(|error| failed("create a file in memory", error))?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the library is the one `build.rs` compiled; it has no initialisers and depends on
    // nothing.
    let library =
        unsafe { Library::new(path) }.map_err(|error| failed("load the driver library", error))?;
    // SAFETY: `cuda_sim_fill` has this type in `build.rs`.
    let fill = unsafe { library.get::<unsafe extern "C" fn(*const Address)>(b"cuda_sim_fill\0") };
    let fill = fill.map_err(|error| failed("find the driver library's table", error))?;
    // SAFETY: it reads as many addresses as `symbols.txt` has lines, and so many are in `TABLE`, in
    // the same order.
    unsafe { fill(TABLE.as_ptr()) };
    let ours = symbol(&library, b"cuda_sim_fill\0");
    // Never unloaded: its functions' addresses are handed out.
    std::mem::forget(library);
    check_is_found(ours)
}

/// A file in memory that holds the stub.
fn stub_file() -> io::Result<File> {
    // SAFETY: the name is zero-terminated; the result is checked.
    let descriptor = unsafe { libc::memfd_create(c"libcuda-sim".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(STUB)?;
    Ok(file)
}

/// Looks `libcuda.so` up as cudarc will, and compares.
fn check_is_found(ours: Option<*mut c_void>) -> Result<(), InstallError> {
    // SAFETY: either the library just loaded, or one that the process has already run the
    // initialisers of; a `libcuda.so` on disk is not reached, because a loaded library of that
    // soname comes first.
    let found =
        unsafe { Library::new("libcuda.so") }.map_err(|error| failed("find libcuda.so", error))?;
    let theirs = symbol(&found, b"cuda_sim_fill\0");
    if theirs.is_some() && theirs == ours {
        Ok(())
    } else {
        Err(InstallError::AnotherDriver)
    }
}

fn symbol(library: &Library, name: &[u8]) -> Option<*mut c_void> {
    // SAFETY: only the address is used.
    unsafe { library.get::<*mut c_void>(name).ok()?.try_as_raw_ptr() }
}

/// The dynamic loader's errors say what happened only in their cause.
fn failed(step: &'static str, error: impl Error) -> InstallError {
    let causes = iter::successors(error.source(), |&cause| cause.source());
    let reason = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    InstallError::Load { step, reason }
}
