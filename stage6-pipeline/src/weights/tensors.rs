//! The tensors of one or more safetensors files: found by name, checked, and read one at a time.
//!
//! Nothing is allocated by what a header claims: a header is read if the file is as long as
//! it says, and a tensor if its bytes are in the file. A sparse file can be longer than
//! memory: that is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use safetensors::tensor::{Metadata, SafeTensorError, TensorInfo};
use stage5_decode::Dtype;

use crate::Error;
use crate::disk::open_regular;

/// A safetensors file, not yet looked into: its name in messages, and its bytes.
#[derive(Debug, Clone)]
pub struct TensorFile {
    /// The name of the file in messages.
    pub name: String,
    /// The contents.
    pub bytes: Bytes,
}

/// Bytes in memory or on disk.
#[derive(Debug, Clone)]
pub enum Bytes {
    /// In memory.
    Memory(Cow<'static, [u8]>),
    /// An open file, and its length when it was opened.
    Disk(Arc<File>, u64),
}

/// The tensors of all files of a checkpoint.
pub(super) struct Tensors<'f> {
    files: &'f [TensorFile],
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    file: usize,
    info: TensorInfo,
    /// The place of its bytes in the file.
    range: Range<u64>,
}

/// A tensor's elements as they are in the file.
pub(super) struct Elements {
    pub(super) dtype: Dtype,
    pub(super) bytes: Vec<u8>,
}

/// The longest header that is read. Those of the largest models are 20 times shorter.
const LONGEST_HEADER: u64 = 16 << 20;

impl TensorFile {
    /// A file on disk; it is opened and not read.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if it cannot be opened or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (file, length) = open_regular(path)?;
        Ok(Self {
            name: path.display().to_string(),
            bytes: Bytes::Disk(Arc::new(file), length),
        })
    }

    /// All bytes of the file.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if they cannot be read.
    pub fn contents(&self) -> Result<Vec<u8>, Error> {
        self.read(0..self.length())
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let length = (range.end - range.start) as usize;
        match &self.bytes {
            Bytes::Memory(bytes) => Ok(bytes[range.start as usize..][..length].to_vec()),
            Bytes::Disk(file, _) => {
                let mut bytes = self.reserve(length)?;
                bytes.resize(length, 0);
                match file.read_exact_at(&mut bytes, range.start) {
                    Ok(()) => Ok(bytes),
                    Err(source) => Err(self.unreadable(source)),
                }
            }
        }
    }

    /// Room for `length` bytes.
    fn reserve(&self, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        match bytes.try_reserve_exact(length) {
            Ok(()) => Ok(bytes),
            Err(_) => {
                let reason = format!("no memory for {length} bytes");
                Err(self.unreadable(io::Error::new(io::ErrorKind::OutOfMemory, reason)))
            }
        }
    }

    fn length(&self) -> u64 {
        match &self.bytes {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::Disk(_, length) => *length,
        }
    }

    /// The tensors that the header lists, with the place of their bytes.
    fn entries(&self) -> Result<Vec<(String, TensorInfo, Range<u64>)>, Error> {
        let length = self.length();
        let prefix = self.read(0..length.min(8))?;
        let Ok(prefix) = <[u8; 8]>::try_from(prefix) else {
            return Err(self.syntax(SafeTensorError::HeaderTooSmall));
        };
        let header = u64::from_le_bytes(prefix);
        if header > LONGEST_HEADER {
            return Err(self.syntax(SafeTensorError::HeaderTooLarge));
        }
        if header + 8 > length {
            return Err(self.syntax(SafeTensorError::InvalidHeaderLength));
        }
        let head = self.read(8..header + 8)?;
        // Checks that offsets leave no gap and do not overlap, and that every tensor has the bytes
        // that its dtype and shape ask for.
        let metadata: Metadata = serde_json::from_slice(&head)
            .map_err(|source| self.syntax(SafeTensorError::InvalidHeaderDeserialization(source)))?;
        let data = metadata.data_len() as u64;
        if data.checked_add(header + 8) != Some(length) {
            return Err(self.syntax(SafeTensorError::MetadataIncompleteBuffer));
        }
        let place = |(name, info): (String, &TensorInfo)| {
            let (start, end) = info.data_offsets;
            (
                name,
                info.clone(),
                header + 8 + start as u64..header + 8 + end as u64,
            )
        };
        Ok(metadata.tensors().into_iter().map(place).collect())
    }

    fn syntax(&self, source: SafeTensorError) -> Error {
        Error::SafetensorsSyntax {
            file: self.name.clone(),
            bytes: self.length(),
            source,
        }
    }

    fn unreadable(&self, source: io::Error) -> Error {
        Error::Read {
            path: self.name.clone().into(),
            source,
        }
    }
}

