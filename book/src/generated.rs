//! Generated blocks of the book: outputs and counters, committed in `generated/`, each with the command that made it.
//!
//! `cargo book refresh` writes them, `cargo book check` compares them with what the commands print now. Slow blocks are
//! made again only if what they are made of has changed: `keys.rs`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{fs, mem};

use anyhow::{Context, Result, bail};
use gpu_recording::{Recording, Step};
use serde_json::Value;

use crate::folder;
use crate::keys::{self, Inputs, Keys};
use crate::programs::{Programs, typed, without_addresses};
use crate::progress::Progress;
use crate::submissions::{self, Submission};

/// The part of an output that is kept.
#[derive(Debug)]
pub enum Keep {
    All,
    /// From the first line that contains one text to the line before the first, after it, that contains the other.
    Lines(&'static str, &'static str),
    /// Nothing of the text: the counters, as JSON.
    Counters,
    /// A recording of `gpu trace`, as JSON.
    Recording,
    /// The order of its steps: no contents of shared memory, and one step for each stretch of equal
    /// ones.
    Order,
    /// The grader's verdict on a submission, from the table on.
    Verdict(Submission),
}

/// An output of a program, and the command that makes it.
struct Block {
    name: &'static str,
    program: &'static str,
    arguments: &'static str,
    keep: Keep,
}

impl Block {
    fn is_json(&self) -> bool {
        matches!(self.keep, Keep::Counters | Keep::Recording | Keep::Order)
    }

    /// The grader and the benches run for seconds, `gpu` for milliseconds.
    fn is_slow(&self) -> bool {
        self.program != "gpu"
    }
}

const fn output(name: &'static str, program: &'static str, arguments: &'static str) -> Block {
    Block {
        name,
        program,
        arguments,
        keep: Keep::All,
    }
}

const fn lines(
    name: &'static str,
    arguments: &'static str,
    from: &'static str,
    to: &'static str,
) -> Block {
    Block {
        name,
        program: "gpu",
        arguments,
        keep: Keep::Lines(from, to),
    }
}

const fn counters(name: &'static str, arguments: &'static str) -> Block {
    Block {
        name,
        program: "gpu",
        arguments,
        keep: Keep::Counters,
    }
}

const fn recorded(name: &'static str, arguments: &'static str) -> Block {
    Block {
        name,
        program: "gpu",
        arguments,
        keep: Keep::Recording,
    }
}

const fn ordered(name: &'static str, arguments: &'static str) -> Block {
    Block {
        name,
        program: "gpu",
        arguments,
        keep: Keep::Order,
    }
}

/// The grader's verdict on a task.
const fn verdict(name: &'static str, task: &'static str, submission: Submission) -> Block {
    Block {
        name,
        program: "grade",
        arguments: task,
        keep: Keep::Verdict(submission),
    }
}

include!("blocks.rs");

/// A block as the reader sees it: the command, then what it printed. A table stays a table.
pub fn block(name: &str) -> Result<String> {
    let block = find(name)?;
    if block.is_json() {
        bail!("it is JSON, no text");
    }
    let text = committed(block)?;
    match text.split_once('\n') {
        Some((command, table)) if table.starts_with('|') => {
            let command = command.trim_start_matches("$ ");
            Ok(format!(
                "<div class=\"source\">{command}</div>\n\n{}",
                without_links(table)
            ))
        }
        Some((command, output)) => Ok(format!("```console\n{}\n{output}```", folded(command))),
        None => bail!("it is empty"),
    }
}

/// A command on lines of at most 100 columns, as a shell reads them. Only an argument that is longer stays so.
fn folded(command: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for (index, part) in command.split(" --").enumerate() {
        if index > 0 && column + part.len() > 95 {
            lines += " \\\n     --";
            column = 7;
        } else if index > 0 {
            lines += " --";
            column += 3;
        }
        lines += part;
        column += part.len();
    }
    lines
}

/// Markdown links, relative to another folder, as their text alone.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((start, label)) = before.rsplit_once('[') else {
            break;
        };
        out += start;
        out += label;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// The recording of a block.
pub fn recording(name: &str) -> Result<Recording> {
    let block = find(name)?;
    Recording::parse(&committed(block)?).with_context(|| name.to_owned())
}

/// The command that made a block.
pub fn command(name: &str) -> Result<String> {
    let Block {
        program, arguments, ..
    } = find(name)?;
    Ok(typed(program, arguments))
}

/// A figure of a profile, written with its unit.
pub fn number(name: &str, key: &str) -> Result<String> {
    let (value, unit) = figure(name, key)?;
    Ok(match unit.as_str() {
        "count" => thousands(value),
        "bytes" => format!("{} bytes", thousands(value)),
        "share" => format!("{:.1} %", 100.0 * value),
        "seconds" => format!("{:.2} µs", 1e6 * value),
        _ => format!("{value:.1}"),
    })
}

