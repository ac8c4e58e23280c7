//! `refresh`: compiles kernels whose committed PTX is stale.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use gpu::compile::PtxFile;
use gpu::nvrtc::Nvrtc;
use gpu::ptx_file;
use gpu::unit::{Folder, Unit};
use gpu::{cache, checkout, find_nvrtc};
use gpu_tool::workspace::{self, Package};
use gpu_tool::{confined, variants};

use super::{open_pinned, print, workspace_root};

/// The flags of `refresh`.
#[derive(Args)]
pub struct Arguments {
    /// Compile all variants, also those whose key is current. The key, in the first line of each
    /// PTX file, is a hash of all that the PTX depends on.
    #[arg(long)]
    all: bool,

    /// Compile all variants and write none; fail if a file's key or PTX differs. With `--all`, also
    /// if its resource report does, which takes four times as long.
    #[arg(long)]
    check: bool,
}

/// Compiles the variants of the workspace whose files are stale; then writes these files, or with
/// `--check` lists what differs and fails. Nothing is changed before all are compiled.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = workspace_root()?;
    let shown = |path: &Path| {
        let path = path.strip_prefix(&root).unwrap_or(path);
        path.display().to_string()
    };
    let mut variants = Vec::new();
    let mut superfluous = Vec::new();
    for package in workspace::packages(&root).context("reading the workspace")? {
        let folder = || package.folder.display().to_string();
        let wanted = wanted(&package).with_context(folder)?;
        superfluous.extend(others(&package.folder.join("ptx"), &wanted).with_context(folder)?);
        variants.extend(wanted);
    }
    let files = variants.len();
    if !(arguments.all || arguments.check) {
        variants.retain(|variant| !variant.is_current());
    }

    let extent = if arguments.check && !arguments.all {
        Extent::Ptx
    } else {
        Extent::File
    };
    let mut changes: Vec<(String, Change)> = Vec::new();
    if !variants.is_empty() {
        let nvrtc = pinned_compiler(&root)?;
        let texts = compile_all(&variants, &nvrtc, extent).context("no file was changed")?;
        for (variant, text) in variants.iter().zip(texts) {
            if variant.has(&text, extent) {
                continue;
            }
            let line = format!("write {}", shown(&variant.path));
            changes.push((line, Change::Write(&variant.path, text)));
        }
    }
    for path in &superfluous {
        changes.push((format!("delete {}", shown(path)), Change::Delete(path)));
    }
    if changes.is_empty() {
        return print(&format!("committed PTX is current: {files} files\n"));
    }
    if arguments.check {
        let list: Vec<String> = changes.into_iter().map(|(line, _)| line).collect();
        let list = list.join("\n");
        bail!(
            "committed PTX is not what the kernels compile to; `{} refresh --all` would\n{list}",
            checkout::program()
        );
    }
    for (line, change) in changes {
        let made = change.make();
        made.with_context(|| format!("cannot {line}; the changes listed before were made"))?;
        print(&format!("{line}\n"))?;
    }
    Ok(())
}

/// How much of a file is made and compared.
#[derive(Clone, Copy)]
enum Extent {
    /// The PTX. The key stands for the rest, which is made from the same.
    Ptx,
    /// The whole file. Its resource report takes a compilation for each reported architecture.
    File,
}

/// Change of a file by `refresh`.
enum Change<'a> {
    /// Gives it this text.
    Write(&'a Path, String),
    /// Removes it.
    Delete(&'a Path),
}

impl Change<'_> {
    fn make(&self) -> io::Result<()> {
        match self {
            Change::Write(path, text) => {
                let folder = path.parent().unwrap_or(path);
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                cache::write_whole(folder, &name, text)
            }
            Change::Delete(path) => fs::remove_file(path),
        }
    }
}

/// A line of a `kernels/variants.txt`, and its file.
struct Variant {
    unit: Unit,
    path: PathBuf,
}

impl Variant {
    /// True if the file's key is that of the kernel as it is now.
    fn is_current(&self) -> bool {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        ptx_file::key(&text) == Some(&self.unit.key())
    }

