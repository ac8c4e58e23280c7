//! The simulator as a part of the pages: `gpu/web`, built for WebAssembly and packed into a script.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::root;

const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the simulator and writes `theme/simulator-wasm.js` into the folder of the pages. Without the
/// target it writes nothing: the pages that react show their figures then.
pub fn build(html: &Path) -> Result<()> {
    if !target_is_installed()? {
        eprintln!(
            "note: the pages will not react; `rustup target add {TARGET}` installs what is missing"
        );
        return Ok(());
    }
    eprintln!("simulator: being built for the pages");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "gpu-web",
            "--lib",
        ])
        .args(["--target", TARGET, "--profile", "web"])
        .current_dir(root())
        .status()?;
    ensure!(built.success(), "the simulator is not built for {TARGET}");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let module = target.join(TARGET).join("web/gpu_web.wasm");
    let module = fs::read(&module).with_context(|| module.display().to_string())?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&module)?;
    let packed = STANDARD.encode(packed.finish()?);
    let script = format!("globalThis.simulatorModule = \"{packed}\";\n");
    fs::write(html.join("theme/simulator-wasm.js"), script)?;
    Ok(())
}

fn target_is_installed() -> Result<bool> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()?;
    let folder = String::from_utf8_lossy(&library.stdout);
    Ok(Path::new(folder.trim()).is_dir())
}
