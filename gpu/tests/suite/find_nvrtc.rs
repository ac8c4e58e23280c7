//! NVRTC is found where it is installed, in the documented order, and by its exact name.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use gpu::Error;
use gpu::find_nvrtc::{Place, Search, search_at};

/// A folder with these files in it.
fn folder(name: &str, files: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("find_nvrtc")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for file in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "[workspace]\n").unwrap();
    }
    folder
}

fn search(folder: &Path, variables: &[(&str, PathBuf)]) -> Result<Search, Error> {
    search_from(&[folder], variables)
}

fn search_from(folders: &[&Path], variables: &[(&str, PathBuf)]) -> Result<Search, Error> {
    let variable = |wanted: &str| {
        let (_, value) = variables.iter().find(|(name, _)| *name == wanted)?;
        Some(OsString::from(value))
    };
    search_at(&Place {
        folders: folders.iter().map(|&folder| folder.to_owned()).collect(),
        variable: &variable,
        installed: Path::new("no toolkit"),
    })
}

#[test]
fn each_place_is_preferred_to_the_next() {
    let root = folder(
        "order",
        &[
            "Cargo.toml",
            "named/libnvrtc.so.13",
            ".nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "toolkit/lib64/libnvrtc.so.12",
            "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "inner/Cargo.lock",
        ],
    );
    let inner = root.join("inner");
    let variables = [
        ("NVRTC_PATH", root.join("named")),
        ("CUDA_HOME", root.join("toolkit")),
        ("VIRTUAL_ENV", root.join("venv")),
    ];
    let found = |variables| search(&inner, variables).unwrap().found.unwrap();
    assert_eq!(found(&variables), root.join("named/libnvrtc.so.13"));
    assert_eq!(
        found(&variables[1..]),
        root.join(".nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    );
}

#[test]
fn each_workspace_is_looked_into() {
    let library = ".nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
    let first = folder("workspaces/first", &["Cargo.toml", "inner/Cargo.lock"]);
    let second = folder("workspaces/second", &["Cargo.toml", library]);
    let toolkit = folder("workspaces/toolkit", &["lib64/libnvrtc.so.12"]);
    let folders = [&first.join("inner"), Path::new("/"), &second];
    let found = || search_from(&folders, &[("CUDA_HOME", toolkit.clone())]);
    assert_eq!(found().unwrap().found.unwrap(), second.join(library));
    let nearer = first.join(library);
    fs::create_dir_all(nearer.parent().unwrap()).unwrap();
    fs::write(&nearer, "").unwrap();
    assert_eq!(found().unwrap().found.unwrap(), nearer);
}

#[test]
fn a_toolkit_is_preferred_to_packages_of_python() {
    let root = folder(
        "outside",
        &[
            "toolkit/lib64/libnvrtc.so.12",
            "venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        ],
    );
    let (toolkit, python) = (
        ("CUDA_PATH", root.join("toolkit")),
        ("VIRTUAL_ENV", root.join("venv")),
    );
    let found = search(Path::new("/"), &[python, toolkit])
        .unwrap()
        .found
        .unwrap();
    assert_eq!(found, root.join("toolkit/lib64/libnvrtc.so.12"));
}

#[test]
fn the_python_in_path_leads_to_its_packages() {
    let library = "lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
    let root = folder("python", &["bin/python3", library]);
    let search = search(Path::new("/"), &[("PATH", root.join("bin"))]).unwrap();
    assert!(
        search
            .searched
            .contains(&root.join(library).parent().unwrap().to_owned()),
        "{search:?}"
    );
}

#[test]
fn other_libraries_of_the_same_stem_are_not_taken() {
    let root = folder(
        "stem",
        &[
            "libnvrtc.alt.so.12",
            "libnvrtc-builtins.so.12.4",
            "libnvrtc.so.12.bak",
        ],
    );
    let error = search(Path::new("/"), &[("NVRTC_PATH", root.clone())]).unwrap_err();
    assert!(
        matches!(&error, Error::BadNvrtc { path, .. } if *path == root),
        "{error}"
    );
}

#[test]
fn a_named_library_that_is_not_there_is_an_error_and_not_passed_over() {
    let root = folder(
        "named",
        &["Cargo.toml", ".nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"],
    );
    let absent = root.join("absent.so");
    let error = search(&root, &[("NVRTC_PATH", absent.clone())]).unwrap_err();
    assert!(
        matches!(&error, Error::BadNvrtc { path, .. } if *path == absent),
        "{error}"
    );
}
