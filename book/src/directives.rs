//! The preprocessor: replaces `{{name arguments}}` in chapters, then formulas.
//!
//! | directive | becomes |
//! |---|---|
//! | `{{code PATH ANCHOR}}` | the quoted code under its path; the whole file without ANCHOR |
//! | `{{cell ID}}` | a cell of the notebook of the Python package: its code and its output |
//! | `{{output NAME}}` | a generated block: command and output |
//! | `{{table PATH NAME}}` | a table that a README holds between `<!-- NAME -->` and `<!-- end of NAME -->` |
//! | `{{rungs NAME FILE…}}` | lines of a generated table, each in a column: those of the kernel files named |
//! | `{{number NAME KEY}}` | a figure of a profile |
//! | `{{part NAME PART}}` | the modelled time of a part of a launch, from a profile |
//! | `{{ratio NAME KEY NAME KEY}}` | the first figure over the second |
//! | `{{device DEVICE ROW}}` | a figure of a device, from `cuda-sim/MODEL.md` |
//! | `{{peak DEVICE}}` | its highest f32 rate in TFLOP/s, from the same table |
//! | `{{transfer DEVICE BYTES}}` | the time that it takes at least to read so many bytes |
//! | `{{gain PATH; COLUMN; ROW; ROW}}` | the figure of the first row over that of the second, in a table of a README |
//! | `{{metrics}}` | the counters of a profile beside Nsight Compute's metrics |
//! | `{{arithmetic DEVICE NAME KEY}}` | the time that the f32 operations of a block's figure take at least |
//! | `{{points}}` | the points of all stages, from the grader's table |
//! | `{{figure NAME}}` | a picture with its caption and its description |
//! | `{{recording NAME}}` | a recording of a warp, with the source lines that it names, for `theme/warp-step.js` |
//! | `{{lab NAME}}` | a box for a script of `theme/labs`, which runs kernels in the page |
//! | `{{predict QUESTIONS}}` | fields for a prediction; `predict.rs` has the format |
//! | `{{task STAGE/TASK}}` | points and files of a task, and the command that grades it |
//! | `{{hints FILE}}` | the hints of a task, in folds |
//! | `{{clinic}}` | the kernels of the clinic, with their symptoms |
//!
//! A directive that cannot be replaced is an error: nothing is left out silently.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use gpu_recording::escaped;
use mdbook_preprocessor::book::{Book, BookItem};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use serde_json::{Value, json};

use crate::progress::Progress;
use crate::{
    clinic, devices, figures, gains, generated, hints, labs, maths, metrics, notebook, predict,
    quote, root, tasks,
};

/// The preprocessor.
pub struct Directives(());

impl Directives {
    /// A preprocessor; it has no settings.
    pub fn new() -> Self {
        Self(())
    }
}

impl Preprocessor for Directives {
    fn name(&self) -> &str {
        "directives"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let mut result = Ok(());
        let chapters = book
            .iter()
            .filter(|item| matches!(item, BookItem::Chapter(_)));
        let mut progress = Progress::new("chapters", chapters.count());
        book.for_each_mut(|item| {
            if let BookItem::Chapter(chapter) = item
                && result.is_ok()
            {
                progress.next(&chapter.name);
                match expand(&chapter.content).and_then(|text| maths::render(&text)) {
                    Ok(content) => chapter.content = content,
                    Err(error) => result = Err(error.context(chapter.name.clone())),
                }
            }
        });
        result?;
        progress.end();
        eprintln!("pages: being written");
        Ok(book)
    }
}

fn expand(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (directive, after) = after
            .split_once("}}")
            .with_context(|| format!("a directive is not closed: {{{{{after:.40}"))?;
        out += before;
        out += &replaced(directive).with_context(|| format!("{{{{{directive}}}}}"))?;
        rest = after;
    }
    out += rest;
    Ok(out)
}

fn replaced(directive: &str) -> Result<String> {
    let words: Vec<&str> = directive.split_whitespace().collect();
    match words[..] {
        ["code", path] => code(path, ""),
        ["code", path, anchor] => code(path, anchor),
        ["cell", id] => notebook::cell(id),
        ["output", name] => generated::block(name),
        ["table", path, name] => quote::table(path, name),
        ["rungs", name, ref files @ ..] => rungs(name, files),
        ["number", name, key] => generated::number(name, key),
        ["part", name, part] => generated::part(name, part),
        ["ratio", a, a_key, b, b_key] => generated::ratio((a, a_key), (b, b_key)),
        ["device", device, ..] => {
            let row = directive
                .split_once(device)
                .map_or("", |(_, row)| row.trim());
            devices::figure(device, row)
        }
        ["peak", device] => devices::peak(device),
        ["transfer", device, bytes] => devices::transfer(device, bytes),
        ["arithmetic", device, name, key] => {
            devices::arithmetic(device, generated::figure(name, key)?.0)
        }
        ["gain", ..] => {
            let arguments = directive.trim_start_matches("gain").split(';');
            match arguments.map(str::trim).collect::<Vec<_>>()[..] {
                [path, column, above, below] => gains::gain(path, column, above, below),
                _ => bail!("it takes a path, a column and two rows, with `;` between them"),
            }
        }
        ["metrics"] => metrics::table(),
        ["points"] => tasks::points(),
        ["figure", name] => figures::html(name),
        ["recording", name] => recording(name),
        ["lab", name] => labs::html(name),
        ["predict", ..] => predict::html(directive.trim_start_matches("predict")),
        ["task", name] => tasks::card(name),
        ["clinic"] => clinic::table(),
        ["hints", file] => hints::folds(file),
        _ => bail!("no such directive"),
    }
}

