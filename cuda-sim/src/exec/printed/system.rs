//! Output of the process.

/// Writes to standard output.
pub(super) fn write(text: &[u8]) {
    write_to(libc::STDOUT_FILENO, text);
}

/// Writes to standard error.
pub(super) fn notice(text: &[u8]) {
    write_to(libc::STDERR_FILENO, text);
}

/// Writes without the standard library: the host program may hold its lock while it waits for the
/// kernel.
fn write_to(descriptor: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the bytes are readable, and a closed descriptor is an error code.
        let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
        // Output that nobody takes is no reason to stop.
        match usize::try_from(written) {
            Ok(written @ 1..) => bytes = &bytes[written..],
            _ => return,
        }
    }
}
