//! Embeds the texts in the `kernels/` and `ptx/` folders of the package that is being compiled: for
//! `gpu::bundle!`.
//!
//! Each macro expands to a slice of pairs of names and texts,
//! `&[("a.cu", include_str!("/…/kernels/a.cu")), …]`, so cargo compiles the package again when a
//! file is edited. It does not notice new files: the package's `build.rs` names the folders.

use std::path::{Path, PathBuf};
use std::{env, fs};

use proc_macro::TokenStream;

/// The files of `kernels/`, `.cu` and `.cuh`, with the names that they have from there. Without a
/// `.cu` or `.cuh` file, as in this package, it does not compile.
///
/// ```compile_fail
/// let kernels: &[(&str, &str)] = gpu_embed::kernels!();
/// ```
#[proc_macro]
pub fn kernels(_: TokenStream) -> TokenStream {
    let none = "the package has no .cu or .cuh file in a folder kernels/ beside its Cargo.toml";
    let found = texts("kernels", &["cu", "cuh"]);
    expanded(found.and_then(|texts| match texts[..] {
        [] => Err(none.to_owned()),
        _ => Ok(texts),
    }))
}

/// The files of `ptx/`; none if there is no such folder, as in this package.
///
/// ```
/// let ptx: &[(&str, &str)] = gpu_embed::ptx!();
/// assert!(ptx.is_empty());
/// ```
#[proc_macro]
pub fn ptx(_: TokenStream) -> TokenStream {
    expanded(texts("ptx", &["ptx"]))
}

/// The names of a folder's files of these kinds and their paths, ordered by name.
fn texts(folder: &str, kinds: &[&str]) -> Result<Vec<(String, String)>, String> {
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let root = PathBuf::from(package).join(folder);
    let mut texts = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
        let shown = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(shown)? {
            let path = entry.map_err(shown)?.path();
            let kind = path.extension().and_then(|kind| kind.to_str());
            if path.is_dir() {
                folders.push(path);
            } else if kind.is_some_and(|kind| kinds.contains(&kind)) {
                let name = path.strip_prefix(&root).unwrap_or(&path);
                texts.push((utf8(name)?, utf8(&path)?));
            }
        }
    }
    texts.sort();
    Ok(texts)
}

fn utf8(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the name of {} is not UTF-8", path.display()))
}

fn expanded(texts: Result<Vec<(String, String)>, String>) -> TokenStream {
    let code = match texts {
        Ok(texts) => {
            let pairs = texts
                .iter()
                .map(|(name, path)| format!("({name:?}, ::core::include_str!({path:?})),"));
            format!("&[{}]", pairs.collect::<String>())
        }
        Err(reason) => format!("::core::compile_error!({reason:?})"),
    };
    code.parse().expect("Rust's own notation of strings")
}
