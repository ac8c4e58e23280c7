//! A kernel's parameters, copied out of the caller's memory.
//!
//! CUDA takes one pointer per parameter and no count, so with too few arguments a driver reads
//! pointers behind the caller's array. Here the operating system makes each read
//! (`process_vm_readv`), and reports an address that is not readable instead of ending the process.

use std::ffi::c_void;

use crate::{
    driver::ffi::{Error, Result},
    program::Kernel,
};

/// Markers in the `extra` array.
const END: usize = 0;

const BUFFER_POINTER: usize = 1;

const BUFFER_SIZE: usize = 2;

/// The parameter block from an array of one pointer per parameter.
pub(crate) fn from_pointers(kernel: &Kernel, pointers: *const *const c_void) -> Result<Vec<u8>> {
    let mut block = vec![0; kernel.param_bytes];
    if kernel.params.is_empty() {
        return Ok(block);
    }
    if pointers.is_null() {
        return Err(missing(kernel, 0, "kernelParams is null"));
    }
    for (index, param) in kernel.params.iter().enumerate() {
        let mut address = [0; size_of::<usize>()];
        let slot = pointers.wrapping_add(index) as usize;
        let bad = |why: &str| missing(kernel, index, why);
        read(slot, &mut address)
            .map_err(|Unreadable| bad("the array of parameter pointers ends before it"))?;
        let address = usize::from_ne_bytes(address);
        let target = &mut block[param.offset..param.offset + param.bytes];
        read(address, target)
            .map_err(|Unreadable| bad(&format!("its pointer, {address:#x}, is not readable")))?;
    }
    Ok(block)
}

/// The parameter block from `extra`: marker and value pairs that give one buffer and its size.
pub(crate) fn from_buffer(kernel: &Kernel, extra: *const *const c_void) -> Result<Vec<u8>> {
    let (mut buffer, mut size) = (None, None);
    let word = |index: usize| {
        let mut word = [0; size_of::<usize>()];
        let read = read(extra.wrapping_add(index) as usize, &mut word);
        read.map_err(|Unreadable| Error::value("extra has no CU_LAUNCH_PARAM_END"))?;
        Ok::<usize, Error>(usize::from_ne_bytes(word))
    };
    for pair in (0..).step_by(2) {
        match word(pair)? {
            END => break,
            BUFFER_POINTER => buffer = Some(word(pair + 1)?),
            BUFFER_SIZE => {
                let mut value = [0; size_of::<usize>()];
                read(word(pair + 1)?, &mut value).map_err(|Unreadable| {
                    Error::value("CU_LAUNCH_PARAM_BUFFER_SIZE is followed by no size")
                })?;
                size = Some(usize::from_ne_bytes(value));
            }
            other => {
                return Err(Error::value(format!(
                    "extra holds {other:#x}, which is no marker"
                )));
            }
        }
    }
    let (Some(buffer), Some(size)) = (buffer, size) else {
        return Err(Error::value(
            "extra must give CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE",
        ));
    };
    if size < kernel.param_bytes {
        return Err(Error::value(format!(
            "launch of `{}`: its parameters take {} bytes, the buffer has {size}",
            kernel.name, kernel.param_bytes
        )));
    }
    let mut block = vec![0; kernel.param_bytes];
    read(buffer, &mut block)
        .map_err(|Unreadable| Error::value("the parameter buffer is not readable"))?;
    Ok(block)
}

fn missing(kernel: &Kernel, index: usize, why: &str) -> Error {
    Error::value(format!(
        "launch of `{}`: parameter {} of {} ({} bytes): {why}; were all {} arguments passed?",
        kernel.name,
        index + 1,
        kernel.params.len(),
        kernel.params[index].bytes,
        kernel.params.len()
    ))
}

/// An address that this process cannot read.
struct Unreadable;

/// Fills `to` from `address` of this process, if all of it is readable.
fn read(address: usize, to: &mut [u8]) -> Result<(), Unreadable> {
    if to.is_empty() {
        return Ok(());
    }
    let local = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut c_void,
        iov_len: to.len(),
    };
    // SAFETY: `local` is `to`, writable for its length; the remote address is only followed by the
    // operating system, which reports one that is not mapped.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if copied == to.len() as isize {
        return Ok(());
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    if copied >= 0 || error == Some(libc::EFAULT) || address == 0 {
        return Err(Unreadable);
    }
    // The call itself is not allowed here (some sandboxes forbid it): trust the caller, as a real
    // driver does.
    // SAFETY: the caller of the launch promised a readable pointer for every parameter.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, to.as_mut_ptr(), to.len()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_distinguishes_mapped_from_unmapped() {
        let value = 0x1234_5678_u32;
        let mut bytes = [0; 4];
        assert!(read(&raw const value as usize, &mut bytes).is_ok());
        assert_eq!(u32::from_ne_bytes(bytes), value);
        for address in [0, 8, usize::MAX - 8, 0xdead_beef_0000] {
            assert!(read(address, &mut bytes).is_err(), "{address:#x}");
        }
    }
}
