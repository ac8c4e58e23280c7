//! Regular files on disk.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::Error;

/// The longest text file that is read. The longest tokenizers are a quarter of it.
const LONGEST_TEXT: u64 = 128 << 20;

/// The text of a file.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let (mut file, bytes) = open_regular(path)?;
    if bytes > LONGEST_TEXT {
        return Err(Error::TooLong {
            path: path.to_owned(),
            bytes,
            most: LONGEST_TEXT,
        });
    }
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(source) => Err(unreadable(path, source)),
    }
}

/// Opens a file and tells its length. A pipe or a device is refused before it is opened:
/// that could wait for ever.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64), Error> {
    let metadata = std::fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(unreadable(path, source));
    }
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    Ok((file, metadata.len()))
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    Error::Read {
        path: path.to_owned(),
        source,
    }
}
