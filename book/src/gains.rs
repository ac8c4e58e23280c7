//! Quotients of figures that READMEs print, for the catalogue of optimisations.

use std::fs;

use anyhow::{Context, Result};

use crate::root;

/// The figure of one row over that of another, in a column of a README.
pub fn gain(path: &str, column: &str, above: &str, below: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    let of = |row| {
        let figure = figure(&text, row, column);
        figure.with_context(|| format!("{path} has no {column:?} of {row:?}"))
    };
    Ok(format!("{:.1} ×", of(above)? / of(below)?))
}

/// The figure of the first row that begins with these words, under a header with this column. The columns of a
/// program's output are aligned to the right.
fn figure(text: &str, row: &str, column: &str) -> Option<f64> {
    let mut header = "";
    text.lines().find_map(|line| {
        if line.contains(column) {
            header = line;
        }
        if header.is_empty() || !words(line).starts_with(row) {
            return None;
        }
        let figure = if line.starts_with('|') {
            let at = header.split('|').position(|cell| cell.trim() == column)?;
            line.split('|').nth(at)?.to_owned()
        } else {
            let end = header[..header.find(column)? + column.len()]
                .chars()
                .count();
            line.chars().take(end).collect()
        };
        figure.split_whitespace().last()?.parse().ok()
    })
}

/// The words of a row, without bars and links.
fn words(line: &str) -> String {
    let mut text = line.replace('|', " ").replace(['[', '`'], "");
    while let Some((before, after)) = text.split_once("](") {
        let after = after.split_once(')').map_or("", |(_, after)| after);
        text = format!("{before}{after}");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_that_of_its_row_and_column() {
        let table = "| kernel | step | h100, µs | t4, µs |\n|---|---|---|---|\n| [`a.cu`](k/a.cu) | p v | 38.2 | 4.0 |\n";
        assert_eq!(figure(table, "a.cu p v", "h100, µs"), Some(38.2));
        assert_eq!(
            figure(table, "a.cu p v", "µs"),
            None,
            "a cell is named whole"
        );
        assert_eq!(figure(table, "b.cu", "h100, µs"), None);
        let output = "kernel  bound by       µs bandwidth\nsplit    latency    109.2     18.3%\n";
        assert_eq!(figure(output, "split", "µs"), Some(109.2));
        assert_eq!(figure(output, "split", "bound by"), None, "no number");
    }

    #[test]
    fn a_row_that_is_gone_is_an_error() {
        let readme = "stage5-decode/README.md";
        assert!(gain(readme, "µs", "decode f32", "split f32").is_ok());
        assert!(gain(readme, "µs", "decode f32", "spilt f32").is_err());
    }
}
