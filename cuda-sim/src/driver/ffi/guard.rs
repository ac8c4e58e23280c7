//! Runs the body of each exported function, and keeps its error text, fault and launch per thread.
//!
//! [`guard`] turns an error or a panic into its code. It keeps the error's text for
//! `cuGetErrorString`, per thread and code, until the next error with that code in that thread. A
//! text that was asked for lives longer ([`text_of`]).

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock, Mutex},
};

use crate::status::{Code, Error, Result, Status};
use crate::{
    driver::report,
    fault::Fault,
    profile::{LaunchProfile, Record},
    sync::lock,
};

/// Longest text kept for `cuGetErrorString`, in bytes.
const TEXT_LIMIT: usize = 16 << 10;

thread_local! {
    /// The text of the last error with each code in this thread. At most one per code of
    /// [`Status`].
    static TEXTS: RefCell<HashMap<Code, Arc<CStr>>> = RefCell::default();
    static LAST_FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
    static LAST_LAUNCH: RefCell<Option<Arc<Record>>> = const { RefCell::new(None) };
}

/// The text of the last error with each code in any thread: for a thread that is handed another's
/// error.
static SHARED_TEXTS: LazyLock<Mutex<HashMap<Code, Arc<CStr>>>> = LazyLock::new(Mutex::default);

/// Texts whose addresses programs have, the one asked for last at the end. Together they take at
/// most 16 MiB. In an `Arc`, which may be moved without a claim to be the only reader of its text.
static HANDED_OUT: Mutex<VecDeque<Arc<CStr>>> = Mutex::new(VecDeque::new());
const HANDED_OUT_LIMIT: usize = 1024;

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
    // Whatever `body` shares with others is behind a `Mutex` or atomic, whose data stays valid (see
    // `sync`).
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Error::from_panic(&*payload)))
}

fn keep(error: Error) {
    let code = error.status as Code;
    let mut text = error.text.replace('\0', " ");
    let end = (0..=TEXT_LIMIT.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
    let text: Arc<CStr> = CString::new(text).unwrap_or_default().into();
    lock(&SHARED_TEXTS).insert(code, Arc::clone(&text));
    // `try_with`: a call from another thread-local's destructor may come after ours is gone.
    let _ = TEXTS.try_with(|texts| texts.borrow_mut().insert(code, text));
    if error.status == Status::NotSupported {
        report::unsupported(&error.text);
    }
    if let Some(fault) = error.fault {
        report::fault(&fault);
        let _ = LAST_FAULT.try_with(|last| last.replace(Some(*fault)));
    }
}

/// Keeps `record` as that of the last launch this thread has seen the end of.
pub(crate) fn keep_launch(record: Arc<Record>) {
    let _ = LAST_LAUNCH.try_with(|last| last.replace(Some(record)));
}

/// The fault that a driver call returned last in this thread, if any.
///
/// The full report behind an error like `CUDA_ERROR_ILLEGAL_ADDRESS`. It stays until the next
/// fault.
pub fn last_fault() -> Option<Fault> {
    LAST_FAULT.with_borrow(Clone::clone)
}

/// Returns [`last_fault`] and clears it.
pub fn take_fault() -> Option<Fault> {
    LAST_FAULT.take()
}

/// Counters of the last launch whose end this thread has seen: at the launch call or, if the stream
/// has a worker, at the call that waited for it. A launch that ended in a fault leaves them as they
/// were.
pub fn last_launch() -> Option<LaunchProfile> {
    LAST_LAUNCH.with_borrow(|last| last.as_ref().map(|record| record.profile()))
}

/// The text of the last error with code `status` in this thread or, if it had none, in any thread;
/// without one, the general meaning of the code.
///
/// C programs take the text of `cuGetErrorString` for a constant. The pointer is valid, in every
/// thread, until [`HANDED_OUT_LIMIT`] other texts have been asked for.
pub(crate) fn text_of(status: Status) -> *const c_char {
    let code = status as Code;
    let own = TEXTS.try_with(|texts| texts.borrow().get(&code).cloned());
    let text = own
        .ok()
        .flatten()
        .or_else(|| lock(&SHARED_TEXTS).get(&code).cloned());
    text.map_or(status.meaning().as_ptr(), hand_out)
}

/// Keeps a text in the list of those that were handed out, and returns its address.
fn hand_out(text: Arc<CStr>) -> *const c_char {
    let mut texts = lock(&HANDED_OUT);
    let known = texts.iter().position(|known| *known == text);
    let text = known.and_then(|at| texts.remove(at)).unwrap_or(text);
    if texts.len() == HANDED_OUT_LIMIT {
        texts.pop_front();
    }
    let address = text.as_ptr();
    texts.push_back(text);
    address
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
        assert_eq!(&*TEXTS.with_borrow(|texts| texts[&1].clone()), c"a b");
    }

    #[test]
    fn a_text_stays_while_other_errors_and_threads_come_and_go() {
        // SAFETY: an address that was handed out before few other texts, of a zero-terminated one.
        let read = |at: usize| unsafe { CStr::from_ptr(at as *const c_char) }.to_owned();
        let code = Status::NotFound;
        let (first, second) = std::thread::spawn(move || {
            keep(code.error("the first"));
            let first = text_of(code) as usize;
            assert_eq!(text_of(code) as usize, first);
            keep(code.error("the second"));
            (first, text_of(code) as usize)
        })
        .join()
        .expect("no panic");
        assert_eq!(
            (read(first), read(second)),
            (c"the first".into(), c"the second".into())
        );
        for number in 0..2 * HANDED_OUT_LIMIT {
            keep(code.error(format!("number {number}")));
            text_of(code);
        }
        assert_eq!(lock(&HANDED_OUT).len(), HANDED_OUT_LIMIT);
    }
}
