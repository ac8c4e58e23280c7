//! Reads files that a stranger may have written or named: regular files of limited size, inside the
//! folder that is meant.
//!
//! Links are resolved first. A device, a pipe and a file that grows are refused, so no read blocks
//! or takes memory without end.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest text that is read, and the most text of one compilation, bytes.
pub const MAX_TEXT: usize = 16 << 20;

/// The real path of the file `name` of `folder`, if the file lies inside that folder after all
/// links are resolved.
///
/// # Errors
///
/// Why not, to be read by people.
pub fn within(folder: &Path, name: &Path) -> Result<PathBuf, String> {
    let resolve = |path: &Path| fs::canonicalize(path).map_err(|error| error.to_string());
    let folder = resolve(if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    })?;
    let real = resolve(&folder.join(name))?;
    if !real.starts_with(&folder) {
        return Err(format!(
            "it lies outside of the folder {}",
            folder.display()
        ));
    }
    Ok(real)
}

/// The contents of a regular file of at most `most` bytes.
///
/// # Errors
///
/// Why it cannot be read, to be read by people.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let too_large = |bytes: u64| {
        let bytes = bytes.max(most + 1);
        Err(format!(
            "it has {bytes} bytes or more; at most {most} are read"
        ))
    };
    // Before it is opened, because opening a pipe waits for its writer.
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.len() > most {
        return too_large(metadata.len());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    // One byte more, because some files, such as those of /proc, are longer than they say.
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return too_large(0);
    }
    Ok(bytes)
}

/// The contents of a regular UTF-8 file of at most [`MAX_TEXT`] bytes.
///
/// # Errors
///
/// As [`bytes`].
pub fn text(path: &Path) -> Result<String, String> {
    String::from_utf8(bytes(path, MAX_TEXT as u64)?).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The text of the file `name` of `folder`.
///
/// # Errors
///
/// As [`within`] and [`text`].
pub fn text_within(folder: &Path, name: &str) -> Result<String, String> {
    text(&within(folder, Path::new(name))?)
}
