//! `refresh`: makes the committed PTX what the kernels say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use gpu::nvrtc::Nvrtc;
use gpu::ptx_file::{self, PtxFile};
use gpu::unit::Unit;
use gpu::{find_nvrtc, variants};

use super::{Package, open_pinned, packages, workspace_root};

/// Compiles every variant of the workspace; writes the files that differ, or with `check` lists them and fails.
pub fn run(check: bool) -> anyhow::Result<()> {
    let root = workspace_root()?;
    let nvrtc = pinned_compiler(&root)?;
    let mut stale = Vec::new();
    let mut files = 0;
    for package in packages(&root)? {
        let wanted =
            compile(&package, &nvrtc).with_context(|| package.folder.display().to_string())?;
        files += wanted.len();
        let folder = package.folder.join("ptx");
        for (name, change) in changes(&folder, &wanted)? {
            let path = folder.join(&name);
            let shown = path
                .strip_prefix(&root)
                .unwrap_or(&path)
                .display()
                .to_string();
            if !check {
                change
                    .apply(&path)
                    .with_context(|| format!("writing {shown}"))?;
            }
            stale.push(format!("{} {shown}", change.label()));
        }
    }
    if stale.is_empty() {
        println!("committed PTX is current: {files} files");
        return Ok(());
    }
    let list = stale.join("\n");
    if check {
        bail!(
            "committed PTX is not what the kernels compile to; `cargo run -p gpu -- refresh` would\n{list}"
        );
    }
    println!("{list}");
    Ok(())
}

/// What must happen to a file.
enum Change<'a> {
    Write(&'a str),
    Delete,
}

impl Change<'_> {
    fn label(&self) -> &'static str {
        match self {
            Change::Write(_) => "write",
            Change::Delete => "delete",
        }
    }

    fn apply(&self, path: &Path) -> anyhow::Result<()> {
        match self {
            Change::Write(text) => {
                fs::create_dir_all(path.parent().unwrap_or(path))?;
                fs::write(path, text)?;
            }
            Change::Delete => fs::remove_file(path)?,
        }
        Ok(())
    }
}

/// The pinned compiler: the workspace's own first, so that a toolkit of another version does not stand in the way.
fn pinned_compiler(root: &Path) -> anyhow::Result<Nvrtc> {
    let search = match find_nvrtc::in_site_packages(&root.join(find_nvrtc::WORKSPACE_FOLDER)) {
        Some(path) => Some(path),
        None => find_nvrtc::search()?.found,
    };
    let path =
        search.context("NVRTC is not installed; `cargo run -p gpu -- fetch-nvrtc` fetches it")?;
    open_pinned(&path)
}

/// The files that the package's `ptx/` should hold, by name.
fn compile(package: &Package, nvrtc: &Nvrtc) -> anyhow::Result<BTreeMap<String, String>> {
    let kernels = package.folder.join("kernels");
    let mut files = BTreeMap::new();
    for variant in variants::parse(&fs::read_to_string(kernels.join("variants.txt"))?)? {
        let constants: Vec<_> = variant
            .constants
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        // A file that cannot be read counts as absent; the next line then names it.
        let read = |name: &str| Ok(fs::read_to_string(kernels.join(name)).ok());
        let unit =
            Unit::new(&package.name, &variant.file, &constants, read)?.with_context(|| {
                format!(
                    "kernels/variants.txt names {}, which cannot be read",
                    variant.file
                )
            })?;
        let file = PtxFile::compile(nvrtc, &unit)?;
        if !file.warnings.is_empty() {
            eprintln!("{}", file.warnings);
        }
        let name = ptx_file::name(&unit);
        if files.insert(name.clone(), file.text).is_some() {
            bail!("two lines of kernels/variants.txt give the file name {name}");
        }
    }
    Ok(files)
}

/// What must be written to, or deleted from, a `ptx/` folder so that it holds the wanted files and no other PTX.
fn changes<'a>(
    folder: &Path,
    wanted: &'a BTreeMap<String, String>,
) -> anyhow::Result<Vec<(String, Change<'a>)>> {
    let mut changes = Vec::new();
    for (name, text) in wanted {
        if fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text) {
            changes.push((name.clone(), Change::Write(text)));
        }
    }
    if folder.is_dir() {
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".ptx") && !wanted.contains_key(&name) {
                changes.push((name, Change::Delete));
            }
        }
    }
    Ok(changes)
}
