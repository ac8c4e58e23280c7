//! Checks of the text, and of the pages made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{commands, figures, folder, generated, root};

/// Units of measurements: a number with one of them comes from a generated block or from the table of devices.
const UNITS: [&str; 18] = [
    "s",
    "ns",
    "µs",
    "ms",
    "GB/s",
    "TB/s",
    "TFLOP/s",
    "GFLOP/s",
    "trillion",
    "trillionths",
    "billionths",
    "millionths",
    "thousandths",
    "seconds",
    "nanoseconds",
    "microseconds",
    "milliseconds",
    "GFLOPS",
];

/// Findings in the sources of the chapters.
pub fn text() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    let summary = fs::read_to_string(folder().join("text/SUMMARY.md"))?;
    for path in files(&folder().join("text"), "md")? {
        let name = path
            .strip_prefix(folder())
            .unwrap_or(&path)
            .display()
            .to_string();
        let text = fs::read_to_string(&path)?;
        let listed = name.trim_start_matches("text/");
        if listed != "SUMMARY.md" && !summary.contains(&format!("({listed})")) {
            findings.push(format!("{name} is not in SUMMARY.md"));
        }
        for directive in text.split("{{").skip(1) {
            let words = directive
                .split("}}")
                .next()
                .unwrap_or("")
                .split_whitespace();
            used.extend(words.map(str::to_owned));
        }
        findings.extend(chapter(&name, &text));
        let commands = commands::in_text(&text)?.into_iter();
        findings.extend(commands.map(|finding| format!("{name}: {finding}")));
    }
    for (figure, recordings) in figures::recordings() {
        if used.contains(figure) {
            used.extend(recordings.iter().map(|name| (*name).to_owned()));
        }
    }
    let shown = generated::names().chain(figures::names());
    findings.extend(
        shown
            .filter(|name| !used.contains(*name))
            .map(|name| format!("no chapter shows {name}")),
    );
    Ok(findings)
}

/// Findings in one chapter: code that is typed instead of quoted, commands and paths that do not exist, typed measurements.
fn chapter(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        let mut find = |what: &str| findings.push(format!("{name}:{}: {what}: {line}", index + 1));
        if let Some(language) = line.trim_start().strip_prefix("```") {
            in_fence = !in_fence;
            if in_fence && !["sh", "text", "toml"].contains(&language) {
                find("typed code: quote it with {{code …}}, or an output with {{output …}}");
            }
            continue;
        }
        if !in_fence && typed_measurement(line) {
            find("typed measurement: take it from a generated block or from {{device …}}");
        }
        if line.contains("{{#") {
            find("directives are written without #");
        }
        let words = line.split(|c: char| c.is_whitespace() || "`'\"()<>,;".contains(c));
        for word in words {
            let word = word.trim_end_matches(['.', ':']);
            let beside = folder()
                .join(name)
                .parent()
                .is_some_and(|folder| folder.join(word).exists());
            if is_source(word) && !beside && !root().join(word).exists() {
                find(&format!("there is no {word}"));
            }
        }
    }
    if in_fence {
        findings.push(format!("{name}: a fence is not closed"));
    }
    findings
}

/// True if a word names a file of the repository from its root.
fn is_source(word: &str) -> bool {
    let ending = [".cu", ".cuh", ".rs", ".md", ".toml", ".json", ".sh"]
        .iter()
        .any(|ending| word.ends_with(ending));
    let folder = word.split('/').next().unwrap_or("");
    ending
        && word.contains('/')
        && !word.contains(['*', '…', '$', '{'])
        && root().join(folder).is_dir()
}

fn typed_measurement(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let number = pair[0].trim_start_matches(['(', '~', '≈', '$']);
        let unit = pair[1].trim_end_matches(['.', ',', ')', ';', ':', '|']);
        number.starts_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit)
    })
}

