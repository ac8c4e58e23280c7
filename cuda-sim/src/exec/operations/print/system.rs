//! Conversions by the host's `snprintf`.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use super::Value;

/// The bytes of a value's text. The conversion is one for its type: `%-8s`, `%c`, `%lld`, `%.3f`.
pub(super) fn convert(conversion: String, value: &Value) -> Vec<u8> {
    let text = match value {
        Value::Text(text) => text.clone(),
        _ => Vec::new(),
    };
    let [conversion, text] =
        [conversion.into_bytes(), text].map(|text| CString::new(text).unwrap_or_default());
    let (conversion, text) = (conversion.as_ptr(), text.as_ptr());
    let write = |to: *mut c_char, room: usize| {
        // SAFETY: the conversion takes one argument, of the type given here; `to` has room for that
        // many bytes.
        let length = unsafe {
            match *value {
                Value::Text(_) => libc::snprintf(to, room, conversion, text),
                Value::Character(c) => libc::snprintf(to, room, conversion, c_int::from(c)),
                Value::Integer(value) => libc::snprintf(to, room, conversion, value),
                Value::Float(value) => libc::snprintf(to, room, conversion, value),
            }
        };
        usize::try_from(length).unwrap_or(0)
    };
    let mut bytes = in_c_locale(|| {
        let mut bytes = vec![0u8; write(ptr::null_mut(), 0) + 1];
        write(bytes.as_mut_ptr().cast(), bytes.len());
        bytes
    });
    bytes.pop(); // the closing NUL
    bytes
}

/// Runs with the locale of C programs that set none: what a kernel prints does not depend on the
/// program around it.
fn in_c_locale<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the name is a C string, and the locale, which this thread uses in between, is freed
    // after its last use.
    unsafe {
        let c = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), ptr::null_mut());
        let before = libc::uselocale(c);
        let result = work();
        libc::uselocale(before);
        libc::freelocale(c);
        result
    }
}
