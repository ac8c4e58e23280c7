//! Compiles the jump table that gives a process its `libcuda.so` without a file of that name on
//! disk.
//!
//! The table is a shared library of a few kilobytes with the soname `libcuda.so`. It exports every
//! name of `symbols.txt` as one indirect jump through an array, and `cuda_sim_fill`, which fills
//! that array with the addresses of this crate's functions. `src/driver/install.rs` embeds the
//! library and loads it at run time.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() -> Result<(), Box<dyn Error>> {
    // No file: what it reads is compiled into it.
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    if env::var("CARGO_CFG_TARGET_OS")? != "linux" || env::var("CARGO_CFG_TARGET_ARCH")? != "x86_64"
    {
        return Ok(()); // `src/lib.rs` says what is missing, in words.
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let symbols: Vec<&str> = include_str!("symbols.txt").lines().collect();
    fs::write(out.join("stub.rs"), stub_source(&symbols)?)?;
    fs::write(out.join("table.rs"), table_source(&symbols)?)?;
    compile(&out)
}

/// The library's source: one naked function per symbol, which jumps through its slot of `TABLE`.
fn stub_source(symbols: &[&str]) -> Result<String, Box<dyn Error>> {
    let n = symbols.len();
    let mut source = format!(
        "#![no_std]\n\
         #[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}\n\
         static mut TABLE: [usize; {n}] = [0; {n}];\n\
         #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn cuda_sim_fill(from: *const usize) {{\n\
         \x20   unsafe {{ core::ptr::copy_nonoverlapping(from, &raw mut TABLE as *mut usize, {n}) }}\n}}\n"
    );
    for (slot, symbol) in symbols.iter().enumerate() {
        writeln!(
            source,
            "#[unsafe(no_mangle)]\n#[unsafe(naked)]\npub extern \"C\" fn {symbol}() {{ \
             core::arch::naked_asm!(\"jmp qword ptr [rip + {{table}} + {offset}]\", table = sym TABLE) }}",
            offset = slot * 8
        )?;
    }
    Ok(source)
}

/// The addresses to fill the library's table with, in the same order, and their names. Included by
/// `src/driver/install.rs`.
fn table_source(symbols: &[&str]) -> Result<String, Box<dyn Error>> {
    let n = symbols.len();
    let mut source = format!("static NAMES: [&str; {n}] = {symbols:?};\n");
    writeln!(source, "static TABLE: [Address; {n}] = [")?;
    for symbol in symbols {
        writeln!(source, "    Address(crate::driver::{symbol} as *const ()),")?;
    }
    source.push_str("];\n");
    Ok(source)
}

/// Compiles `stub.rs` to `libcuda.so`, both in `out`, with the compiler and linker cargo uses.
fn compile(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut rustc = Command::new(env::var("RUSTC")?);
    rustc
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda"])
        .args(["-Cpanic=abort", "-Copt-level=s", "-Cstrip=symbols"])
        .args([
            "-Clink-arg=-Wl,-soname,libcuda.so",
            "-Clink-arg=-nostartfiles",
        ])
        .arg("--target")
        .arg(env::var("TARGET")?)
        .arg("-o")
        .arg(out.join("libcuda.so"))
        .arg(out.join("stub.rs"));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    match rustc.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("compiling the driver's jump table failed: {status}").into()),
    }
}
