//! Output of `cargo grade` for a task that is solved, and of one with a known mistake.
//!
//! The mistakes are those of `exercises/wrong/`, which prove the grader: each is a change of the solution.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use toml::Table;

use crate::programs::{Programs, without_addresses};
use crate::{folder, root};

/// Code that is graded.
#[derive(Debug)]
pub enum Submission {
    Solution,
    /// The solution with the change of `exercises/wrong/NAME.toml`.
    Wrong(&'static str),
    /// The starter, untouched.
    Starter,
}

/// The grader's output for a submission to `task`, such as `2/softmax`, under the command that a learner types. The heading is
/// left out: it has the date and the commit. So are measured times, which differ from run to run.
pub fn verdict(programs: &Programs, task: &str, submission: &Submission) -> Result<String> {
    let stage = format!("stage{}", task.split('/').next().unwrap_or(task));
    let mut command = programs.command("grade");
    command.arg(task);
    let whose = match submission {
        Submission::Solution => {
            command.arg("--solution");
            "the solution".to_owned()
        }
        Submission::Wrong(name) => {
            let path = format!("exercises/wrong/{name}.toml");
            let change = fs::read_to_string(root().join(&path)).with_context(|| path.clone())?;
            let change: Table = change.parse().with_context(|| path.clone())?;
            let what = change.get("what").and_then(|what| what.as_str());
            let what = what.with_context(|| format!("{path} says not what it changes"))?;
            ensure!(
                change.get("task").and_then(|named| named.as_str()) == Some(task),
                "{path} is not of {task}"
            );
            command
                .arg("--submission")
                .arg(changed(name, &stage, &change)?);
            format!("{path}: {what}")
        }
        Submission::Starter => {
            let starter = root().join("exercises").join(&stage);
            let folder = emptied(&format!("starter-{}", task.replace('/', "-")))?;
            copy(&starter, &folder.join(&stage))?;
            command.arg("--submission").arg(folder);
            "the starter".to_owned()
        }
    };
    let output = command.output().context("cargo grade")?;
    let text = String::from_utf8(output.stdout).context("cargo grade")?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!(
            "cargo grade {task}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let (_, table) = text
        .split_once("\n\n")
        .context("the grader printed no table")?;
    let table = without_measured_times(&without_addresses(table));
    Ok(format!(
        "# {whose}\n$ cargo grade {task}\n{}\n",
        table.trim_end()
    ))
}

/// The folder of a submission, made anew.
fn emptied(name: &str) -> Result<PathBuf> {
    let folder = folder().join("target/submissions").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The solution of a stage with the replacements of a change. A file that the solution lacks is the exercise's own.
fn changed(name: &str, stage: &str, change: &Table) -> Result<PathBuf> {
    let folder = emptied(name)?;
    copy(
        &root().join("exercises/solutions").join(stage),
        &folder.join(stage),
    )?;
    let replacements = change.get("replace").and_then(|list| list.as_array());
    for replacement in replacements.with_context(|| format!("{name} replaces nothing"))? {
        let field = |key: &str| {
            let text = replacement.get(key).and_then(|text| text.as_str());
            text.with_context(|| format!("{name}: a replacement lacks `{key}`"))
        };
        let (file, old, new) = (field("file")?, field("old")?, field("new")?);
        let path = folder.join(stage).join(file);
        if !path.exists() {
            let given = root().join("exercises").join(stage).join(file);
            fs::copy(&given, &path).with_context(|| given.display().to_string())?;
        }
        let text = fs::read_to_string(&path)?;
        ensure!(
            text.matches(old).count() == 1,
            "{name}: {file} has not once: {old}"
        );
        fs::write(&path, text.replacen(old, new, 1))?;
    }
    Ok(folder)
}

/// Copies a folder. Links become what they lead to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| from.display().to_string())?;
        }
    }
    Ok(())
}

/// A ratio of times, `1.03 ×`, is measured for tasks on the CPU, which are those of stages 1 and 3.
fn without_measured_times(table: &str) -> String {
    let shown = |line: &str| {
        let on_host = ["  1 ", "  3 "].iter().any(|stage| line.starts_with(stage));
        match line.strip_suffix(" ×").filter(|_| on_host) {
            Some(row) => {
                let digits = row.len()
                    - row
                        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
                        .len();
                format!("{}{:>digits$} ×\n", &row[..row.len() - digits], "…")
            }
            None => format!("{line}\n"),
        }
    };
    table.lines().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_fits_its_solution_once() {
        let change = |text: &str| {
            let change: Table = text.parse().unwrap();
            changed("of-a-test", "stage2", &change)
        };
        let replacing = |old: &str| {
            format!("[[replace]]\nfile = 'kernels/softmax.cu'\nold = '{old}'\nnew = 'int;'\n")
        };
        let folder = change(&replacing("extern \"C\"")).unwrap();
        let text = fs::read_to_string(folder.join("stage2/kernels/softmax.cu")).unwrap();
        assert!(text.contains("int;") && !text.contains("extern \"C\""));
        assert!(change(&replacing("no such text")).is_err());
        assert!(change("task = 'x'").is_err());
    }

    #[test]
    fn measured_ratios_are_left_out() {
        let table = "  1 mha    2.00 of 2    100/100       1.03 ×\n  2 softmax       1.00 ×\n";
        let shown = "  1 mha    2.00 of 2    100/100          … ×\n  2 softmax       1.00 ×\n";
        assert_eq!(without_measured_times(table), shown);
    }
}
