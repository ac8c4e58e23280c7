//! Words and figures that must agree from page to page.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{devices, folder, root};

/// Phrases that readers stumbled over, and what to write.
const BANNED: [(&str, &str); 5] = [
    ("with a stroke", "primed"),
    ("could not tell from need", "what the question finds"),
    ("agrees in itself", "all lanes of a warp do the same"),
    ("in a fold", "collapsed"),
    ("in folds", "collapsed"),
];

/// Terms that are in bold where the text has them first, in the order of the pages.
const TERMS: [&str; 20] = [
    "cache line",
    "coalesced",
    "compulsory",
    "cooperative launch",
    "CUDA graph",
    "dynamic",
    "fused",
    "ladder",
    "LayerNorm",
    "occupancy",
    "prelude",
    "PTX",
    "ragged",
    "RMSNorm",
    "rung",
    "shuffle",
    "spill",
    "tile",
    "unrolled",
    "wavefront",
];

/// The page that explains the words of the grader's reports, and the heading over them.
const REPORTS: (&str, &str) = ("exercises.md", "### Words of a report");

/// Where the layouts of random problems have their names.
const LAYOUTS: &str = "conformance/src/layout.rs";

/// Banned phrases, terms before their explanation, second figures of one thing, words of reports that no page explains.
pub fn findings() -> Result<Vec<String>> {
    let pages = pages()?;
    let mut findings = banned(&pages);
    findings.extend(unexplained(&pages));
    for (folder, ending) in [("generated", "txt"), ("src/figures", "rs")] {
        for (name, text) in files(folder, ending)? {
            findings.extend(other_bandwidths(&name, &text));
        }
    }
    findings.extend(unknown_words(&pages)?);
    Ok(findings)
}

/// The pages in their order, with name and text.
fn pages() -> Result<Vec<(String, String)>> {
    let text = folder().join("text");
    let summary = fs::read_to_string(text.join("SUMMARY.md"))?;
    let names = summary.split("](").skip(1);
    let names = names.filter_map(|rest| rest.split_once(')'));
    let read = |(name, _): (&str, &str)| {
        let text = fs::read_to_string(text.join(name)).with_context(|| name.to_owned())?;
        Ok((name.to_owned(), text))
    };
    names.map(read).collect()
}

