//! A file of stories: its format, and writing it whole or not at all.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use stage6_pipeline::Error;

/// Adds a story, after an empty line if it is not the first.
pub fn append_story(stories: &mut String, story: &str) {
    if !stories.is_empty() {
        stories.push('\n');
    }
    stories.push_str(story.trim_end());
    stories.push('\n');
}

/// Finds out early whether `path` is a regular file or can become one: stories take time to tell.
///
/// # Errors
///
/// [`Error::NotAFile`] if something else is there: it would be replaced, even a device.
/// [`Error::Write`] if it lies in no folder.
pub fn check(path: &Path) -> Result<(), Error> {
    let path = path.to_owned();
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(Error::NotAFile { path }),
        Err(source) if source.kind() != ErrorKind::NotFound || !folder_of(&path).is_dir() => {
            Err(Error::Write { path, source })
        }
        Err(_) => Ok(()),
    }
}

/// Writes beside `path` and renames, so that no reader, and no crash, sees half a file.
///
/// # Errors
///
/// [`Error::Write`]; nothing is left behind.
pub fn write_atomically(path: &Path, text: &str) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = folder_of(path).join(name);

    let written = write_new(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&part); // The first error is the one to report.
        Error::Write {
            path: path.to_owned(),
            source,
        }
    })
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
