//! Commands that the text types: programs, subcommands, flags and tests of this repository that they name exist.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{folder, root, tasks};

/// The folder of the package whose program `cargo gpu` runs.
const TOOL: &str = "gpu/tool";

/// The notebook for Colab.
const NOTEBOOK: &str = "colab.ipynb";

/// Faults of the commands of a text in Markdown: those in fences of shell code, and those in backticks.
pub fn in_text(text: &str) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut fence = None;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                None => Some(language),
                Some(_) => None,
            };
        } else if fence == Some("sh") {
            findings.extend(in_line(line)?);
        } else if fence.is_none() {
            for code in line.split('`').skip(1).step_by(2) {
                findings.extend(in_line(code)?);
            }
        }
    }
    Ok(findings)
}

/// Faults of the notebook: its form, and the commands in its cells.
pub fn in_notebook() -> Result<Vec<String>> {
    let text = fs::read_to_string(folder().join(NOTEBOOK)).context(NOTEBOOK)?;
    let notebook: Value = serde_json::from_str(&text).context(NOTEBOOK)?;
    let mut findings = Vec::new();
    if notebook["nbformat"] != 4 || notebook["metadata"]["accelerator"] != "GPU" {
        findings.push("it is no notebook of format 4 with a GPU".to_owned());
    }
    let cells = notebook["cells"].as_array().context("it has no cells")?;
    for cell in cells {
        let lines = cell["source"].as_array().context("a cell has no source")?;
        let lines = lines
            .iter()
            .map(|line| line.as_str().context("a line is no text"));
        let lines = lines.collect::<Result<Vec<&str>>>()?;
        if cell["cell_type"] == "markdown" {
            findings.extend(in_text(&lines.concat())?);
            continue;
        }
        for command in lines.iter().filter_map(|line| line.strip_prefix('!')) {
            findings.extend(in_line(command)?);
        }
    }
    let all = text.matches("cargo ").count();
    if all < 4 {
        findings.push(format!("it has {all} commands"));
    }
    Ok(findings
        .into_iter()
        .map(|finding| format!("{NOTEBOOK}: {finding}"))
        .collect())
}

fn in_line(line: &str) -> Result<Vec<String>> {
    let line = line.split('#').next().unwrap_or(line);
    let mut findings = Vec::new();
    for command in line.split("&&") {
        let words: Vec<&str> = command.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| *word == "cargo") else {
            continue;
        };
        if let Some(what) = wrong(&words[at + 1..])? {
            findings.push(format!("{what}: {}", command.trim()));
        }
    }
    Ok(findings)
}

/// Faults of the words after `cargo`.
fn wrong(words: &[&str]) -> Result<Option<String>> {
    match words {
        ["grade", rest @ ..] => grade(rest),
        ["gpu", rest @ ..] => arguments(TOOL, rest),
        ["book", rest @ ..] => Ok(match rest.first() {
            None | Some(&("build" | "check" | "refresh" | "help")) => None,
            Some(word) => Some(format!("the book has no command {word}")),
        }),
        ["run" | "test" | "bench" | "build", rest @ ..] => {
            let value = |flag: &str| {
                let at = rest.iter().position(|word| *word == flag)?;
                rest.get(at + 1).copied()
            };
            let Some(package) = value("-p") else {
                return Ok(None);
            };
            let package = if package == "gpu-tool" { TOOL } else { package };
            if !root().join(package).join("Cargo.toml").exists() {
                return Ok(Some(format!("there is no package {package}")));
            }
            if let Some(test) = value("--test")
                && !["", "/main"].iter().any(|end| {
                    root()
                        .join(format!("{package}/tests/{test}{end}.rs"))
                        .exists()
                })
            {
                return Ok(Some(format!("{package} has no test {test}")));
            }
            if words[0] != "run" {
                return Ok(None);
            }
            let program = rest.iter().skip_while(|word| **word != "--").skip(1);
            let program: Vec<&str> = program.copied().collect();
            arguments(package, &program)
        }
        _ => Ok(None),
    }
}

fn grade(words: &[&str]) -> Result<Option<String>> {
    let mut names = tasks::names()?.concat();
    let ids: Vec<String> = names
        .iter()
        .filter_map(|name| Some(name.split_once('/')?.1.to_owned()))
        .collect();
    names.extend(ids);
    for word in words
        .iter()
        .filter(|word| !word.starts_with('-') && word.chars().any(char::is_lowercase))
    {
        let known = names.iter().any(|name| name == word)
            || subcommand("grade", word).is_some()
            || is_warm_up(word)?;
        if !known {
            return Ok(Some(format!("the grader knows no {word}")));
        }
    }
    flags("grade", words)
}

/// True if `exercises/warm-up` has a kernel `NUMBER_WORD.cu`.
fn is_warm_up(word: &str) -> Result<bool> {
    let files = fs::read_dir(root().join("exercises/warm-up"))?;
    let names = files.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<Result<Vec<String>>>()?;
    let end = format!("{word}.cu");
    Ok(names
        .iter()
        .any(|name| name.split_once('_').is_some_and(|(_, rest)| rest == end)))
}

fn arguments(package: &str, words: &[&str]) -> Result<Option<String>> {
    if let Some(first) = words.first()
        && !first.starts_with('-')
        && *first != "…"
        && subcommand(package, first).is_none()
    {
        return Ok(Some(format!("{package} has no command {first}")));
    }
    flags(package, words)
}

/// The file of a subcommand: programs have one for each, or a folder.
fn subcommand(package: &str, word: &str) -> Option<PathBuf> {
    let place = root().join(format!("{package}/src/cli/{}", word.replace('-', "_")));
    let files = [place.with_extension("rs"), place.join("mod.rs")];
    files.into_iter().find(|file| file.exists())
}

/// A flag stands in the sources of its program, as it is typed or as the name of a field.
fn flags(package: &str, words: &[&str]) -> Result<Option<String>> {
    for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
        let field = format!("{}:", flag.replace('-', "_"));
        let quoted = format!("\"{flag}\"");
        if !is_in(&root().join(package).join("src"), &[&field, &quoted])? {
            return Ok(Some(format!("{package} has no flag --{flag}")));
        }
    }
    Ok(None)
}

fn is_in(folder: &Path, texts: &[&str]) -> Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if is_in(&path, texts)? {
                return Ok(true);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let source = fs::read_to_string(&path)?;
            if texts.iter().any(|text| source.contains(text)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_what_exists() {
        for line in [
            "cargo gpu check FILE.cu",
            "cargo gpu fetch-nvrtc && cargo grade 2/softmax --yes # now",
            "cargo grade hint softmax --tier 2",
            "cargo grade 4",
            "cargo grade watch two_dimensions",
            "cargo test -p stage5-decode --test suite counted -- --nocapture",
            "cargo book check",
        ] {
            assert_eq!(in_line(line).unwrap(), Vec::<String>::new(), "{line}");
        }
        for line in [
            "cargo run -p gpus -- check FILE.cu",
            "cargo gpu inspect FILE.cu",
            "cargo gpu check FILE.cu --no-such-flag",
            "true && cargo grade 2/hardmax",
            "cargo grade 2/softmax --twice-as-good",
            "cargo test -p stage5-decode --test uncounted",
            "cargo book burn",
        ] {
            assert_eq!(in_line(line).unwrap().len(), 1, "{line}");
        }
        assert_eq!(
            in_text("`cargo book burn`\n```sh\ncargo book burn\n```\n")
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn the_notebook_is_in_order() {
        assert_eq!(in_notebook().unwrap(), Vec::<String>::new());
    }
}