impl<'f> Tensors<'f> {
    /// Reads the headers of all files.
    pub(super) fn open(files: &'f [TensorFile]) -> Result<Self, Error> {
        let mut entries = BTreeMap::new();
        for (index, file) in files.iter().enumerate() {
            for (name, info, range) in file.entries()? {
                let entry = Entry {
                    file: index,
                    info,
                    range,
                };
                if let Some(first) = entries.insert(name.clone(), entry) {
                    return Err(Error::TensorTwice {
                        file: file.name.clone(),
                        other: files[first.file].name.clone(),
                        tensor: name,
                    });
                }
            }
        }
        Ok(Self { files, entries })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub(super) fn has(&self, tensor: &str) -> bool {
        self.entries.contains_key(tensor)
    }

    /// The file that holds a tensor, or the first file if there is none.
    pub(super) fn file_of(&self, tensor: &str) -> String {
        let file = self.entries.get(tensor).map_or(0, |entry| entry.file);
        self.files
            .get(file)
            .map_or_else(String::new, |file| file.name.clone())
    }

    /// The type of a tensor's elements, if it has the right shape.
    pub(super) fn check(&self, tensor: &str, expected: &[usize]) -> Result<Dtype, Error> {
        self.checked(tensor, expected).map(|(_, dtype)| dtype)
    }

    /// A tensor that has the right shape and holds finite numbers.
    pub(super) fn read(&self, tensor: &str, expected: &[usize]) -> Result<Elements, Error> {
        let (entry, dtype) = self.checked(tensor, expected)?;
        let bytes = self.files[entry.file].read(entry.range.clone())?;
        if let Some((index, found)) = first_not_finite(dtype, &bytes) {
            return Err(Error::TensorNotFinite {
                file: self.file_of(tensor),
                tensor: tensor.to_owned(),
                found,
                index,
            });
        }
        Ok(Elements { dtype, bytes })
    }

    fn checked(&self, tensor: &str, expected: &[usize]) -> Result<(&Entry, Dtype), Error> {
        let file = || self.file_of(tensor);
        let Some(entry) = self.entries.get(tensor) else {
            let (file, tensor) = (file(), tensor.to_owned());
            return Err(Error::MissingTensor { file, tensor });
        };
        let dtype = match entry.info.dtype {
            safetensors::Dtype::F32 => Dtype::F32,
            safetensors::Dtype::F16 => Dtype::F16,
            safetensors::Dtype::BF16 => Dtype::Bf16,
            other => {
                return Err(Error::TensorDtype {
                    file: file(),
                    tensor: tensor.to_owned(),
                    found: other.to_string(),
                    expected: "F32, F16 or BF16",
                });
            }
        };
        if entry.info.shape != expected {
            return Err(Error::TensorShape {
                file: file(),
                tensor: tensor.to_owned(),
                found: entry.info.shape.clone(),
                expected: expected.to_vec(),
            });
        }
        Ok((entry, dtype))
    }
}

impl Elements {
    /// The elements in f32.
    pub(super) fn to_f32(&self) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => words::<4>(&self.bytes)
                .iter()
                .map(|&word| f32::from_le_bytes(word))
                .collect(),
            Dtype::F16 => words::<2>(&self.bytes)
                .iter()
                .map(|&word| f16::from_le_bytes(word).to_f32())
                .collect(),
            Dtype::Bf16 => words::<2>(&self.bytes)
                .iter()
                .map(|&word| bf16::from_le_bytes(word).to_f32())
                .collect(),
        }
    }

    /// The same matrix with rows and columns exchanged; it has `rows` rows now.
    pub(super) fn transposed(self, rows: usize) -> Self {
        let bytes = match self.dtype {
            Dtype::F32 => transposed(words::<4>(&self.bytes), rows),
            Dtype::F16 | Dtype::Bf16 => transposed(words::<2>(&self.bytes), rows),
        };
        Self { bytes, ..self }
    }
}

/// The elements of `N` bytes; the number of bytes is a multiple.
fn words<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    bytes.as_chunks().0
}

/// In squares of 32 × 32 elements, so that a cache line is read and written as a whole.
fn transposed<const N: usize>(source: &[[u8; N]], rows: usize) -> Vec<u8> {
    const SIDE: usize = 32;
    let columns = source.len() / rows.max(1);
    let mut target = vec![[0; N]; source.len()];
    for top in (0..rows).step_by(SIDE) {
        for left in (0..columns).step_by(SIDE) {
            for column in left..columns.min(left + SIDE) {
                for row in top..rows.min(top + SIDE) {
                    target[column * rows + row] = source[row * columns + column];
                }
            }
        }
    }
    target.into_flattened()
}

/// Index and value of the first NaN or infinity: all bits of the exponent are set.
fn first_not_finite(dtype: Dtype, bytes: &[u8]) -> Option<(usize, f32)> {
    match dtype {
        Dtype::F32 => find(words::<4>(bytes), f32::from_le_bytes),
        Dtype::F16 => find(words::<2>(bytes), |word| f16::from_le_bytes(word).to_f32()),
        Dtype::Bf16 => find(words::<2>(bytes), |word| bf16::from_le_bytes(word).to_f32()),
    }
}

fn find<const N: usize>(words: &[[u8; N]], value: impl Fn([u8; N]) -> f32) -> Option<(usize, f32)> {
    let index = words.iter().position(|&word| !value(word).is_finite())?;
    Some((index, value(words[index])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length that no allocator grants, as a sparse file can have it.
    #[test]
    fn bytes_that_memory_cannot_hold_are_refused() {
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let file = TensorFile {
            name: "sparse".to_owned(),
            bytes: Bytes::Disk(Arc::new(file), u64::MAX),
        };
        let error = file.read(0..u64::MAX).unwrap_err();
        let Error::Read { path, source } = error else {
            panic!("{error}");
        };
        assert_eq!(path, Path::new("sparse"));
        assert_eq!(
            source.to_string(),
            "no memory for 18446744073709551615 bytes"
        );
    }

    #[test]
    fn a_transposition_moves_every_element() {
        for (rows, columns) in [(1, 1), (1, 70), (33, 31), (64, 32), (65, 97)] {
            let at = |row: usize, column: usize| ((row * columns + column) as u32).to_le_bytes();
            let source: Vec<[u8; 4]> = (0..rows * columns)
                .map(|i| (i as u32).to_le_bytes())
                .collect();
            let found = transposed(&source, rows);
            let expected: Vec<u8> = (0..columns)
                .flat_map(|c| (0..rows).flat_map(move |r| at(r, c)))
                .collect();
            assert_eq!(found, expected, "{rows} x {columns}");
        }
    }
}
