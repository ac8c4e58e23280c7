//! The counters of a profile beside Nsight Compute's metrics, from the table of `gpu/tool` that compares them.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::root;

const TABLE: &str = "gpu/tool/src/cli/profile/metrics.rs";

/// A line for each counter: its key, and the sum of metrics that is the same figure.
pub fn table() -> Result<String> {
    let text = fs::read_to_string(root().join(TABLE)).context(TABLE)?;
    let mut table = "| counter | metric of Nsight Compute |\n|---|---|\n".to_owned();
    let rows = rows(&text);
    if rows.len() < 20 {
        bail!("{TABLE} has {} counters", rows.len());
    }
    for (key, sum) in rows {
        writeln!(table, "| `{key}` | {sum} |")?;
    }
    Ok(table)
}

/// The counters, each with the first of its sums.
fn rows(text: &str) -> Vec<(String, String)> {
    let body = text.split_once("\nfigures! {").map_or("", |(_, body)| body);
    let lines = body.lines().map(str::trim);
    let code: String = lines.filter(|line| !line.starts_with("//")).collect();
    let entries = code.split(';').filter_map(|entry| entry.split_once(':'));
    entries
        .map(|(key, sums)| {
            (
                key.trim().to_owned(),
                sum(sums.split('|').next().unwrap_or("")),
            )
        })
        .collect()
}

/// A sum as text; a metric that stands there several times has a factor.
fn sum(metrics: &str) -> String {
    let mut terms: Vec<(&str, usize)> = Vec::new();
    for metric in metrics
        .split(',')
        .map(|metric| metric.trim().trim_matches('"'))
    {
        match terms.iter_mut().find(|(name, _)| *name == metric) {
            Some((_, factor)) => *factor += 1,
            None => terms.push((metric, 1)),
        }
    }
    let terms = terms.into_iter().map(|(name, factor)| match factor {
        1 => format!("`{name}`"),
        _ => format!("{factor} × `{name}`"),
    });
    terms.collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_has_its_first_sum() {
        let text = "macro\nfigures! {\n    time: \"a.sum\" | \"b\";\n    // more\n    flops:\n        \"x\",\n        \"y\",\n        \"y\";\n}\n";
        let expected = [("time", "`a.sum`"), ("flops", "`x` + 2 × `y`")];
        assert_eq!(
            rows(text),
            expected.map(|(key, sum)| (key.to_owned(), sum.to_owned()))
        );
        assert!(
            table()
                .unwrap()
                .contains("| `registers` | `launch__registers_per_thread` |")
        );
    }
}
