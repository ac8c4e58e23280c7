//! PTX of a unit: committed, from the disk cache, or compiled now.

use std::sync::OnceLock;

use crate::nvrtc::Nvrtc;
use crate::unit::Unit;
use crate::{Error, cache, find_nvrtc, ptx_file};

/// The one of these committed PTX files that was made of `unit`.
pub(crate) fn committed<'a>(
    unit: &Unit,
    mut files: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let key = unit.key();
    files.find(|text| ptx_file::key(text) == Some(&key))
}

/// PTX of a package's kernel from the disk cache, else compiled by NVRTC.
pub(crate) fn compiled(unit: &Unit) -> Result<String, Error> {
    cached(unit, true, "", |nvrtc| Ok(nvrtc.compile(unit)?.ptx))
}

/// A text that `make` gives with the NVRTC of this machine, from the disk cache if it was made before. `kind` begins the name
/// of its file there. `in_package` says whether the kernel is a package's, for an error.
///
/// # Errors
///
/// [`Error::NvrtcMissing`], [`Error::BadNvrtc`]; those of `make`.
pub fn cached(
    unit: &Unit,
    in_package: bool,
    kind: &str,
    make: impl FnOnce(&Nvrtc) -> Result<String, Error>,
) -> Result<String, Error> {
    let nvrtc = installed_nvrtc(unit, in_package)?;
    match cache::folder() {
        Some(folder) => {
            let name = kind.to_owned() + &cache::file_name(unit, nvrtc);
            cache::read_or(&folder, &name, || make(nvrtc))
        }
        None => make(nvrtc),
    }
}

/// The NVRTC of this machine, loaded once in a process.
fn installed_nvrtc(unit: &Unit, in_package: bool) -> Result<&'static Nvrtc, Error> {
    static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
    if let Some(nvrtc) = NVRTC.get() {
        return Ok(nvrtc);
    }
    let search = find_nvrtc::search()?;
    let Some(path) = search.found else {
        let constants = unit
            .constants()
            .iter()
            .map(|(name, value)| format!("-D{name}={value} "))
            .collect();
        return Err(Error::NvrtcMissing {
            file: unit.path(),
            constants,
            in_package,
            searched: search.searched,
        });
    };
    let nvrtc = Nvrtc::open(&path)?;
    Ok(NVRTC.get_or_init(|| nvrtc))
}
