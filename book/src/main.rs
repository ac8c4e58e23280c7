//! Builds, checks and refreshes the book. `cargo book help` lists the commands.
//!
//! - `directives.rs`: what a chapter writes as `{{…}}`: code by anchor, outputs, figures, numbers, tasks, hints.
//! - `quote.rs`, `generated.rs`, `devices.rs`, `gains.rs`, `metrics.rs`, `tasks.rs`, `hints.rs`, `clinic.rs`, `maths.rs`: what
//!   each of them stands for.
//! - `submissions.rs`, `keys.rs`: what the grader says of a solution, and of one with a known mistake; when to grade them again.
//! - `programs.rs`: the programs whose outputs are shown, and their command lines.
//! - `figures/`: the pictures, drawn as SVG. `simulator.rs`: the simulated device as a part of the pages.
//! - `labs.rs`, `predict.rs`: the boxes of pages that run kernels, the fields for predictions, and the kernels.
//! - `checks.rs`, `shape.rs`, `commands.rs`, `agreement.rs`: what must hold for the text and for the pages made of it; the parts
//!   of a chapter; typed commands; words and figures that must agree from page to page.
//! - `progress.rs`: what the program says while it works.

mod agreement;
mod checks;
mod clinic;
mod commands;
mod devices;
mod directives;
mod figures;
mod gains;
mod generated;
mod hints;
mod keys;
mod labs;
mod maths;
mod metrics;
mod notebook;
mod predict;
mod programs;
mod progress;
mod quote;
mod shape;
mod simulator;
mod submissions;
mod tasks;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, bail};
use mdbook_driver::MDBook;

use crate::directives::Directives;
use crate::programs::Programs;

const HELP: &str = "\
cargo book                     builds the book and opens it in a browser
cargo book build               builds it
cargo book check               builds it; checks text, links, and that generated blocks are current
cargo book refresh [NAME]…     runs the commands of generated blocks (all, or those named) and writes generated/

--programs FOLDER              check and refresh run the programs of this folder (target/debug) instead of `cargo run`";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let mut names: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut programs = Programs::CargoRun;
    if let Some(at) = names.iter().position(|&name| name == "--programs") {
        if at + 1 == names.len() {
            bail!("--programs needs a folder");
        }
        programs = Programs::Folder(PathBuf::from(names[at + 1]));
        names.drain(at..at + 2);
    }
    match names.split_first() {
        None => open(&build()?),
        Some((&"build", [])) => println!("{}", build()?.display()),
        Some((&"check", [])) => check(&programs)?,
        Some((&"refresh", names)) => generated::refresh(&programs, names)?,
        Some((&("help" | "--help" | "-h"), [])) => println!("{HELP}"),
        _ => bail!("unknown arguments\n{HELP}"),
    }
    Ok(())
}

/// Renders the pages and returns the first of them.
fn build() -> Result<PathBuf> {
    let mut book = MDBook::load(folder())?;
    book.with_preprocessor(Directives::new());
    book.build()?;
    let html = book.build_dir_for("html");
    labs::write_kernels(&html)?;
    simulator::build(&html)?;
    Ok(html.join("index.html"))
}

fn check(programs: &Programs) -> Result<()> {
    let index = build()?;
    let mut findings = checks::text()?;
    findings.extend(checks::pages(&index)?);
    findings.extend(shape::findings()?);
    findings.extend(agreement::findings()?);
    findings.extend(commands::in_notebook()?);
    findings.extend(generated::stale(programs)?);
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    println!("the book is in order");
    Ok(())
}

/// Opens a page in the browser, where there is one to open it.
fn open(page: &Path) {
    println!("{}", page.display());
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let opened = Command::new(opener)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !opened.is_ok_and(|status| status.success()) {
        println!("no browser was opened: open the file yourself");
    }
}

/// The folder of the book.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root of the repository.
fn root() -> &'static Path {
    folder().parent().unwrap_or(folder())
}
