//! `watch`: grades a task again whenever one of its files is saved, up to its first step that lacks more than speed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use ::warm_up::tasks::WARM_UPS;
use clap::Args;
use console::Term;
use gpu_tool::ink::Ink;
use grade::grade::Settings;
use grade::report::{Points, advice, terminal};
use grade::tasks::TASKS;

use super::run::{run_and_keep, usual};
use super::{exercises, files_of, first_open, in_order, print, shown, steps, warm_up};

/// The interval at which the files are looked at. Looking at a few files takes microseconds, on every file system.
const INTERVAL: Duration = Duration::from_millis(100);

/// The flags of `watch`.
#[derive(Args)]
pub struct Arguments {
    /// The task, such as softmax or 3/flash, a step, such as 4/flash/tile, or a warm-up, such as guard; the first without full marks
    /// if not given.
    task: Option<String>,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Grades, waits for a change, and grades again, until it is interrupted.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(word) = &arguments.task
        && WARM_UPS.iter().any(|warm_up| warm_up.name == word)
    {
        return warm_up::watch(word, arguments.yes);
    }
    let tasks = match &arguments.task {
        Some(word) => steps(word)?,
        None => {
            let task = first_open(&in_order().collect::<Vec<_>>());
            TASKS
                .iter()
                .filter(|step| step.shares_files(task))
                .collect()
        }
    };
    let settings = Settings {
        to_first_open: true,
        ..usual()
    };
    let (folder, files) = (exercises().join(tasks[0].folder()), files_of(tasks[0]));
    loop {
        let graded = stamps(&folder); // before grading: what is saved meanwhile is a change
        let grade = run_and_keep(&settings, &tasks, arguments.yes)?;
        let terminal = Term::stdout();
        if terminal.is_term() {
            terminal.clear_screen()?;
        }
        let mut text = terminal::render(&grade, Ink::stdout());
        if grade.tasks.iter().all(Points::is_full) {
            text += &format!("\n{}", advice(&grade));
        }
        let names: Vec<String> = files.iter().map(|file| shown(file)).collect();
        text += &format!("\nwatching {}; Ctrl-C ends\n", names.join(", "));
        print(&text)?;
        wait(&folder, &files, &graded);
    }
}

/// When each source of a stage was written, and its size.
type Stamps = BTreeMap<PathBuf, (SystemTime, u64)>;

/// Endings of sources: editors leave other files beside them.
const SOURCES: [&str; 4] = ["rs", "cu", "cuh", "txt"];

fn stamps(folder: &Path) -> Stamps {
    let mut stamps = Stamps::new();
    for part in ["src", "kernels"] {
        add(&folder.join(part), &mut stamps);
    }
    stamps
}

fn add(folder: &Path, stamps: &mut Stamps) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let ending = path.extension().and_then(|ending| ending.to_str());
        if metadata.is_dir() {
            add(&path, stamps);
        } else if ending.is_some_and(|ending| SOURCES.contains(&ending))
            && let Ok(written) = metadata.modified()
        {
            stamps.insert(path, (written, metadata.len()));
        }
    }
}

/// Returns once the sources differ from `graded`, none of the task's is missing, and they have stayed the same for an interval.
fn wait(folder: &Path, files: &[PathBuf], graded: &Stamps) {
    let mut last = graded.clone();
    loop {
        thread::sleep(INTERVAL);
        let now = stamps(folder);
        let whole = files.iter().all(|file| now.contains_key(file));
        if now != *graded && now == last && whole {
            return;
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_save_is_seen_once_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("grade-watch-{}", std::process::id()));
        let file = folder.join("kernels/a.cu");
        fs::create_dir_all(folder.join("kernels")).unwrap();
        fs::write(&file, "old").unwrap();
        let graded = stamps(&folder);
        let (sender, receiver) = mpsc::channel();
        let (watched, files) = (folder.clone(), vec![file.clone()]);
        let waiting = thread::spawn(move || {
            wait(&watched, &files, &graded);
            sender.send(()).unwrap();
        });
        let silent = || receiver.recv_timeout(5 * INTERVAL).is_err();
        fs::write(folder.join("kernels/.a.cu.swp"), "").unwrap();
        assert!(silent(), "an editor's own file is no source");
        // Some editors remove the file first: that alone is no save.
        fs::remove_file(&file).unwrap();
        assert!(silent());
        fs::write(&file, "new and longer").unwrap();
        receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        waiting.join().unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
