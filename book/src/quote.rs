//! Code of the repository, quoted by anchor.
//!
//! `// ANCHOR: name` … `// ANCHOR_END: name` mark a part of a file. Lines with other anchors are left out, and so is the
//! indentation that all lines share.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::root;

/// The lines of a file between an anchor and its end; the whole file if the anchor is empty.
pub fn code(path: &str, anchor: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    let part = part(&text, anchor).with_context(|| format!("{path} has no anchor {anchor:?}"))?;
    let lines: Vec<&str> = part
        .into_iter()
        .filter(|line| !line.contains("// ANCHOR"))
        .collect();
    if lines.iter().all(|line| line.trim().is_empty()) {
        bail!("{path}: anchor {anchor:?} holds no code");
    }
    Ok(dedented(&lines))
}

/// The text of a README between `<!-- NAME -->` and `<!-- end of NAME -->`; its package writes it from committed results.
pub fn table(path: &str, name: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    let after = text.split_once(&format!("<!-- {name} -->\n"));
    let table = after.and_then(|(_, after)| after.split_once(&format!("<!-- end of {name} -->")));
    let (table, _) = table.with_context(|| format!("{path} has no table {name}"))?;
    Ok(format!(
        "<div class=\"source\">{path}</div>\n\n{}",
        table.trim()
    ))
}

/// The language that highlights a file.
pub fn language(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("rs") => "rust,ignore",
        Some("cu" | "cuh") => "cpp",
        Some("toml") => "toml",
        _ => "text",
    }
}

fn part<'a>(text: &'a str, anchor: &str) -> Option<Vec<&'a str>> {
    if anchor.is_empty() {
        return Some(text.lines().collect());
    }
    let is = |line: &str, mark: &str| line.trim().strip_prefix(mark) == Some(anchor);
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| is(line, "// ANCHOR: "))?;
    let length = lines[start..]
        .iter()
        .position(|line| is(line, "// ANCHOR_END: "))?;
    Some(lines[start + 1..start + length].to_vec())
}

fn dedented(lines: &[&str]) -> String {
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    // A preprocessor line stands at the margin of any code.
    let common = filled
        .filter(|line| !line.starts_with('#'))
        .map(indent)
        .min()
        .unwrap_or(0);
    let cut = |line: &&str| {
        line.get(common.min(indent(line))..)
            .unwrap_or("")
            .to_owned()
    };
    let text: Vec<String> = lines.iter().map(cut).collect();
    text.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\n    // ANCHOR: x\n    b\n#pragma\n        c\n    // ANCHOR: y\n    d\n    // ANCHOR_END: y\n    // ANCHOR_END: x\ne\n";

    #[test]
    fn a_part_lies_between_its_anchors() {
        assert_eq!(part(TEXT, "y").unwrap(), ["    d"]);
        assert!(part(TEXT, "z").is_none());
        assert!(part("// ANCHOR: x\n", "x").is_none(), "it is not closed");
    }

    #[test]
    fn shared_indentation_is_cut() {
        let lines = ["    b", "#pragma", "", "        c"];
        assert_eq!(dedented(&lines), "b\n#pragma\n\n    c");
    }
}
