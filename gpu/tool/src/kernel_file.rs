//! A kernel file in any folder, `.cu` or `.ptx`: its PTX, and the source texts that its line
//! information names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpu::architecture::Architecture;
use gpu::sources::Sources;
use gpu::unit::{Folder, STANDARD, Unit, shown};
use gpu::{checkout, compile, ptx_file};

use crate::host_code::{self, HostFunction};
use crate::{Error, advice, confined, workspace};

/// A file with kernels, read but not compiled.
#[derive(Debug, Clone)]
pub struct KernelFile {
    path: PathBuf,
    text: String,
    /// What the caller asks for.
    pub options: Options,
}

/// How a kernel file is compiled, beyond what it states itself.
#[derive(Debug, Clone)]
pub struct Options {
    /// The architecture, whatever the file declares.
    pub architecture: Option<Architecture>,
    /// Folders of headers that lie neither beside the file nor in a package.
    pub folders: Vec<PathBuf>,
    /// Instances of templates, like `scale<4>`. PTX has the instances that it has.
    pub instances: Vec<String>,
    /// The C++ standard.
    pub standard: String,
    /// `--use_fast_math`: approximate division, roots and elementary functions, and subnormal
    /// numbers as zero.
    pub fast_math: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            architecture: None,
            folders: Vec::new(),
            instances: Vec::new(),
            standard: STANDARD.to_owned(),
            fast_math: false,
        }
    }
}

/// A kernel file with its constants, compiled.
#[derive(Debug, Clone)]
pub struct CompiledFile {
    /// The PTX; opened by a resource report, unless the file is PTX without one.
    pub ptx: String,
    /// The texts that its line information names.
    pub sources: Sources,
    /// The host's functions of the file and its headers, which are not compiled.
    pub left_out: Vec<HostFunction>,
}

