//! The command: a line for each warm-up up to the first that stores nothing yet, once or at every save; the next one to do; a starter
//! put back.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use clap::{Args, Subcommand};
use gpu_tool::ink::Ink;

use crate::starter::{reset, starter, task};
use crate::tasks::{WARM_UPS, WarmUp};
use crate::{Verdict, judge};

/// The flags.
#[derive(Args)]
#[group(id = "judged")] // its users have `Arguments` too
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// The warm-up, such as guard; all if not given.
    name: Option<String>,

    /// Judge the solutions.
    #[arg(long)]
    solution: bool,

    /// Judge again at every save, until it is interrupted.
    #[arg(long)]
    watch: bool,
}

/// What else there is to do.
#[derive(Subcommand)]
enum Command {
    /// Find the first warm-up that is not done: its page, its task, its file.
    Next,
    /// Put the starter of a warm-up back; the file that was there is kept beside it.
    Reset {
        /// The warm-up, such as guard.
        name: String,
    },
}

impl Arguments {
    /// True if kernels are compiled and run.
    pub fn compiles(&self) -> bool {
        !matches!(self.command, Some(Command::Reset { .. }))
    }

    /// Those that judge a warm-up at every save.
    pub fn watching(name: &str) -> Self {
        Self {
            command: None,
            name: Some(name.to_owned()),
            solution: false,
            watch: true,
        }
    }
}

/// The interval at which the files are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// The folders of the exercises and of their solutions.
const OWN: &str = "exercises/warm-up";
const SOLUTIONS: &str = "exercises/solutions/warm-up";

/// Prints a line for each warm-up up to the first that stores nothing yet; of one alone, or the first that is wrong, the
/// whole report. Successful if all are done.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Some(Command::Next) => return next(),
        Some(Command::Reset { name }) => return put_back(name),
        None => {}
    }
    gpu::simulate()?;
    let folder = root().join(match arguments.solution {
        true => SOLUTIONS,
        false => OWN,
    });
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

/// Prints what to read and to write for the first warm-up that is not done.
fn next() -> anyhow::Result<ExitCode> {
    gpu::simulate()?;
    let next = next_of(&root().join(OWN))?;
    let all = "All warm-ups are done. `cargo grade next` has the first task.\n".to_owned();
    print(&next.unwrap_or(all))?;
    Ok(ExitCode::SUCCESS)
}

/// What to read and to write for the first warm-up of a folder that is not done. A starter is not judged, which would take
/// the compiler.
///
/// # Errors
///
/// Those of [`judge`]; a solution cannot be read.
pub fn next_of(folder: &Path) -> anyhow::Result<Option<String>> {
    for numbered in named(None)? {
        let (number, warm_up) = numbered;
        let file = file(numbered);
        let path = folder.join(&file);
        let starter = starter(&root().join(SOLUTIONS).join(&file))?;
        let begun = !fs::read_to_string(&path).is_ok_and(|text| text == starter);
        if begun && judge(warm_up, &path)? == Verdict::Done {
            continue;
        }
        let (name, count) = (warm_up.name, WARM_UPS.len());
        return Ok(Some(format!(
            "Next: warm-up {number} of {count}, {name}: {task}\n  read     {page}\n  write    {OWN}/{file}\n  \
             then     cargo warm-up {name} --watch   judges it at every save\n",
            task = task(&starter),
            page = warm_up.page,
        )));
    }
    Ok(None)
}

/// Puts a starter back, and says where the file is kept that was there.
fn put_back(name: &str) -> anyhow::Result<ExitCode> {
    for numbered in named(Some(name))? {
        let starter = starter(&root().join(SOLUTIONS).join(file(numbered)))?;
        let shown = format!("{OWN}/{}", file(numbered));
        let text = match reset(&root().join(&shown), &starter)? {
            Some(backup) => {
                let backup = backup.strip_prefix(root()).unwrap_or(&backup).display();
                format!("Put back: {shown}\nBackup:   {backup}\n")
            }
            None => format!("{shown} is the starter.\n"),
        };
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
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
