//! Figures of the devices that the simulator knows, from the table in `cuda-sim/MODEL.md`, which a test of `cuda-sim`
//! compares with the code.

use std::fs;

use anyhow::{Context, Result};

use crate::root;

const TABLE: &str = "cuda-sim/MODEL.md";

/// The figure of `device` in the row that begins with `name`.
pub fn figure(device: &str, name: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(TABLE)).context(TABLE)?;
    let rows = || text.lines().filter_map(cells);
    let header = rows()
        .find(|row| row.contains(&device))
        .with_context(|| format!("{TABLE} has no device {device}"))?;
    let column = header.iter().position(|&cell| cell == device).unwrap_or(0);
    let row = rows()
        .find(|row| row.len() == header.len() && row[0] == name)
        .with_context(|| format!("{TABLE} has no row {name:?}"))?;
    Ok(row[column].to_owned())
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(line.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_that_of_its_row_and_column() {
        assert_eq!(figure("a100", "multiprocessors").unwrap(), "108");
        assert!(figure("a100", "wheels").is_err());
        assert!(figure("abacus", "multiprocessors").is_err());
    }
}
