//! The course's part of a build: everything that a learner's program is linked with, and the compiler's commands.
//!
//! Cargo builds the package of the exercise, or several, with the course's manifests and empty libraries. No file of a submission
//! takes part, so that cargo needs no sandbox. A wrapper around the compiler keeps the commands for a package, which are given
//! again for the learner's files.
//!
//! The workspace is a second view of the checkout's: cargo knows a package by its path from the root, so what a build of the
//! checkout has compiled is not compiled again. Only the exercises lie elsewhere.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::copy::{self, Files};
use super::output::Captured;
use crate::places::Places;

/// Keeps a command of the compiler: the folder of the toolchain and the arguments, each ended by a zero byte.
const WRAPPER: &str = r#"#!/bin/sh
case $CARGO_CRATE_NAME in
exercise_stage* | exercise_story) printf '%s\0' "$("$1" --print sysroot)" "$@" >"${0%/*}/$CARGO_PKG_NAME${CARGO_BIN_NAME:+.program}" ;;
esac
exec "$@"
"#;

/// The packages whose programs launch kernels, but for the story's.
const WITH_KERNELS: [&str; 4] = [
    "exercise-stage2",
    "exercise-stage4",
    "exercise-stage5",
    "exercise-stage6",
];

/// The others.
const ON_HOST: [&str; 2] = ["exercise-stage1", "exercise-stage3"];

/// The folders of the exercises' packages, in `exercises/` of the checkout and in the workspace.
const FOLDERS: [&str; 7] = [
    "stage1", "stage2", "stage3", "stage4", "stage5", "stage6", STORY,
];

/// The folder of the program of a story, which has no library.
pub const STORY: &str = "story";

/// The text of a library and a program without anything.
const EMPTY: [(&str, &str); 2] = [
    ("src/lib.rs", "#![allow(missing_docs)]\n"),
    ("src/main.rs", "#![allow(missing_docs)]\nfn main() {}\n"),
];

/// How the package of an exercise is compiled.
#[derive(Debug)]
pub struct Commands {
    /// The folder of the compiler and the standard library.
    pub toolchain: PathBuf,
    /// The folder of the packages that are linked.
    pub packages: PathBuf,
    /// The arguments for its library, if it has one.
    pub library: Option<Vec<String>>,
    /// The arguments for its program.
    pub program: Vec<String>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cargo fails.
    #[error("cargo failed: {}", .0.lines().last().unwrap_or_default())]
    Cargo(String),
    /// Files of the checkout.
    #[error("the course's part of the build: {0}")]
    Files(#[from] io::Error),
}

/// Builds what these packages are linked with, as far as it changed. The commands of each, in order.
///
/// # Errors
///
/// [`Error`].
pub fn build(places: &Places, packages: &[&str]) -> Result<Vec<Commands>, Error> {
    let folder = places.target().join("grade/course");
    fs::create_dir_all(&folder)?;
    // Held to the end, so that no other grading writes what is read here.
    let lock = File::create(folder.with_extension("lock"))?;
    lock.lock()?;
    let workspace = folder.join("workspace");
    lay_out(&workspace, places)?;
    let wrapper = folder.join("rustc");
    if fs::read(&wrapper).ok().as_deref() != Some(WRAPPER.as_bytes()) {
        fs::write(&wrapper, WRAPPER)?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--locked", "--quiet"])
        .args(together(packages))
        .current_dir(&workspace)
        .env("CARGO_TARGET_DIR", places.target())
        .env("CARGO_TERM_COLOR", "never")
        .env("RUSTC_WRAPPER", &wrapper)
        // A part of what cargo knows a workspace's packages by.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut errors = cargo.stderr.take().map(Captured::new);
    let status = cargo.wait()?;
    if !status.success() {
        errors.iter_mut().for_each(Captured::wait);
        return Err(Error::Cargo(errors.map_or(String::new(), |it| it.text())));
    }
    let commands = packages.iter().map(|package| {
        let kept = |ending: &str| -> io::Result<(PathBuf, Vec<String>)> {
            let text = fs::read_to_string(folder.join(format!("{package}{ending}")))?;
            let mut words = text.split_terminator('\0').map(str::to_owned);
            let toolchain = words.next().unwrap_or_default();
            Ok((toolchain.into(), words.skip(1).collect())) // without the compiler
        };
        let (toolchain, program) = kept(".program")?;
        let library = match kept("") {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            library => Some(library?.1),
        };
        Ok(Commands {
            toolchain,
            packages: places.target().join("debug/deps"),
            library,
            program,
        })
    });
    commands.collect()
}

/// The packages that are built, as arguments of cargo. Those with kernels are built together: alone, each would have other
/// features of its dependencies, and a simulator of its own. The others need no simulator.
fn together(packages: &[&str]) -> impl Iterator<Item = String> {
    let on_host = packages.iter().all(|package| ON_HOST.contains(package));
    let more = if on_host { &[][..] } else { &WITH_KERNELS };
    let names = packages.iter().chain(more);
    names.flat_map(|name| ["--package".to_owned(), (*name).to_owned()])
}

/// Makes the workspace: links to the folders of the checkout, and empty exercises.
fn lay_out(workspace: &Path, places: &Places) -> io::Result<()> {
    copy::write(workspace, Path::new(""), &files(places)?)?;
    for entry in fs::read_dir(&places.root)? {
        let (folder, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if folder.is_dir() && !copy::is_hidden(&name) && folder != places.target() {
            symlink(&folder, workspace.join(&name))?;
        }
    }
    Ok(())
}

/// The files of the workspace that are its own.
fn files(places: &Places) -> io::Result<Files> {
    let manifest = fs::read_to_string(places.root.join("Cargo.toml"))?;
    let manifest = FOLDERS.iter().fold(manifest, |manifest, folder| {
        manifest.replace(&format!("\"exercises/{folder}\""), &format!("\"{folder}\""))
    });
    let lock = fs::read(places.root.join("Cargo.lock"))?;
    let mut files: Files = BTreeMap::new();
    files.insert("Cargo.toml".into(), manifest.into());
    files.insert("Cargo.lock".into(), lock);
    for folder in FOLDERS {
        let exercise = places.root.join("exercises").join(folder);
        let stage = Path::new(folder);
        for name in ["Cargo.toml", "build.rs"] {
            if let Ok(text) = fs::read(exercise.join(name)) {
                files.insert(stage.join(name), text);
            }
        }
        let [library, program] = EMPTY;
        for (name, text) in [(folder != STORY).then_some(library), Some(program)]
            .into_iter()
            .flatten()
        {
            files.insert(stage.join(name), text.into());
        }
    }
    Ok(files)
}