    /// True if the file has this text to this extent.
    fn has(&self, text: &str, extent: Extent) -> bool {
        let current = fs::read_to_string(&self.path).unwrap_or_default();
        match extent {
            Extent::Ptx => {
                self.is_current()
                    && current.ends_with(text)
                    && !ptx_file::resources(&current).is_empty()
            }
            Extent::File => current == text,
        }
    }

    /// The text that the file should have. Tells on standard error what was compiled, and how long
    /// it took.
    fn compile(&self, nvrtc: &Nvrtc, extent: Extent, progress: &str) -> anyhow::Result<String> {
        let constants = self.unit.constants().iter();
        let constants: String = constants
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        let start = Instant::now();
        let compiled = confined::with(nvrtc, |nvrtc| match extent {
            Extent::Ptx => nvrtc
                .compile(&self.unit)
                .map(|made| (made.ptx, made.log.trim().to_owned())),
            Extent::File => {
                PtxFile::compile(nvrtc, &self.unit).map(|file| (file.text, file.warnings))
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        eprintln!(
            "{progress}: {}{constants} ({seconds:.1} s)",
            self.unit.path()
        );
        let (text, warnings) = compiled?;
        if !warnings.is_empty() {
            eprintln!("{warnings}");
        }
        Ok(text)
    }
}

/// The texts of the variants, in their order, compiled on all processors.
fn compile_all(variants: &[Variant], nvrtc: &Nvrtc, extent: Extent) -> anyhow::Result<Vec<String>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let texts: Vec<_> = variants.iter().map(|_| OnceLock::new()).collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads.min(variants.len()) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(variant) = variants.get(index) else {
                        return;
                    };
                    let progress = format!("{} of {}", index + 1, variants.len());
                    let text =
                        texts[index].get_or_init(|| variant.compile(nvrtc, extent, &progress));
                    if text.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    // Every text before the first error is there.
    texts.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// The pinned compiler: the workspace's own first, so that a toolkit of another version does not
/// stand in the way.
fn pinned_compiler(root: &Path) -> anyhow::Result<Nvrtc> {
    let search = match find_nvrtc::in_site_packages(&root.join(find_nvrtc::WORKSPACE_FOLDER)) {
        Some(path) => Some(path),
        None => find_nvrtc::search()?.found,
    };
    let path = search.with_context(|| {
        let program = checkout::program();
        format!("NVRTC is not installed; `{program} fetch-nvrtc` fetches it")
    })?;
    open_pinned(&path)
}

/// Number of a package's variants without a current file.
pub fn stale(package: &Package) -> anyhow::Result<usize> {
    let wanted = wanted(package)?;
    Ok(wanted
        .iter()
        .filter(|variant| !variant.is_current())
        .count())
}

/// The variants that the package's `ptx/` should hold, in the order of the files' names.
fn wanted(package: &Package) -> anyhow::Result<Vec<Variant>> {
    let kernels = package.folder.join("kernels");
    let mut wanted: Vec<Variant> = Vec::new();
    for variant in variants::parse(&fs::read_to_string(kernels.join("variants.txt"))?)? {
        let constants: Vec<_> = variant
            .constants
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let read = |folder: Folder<'_>, name: &str| Ok(workspace::read(&kernels, folder, name));
        let unit =
            Unit::new(&package.name, &variant.file, &constants, read)?.with_context(|| {
                format!(
                    "kernels/variants.txt names {}, which cannot be read",
                    variant.file
                )
            })?;
        let path = package.folder.join("ptx").join(ptx_file::name(&unit));
        wanted.push(Variant { unit, path });
    }
    wanted.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(pair) = wanted.windows(2).find(|pair| pair[0].path == pair[1].path) {
        let name = ptx_file::name(&pair[0].unit);
        bail!("two lines of kernels/variants.txt give the file name {name}");
    }
    Ok(wanted)
}

/// The PTX files of a `ptx/` folder, and of folders in it, that are not wanted, by name.
fn others(folder: &Path, wanted: &[Variant]) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut others = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let is_ptx = path.extension().is_some_and(|extension| extension == "ptx");
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if is_ptx && !wanted.iter().any(|variant| variant.path == path) {
                others.insert(path);
            }
        }
    }
    Ok(others)
}
