//! Names and texts of result codes.

use crate::driver::ffi::{Code, Error, Out, Result, Status, guard, text_of};

/// Name of a result code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: Code, name: Out<*const i8>) -> Code {
    guard(|| name.set("pStr", known(error)?.name().as_ptr()))
}

/// Text of a result code: the last error's own, if this code has been returned, else its general
/// meaning. The text stays until the program has asked for 1024 others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: Code, text: Out<*const i8>) -> Code {
    guard(|| text.set("pStr", text_of(known(error)?)))
}

fn known(code: Code) -> Result<Status> {
    Status::from_code(code)
        .ok_or_else(|| Error::value(format!("{code} is no result code of this driver")))
}
