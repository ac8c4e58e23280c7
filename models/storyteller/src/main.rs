//! `storyteller corpus` writes stories, `storyteller check` judges stories in a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Parser;
use storyteller::{check, corpus};

/// Writes and checks short children's stories.
#[derive(Parser)]
enum Command {
    /// Writes stories of the grammar, separated by blank lines.
    Corpus {
        /// Number of stories.
        #[arg(long)]
        stories: usize,
        /// The same seed gives the same stories.
        #[arg(long, default_value_t = corpus::TRAINING_SEED)]
        seed: u64,
        /// The file to write; standard output if it is left out.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Checks the stories in a file: separated by blank lines; lines that
    /// start with # are left out.
    Check {
        /// The file to read.
        file: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Corpus {
            stories,
            seed,
            out: Some(path),
        } => {
            let file =
                File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
            write_corpus(stories, seed, file)
                .with_context(|| format!("cannot write {}", path.display()))
        }
        Command::Corpus {
            stories,
            seed,
            out: None,
        } => match write_corpus(stories, seed, io::stdout().lock()) {
            // `storyteller corpus … | head` closes the pipe early.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write the stories"),
        },
        Command::Check { file } => check_file(&file),
    }
}

fn write_corpus(stories: usize, seed: u64, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    for (index, story) in corpus::stories(seed).take(stories).enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        writeln!(out, "{gap}{}", story.text)?;
    }
    out.flush()
}

fn check_file(path: &Path) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let reports: Vec<_> = check::split_stories(&text)
        .iter()
        .map(|story| check::story(story))
        .collect();
    if reports.is_empty() {
        bail!("{} has no story", path.display());
    }
    println!("story  sentences  parsed  hero  object  all  ends");
    let tick = |kept: bool| if kept { "yes" } else { "NO" };
    for (index, report) in reports.iter().enumerate() {
        let (hero, object) = (tick(report.keeps_hero), tick(report.keeps_object));
        let (all, ends) = (tick(report.keeps_all), tick(report.ends));
        println!(
            "{:>5}  {:>9}  {:>6}  {hero:>4}  {object:>6}  {all:>3}  {ends:>4}",
            index + 1,
            report.sentences,
            report.parsed
        );
        for sentence in &report.unparsed {
            println!("       not parsed: {sentence}");
        }
    }
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let (sentences, parsed) = reports.iter().fold((0, 0), |(s, p), report| {
        (s + report.sentences, p + report.parsed)
    });
    let whole = reports.iter().filter(|report| report.is_whole()).count();
    let all = reports.iter().filter(|report| report.keeps_all).count();
    println!("{} stories, {sentences} sentences", reports.len());
    println!("{:.1}% of the sentences parse", percent(parsed, sentences));
    println!(
        "{:.1}% of the stories keep hero and object and end",
        percent(whole, reports.len())
    );
    println!(
        "{:.1}% of the stories keep every slot",
        percent(all, reports.len())
    );
    Ok(())
}