fn code(path: &str, anchor: &str) -> Result<String> {
    let (code, language) = (quote::code(path, anchor)?, quote::language(path));
    let file = format!("<div class=\"source\">{path}</div>");
    Ok(format!("{file}\n\n```{language}\n{code}\n```"))
}

/// The lines of a generated table whose first cell names one of the files, turned so that each is a column.
fn rungs(name: &str, files: &[&str]) -> Result<String> {
    let block = generated::block(name)?;
    let (source, table) = block.split_once("\n\n").context("it is no table")?;
    let cells = |line: &str| line.split('|').map(str::trim).map(str::to_owned).collect();
    let lines = table.lines().filter(|line| line.starts_with('|'));
    let lines: Vec<Vec<String>> = lines.map(cells).collect();
    let (header, _) = lines.split_first().context("the table is empty")?;
    let mut columns = vec![header];
    for file in files {
        let of_file = |line: &&Vec<String>| line[1] == format!("`{file}`");
        let before = columns.len();
        columns.extend(lines.iter().filter(of_file));
        if columns.len() == before {
            bail!("the table has no line of {file}");
        }
    }
    let mut turned = format!("{source}\n\n");
    for row in 1..header.len() - 1 {
        let shown: Vec<&str> = columns.iter().map(|column| &*column[row]).collect();
        if shown[1..].iter().all(|cell| *cell == "–") {
            continue; // a device that runs none of them
        }
        let shown = shown.join(" | ");
        turned += &match row {
            1 => format!("| {shown} |\n|{}\n", "---|".repeat(columns.len())),
            _ => format!("| {shown} |\n"),
        };
    }
    Ok(turned)
}

/// A recording and the lines of the files that it names, from the first to the last, as JSON in the page.
fn recording(name: &str) -> Result<String> {
    let recording = generated::recording(name)?;
    let mut lines: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for step in &recording.steps {
        let range = lines.entry(&step.file).or_insert((step.line, step.line));
        *range = (range.0.min(step.line), range.1.max(step.line));
    }
    let sources: Result<Vec<Value>> = lines
        .into_iter()
        .map(|(file, (first, last))| {
            let text = fs::read_to_string(root().join(file)).with_context(|| file.to_owned())?;
            let lines = text.lines().skip(first as usize - 1);
            let lines: Vec<&str> = lines.take((last - first + 1) as usize).collect();
            Ok(json!({ "file": file, "first": first, "lines": lines }))
        })
        .collect();
    let data = json!({ "recording": recording, "sources": sources? });
    // No text in it may end the element.
    let data = data.to_string().replace('<', "\\u003c");
    let command = escaped(&generated::command(name)?);
    Ok(format!(
        "<div class=\"source\">{command}</div>\n\n<script type=\"application/json\" id=\"warp-recording\">{data}</script>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_replaced_is_an_error() {
        for text in [
            "{{code stage2-naive-cuda/kernels/1_softmax_tree.cu no_such_anchor}}",
            "{{code no/such/file.cu kernel}}",
            "{{figure no_such_figure}}",
            "{{recording no_such_block}}",
            "{{recording softmax-rows}}",
            "{{part softmax-rows fp32}}",
            "{{part profile-head nonsense}}",
            "{{arithmetic h100 gemm-nt-naive nonsense}}",
            "{{output no_such_block}}",
            "{{rungs ladder-f16 no_such_file.cu}}",
            "{{rungs profile-head 4_mma.cu}}",
            "{{table README.md no_such_table}}",
            "{{gain README.md; a; b}}",
            "{{nonsense}}",
            "{{predict Blocks = many}}",
            "{{figure open",
        ] {
            assert!(expand(text).is_err(), "{text}");
        }
        for text in [
            "{{code stage2-naive-cuda/kernels/1_softmax_tree.cu load}}",
            "{{arithmetic h100 gemm-nt-naive flops_f32}}",
        ] {
            assert!(expand(text).is_ok(), "{text}");
        }
    }
}