/// The files of a folder of the book that end so, with name and text.
fn files(under: &str, ending: &str) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder().join(under)).context(under.to_owned())? {
        let path = entry?.path();
        if path.extension().is_some_and(|its| its == ending) {
            let name = path.strip_prefix(folder()).unwrap_or(&path).display();
            files.push((name.to_string(), fs::read_to_string(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

fn banned(pages: &[(String, String)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, text) in pages {
        let text = text.to_lowercase().replace('\n', " ");
        for (phrase, better) in BANNED {
            if text.contains(phrase) {
                findings.push(format!("text/{name}: {phrase:?}: write {better:?}"));
            }
        }
    }
    findings
}

/// Terms whose first place in the text is not in bold, and terms that the text lacks.
fn unexplained(pages: &[(String, String)]) -> Vec<String> {
    let texts: Vec<(&str, String)> = pages
        .iter()
        .map(|(name, text)| (&**name, prose(text).to_lowercase()))
        .collect();
    let wrong = |term: &&str| {
        let term = term.to_lowercase();
        let first = texts.iter().find_map(|(name, text)| {
            let places = text.match_indices(&term);
            let mut words =
                places.filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric()));
            Some((name, text, words.next()?.0))
        });
        match first {
            None => Some(format!("no page has the term {term:?}")),
            Some((_, text, at)) if text[..at].ends_with("**") => None,
            Some((name, ..)) => Some(format!(
                "text/{name}: {term:?} comes before the place that explains it in bold"
            )),
        }
    };
    TERMS.iter().filter_map(wrong).collect()
}

/// A page without headings, goals, code, directives and targets of links.
fn prose(text: &str) -> String {
    let (mut lines, mut in_fence) = (String::new(), false);
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        let aside = ["#", "```", "You will be able to"];
        if !in_fence && !aside.iter().any(|start| line.starts_with(start)) {
            lines += line;
            lines.push('\n');
        }
    }
    for (open, close) in [("{{", "}}"), ("](", ")"), ("`", "`")] {
        lines = without(&lines, open, close);
    }
    lines
}

/// The text without what stands between two marks.
fn without(text: &str, open: &str, close: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(open) {
        kept += before;
        rest = after.split_once(close).map_or("", |(_, after)| after);
    }
    kept + rest
}

/// Bandwidths of a named device that are not the one of its data sheet, to three digits.
///
/// In an output the device stands on the line, as `(h100)`; figures are all of an H100.
fn other_bandwidths(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let label = line.split_once("cuda-sim (");
        let device = match label.and_then(|(_, rest)| rest.split_once(')')) {
            Some((device, _)) => device,
            None if Path::new(name)
                .extension()
                .is_some_and(|ending| ending == "rs") =>
            {
                "h100"
            }
            None => continue,
        };
        let words: Vec<&str> = line.split([' ', '"', '(', ',']).collect();
        for pair in words.windows(2).filter(|pair| pair[1].starts_with("GB/s")) {
            let expected = devices::figure(device, "DRAM, GB/s").unwrap_or_default();
            if three_digits(pair[0]).is_some() && three_digits(pair[0]) != three_digits(&expected) {
                let number = index + 1;
                findings.push(format!(
                    "{name}:{number}: {} GB/s, but {device} has {expected}",
                    pair[0]
                ));
            }
        }
    }
    findings
}

/// A number, rounded to three significant digits.
fn three_digits(text: &str) -> Option<String> {
    let number: f64 = text.parse().ok()?;
    Some(format!("{number:.2e}"))
}

/// Layouts, and words in the names of problems that verdicts show, which the page on reports lacks.
fn unknown_words(pages: &[(String, String)]) -> Result<Vec<String>> {
    let (page, heading) = REPORTS;
    let text = pages.iter().find(|(name, _)| name == page);
    let (_, words) = text
        .and_then(|(_, text)| text.split_once(heading))
        .with_context(|| format!("text/{page} has no {heading:?}"))?;
    let known: Vec<&str> = words.split('`').skip(1).step_by(2).collect();
    let layouts = fs::read_to_string(root().join(LAYOUTS)).context(LAYOUTS)?;
    let mut used = variants(&layouts, "pub enum Layout {");
    for (name, text) in files("generated", "txt")? {
        if name.contains("/grade-") {
            used.extend(text.split([' ', ':', '\n']).flat_map(parts_of_name));
        }
    }
    used.sort_unstable();
    used.dedup();
    let unknown = used.into_iter().filter(|word| !known.contains(&&**word));
    Ok(unknown
        .map(|word| format!("text/{page}: {heading:?} does not explain `{word}`"))
        .collect())
}

/// The variants of an enum without fields, from its source.
fn variants(source: &str, head: &str) -> Vec<String> {
    let body = source.split_once(head).map_or("", |(_, body)| body);
    let lines = body.lines().map(str::trim).take_while(|line| *line != "}");
    let names = lines.filter(|line| !line.starts_with("//") && !line.is_empty());
    names
        .map(|line| line.trim_end_matches(',').to_owned())
        .collect()
}

/// The words of a problem's name: of `b2_h4_kv2_n65_d64_causal`, `b`, `h`, `kv`, `n`, `d` and `causal`. None of other
/// words.
fn parts_of_name(word: &str) -> Vec<String> {
    let word = word.trim_end_matches(['.', ',']);
    let sized = |part: &str| {
        part.strip_prefix('b')
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
    };
    let Some(first) = word.split('_').position(sized) else {
        return Vec::new();
    };
    if word.split('_').count() < 3 {
        return Vec::new();
    }
    // In front of the batch stands a task or the name of a checkpoint.
    let parts = word.split('_').skip(first);
    let named = parts.map(|part| match part {
        "f16" | "bf16" | "f32" => part,
        _ => part
            .split(|c: char| c.is_ascii_digit())
            .next()
            .unwrap_or(part),
    });
    named.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn the_pages_agree() {
        assert_eq!(findings().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_banned_phrase_is_found_across_lines() {
        let pages = [
            page("a.md", "The values with\na stroke."),
            page("b.md", "Primed."),
        ];
        assert_eq!(banned(&pages).len(), 1);
    }

    #[test]
    fn a_term_before_its_explanation_is_found() {
        let told = |pages: &[(String, String)]| {
            let findings = unexplained(pages);
            findings
                .iter()
                .any(|finding| finding.contains("\"ragged\" comes before"))
        };
        let explained = page("b.md", "A **ragged** size.");
        assert!(!told(std::slice::from_ref(&explained)));
        assert!(told(&[
            page("a.md", "Use ragged sizes."),
            explained.clone()
        ]));
        for text in [
            "# Ragged sizes",
            "`ragged`",
            "[x](ragged.md)",
            "{{code ragged}}",
            "ragged",
        ] {
            let before = page("a.md", &format!("```sh\nragged\n```\n{text}\n"));
            assert_eq!(
                told(&[before, explained.clone()]),
                text == "ragged",
                "{text}"
            );
        }
        assert_eq!(
            unexplained(&[explained]).len(),
            TERMS.len() - 1,
            "the others are lacking"
        );
    }

    #[test]
    fn a_second_bandwidth_of_a_device_is_found() {
        let found = |name: &str, text: &str| !other_bandwidths(name, text).is_empty();
        assert!(!found(
            "a.txt",
            "cuda-sim (h100): peak 66.9 TFLOP/s f32, 3352 GB/s"
        ));
        assert!(found("a.txt", "cuda-sim (h100): 3000 GB/s"));
        assert!(found("a.txt", "cuda-sim (a100): 3352 GB/s"));
        assert!(!found("a.txt", "DRAM GB/s"));
        assert!(!found("a.rs", "\"a slope of 3350 GB/s\""));
        assert!(found("a.rs", "\"3500 GB/s\""));
    }

    #[test]
    fn a_word_of_a_report_that_no_page_explains_is_found() {
        let pages = [page("exercises.md", "### Words of a report\n`b`, `Packed`")];
        let findings = unknown_words(&pages).unwrap();
        for word in ["Sparse", "nq", "causal", "f16"] {
            let finding = format!("does not explain `{word}`");
            assert!(
                findings.iter().any(|text| text.ends_with(&finding)),
                "{word}: {findings:?}"
            );
        }
        assert!(
            !findings
                .iter()
                .any(|text| text.ends_with("`b`") || text.ends_with("`Packed`"))
        );
        let parts = parts_of_name("tiny-gpt2_b2_n130+0of133_d64_f16_causal,");
        assert_eq!(parts, ["b", "n", "d", "f16", "causal"]);
        assert!(parts_of_name("grade_b2").is_empty());
    }
}
