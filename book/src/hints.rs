//! Hints of a task, in folds: the text that `cargo grade hint` prints.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::root;

const FOLDER: &str = "grade/hints";

/// The tiers of a hint file (`## 1`, `## 2`, …) as folds, the mildest first.
pub fn folds(file: &str) -> Result<String> {
    let path = format!("{FOLDER}/{file}.md");
    let text = fs::read_to_string(root().join(&path)).with_context(|| path.clone())?;
    let mut folds = String::new();
    for (tier, hint) in tiers(&text).into_iter().enumerate() {
        writeln!(
            folds,
            "<details><summary>Hint {}</summary>\n\n{}\n\n</details>\n",
            tier + 1,
            hint.trim().replace("```cuda", "```cpp")
        )?;
    }
    if folds.is_empty() {
        bail!("{path} has no tier `## 1`");
    }
    Ok(folds)
}

fn tiers(text: &str) -> Vec<String> {
    let mut tiers: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("## ") {
            tiers.push(String::new());
        } else if let Some(tier) = tiers.last_mut() {
            tier.push_str(line);
            tier.push('\n');
        }
    }
    tiers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_ends_where_the_next_begins() {
        assert_eq!(tiers("# t\n\n## 1\na\n## 2\nb\nc\n"), ["a\n", "b\nc\n"]);
    }
}