impl KernelFile {
    /// Reads a `.cu`, `.cuh` or `.ptx` file. If it is a symbolic link, the file that it leads to
    /// must lie in the link's folder or in a `kernels/` folder of its workspace.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`], also for a file of another kind, for what is no regular file, and for
    /// more than 16 MiB.
    pub fn read(path: &Path) -> Result<KernelFile, Error> {
        let unreadable = |reason: &str| Error::Unreadable {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let kinds = ["cu", "cuh", "ptx"];
        if !kinds.iter().any(|kind| has_extension(path, kind)) {
            return Err(unreadable("a kernel file is a .cu, a .cuh or a .ptx file"));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = Path::new(path.file_name().unwrap_or_default());
        let real = gpu_reading::within(folder, name)
            .or_else(|reason| workspace::source(&absolute(folder), name).ok_or(reason));
        let text = real.and_then(|real| gpu_reading::text(&real));
        Ok(KernelFile {
            path: path.to_owned(),
            text: text.map_err(|reason| unreadable(&reason))?,
            options: Options::default(),
        })
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its PTX. A file in the `kernels/` folder of a package is compiled as [`Bundle`](gpu::Bundle)
    /// would: the package's committed PTX is tried first. PTX is taken as it is. Host code is left
    /// out.
    ///
    /// # Errors
    ///
    /// Those of [`Bundle::ptx`](gpu::Bundle::ptx); [`Error::ConstantsOfPtx`].
    pub fn compile(&self, constants: &[(&str, &str)]) -> Result<CompiledFile, Error> {
        let options = &self.options;
        if has_extension(&self.path, "ptx") {
            let constant = constants
                .first()
                .map(|(name, _)| format!("constant {name}"));
            let architecture = || Some(format!("architecture {}", options.architecture?));
            let standard =
                || Some("a standard".to_owned()).filter(|_| options.standard != STANDARD);
            let fast_math = || options.fast_math.then(|| "fast math".to_owned());
            let asked = constant.or_else(architecture).or_else(standard);
            if let Some(name) = asked.or_else(fast_math) {
                return Err(Error::ConstantsOfPtx {
                    path: self.path.clone(),
                    name,
                });
            }
            return Ok(CompiledFile {
                sources: sources_of_ptx(&absolute(&self.path), &self.text),
                ptx: self.text.clone(),
                left_out: Vec::new(),
            });
        }
        let place = Place::new(&self.path);
        let read = |folder: Folder<'_>, name: &str| match folder {
            // The file itself is not read again.
            Folder::Own if name == place.file => Ok(Some(self.text.clone())),
            Folder::Included => {
                let texts = options.folders.iter();
                Ok(texts
                    .filter_map(|folder| gpu_reading::text_within(folder, name).ok())
                    .next())
            }
            folder => Ok(workspace::read(&place.real, folder, name)),
        };
        let mut unit =
            Unit::in_folder(&place.folder, &place.file, constants, read)?.ok_or_else(|| {
                Error::Unreadable {
                    path: self.path.clone(),
                    reason: "it has no text".to_owned(),
                }
            })?;
        unit.architecture = options.architecture.unwrap_or(unit.architecture);
        unit.instances.clone_from(&options.instances);
        unit.standard.clone_from(&options.standard);
        if options.fast_math {
            unit.options.push("--use_fast_math".to_owned());
        }
        let mut sources = Sources::new();
        sources.add(&unit); // with the host code, for quotations
        let left_out = host_code::leave_out(&mut unit)?;
        let ptx = match place.committed(&unit.key()) {
            Some(ptx) => ptx,
            None => compile::cached(&unit, place.ptx.is_some(), compile::REPORT, |nvrtc| {
                confined::with(nvrtc, |nvrtc| compile::compiled_with_report(nvrtc, &unit))
            })
            .map_err(|error| advice::advised(error, &unit, &left_out))?,
        };
        Ok(CompiledFile {
            ptx,
            sources,
            left_out,
        })
    }
}

/// The files that the `.file` directives of the PTX at `path` name: those in its own folder, and
/// kernels and headers of packages of its workspace, by their virtual names. Others are a
/// stranger's business.
fn sources_of_ptx(path: &Path, ptx: &str) -> Sources {
    let own = path.parent().map(Path::to_owned).unwrap_or_default();
    let root = checkout::workspace_root(&own);
    let read = |name: &str| {
        let path = Path::new(shown(name));
        let of_workspace = || workspace::source(root.as_ref()?, path);
        let real = gpu_reading::within(&own, path).ok().or_else(of_workspace)?;
        gpu_reading::text(&real).ok()
    };
    let names = ptx
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix(".file")?.split('"').nth(1));
    let names: BTreeSet<&str> = names.take(MAX_SOURCES).collect();
    let mut sources = Sources::new();
    let mut bytes = 0;
    for name in names {
        let Some(text) = read(name) else {
            continue;
        };
        bytes += text.len();
        if bytes > gpu_reading::MAX_TEXT {
            break;
        }
        sources.insert(shown(name), text);
    }
    sources
}

/// The most `.file` directives of a PTX text that are looked at.
const MAX_SOURCES: usize = 256;

/// Where a `.cu` file lies.
struct Place {
    /// The folder that the names of headers are relative to.
    real: PathBuf,
    /// The folder in virtual names: `<package>/kernels` for kernels of a package, the path from the
    /// workspace's root for others, outside a workspace the folder as it was given.
    folder: String,
    /// The path from that folder.
    file: String,
    /// The package's folder of committed PTX.
    ptx: Option<PathBuf>,
}

impl Place {
    fn new(given: &Path) -> Place {
        let path = absolute(given);
        let parent = path.parent().map(Path::to_owned).unwrap_or_default();
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let root = checkout::workspace_root(&parent);
        let package = root.as_ref().and_then(|root| {
            let folders = parent
                .ancestors()
                .take_while(|folder| folder.starts_with(root));
            let mut packages =
                folders.filter_map(|folder| Some((folder, workspace::package_of(folder)?)));
            packages.next()
        });
        if let Some((folder, name)) = &package {
            let kernels = folder.join("kernels");
            if let Ok(file) = path.strip_prefix(&kernels) {
                return Place {
                    folder: format!("{name}/kernels"),
                    file: file.to_string_lossy().into_owned(),
                    ptx: Some(folder.join("ptx")),
                    real: kernels,
                };
            }
        }
        let from_root = root
            .as_ref()
            .and_then(|root| parent.strip_prefix(root).ok());
        Place {
            folder: from_root
                .or(given.parent())
                .map(|folder| folder.to_string_lossy().into_owned())
                .unwrap_or_default(),
            real: parent,
            file,
            ptx: None,
        }
    }

    /// The committed PTX that has this key. It lies in the folder of `ptx/` where the
    /// kernel lies in `kernels/`.
    fn committed(&self, key: &str) -> Option<String> {
        let folder = self.ptx.as_ref()?.join(Path::new(&self.file).parent()?);
        let entries = fs::read_dir(&folder).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let texts = names
            .filter(|name| has_extension(Path::new(name), "ptx"))
            .filter_map(|name| gpu_reading::text_within(&folder, name.to_str()?).ok());
        texts
            .into_iter()
            .find(|text| ptx_file::key(text) == Some(key))
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
