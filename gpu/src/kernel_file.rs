//! A kernel file in any folder, `.cu` or `.ptx`: its PTX, and the source texts that its line information names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::unit::{Folder, Unit};
use crate::workspace::{self, package_name};
use crate::{Error, compile, find_nvrtc};

/// A file with kernels, read but not compiled.
#[derive(Debug, Clone)]
pub struct KernelFile {
    path: PathBuf,
    text: String,
}

/// A kernel file with its constants, compiled.
#[derive(Debug, Clone)]
pub struct CompiledFile {
    /// The PTX; opened by a resource report, unless the file is PTX without one.
    pub ptx: String,
    /// The texts that its line information names.
    pub sources: Sources,
}

impl KernelFile {
    /// Reads a `.cu` or `.ptx` file.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`], also for a file of another kind.
    pub fn read(path: &Path) -> Result<KernelFile, Error> {
        let unreadable = |reason: &str| Error::Unreadable {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        if !["cu", "ptx"].iter().any(|kind| has_extension(path, kind)) {
            return Err(unreadable("a kernel file is a .cu or a .ptx file"));
        }
        let text = fs::read_to_string(path).map_err(|error| unreadable(&error.to_string()))?;
        Ok(KernelFile {
            path: path.to_owned(),
            text,
        })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its PTX. A file in the `kernels/` folder of a package is compiled as [`Bundle`](crate::Bundle) would: the
    /// package's committed PTX is tried first. PTX is taken as it is.
    ///
    /// # Errors
    ///
    /// Those of [`Bundle::ptx`](crate::Bundle::ptx); [`Error::ConstantsOfPtx`].
    pub fn compile(&self, constants: &[(&str, &str)]) -> Result<CompiledFile, Error> {
        if has_extension(&self.path, "ptx") {
            if let Some((name, _)) = constants.first() {
                return Err(Error::ConstantsOfPtx {
                    path: self.path.clone(),
                    name: (*name).to_owned(),
                });
            }
            return Ok(CompiledFile {
                sources: Sources::of_ptx(&self.path, &self.text),
                ptx: self.text.clone(),
            });
        }
        let place = Place::of(&self.path);
        let read = |folder: Folder<'_>, name: &str| match folder {
            // The file itself is not read again.
            Folder::Own if name == place.file => Ok(Some(self.text.clone())),
            folder => Ok(workspace::read(&place.real, folder, name)),
        };
        let unit =
            Unit::in_folder(&place.folder, &place.file, constants, read)?.ok_or_else(|| {
                Error::Unreadable {
                    path: self.path.clone(),
                    reason: "it has no text".to_owned(),
                }
            })?;
        let committed = place.committed();
        let ptx = match compile::committed(&unit, committed.iter().map(String::as_str)) {
            Some(ptx) => ptx.to_owned(),
            None => compile::compiled_with_report(&unit, place.ptx.is_some())?,
        };
        Ok(CompiledFile {
            ptx,
            sources: Sources::of_unit(&unit),
        })
    }
}

/// Source texts of a PTX text, by the file names in faults and profiles.
#[derive(Debug, Clone, Default)]
pub struct Sources(BTreeMap<String, String>);

impl Sources {
    /// The files, by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }

    /// The text of a file.
    pub fn text(&self, file: &str) -> Option<&str> {
        self.0.get(file).map(String::as_str)
    }

    fn of_unit(unit: &Unit) -> Sources {
        let headers = unit.headers().iter();
        let mut texts: BTreeMap<String, String> = headers
            .map(|header| (shown(&header.name).to_owned(), header.text.clone()))
            .collect();
        texts.insert(unit.path(), unit.source().to_owned());
        Sources(texts)
    }

    /// The files of the `.file` directives that can be read; virtual names are looked for in the PTX's workspace.
    fn of_ptx(path: &Path, ptx: &str) -> Sources {
        let folder = absolute(path)
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default();
        let root = find_nvrtc::workspace_root(&folder).unwrap_or(folder);
        let names = ptx
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix(".file")?.split('"').nth(1));
        let texts = names.filter_map(|name| {
            let text = fs::read_to_string(root.join(shown(name))).ok()?;
            Some((shown(name).to_owned(), text))
        });
        Sources(texts.collect())
    }
}

/// A name of a PTX text as it is shown: without the root of virtual names.
fn shown(name: &str) -> &str {
    name.strip_prefix("/k/").unwrap_or(name)
}

/// Where a `.cu` file lies.
struct Place {
    /// The folder that the names of headers are relative to.
    real: PathBuf,
    /// The folder in virtual names: `<package>/kernels` for kernels of a package, the path from the workspace's root
    /// for others, outside a workspace the folder as it was given.
    folder: String,
    /// The path from that folder.
    file: String,
    /// The package's folder of committed PTX.
    ptx: Option<PathBuf>,
}

impl Place {
    fn of(given: &Path) -> Place {
        let path = absolute(given);
        let parent = path.parent().map(Path::to_owned).unwrap_or_default();
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let root = find_nvrtc::workspace_root(&parent);
        let package = root.as_ref().and_then(|root| {
            let folders = parent
                .ancestors()
                .take_while(|folder| folder.starts_with(root));
            let mut packages = folders.filter_map(|folder| Some((folder, package_name(folder)?)));
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

    /// The texts in the folder of committed PTX.
    fn committed(&self) -> Vec<String> {
        let entries = self
            .ptx
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let files = entries.flatten().flatten().map(|entry| entry.path());
        files
            .filter(|path| has_extension(path, "ptx"))
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect()
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
