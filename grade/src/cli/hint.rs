//! `hint`: prints a hint for a task.

use std::fs;

use anyhow::{Context, bail};
use clap::Args;

use super::{one, print, root};

/// The tiers of a hint.
const TIERS: u8 = 3;

/// The flags of `hint`.
#[derive(Args)]
pub struct Arguments {
    /// The task, such as softmax, or a step, such as 4/flash/tile; of a task in steps the one to work at.
    task: String,

    /// How much to tell: 1 where to look, 2 the idea, 3 nearly the code.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=TIERS as i64))]
    tier: u8,
}

/// Prints the tier, and how to get the next.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let task = one(&arguments.task)?;
    let file = format!("stage{}-{}.md", task.stage, task.id);
    let path = root().join("grade/hints").join(&file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let Some(hint) = tier(&text, arguments.tier) else {
        bail!("{file} has no tier {}", arguments.tier);
    };
    let name = task.name();
    let more = if arguments.tier < TIERS {
        format!(
            "More: cargo grade hint {name} --tier {}\n",
            arguments.tier + 1
        )
    } else {
        format!(
            "Beyond that is the solution: exercises/solutions/{}\n",
            task.folder()
        )
    };
    print(&format!(
        "{name}, hint {} of {TIERS}\n\n{}\n\n{more}",
        arguments.tier,
        hint.trim()
    ))
}

/// The text between the heading `## tier` and the next.
fn tier(text: &str, tier: u8) -> Option<&str> {
    let heading = format!("## {tier}\n");
    let start = if text.starts_with(&heading) {
        0
    } else {
        text.find(&format!("\n{heading}"))? + 1
    };
    let hint = &text[start + heading.len()..];
    Some(hint.split("\n## ").next().unwrap_or(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use grade::tasks::TASKS;

    #[test]
    fn a_tier_ends_where_the_next_begins() {
        let text = "# Softmax\n\n## 1\n\nLook.\n\n## 2\n\n### a\n\nThink.\n## 3\nWrite.\n";
        assert_eq!(tier(text, 1).unwrap().trim(), "Look.");
        assert_eq!(tier(text, 2).unwrap().trim(), "### a\n\nThink.");
        assert_eq!(tier(text, 3).unwrap().trim(), "Write.");
        assert_eq!(tier(text, 4), None);
    }

    #[test]
    fn every_task_has_three_tiers() {
        for task in TASKS {
            let path = root().join(format!("grade/hints/stage{}-{}.md", task.stage, task.id));
            let text = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", path.display()));
            for number in 1..=TIERS {
                let hint =
                    tier(&text, number).unwrap_or_else(|| panic!("{}: {number}", task.name()));
                assert!(!hint.trim().is_empty(), "{}: {number}", task.name());
            }
        }
    }
}
