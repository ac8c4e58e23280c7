//! Predictions: `{{predict …}}` puts fields before the fold that answers a question. `theme/labs/predict.js` fills them in.
//!
//! Each line is a question with the answer of the fold, or says what is launched for those below it:
//!
//! ```text
//! Blocks = 4
//! kernel gpu/ptx/vector_add.ptx
//! launch: grid=4 block=256
//! args: f32[1000]=iota f32[1000]=ones f32[1000]=uninit i32=1000
//! Threads without an element = 24 by 1024 - global_store_bytes / 4
//! ```
//!
//! Behind `by` stands what the simulator counts in the page: figures of the profile and the other names of `predict.js`, with
//! spaces around `+ - * /`, and products before sums. Without a launch of its own, a kernel has that of its file. A question with
//! `[one / other]` is a choice, and one with `[lines]` a choice among the lines of the kernel. `kernel PATH without TEXT` takes the
//! barrier out of the source line with this text.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use gpu_recording::escaped;
use serde_json::{Value, json};

use crate::{folder, labs};

/// What is launched for a question.
#[derive(Default)]
struct Launch {
    path: String,
    without: Option<(String, usize)>,
    /// The lines `launch:` and `args:`.
    settings: String,
    args: String,
}

/// The fields of a block, hidden until the script has filled them.
pub fn html(block: &str) -> Result<String> {
    let questions = questions(block)?;
    let data = escaped(&Value::from(questions).to_string());
    Ok(format!(
        "<div class=\"stepper lab predict\" data-questions=\"{data}\" hidden></div>\n"
    ))
}

/// The PTX files of all chapters' predictions.
pub fn kernels() -> Result<BTreeSet<String>> {
    let mut kernels = BTreeSet::new();
    for text in chapters(&folder().join("text"))? {
        let blocks = text.split("{{predict").skip(1);
        let lines = blocks.flat_map(|block| block.split("}}").next().unwrap_or_default().lines());
        let named = lines.filter_map(|line| line.strip_prefix("kernel ")?.split(' ').next());
        kernels.extend(named.map(str::to_owned));
    }
    Ok(kernels)
}

fn chapters(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            texts.extend(chapters(&path)?);
        } else if path.extension().is_some_and(|end| end == "md") {
            texts.push(fs::read_to_string(&path)?);
        }
    }
    Ok(texts)
}

fn questions(block: &str) -> Result<Vec<Value>> {
    let mut questions = Vec::new();
    let mut launch = Launch::default();
    for line in block.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(kernel) = line.strip_prefix("kernel ") {
            launch = Launch::of(kernel).with_context(|| line.to_owned())?;
        } else if line.starts_with("launch: ") {
            launch.settings = format!("// {line}\n");
        } else if line.starts_with("args: ") {
            launch.args = format!("// {line}");
        } else {
            questions.push(launch.question(line).with_context(|| line.to_owned())?);
        }
    }
    ensure!(!questions.is_empty(), "it asks nothing");
    Ok(questions)
}

impl Launch {
    fn of(kernel: &str) -> Result<Launch> {
        let (path, without) = match kernel.split_once(" without ") {
            Some((path, text)) => (path, Some(text)),
            None => (kernel, None),
        };
        let mut launch = Launch {
            path: path.to_owned(),
            ..Launch::default()
        };
        if let Some(text) = without {
            let (file, source) = labs::source(path)?;
            launch.without = Some((file, line_with(&source, text)?));
        }
        Ok(launch)
    }

