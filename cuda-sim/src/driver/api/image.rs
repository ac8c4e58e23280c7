//! Images of modules and libraries: PTX text, in memory or in a file.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read},
};

use crate::driver::ffi::{Error, In, Result, Status};

/// First bytes of machine code: ELF (cubin), and CUDA's fat binary.
const MACHINE_CODE: [[u8; 4]; 2] = [*b"\x7fELF", 0xBA55_ED50_u32.to_le_bytes()];

/// The PTX text in memory at `image`, which ends with a zero byte; `argument` names the address in
/// errors.
pub(super) fn text_at(argument: &str, image: &In<[u8; 4]>) -> Result<String> {
    // Text of fewer than four bytes still has its zero byte, so it is read byte by byte.
    let start = image.cast::<u8>();
    start.get(argument)?;
    // SAFETY: not null, and the caller promises an image: machine code of known length, or a
    // zero-terminated text. Machine code begins with four bytes that are not zero, text with a zero
    // byte within its length.
    let head = unsafe {
        let bytes = start.address();
        let length = (0..4).take_while(|&i| *bytes.add(i) != 0).count();
        std::slice::from_raw_parts(bytes, length)
    };
    check_is_text(head)?;
    // SAFETY: not null and no machine code: a zero-terminated text.
    let text = unsafe { CStr::from_ptr(start.address().cast()) };
    Ok(text.to_str().map_err(|_| not_text())?.to_owned())
}

/// The PTX text in `bytes`, which may end with zero bytes.
pub(super) fn text_in(bytes: &[u8]) -> Result<&str> {
    check_is_text(bytes)?;
    let text = std::str::from_utf8(bytes).map_err(|_| not_text())?;
    Ok(text.trim_end_matches('\0'))
}

/// The PTX text in a file of less than 256 MiB.
pub(super) fn text_of_file(path: &str) -> Result<String> {
    Ok(text_in(&file(path)?)?.to_owned())
}

/// Contents of a file of less than 256 MiB.
pub(super) fn file(path: &str) -> Result<Vec<u8>> {
    read(path).map_err(|error| Status::FileNotFound.error(format!("{path}: {error}")))
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    const MOST: u64 = 256 << 20;
    let mut image = Vec::new();
    let read = File::open(path)?.take(MOST).read_to_end(&mut image)?;
    if read as u64 == MOST {
        let text = format!("a module of {MOST} bytes or more");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(image)
}

/// An error if `image` begins like machine code, which cannot be simulated.
fn check_is_text(image: &[u8]) -> Result {
    if MACHINE_CODE.iter().any(|magic| image.starts_with(magic)) {
        return Err(Status::NoBinaryForGpu.error(
            "the module is machine code; cuda-sim runs PTX text: compile for a virtual architecture (compute_…)",
        ));
    }
    Ok(())
}

fn not_text() -> Error {
    Status::InvalidImage.error("the module is neither PTX text nor machine code")
}