/// One figure over another, in at most two decimals.
pub fn ratio(above: (&str, &str), below: (&str, &str)) -> Result<String> {
    let (above, below) = (figure(above.0, above.1)?.0, figure(below.0, below.1)?.0);
    let text = format!("{:.2}", above / below);
    Ok(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// The modelled time of a part of a launch, from the line `alone: …` of a profile, such as `38.9 ns`.
pub fn part(name: &str, part: &str) -> Result<String> {
    let text = committed(find(name)?)?;
    let (_, parts) = text
        .split_once("  alone: ")
        .with_context(|| format!("{name} has no times of parts"))?;
    let mut parts = parts.lines().take(2).flat_map(|line| line.split(','));
    let time = parts.find_map(|part_time| part_time.trim().strip_prefix(part)?.strip_prefix(' '));
    let time = time.with_context(|| format!("{name} has no part {part}"))?;
    Ok(time.to_owned())
}

/// A figure of the profile in a block, and its unit.
pub fn figure(name: &str, key: &str) -> Result<(f64, String)> {
    let text = committed(find(name)?)?;
    let report: Value =
        serde_json::from_str(&text).with_context(|| format!("{name} has no counters"))?;
    let figure = &report["figures"][key];
    let value = figure["value"].as_f64();
    let value = value.with_context(|| format!("{name} has no figure {key}"))?;
    Ok((value, figure["unit"].as_str().unwrap_or("").to_owned()))
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Runs the commands of the blocks named (of all, without names), and writes what they print, and the keys of slow ones.
pub fn refresh(programs: &Programs, names: &[&str]) -> Result<()> {
    for name in names {
        find(name)?;
    }
    let is_named = |block: &&Block| names.is_empty() || names.contains(&block.name);
    let blocks: Vec<&Block> = BLOCKS.iter().filter(is_named).collect();
    let (mut keys, mut inputs) = (Keys::read(), Inputs::new());
    programs.build(&blocks.iter().map(|block| block.program).collect())?;
    let of_slow = slow().map(|block| block.name).collect();
    let mut progress = Progress::new("blocks", blocks.len());
    for block in blocks {
        progress.next(block.name);
        let text = made(programs, block)?;
        fs::write(path(block), &text)?;
        if let Some(key) = key(&mut inputs, block, &text)? {
            keys.set(block.name, key);
            keys.write(&of_slow)?; // a refresh that is stopped keeps it
        }
    }
    progress.end();
    keys.write(&of_slow)
}

/// Blocks that are stale, files of no block, keys of no block.
pub fn stale(programs: &Programs) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let (keys, mut inputs) = (Keys::read(), Inputs::new());
    let mut to_make = Vec::new();
    for block in BLOCKS {
        let key = committed(block)
            .ok()
            .map(|text| key(&mut inputs, block, &text))
            .transpose()?
            .flatten();
        if !key.is_some_and(|key| keys.has(block.name, &key)) {
            to_make.push(block);
        }
    }
    programs.build(&to_make.iter().map(|block| block.program).collect())?;
    let mut progress = Progress::new("blocks", to_make.len());
    for block in &to_make {
        progress.next(block.name);
        if committed(block).ok() != Some(made(programs, block)?) {
            findings.push(format!(
                "stale: `cargo book refresh {}` mends it",
                block.name
            ));
        }
    }
    progress.end();
    let made_again: Vec<&str> = to_make
        .iter()
        .filter(|block| block.is_slow())
        .map(|block| block.name)
        .collect();
    if !made_again.is_empty() {
        eprintln!(
            "what {} slow blocks are made of has changed, or they have no key. To write their keys: cargo book refresh {}",
            made_again.len(),
            made_again.join(" ")
        );
    }
    let of_none = |name: &&str| !slow().any(|block| block.name == *name);
    findings.extend(
        keys.names()
            .filter(of_none)
            .map(|name| format!("generated/keys.txt has {name}, which is no slow block")),
    );
    let mut files: BTreeSet<PathBuf> = BLOCKS.iter().map(path).collect();
    files.insert(keys::file());
    for entry in fs::read_dir(folder().join("generated"))? {
        let path = entry?.path();
        if !files.contains(&path) {
            findings.push(format!("{} is of no block", path.display()));
        }
    }
    Ok(findings)
}

/// The slow blocks.
fn slow() -> impl Iterator<Item = &'static Block> {
    BLOCKS.iter().filter(|block| block.is_slow())
}

/// The key of a slow block that holds `text`.
fn key(inputs: &mut Inputs, block: &Block, text: &str) -> Result<Option<String>> {
    if !block.is_slow() {
        return Ok(None);
    }
    let submission = match &block.keep {
        Keep::Verdict(submission) => Some(submission),
        _ => None,
    };
    let kept = format!("{:?}", block.keep);
    let key = inputs.key([block.program, block.arguments, &kept, text], submission)?;
    Ok(Some(key))
}

/// The names of all blocks.
pub fn names() -> impl Iterator<Item = &'static str> {
    BLOCKS.iter().map(|block| block.name)
}

