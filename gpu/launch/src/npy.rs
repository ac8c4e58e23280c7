//! NumPy's `.npy` files, format versions 1 to 3: a magic number, a header that is a Python
//! dictionary, the elements.
//!
//! The format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>. Only what
//! NumPy writes for plain numbers is read: little-endian, in row-major order. `bf16`, which NumPy
//! does not have, is two bytes without a type (`V2`), as the `ml_dtypes` package writes it.

use std::fs;
use std::path::Path;

use crate::error::InvocationError;
use crate::values::{Type, Values};

/// The largest file that is read, bytes: as large as the memory of the simulated device.
const MAX_BYTES: u64 = 4 << 30;

const MAGIC: &[u8] = b"\x93NUMPY";

impl Values {
    /// Writes the elements into a `.npy` file of one dimension.
    ///
    /// # Errors
    ///
    /// [`InvocationError::Npy`] if the file cannot be written.
    pub fn write_npy(&self, path: &Path) -> Result<(), InvocationError> {
        fs::write(path, write(self)).map_err(|error| InvocationError::Npy {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Reads a `.npy` file whose elements have type `ty`, of any shape, in row-major order.
    ///
    /// # Errors
    ///
    /// [`InvocationError::Npy`] if the file cannot be read, is no regular file, has more than 4
    /// GiB, or holds something else.
    pub fn read_npy(path: &Path, ty: Type) -> Result<Values, InvocationError> {
        let file = gpu_reading::bytes(path, MAX_BYTES);
        file.and_then(|file| read(file, ty))
            .map_err(|reason| InvocationError::Npy {
                path: path.to_owned(),
                reason,
            })
    }
}

/// The elements of a file's contents, which must have type `ty`.
fn read(mut file: Vec<u8>, ty: Type) -> Result<Values, String> {
    let not_npy = "it is not a .npy file";
    let rest = file.strip_prefix(MAGIC).ok_or(not_npy)?;
    let &[major, _minor, ref rest @ ..] = rest else {
        return Err(not_npy.to_owned());
    };
    let (length, rest) = match (major, rest) {
        (1, [a, b, rest @ ..]) => (u16::from_le_bytes([*a, *b]).into(), rest),
        (2 | 3, [a, b, c, d, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err(format!("version {major} of the .npy format is not known")),
    };
    let (header, data) = rest
        .split_at_checked(length)
        .ok_or("its header is cut off")?;
    let header = String::from_utf8_lossy(header);

    let described = text_after(&header, "'descr':").ok_or("its header has no plain type")?;
    if !codes(ty).contains(&described) {
        return Err(format!("its elements are {described:?}, not {ty}"));
    }
    let fortran = after(&header, "'fortran_order':").ok_or("its header has no order")?;
    let shape = shape_after(&header).ok_or("its header has no shape")?;
    if fortran.starts_with("True") && shape.len() > 1 {
        return Err("it is in column-major order; save numpy.ascontiguousarray(x)".to_owned());
    }
    let bytes = shape
        .iter()
        .try_fold(ty.bytes(), |bytes, &size| bytes.checked_mul(size))
        .ok_or("its shape is too large")?;
    if data.len() != bytes {
        return Err(format!(
            "its header promises {bytes} bytes, {} follow",
            data.len()
        ));
    }
    let before = file.len() - bytes;
    file.drain(..before);
    Ok(Values::new(ty, file))
}

/// A file with one dimension.
fn write(values: &Values) -> Vec<u8> {
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
        codes(values.ty())[0],
        values.len()
    );
    let before = MAGIC.len() + 4; // magic number, version, length
    let padding = 64 - (before + header.len() + 1) % 64; // NumPy aligns the elements to 64 bytes
    header.extend(std::iter::repeat_n(' ', padding % 64));
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend([1, 0]);
    file.extend((header.len() as u16).to_le_bytes()); // some 100 bytes
    file.extend(header.bytes());
    file.extend(values.bytes());
    file
}

/// NumPy's names of the type; this module writes the first.
fn codes(ty: Type) -> &'static [&'static str] {
    match ty {
        Type::U8 => &["|u1", "|b1", "<u1"],
        Type::I8 => &["|i1", "<i1"],
        Type::U16 => &["<u2"],
        Type::I16 => &["<i2"],
        Type::U32 => &["<u4"],
        Type::I32 => &["<i4"],
        Type::U64 => &["<u8"],
        Type::I64 => &["<i8"],
        Type::F16 => &["<f2"],
        Type::Bf16 => &["<V2", "|V2"],
        Type::F32 => &["<f4"],
        Type::F64 => &["<f8"],
    }
}

fn after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    Some(header.split_once(key)?.1.trim_start())
}

fn text_after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    after(header, key)?.strip_prefix('\'')?.split('\'').next()
}

fn shape_after(header: &str) -> Option<Vec<usize>> {
    let list = after(header, "'shape':")?
        .strip_prefix('(')?
        .split(')')
        .next()?;
    let sizes = list
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().ok()).collect()
}
