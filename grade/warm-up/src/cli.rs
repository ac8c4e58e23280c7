//! The command: a line for each warm-up up to the first that stores nothing yet, once or at every save.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use clap::Args;
use gpu_tool::ink::Ink;

use crate::tasks::{WARM_UPS, WarmUp};
use crate::{Verdict, judge};

/// The flags.
#[derive(Args)]
#[group(id = "judged")] // its users have `Arguments` too
pub struct Arguments {
    /// The warm-up, such as guard; all if not given.
    name: Option<String>,

    /// Judge the solutions.
    #[arg(long)]
    solution: bool,

    /// Judge again at every save, until it is interrupted.
    #[arg(long)]
    watch: bool,
}

impl Arguments {
    /// Those that judge a warm-up at every save.
    pub fn watching(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            solution: false,
            watch: true,
        }
    }
}

/// The interval at which the files are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Prints a line for each warm-up up to the first that stores nothing yet; of one alone, or the first that is wrong, the
/// whole report. Successful if all are done.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gpu::simulate()?;
    let folder = match arguments.solution {
        true => "exercises/solutions/warm-up",
        false => "exercises/warm-up",
    };
    let folder = root().join(folder);
    let chosen = named(arguments.name.as_deref())?;
    let files: Vec<PathBuf> = chosen
        .iter()
        .map(|chosen| folder.join(file(*chosen)))
        .collect();
    loop {
        let judged = written(&files);
        let (text, done) = report(&chosen, &files)?;
        print(&text)?;
        if !arguments.watch {
            return Ok(match done {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            });
        }
        print("watching; Ctrl-C ends\n\n")?;
        while written(&files) == judged || written(&files).contains(&None) {
            thread::sleep(INTERVAL);
        }
    }
}

/// A warm-up with its number.
type Numbered = (usize, &'static WarmUp);

fn report(chosen: &[Numbered], files: &[PathBuf]) -> anyhow::Result<(String, bool)> {
    let ink = Ink::stdout();
    let (mut text, mut done, mut first_open) = (String::new(), 0, None);
    for ((number, warm_up), path) in chosen.iter().zip(files) {
        let verdict = judge(warm_up, path)?;
        let (share, what) = match &verdict {
            Verdict::Done => (1.0, "done"),
            Verdict::NothingYet => (0.0, "not begun: the kernel stores nothing"),
            Verdict::Wrong(what) => (0.0, &**what),
        };
        let (first, rest) = what.trim().split_once('\n').unwrap_or((what.trim(), ""));
        text += &format!(
            "{number} {:15} {}\n",
            warm_up.name,
            ink.by_share(share, first)
        );
        if verdict == Verdict::Done {
            done += 1;
        } else if first_open.is_none() {
            first_open = Some(path);
            text += rest.trim_end();
            text += if rest.is_empty() { "" } else { "\n" };
        }
        if verdict == Verdict::NothingYet {
            break;
        }
    }
    text += &format!("\n{done} of {} done", chosen.len());
    if let Some(path) = first_open {
        let shown = path.strip_prefix(root()).unwrap_or(path);
        text += &format!("; next: {}", shown.display());
    }
    text += "\n";
    Ok((text, done == chosen.len()))
}

fn named(name: Option<&str>) -> anyhow::Result<Vec<Numbered>> {
    let numbered = (1..).zip(&WARM_UPS);
    let chosen = numbered.filter(|(_, warm_up)| name.is_none_or(|name| name == warm_up.name));
    let chosen: Vec<Numbered> = chosen.collect();
    if chosen.is_empty() {
        let names: Vec<&str> = WARM_UPS.iter().map(|warm_up| warm_up.name).collect();
        let name = name.unwrap_or_default();
        bail!(
            "there is no warm-up `{name}`; there are {}",
            names.join(", ")
        );
    }
    Ok(chosen)
}

/// The name of a warm-up's file.
pub fn file((number, warm_up): Numbered) -> String {
    format!("{number}_{}.cu", warm_up.name)
}

/// The root of the checkout that this program was built in.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// When each file was written; `None` for one that is missing, as while an editor replaces it.
fn written(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    let time = |file: &PathBuf| file.metadata().and_then(|file| file.modified()).ok();
    files.iter().map(time).collect()
}

/// Writes to standard output. A reader that has gone away, as in `… | head`, is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let written = io::stdout().write_all(text.as_bytes());
    match written.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