fn find(name: &str) -> Result<&'static Block> {
    let block = BLOCKS.iter().find(|block| block.name == name);
    block.with_context(|| format!("there is no block {name:?} in src/blocks.rs"))
}

fn path(block: &Block) -> PathBuf {
    let ending = if block.is_json() { "json" } else { "txt" };
    folder()
        .join("generated")
        .join(format!("{}.{ending}", block.name))
}

fn committed(block: &Block) -> Result<String> {
    let path = path(block);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The content of a block's file, by its command.
fn made(programs: &Programs, block: &Block) -> Result<String> {
    if let Keep::Verdict(submission) = &block.keep {
        return submissions::verdict(programs, block.arguments, submission);
    }
    let shown = typed(block.program, block.arguments);
    let mut arguments = words(block.arguments);
    match block.keep {
        Keep::Counters => arguments.extend(["--json".to_owned(), "-".to_owned()]),
        Keep::Recording | Keep::Order => arguments.push("--json".to_owned()),
        Keep::All | Keep::Lines(..) | Keep::Verdict(_) => {}
    }
    let mut command = programs.command(block.program);
    command.args(arguments);
    let output = command.output().with_context(|| shown.clone())?;
    let text = String::from_utf8(output.stdout).with_context(|| shown.clone())?;
    if text.is_empty() {
        bail!("{shown}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = without_addresses(&text);
    match block.keep {
        Keep::All | Keep::Verdict(_) => Ok(format!("$ {shown}\n{text}")),
        Keep::Recording => Ok(text),
        Keep::Order => Ok(order(Recording::parse(&text)?).json()?),
        Keep::Lines(from, to) => {
            let part = between(&text, from, to)
                .with_context(|| format!("{shown}: no lines from {from:?} to {to:?}"))?;
            Ok(format!("$ {shown}\n…\n{part}…\n"))
        }
        Keep::Counters => {
            let mut report: Value = serde_json::from_str(&text).with_context(|| shown.clone())?;
            let figures = report["figures"].take();
            Ok(format!(
                "{:#}\n",
                serde_json::json!({ "command": shown, "figures": figures })
            ))
        }
    }
}

/// A recording without contents of shared memory, in which equal steps that follow each other are
/// one, the last of them.
fn order(mut recording: Recording) -> Recording {
    for step in &mut recording.steps {
        step.before.clear();
        step.after.clear();
    }
    let places = |step: &Step| {
        let accesses = step.accesses.iter();
        let places = accesses.map(|access| (access.arrays.clone(), access.offsets.clone()));
        (step.file.clone(), step.line, places.collect::<Vec<_>>())
    };
    recording.steps.dedup_by(|next, kept| {
        let are_equal = places(next) == places(kept);
        if are_equal {
            mem::swap(next, kept);
        }
        are_equal
    });
    recording
}

fn between(text: &str, from: &str, to: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.contains(from))?;
    let length = lines[start + 1..]
        .iter()
        .position(|line| line.contains(to))?;
    let part = lines[start..=start + length].iter();
    let part = part.filter(|line| !line.contains("// ANCHOR"));
    Some(part.map(|line| format!("{line}\n")).collect())
}

/// The words of a command; single quotes hold one together.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_becomes_its_text() {
        assert_eq!(without_links("a [`b`](c/d.cu) e [f](g)\n"), "a `b` e f\n");
    }

    #[test]
    fn a_long_command_is_folded_between_arguments() {
        assert_eq!(folded("$ a -- b --c d"), "$ a -- b --c d");
        let long = format!("$ a -- b --c {} --d 1", "x".repeat(90));
        let shown = format!("$ a -- b \\\n     --c {} \\\n     --d 1", "x".repeat(90));
        assert_eq!(folded(&long), shown);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let numbers = [0.0, 999.0, 1000.0, 1234567.0].map(thousands);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn quotes_hold_a_word_together() {
        assert_eq!(
            words("run x --arg 'f32[2]={1, 2}' y"),
            ["run", "x", "--arg", "f32[2]={1, 2}", "y"]
        );
    }

    #[test]
    fn of_equal_steps_that_follow_each_other_an_order_has_the_last() {
        let mut recording = recording("tma-producer").unwrap();
        let steps = recording.steps.len();
        let again = Step {
            active: vec![7],
            ..recording.steps[2].clone()
        };
        recording.steps.insert(3, again.clone());
        let order = order(recording);
        assert_eq!((order.steps.len(), &order.steps[2]), (steps, &again));
    }

    #[test]
    fn an_excerpt_ends_before_its_end() {
        assert_eq!(between("a\nb\nc\nd\n", "b", "d").unwrap(), "b\nc\n");
        assert!(between("a\nb\n", "b", "z").is_none());
    }
}
