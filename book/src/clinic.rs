//! The clinic: kernels that are wrong, each with what it should do and the symptom, from the head of its file.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::root;

const FOLDER: &str = "exercises/clinic/kernels";

/// A table of the kernels.
pub fn table() -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(FOLDER)).context(FOLDER)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".cu").map(str::to_owned));
    }
    names.sort();
    if names.is_empty() {
        bail!("{FOLDER} has no kernels");
    }
    let mut table = "| kernel | it should compute | symptom |\n|---|---|---|\n".to_owned();
    for name in names {
        let path = format!("{FOLDER}/{name}.cu");
        let text = fs::read_to_string(root().join(&path))?;
        let (purpose, symptom) =
            head(&text).with_context(|| format!("{path} states no symptom"))?;
        writeln!(table, "| `{name}` | {purpose} | {symptom} |")?;
    }
    Ok(table)
}

/// The first paragraph of a kernel's head, and the one that begins with `Symptom:`.
fn head(text: &str) -> Option<(String, String)> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//"));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    let mut paragraphs = lines
        .split(|line| line.is_empty())
        .map(|lines| lines.join(" "));
    let purpose = paragraphs.next()?;
    let symptom = paragraphs.find_map(|text| text.strip_prefix("Symptom: ").map(str::to_owned))?;
    Some((purpose, symptom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_a_purpose_and_a_symptom() {
        let text = "// Adds.\n//\n// Symptom: it is\n// wrong.\n//\n// launch: grid=1\nint x;\n";
        assert_eq!(head(text).unwrap(), ("Adds.".into(), "it is wrong.".into()));
        assert!(head("// Adds.\nint x;\n").is_none());
    }
}
