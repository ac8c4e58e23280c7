//! Cells of the notebook of the Python package: their code, and what they printed.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::root;

/// `python/notebook.py` runs its cells and compares their outputs.
const NOTEBOOK: &str = "python/notebook.ipynb";

/// The code of the cell with this id, and its output.
pub fn cell(id: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(NOTEBOOK)).context(NOTEBOOK)?;
    let notebook: Value = serde_json::from_str(&text).context(NOTEBOOK)?;
    let mut cells = notebook["cells"].as_array().into_iter().flatten();
    let cell = cells.find(|cell| cell["id"] == id && cell["cell_type"] == "code");
    let cell = cell.with_context(|| format!("{NOTEBOOK} has no code cell {id:?}"))?;
    let code = lines(&cell["source"]);
    if code.trim().is_empty() {
        bail!("{NOTEBOOK}: cell {id:?} is empty");
    }
    let outputs = cell["outputs"].as_array().into_iter().flatten();
    let printed: String = outputs.map(|output| lines(&output["text"])).collect();
    let mut shown = format!(
        "<div class=\"source\">{NOTEBOOK}</div>\n\n```python\n{}\n```",
        code.trim_end()
    );
    if !printed.trim().is_empty() {
        shown += &format!("\n\n```text\n{}\n```", printed.trim_end());
    }
    Ok(shown)
}

/// A text that a notebook holds by lines.
fn lines(value: &Value) -> String {
    let lines = value.as_array().into_iter().flatten();
    lines.filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_its_code_and_its_output() {
        let shown = cell("race").unwrap();
        assert!(
            shown.contains("launch(SUM") && shown.contains("race: load"),
            "{shown}"
        );
        assert!(cell("title").is_err(), "it is text");
        assert!(cell("no-such-cell").is_err());
    }
}
