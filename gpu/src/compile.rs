//! PTX of a unit: committed, from the disk cache, or compiled now.

use std::sync::OnceLock;

use crate::architecture::Architecture;
use crate::nvrtc::Nvrtc;
use crate::unit::Unit;
use crate::{Error, cache, find_nvrtc, ptx_file};

/// The real architectures that a resource report covers, besides a kernel's own if it has a suffix.
const REPORTED: [&str; 3] = ["compute_75", "compute_80", "compute_90"];

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

/// A text that `make` gives with the NVRTC of this machine, from the disk cache if it was made
/// before. `kind` begins the name of its file there. `in_package` says whether the kernel is a
/// package's, for an error.
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

/// A compiled variant, as it is committed.
#[derive(Debug, Clone)]
pub struct PtxFile {
    /// The whole text of the file.
    pub text: String,
    /// The compiler's warnings; empty if it had none.
    pub warnings: String,
}

impl PtxFile {
    /// Compiles a unit to PTX, and for each reported architecture to have its resources.
    ///
    /// # Errors
    ///
    /// Those of [`Nvrtc::compile`].
    pub fn compile(nvrtc: &Nvrtc, unit: &Unit) -> Result<PtxFile, Error> {
        let compiled = nvrtc.compile(unit)?;
        let text = ptx_file::header(unit) + &report(nvrtc, unit)? + &compiled.ptx;
        Ok(PtxFile {
            text,
            warnings: compiled.log.trim().to_owned(),
        })
    }
}

/// The beginning of the name in the disk cache of a PTX text with a resource report. It was another
/// one before the report said whether `setmaxnreg` is ignored.
pub const REPORT: &str = "resources-";

/// PTX of a unit that is not committed, opened by a resource report as a committed file is.
///
/// # Errors
///
/// Those of [`Nvrtc::compile`].
pub fn compiled_with_report(nvrtc: &Nvrtc, unit: &Unit) -> Result<String, Error> {
    Ok(report(nvrtc, unit)? + &nvrtc.compile(unit)?.ptx)
}

/// The lines of a file's header with its kernels' resources, compiled for each reported
/// architecture.
fn report(nvrtc: &Nvrtc, unit: &Unit) -> Result<String, Error> {
    let mut lines = String::new();
    for architecture in reported(unit.architecture) {
        let log = nvrtc.resource_log(unit, &architecture)?;
        for resources in ptx_file::resources_of_log(&log, &architecture) {
            lines += &format!("// {resources}\n");
        }
    }
    Ok(lines)
}

fn reported(least: Architecture) -> Vec<String> {
    if least.suffix.is_some() {
        return vec![least.real()];
    }
    let all = REPORTED.iter().filter_map(|name| Architecture::parse(name));
    all.filter(|architecture| least.runs_on(architecture.capability))
        .map(Architecture::real)
        .collect()
}
