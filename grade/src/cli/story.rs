//! `story`: a story by the learner's own decoder and kernels.

use std::fs;
use std::process::ExitCode;

use clap::Args;
use grade::places::Places;
use grade::report::{plain, story};
use grade::story::{Request, tasks, tell};
use grade::tasks::Task;

use super::compiler::ensure_compiler;
use super::starters::starter;
use super::{files_of, print, root};

/// The flags of `story`.
#[derive(Args)]
pub struct Arguments {
    /// The beginning of the story.
    #[arg(long, value_name = "TEXT", default_value = "Once upon a time")]
    prompt: String,

    /// The most tokens; by default as many as the model has room for.
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,

    /// Let the solution tell it.
    #[arg(long)]
    solution: bool,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Prints the story as it is told, and then whose code ran. The exit status tells whether all of it is written, and the story is that of
/// the course's own decoder.
///
/// # Errors
///
/// Code that does not compile, panics or faults; no device.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (places, unwritten) = match arguments.solution {
        true => (Places::solution(root()), Vec::new()),
        false => {
            let mut unwritten = tasks();
            unwritten.retain(|task| is_unwritten(task));
            (Places::learner(root()), unwritten)
        }
    };
    let mut written = tasks();
    written.retain(|task| !unwritten.contains(task));
    ensure_compiler(&places, &written, arguments.yes)?;
    eprintln!("building stages 4 to 6");
    let request = Request {
        places,
        unwritten,
        prompt: &arguments.prompt,
        most: arguments.tokens,
    };
    let (mut printed, mut lines) = (Ok(()), Lines::default());
    let told = tell(&request, &mut |text| {
        if printed.is_ok() {
            printed = print(&lines.broken(&plain(text)));
        }
    });
    printed?;
    let told = told.map_err(|error| {
        eprintln!();
        let to_do = error.is_to_do();
        let error = anyhow::Error::from(error);
        match to_do {
            true => error.context("a task is not written to its end: `cargo grade next` finds it"),
            false => error,
        }
    })?;
    print(&format!("\n\n{}", story::render(&told)))?;
    Ok(match told.differs.is_none() && told.unwritten.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Lines of a text that comes in pieces.
#[derive(Default)]
struct Lines {
    column: usize,
}

impl Lines {
    /// Columns before a word goes to the next line. Its other pieces follow it beyond them.
    const WIDTH: usize = 92;

    /// The piece with line ends in place of the spaces before words that do not fit.
    fn broken(&mut self, piece: &str) -> String {
        let mut text = String::new();
        for (index, word) in piece.split(' ').enumerate() {
            if index > 0 && self.column + 1 + word.chars().count() > Self::WIDTH {
                text.push('\n');
                self.column = 0;
            } else if index > 0 {
                text.push(' ');
                self.column += 1;
            }
            text += word;
            self.column = match word.rsplit_once('\n') {
                Some((_, last)) => last.chars().count(),
                None => self.column + word.chars().count(),
            };
        }
        text
    }
}

/// True if all files of a task are the starter's.
fn is_unwritten(task: &Task) -> bool {
    let files = files_of(task);
    let mut files = files.iter();
    files.all(|file| starter(file).is_ok_and(|text| fs::read(file).is_ok_and(|own| own == text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_words_that_do_not_fit() {
        let mut lines = Lines::default();
        let long = "x".repeat(Lines::WIDTH - 4);
        assert_eq!(lines.broken(&long), long);
        assert_eq!(lines.broken(" abc"), " abc");
        assert_eq!(lines.broken(","), ",");
        assert_eq!(lines.broken(" d e"), "\nd e");
        assert_eq!(lines.broken("\nf"), "\nf");
        assert_eq!(lines.column, 1);
    }
}
