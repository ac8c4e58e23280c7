//! Disk cache of compiled kernels that are not committed: an edited kernel is compiled only once.
//!
//! The first line of a cache file has the SHA-256 of its PTX. A file that does not match it (torn,
//! edited) counts as absent. A failed write is no error: the next run compiles again.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use crate::nvrtc::Nvrtc;
use crate::unit::{Unit, hexadecimal};

/// `GPU_CACHE_DIR`, else `cuda-ptx` in `XDG_CACHE_HOME` or in `~/.cache`; `None` if none of them is
/// set.
pub fn folder() -> Option<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("GPU_CACHE_DIR").or_else(|| {
        let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(caches.join("cuda-ptx"))
    })
}

/// The name of a unit's file: its key together with the library that compiles it.
///
/// NVRTC reports its version without the patch number, so the library's size stands for it.
pub fn file_name(unit: &Unit, nvrtc: &Nvrtc) -> String {
    let size = fs::metadata(nvrtc.path()).map_or(0, |metadata| metadata.len());
    let (major, minor) = nvrtc.version();
    let name = format!("{} {major}.{minor} {size}", unit.key());
    hexadecimal(&Sha256::digest(name)) + ".ptx"
}

/// The PTX in the folder's file `name`. If that file is absent or not whole, compiles the PTX and
/// writes it there.
///
/// # Errors
///
/// Those of `compile`.
pub fn read_or<E>(
    folder: &Path,
    name: &str,
    compile: impl FnOnce() -> Result<String, E>,
) -> Result<String, E> {
    if let Some(ptx) = read(folder, name) {
        return Ok(ptx);
    }
    let ptx = compile()?;
    write(folder, name, &ptx);
    Ok(ptx)
}

fn read(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    let (first, ptx) = text.split_once('\n')?;
    (first == first_line(ptx)).then(|| ptx.to_owned())
}

fn write(folder: &Path, name: &str, ptx: &str) {
    let text = format!("{}\n{ptx}", first_line(ptx));
    let _ = write_whole(folder, name, &text);
}

/// Writes the folder's file `name` under another name first, then renames it: a reader sees all of
/// it or what was there before. The folder is made if there is none.
///
/// # Errors
///
/// Those of the file system; the file is then what it was.
pub fn write_whole(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    static WRITES: AtomicU32 = AtomicU32::new(0);
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let unfinished = folder.join(format!("{name}.{}.{number}", process::id()));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&unfinished, text))
        .and_then(|()| fs::rename(&unfinished, folder.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished); // it may never have existed
    }
    written
}

fn first_line(ptx: &str) -> String {
    format!("// sha256: {}", hexadecimal(&Sha256::digest(ptx)))
}
