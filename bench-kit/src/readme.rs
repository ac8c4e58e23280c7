//! Keeps committed output of a program current: transcripts in a README, and charts.
//!
//! A transcript is a block of Markdown that begins with "```console" and a line
//! `$ cargo run -p PACKAGE -- ARGUMENTS`. A test of the package makes each again, and fails if it
//! differs. With `UPDATE_README=1` in the environment it is written anew.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, ensure};

/// The output of a program on the simulated H100. It counts and does not check: other tests of its
/// kernels do, and checks change no counter.
///
/// # Errors
///
/// The program does not run, or fails; with what it says.
pub fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("GPU", "sim")
        .env("CUDA_SIM_CHECK", "off")
        .env_remove("CUDA_SIM_DEVICE")
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The text of a README with the transcripts of `package` as `run` makes them, and how
/// many they are. `run` gets the number of the transcript and its arguments; the
/// transcripts are made at the same time.
///
/// # Errors
///
/// A transcript without an end, and those of `run`.
pub fn transcripts(
    readme: &str,
    package: &str,
    run: impl Fn(usize, &[&str]) -> anyhow::Result<String> + Sync,
) -> anyhow::Result<(String, usize)> {
    let fence = format!("```console\n$ cargo run -p {package} -- ");
    let mut blocks = readme.split(&fence);
    let mut text = blocks.next().unwrap_or_default().to_owned();
    let blocks = Vec::from_iter(blocks);
    let made = thread::scope(|scope| {
        let start = |(i, block): (usize, &&str)| {
            let command = block.lines().next().unwrap_or_default().to_owned();
            let run = &run;
            scope.spawn(move || anyhow::Ok((run(i, &Vec::from_iter(command.split(' ')))?, command)))
        };
        let started = Vec::from_iter(blocks.iter().enumerate().map(start));
        let ended = started.into_iter().map(|thread| thread.join());
        Vec::from_iter(ended)
    });
    for (block, made) in blocks.iter().zip(made) {
        let (output, command) = made.map_err(|_| anyhow::anyhow!("a transcript panicked"))??;
        let (_, rest) = block
            .split_once("```\n")
            .context("a transcript has no end")?;
        text += &format!("{fence}{command}\n{output}```\n{rest}");
    }
    Ok((text, blocks.len()))
}

/// The text of a README with another table in the place of the one that begins with `head` and
/// ends before an empty line.
///
/// # Errors
///
/// There is no such table.
pub fn with_table(readme: &str, head: &str, table: &str) -> anyhow::Result<String> {
    let start = readme.find(head).context("there is no such table")?;
    let end = readme[start..].find("\n\n").context("it has no end")?;
    let end = start + end + 1;
    Ok(format!("{}{table}{}", &readme[..start], &readme[end..]))
}

/// Compares a committed file with the text that it should have; with `UPDATE_README` set,
/// writes the text instead.
///
/// # Errors
///
/// The file has another text; it cannot be written.
pub fn keep(path: &Path, text: &str) -> anyhow::Result<()> {
    if env::var_os("UPDATE_README").is_some() {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        return fs::write(path, text).with_context(|| path.display().to_string());
    }
    let known = fs::read_to_string(path).unwrap_or_default();
    let differs = known
        .lines()
        .zip(text.lines())
        .find(|(old, new)| old != new);
    ensure!(
        known == text,
        "{} is out of date; UPDATE_README=1 mends it: {differs:?}",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcripts_are_made_again() {
        let readme = "# A\n```console\n$ cargo run -p a -- b c\nold\n```\nand\n```console\n$ cargo run -p a -- d\n```\nend\n";
        let run = |i, arguments: &[&str]| Ok(format!("{i} {}\n", arguments.join("+")));
        let (text, count) = transcripts(readme, "a", run).unwrap();
        let expected = readme
            .replace("old\n", "0 b+c\n")
            .replace("-- d\n", "-- d\n1 d\n");
        assert_eq!((&*text, count), (&*expected, 2));
        assert_eq!(
            transcripts(readme, "b", run).unwrap(),
            (readme.to_owned(), 0)
        );
        let open = "```console\n$ cargo run -p a -- b\n";
        assert!(transcripts(open, "a", run).is_err());
        let fails = |_, _: &[&str]| Err(anyhow::anyhow!("no"));
        assert!(transcripts(readme, "a", fails).is_err());
    }
}