/// Findings in the rendered pages: links and files that lead nowhere, figures without a description, network addresses
/// that a page would load.
pub fn pages(index: &Path) -> Result<Vec<String>> {
    let folder = index.parent().context("pages lie in a folder")?;
    let mut texts = BTreeMap::new();
    for path in files(folder, "html")? {
        texts.insert(path.clone(), fs::read_to_string(&path)?);
    }
    if texts.len() < 3 {
        bail!("there are no pages in {}", folder.display());
    }
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> = texts
        .iter()
        .map(|(path, text)| (path, attributes(text, "id").collect()))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in &texts {
        let mut seen = BTreeSet::new();
        let twice = attributes(text, "id").filter(|id| !seen.insert(*id));
        findings.extend(twice.map(|id| format!("{}: the id {id} is there twice", path.display())));
        let page = path.strip_prefix(folder)?.display().to_string();
        for (attribute, link) in ["href", "src"]
            .into_iter()
            .flat_map(|name| attributes(text, name).map(move |link| (name, link)))
        {
            if ["http://", "https://", "//"]
                .iter()
                .any(|scheme| link.starts_with(scheme))
            {
                if attribute == "src" {
                    findings.push(format!("{page} loads {link}"));
                }
                continue;
            }
            if link.starts_with("data:")
                || link.starts_with("mailto:")
                || link.starts_with("javascript:")
            {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let file = file.split('?').next().unwrap_or(file);
            let target = if file.is_empty() {
                path.clone()
            } else {
                resolved(path, file)
            };
            if !target.exists() {
                findings.push(format!("{page}: dead link {link}"));
            } else if !fragment.is_empty()
                && ids.get(&target).is_some_and(|ids| !ids.contains(fragment))
            {
                findings.push(format!("{page}: dead fragment {link}"));
            }
        }
        for svg in text.split("<svg").skip(1) {
            let head = svg.split('>').next().unwrap_or("");
            let drawn = head.contains("class=\"figure\"");
            if drawn && !(head.contains("role=\"img\"") && head.contains("aria-label=\"")) {
                findings.push(format!("{page}: a figure without a description"));
            }
        }
        for image in text.split("<img").skip(1) {
            let head = image.split('>').next().unwrap_or("");
            if !head.contains("alt=\"") || head.contains("alt=\"\"") {
                findings.push(format!("{page}: an image without alt text"));
            }
        }
    }
    Ok(findings)
}

fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let mark = format!(" {name}=\"");
    let starts: Vec<usize> = text
        .match_indices(&mark)
        .map(|(at, _)| at + mark.len())
        .collect();
    starts
        .into_iter()
        .filter_map(move |at| text[at..].split('"').next())
}

/// A link from a page, without `..`.
fn resolved(page: &Path, link: &str) -> PathBuf {
    let mut path = page.to_owned();
    path.pop();
    for part in link.split('/') {
        match part {
            ".." => {
                path.pop();
            }
            "." | "" => {}
            _ => path.push(part),
        }
    }
    path
}

fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == ending)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_may_not_type_what_is_generated() {
        let finds = |text: &str| !chapter("x.md", text).is_empty();
        assert!(finds("It takes 3.5 µs.\n"));
        assert!(finds(
            "It takes 38.9 ns, or $3.9 \\cdot 10^{-8}$ seconds.\n"
        ));
        assert!(finds("It takes $1.72 \\cdot 10^{-8}$ seconds.\n"));
        assert!(finds("It does $66.9$ TFLOP/s.\n"));
        assert!(finds("It takes 2 s.\n"));
        assert!(!finds("$10^{12}$ operations per second.\n"));
        assert!(finds(
            "It computes 67 trillion operations, in 40 millionths of a second.\n"
        ));
        assert!(!finds("The model has 85 million numbers.\n"));
        assert!(finds("```rust\nfn f() {}\n```\n"));
        assert!(finds("See `stage2-naive-cuda/kernels/softmacks.cu`.\n"));
        assert!(finds("```sh\ntrue\n"));
        assert!(!finds(
            "See `stage2-naive-cuda/kernels/1_softmax_tree.cu`.\n```sh\ntrue\n```\n"
        ));
    }

    #[test]
    fn dead_links_and_bare_figures_are_found() {
        let folder = std::env::temp_dir().join(format!("book-checks-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let page = |name: &str, body: &str| fs::write(folder.join(name), body).unwrap();
        page(
            "index.html",
            "<a href=\"b.html#x\"></a><a href=\"c.html\"></a><svg class=\"figure\"></svg>",
        );
        page(
            "b.html",
            "<p id=\"x\"></p><p id=\"z\"></p><p id=\"z\"></p><a href=\"index.html#y\"></a><a href=\"https://example.org\"></a>",
        );
        page(
            "d.html",
            "<script src=\"https://example.org/x.js\"></script><img src=\"b.html\">",
        );
        let findings = pages(&folder.join("index.html")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(findings.len(), 6, "{findings:#?}");
    }
}
