//! Search for NVRTC: folders in the order of preference.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::checkout::{own_folder, workspace_root};

/// The folder of the workspace into which `cargo gpu fetch-nvrtc` installs.
pub const WORKSPACE_FOLDER: &str = ".nvrtc";

/// The names of the library. Others beside them are other things: `libnvrtc.alt.so.12`,
/// `libnvrtc-builtins.so.12.4`.
const NAMES: [&str; 4] = [
    "libnvrtc.so.12",
    "libnvrtc.so.13",
    "libnvrtc.so.11.2",
    "libnvrtc.so",
];

/// The value of `NVRTC_PATH` with which there is no compiler, whatever is installed.
const NO_COMPILER: &str = "none";

/// Result of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// The library, if there is one.
    pub found: Option<PathBuf>,
    /// The folders that were looked into, in order, up to the one with the library.
    pub searched: Vec<PathBuf>,
}

/// Where the search takes place: folders of workspaces and the environment's variables.
pub struct Place<'a> {
    /// A workspace is looked for from each of these upward, in this order.
    pub folders: Vec<PathBuf>,
    /// The value of a variable; an empty one counts as unset.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Where toolkits are installed.
    pub installed: &'a Path,
}

/// Looks for NVRTC around this process; see [`search_at`]. The workspaces are that of the working
/// directory and that which this crate was built in.
///
/// # Errors
///
/// [`Error::BadNvrtc`] as `search_at`.
pub fn search() -> Result<Search, Error> {
    let folders = [env::current_dir().unwrap_or_default(), own_folder()];
    search_at(&Place {
        folders: folders.into(),
        variable: &|name| env::var_os(name),
        installed: Path::new("/usr/local"),
    })
}

/// Looks for NVRTC: what `NVRTC_PATH` names, which is nothing if it is `none`; the workspaces'
/// `.nvrtc`; the toolkit of `CUDA_HOME`, of `CUDA_PATH`, or an installed one; pip's packages of the
/// active virtual environment and of the Pythons in `PATH`.
///
/// # Errors
///
/// [`Error::BadNvrtc`] if `NVRTC_PATH` is set and names neither a file nor a folder with an NVRTC
/// library.
pub fn search_at(place: &Place<'_>) -> Result<Search, Error> {
    if let Some(path) = place.path("NVRTC_PATH") {
        let none = path.as_os_str() == NO_COMPILER;
        let found = if none {
            None
        } else if path.is_dir() {
            library_in(&path)
        } else {
            path.is_file().then(|| path.clone())
        };
        if found.is_none() && !none {
            let reason = format!(
                "NVRTC_PATH must name the library or its folder ({})",
                NAMES.join(", ")
            );
            return Err(Error::BadNvrtc { path, reason });
        }
        let searched = vec![path];
        return Ok(Search { found, searched });
    }
    let (mut found, mut searched) = (None, Vec::new());
    for folder in folders(place) {
        found = library_in(&folder);
        if !searched.contains(&folder) {
            searched.push(folder);
        }
        if found.is_some() {
            break;
        }
    }
    Ok(Search { found, searched })
}

/// The library in a folder into which pip has installed the package.
pub fn in_site_packages(site: &Path) -> Option<PathBuf> {
    package_folders(site)
        .iter()
        .find_map(|folder| library_in(folder))
}

impl Place<'_> {
    fn path(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    }
}

fn folders(place: &Place<'_>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for root in place.folders.iter().filter_map(|from| workspace_root(from)) {
        folders.extend(package_folders(&root.join(WORKSPACE_FOLDER)));
    }
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(|name| place.path(name));
    let installed = children(place.installed, |name| {
        name == "cuda" || name.starts_with("cuda-")
    });
    for toolkit in toolkits.chain(installed) {
        folders.extend([toolkit.join("lib64"), toolkit.join("lib")]);
    }
    for prefix in python_prefixes(place) {
        for lib in [prefix.join("lib"), prefix.join("local/lib")] {
            for python in children(&lib, |name| name.starts_with("python3")) {
                let sites = ["site-packages", "dist-packages"].map(|name| python.join(name));
                for site in sites.iter().filter(|site| site.is_dir()) {
                    folders.extend(package_folders(site));
                }
            }
        }
    }
    folders
}

/// The folders in which the packages of NVRTC put the library: `nvidia-cuda-nvrtc-cu12`, and
/// `nvidia-cuda-nvrtc` (13).
fn package_folders(site: &Path) -> Vec<PathBuf> {
    ["nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib"]
        .iter()
        .map(|folder| site.join(folder))
        .collect()
}

/// The installation folders of the active virtual environment and of the Pythons in `PATH`, with no
/// Python run: the folder above `bin`, as named, and behind links.
fn python_prefixes(place: &Place<'_>) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = place.path("VIRTUAL_ENV").into_iter().collect();
    for folder in env::split_paths(&(place.variable)("PATH").unwrap_or_default()) {
        for python in ["python3", "python"].map(|name| folder.join(name)) {
            let behind_links = fs::canonicalize(&python).ok();
            let prefix_of =
                |python: &Path| python.parent().and_then(Path::parent).map(Path::to_owned);
            if let Some(real) = behind_links {
                prefixes.extend([prefix_of(&python), prefix_of(&real)].into_iter().flatten());
            }
        }
    }
    prefixes
}

fn library_in(folder: &Path) -> Option<PathBuf> {
    NAMES
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

/// The entries of a folder whose name is wanted, ordered by name.
fn children(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(&wanted))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}