    fn question(&self, line: &str) -> Result<Value> {
        let (asked, answer) = line.rsplit_once(" = ").context("it has no answer")?;
        let (answer, count) = match answer.split_once(" by ") {
            Some((answer, count)) => (answer, Some(count)),
            None => (answer, None),
        };
        let (label, options) = match asked.split_once(" [") {
            Some((label, options)) => (label, Some(options.trim_end_matches(']'))),
            None => (asked, None),
        };
        let (answer, options) = match options {
            None => (
                json!(answer.parse::<f64>().context("the answer is no number")?),
                None,
            ),
            Some("lines") => {
                let (_, source) = labs::source(&self.path)?;
                let options = code_lines(&source);
                (
                    json!(option_of_line(&options, line_with(&source, answer)?)?),
                    Some(options),
                )
            }
            Some(options) => {
                let options: Vec<String> = options.split(" / ").map(str::to_owned).collect();
                ensure!(
                    options.iter().any(|option| option == answer),
                    "no option is the answer"
                );
                (json!(answer), Some(options))
            }
        };
        let run = match count {
            None => Value::Null,
            Some(count) => {
                ensure!(!self.path.is_empty(), "no kernel is named");
                json!({
                    "count": count, "kernel": labs::stem(&self.path), "without": self.without,
                    "launch": format!("{}{}", self.settings, self.args),
                })
            }
        };
        Ok(json!({ "label": label, "answer": answer, "options": options, "run": run }))
    }
}

/// The lines of a source that have code, each after its number.
fn code_lines(source: &str) -> Vec<String> {
    let lines = source.lines().enumerate();
    let code =
        lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with("//"));
    // A comment may give the answer away.
    code.map(|(at, line)| {
        format!(
            "{}: {}",
            at + 1,
            line.split("//").next().unwrap_or_default().trim()
        )
    })
    .collect()
}

fn option_of_line(options: &[String], line: usize) -> Result<&String> {
    let begin = format!("{line}: ");
    options
        .iter()
        .find(|option| option.starts_with(&begin))
        .context("the line has no code")
}

/// The number of the only line with a text.
fn line_with(source: &str, text: &str) -> Result<usize> {
    let mut lines = (1..)
        .zip(source.lines())
        .filter(|(_, line)| line.contains(text));
    match (lines.next(), lines.next()) {
        (Some((line, _)), None) => Ok(line),
        (None, _) => bail!("no line has {text:?}"),
        _ => bail!("two lines have {text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_its_answer_and_its_launch() {
        let block = "Blocks = 4\nkernel gpu/ptx/vector_add.ptx\nlaunch: grid=4 block=256\nargs: i32=1000\n\
                     Idle threads = 24 by 1024 - global_store_bytes / 4\nargs: i32=1\nWhat? [this / that] = that by report";
        let questions = questions(block).unwrap();
        assert_eq!(
            questions[0],
            json!({ "label": "Blocks", "answer": 4.0, "options": null, "run": null })
        );
        let run = &questions[1]["run"];
        assert_eq!(run["count"], "1024 - global_store_bytes / 4");
        assert_eq!(
            run["launch"],
            "// launch: grid=4 block=256\n// args: i32=1000"
        );
        assert_eq!(questions[2]["options"], json!(["this", "that"]));
        assert_eq!(
            questions[2]["run"]["launch"],
            "// launch: grid=4 block=256\n// args: i32=1"
        );
    }

    #[test]
    fn lines_are_named_by_their_text() {
        let block = "kernel kernel-corpus/ptx/bug_shared_race_tree_loop.ptx\nWhich line? [lines] = sums[t] += by line";
        let questions = questions(block).unwrap();
        assert_eq!(
            questions[0]["answer"],
            "13: if (t < half) sums[t] += sums[t + half];"
        );
        let cut =
            "kernel gpu/ptx/lab_barriers.ptx without // 3\nWhat? [race / nothing] = race by report";
        assert!(super::questions(cut).unwrap()[0]["run"]["without"][1].is_number());
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for block in [
            "",
            "Blocks",
            "Blocks = four",
            "Blocks = 4 by blocks",
            "What? [this / that] = other",
            "kernel gpu/ptx/lab_barriers.ptx without __syncthreads\nWhat? [a / b] = a by report",
            "kernel gpu/ptx/lab_barriers.ptx without no such text\nWhat? [a / b] = a by report",
        ] {
            assert!(questions(block).is_err(), "{block}");
        }
    }
}
