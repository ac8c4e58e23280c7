//! Files that a learner writes in a task, from the grader's table in `grade/src/tasks.rs`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::root;

const TABLE: &str = "grade/src/tasks.rs";

/// The task `2/softmax`: points, files and the command that grades it; of a task in steps each step.
pub fn card(name: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(TABLE)).context(TABLE)?;
    let steps: Vec<Task<'_>> = tasks(&text).filter(|task| task.task() == name).collect();
    let Some(task) = steps.first() else {
        bail!("{TABLE} has no task {name}");
    };
    let mut card = String::new();
    if steps.len() > 1 {
        card += "| step | points | what your code can do then |\n|---|---|---|\n";
        for step in &steps {
            let title = capitalised(step.title);
            writeln!(card, "| `{}` | {} | {title} |", step.name(), step.points)?;
        }
        card += "\nYou write, in all steps:\n\n";
    } else {
        let points = match task.points {
            "1" => "1 point".to_owned(),
            points => format!("{points} points"),
        };
        let bonus = if task.bonus { ", as a bonus" } else { "" };
        let title = capitalised(task.title);
        write!(card, "{title}: {points}{bonus}. You write:\n\n")?;
    }
    for file in &task.files {
        let path = format!("exercises/stage{}/{file}", task.stage);
        if !root().join(&path).exists() {
            bail!("there is no {path}");
        }
        writeln!(card, "- `{path}`")?;
    }
    write!(
        card,
        "\nThis grades it, and prints what is wrong:\n\n```sh\ncargo grade {name}\n```"
    )?;
    Ok(card)
}

/// A table of the stages: their tasks, and the points for them.
pub fn points() -> Result<String> {
    let text = fs::read_to_string(root().join(TABLE)).context(TABLE)?;
    let mut stages: BTreeMap<&str, (Vec<String>, f64)> = BTreeMap::new();
    for task in tasks(&text) {
        let (titles, sum) = stages.entry(task.stage).or_default();
        let points: f64 = task.points.parse().context(TABLE)?;
        let bonus = if task.bonus {
            format!(" (bonus: {points})")
        } else {
            *sum += points;
            String::new()
        };
        titles.push(format!("{}{bonus}", capitalised(task.title)));
    }
    let mut table = "| stage | tasks | points |\n|---|---|---|\n".to_owned();
    for (stage, (titles, sum)) in &stages {
        writeln!(table, "| {stage} | {} | {sum} |", titles.join("; "))?;
    }
    let sum: f64 = stages.values().map(|(_, sum)| sum).sum();
    write!(table, "| | together | {sum} |")?;
    Ok(table)
}

/// The names of all tasks, as `2/softmax`, and those of their steps, as `4/flash/tile`.
pub fn names() -> Result<[Vec<String>; 2]> {
    let text = fs::read_to_string(root().join(TABLE)).context(TABLE)?;
    let mut names: Vec<String> = tasks(&text).map(|task| task.task()).collect();
    names.dedup();
    Ok([names, tasks(&text).map(|task| task.name()).collect()])
}

struct Task<'a> {
    stage: &'a str,
    id: &'a str,
    title: &'a str,
    points: &'a str,
    bonus: bool,
    files: Vec<&'a str>,
}

impl Task<'_> {
    /// Its own name, `4/flash/tile` or `2/softmax`.
    fn name(&self) -> String {
        format!("{}/{}", self.stage, self.id)
    }

    /// The name of the task that it is, or is a step of: `4/flash`.
    fn task(&self) -> String {
        let id = self.id.split('/').next().unwrap_or(self.id);
        format!("{}/{id}", self.stage)
    }
}

/// The tasks of the table, each written as `Task { stage: 2, id: "softmax", … }`.
fn tasks(text: &str) -> impl Iterator<Item = Task<'_>> {
    text.split("Task {").filter_map(|task| {
        let field = |name: &str| Some(task.split_once(name)?.1.split(',').next()?.trim());
        let quoted = |name: &str| task.split_once(name)?.1.split('"').nth(1);
        let files = task.split_once("files: &[")?.1.split(']').next()?;
        Some(Task {
            stage: field("stage:")?,
            id: quoted("id:")?,
            title: quoted("title:")?,
            points: field("points:")?.trim_end_matches(".0"),
            bonus: field("bonus:")? == "true",
            files: files.split('"').skip(1).step_by(2).collect(),
        })
    })
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let text = "Task {\n stage: 2,\n id: \"gemm\",\n title: \"both\",\n points: 1.0,\n bonus: false,\n files: &[\"a.cu\", \"b.rs\"],\n},";
        let task = tasks(text).next().unwrap();
        assert_eq!(
            (task.stage, task.id, task.points, task.bonus),
            ("2", "gemm", "1", false)
        );
        assert_eq!(task.files, ["a.cu", "b.rs"]);
    }

    #[test]
    fn the_graders_tasks_are_all_there() {
        let text = fs::read_to_string(root().join(TABLE)).unwrap();
        assert!(tasks(&text).count() >= 9);
    }
}
