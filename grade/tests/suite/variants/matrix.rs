//! The table of all variants.

use std::fmt::Write as _;
use std::path::PathBuf;

use grade::verdict::Kind;

use super::file::{Folder, Share, Variant, root};
use super::run::Verdict;

/// Where it is.
pub fn path() -> PathBuf {
    root().join("exercises/wrong/MATRIX.md")
}

/// The table with the results.
pub fn table(verdicts: &[(&Variant, Verdict)]) -> String {
    let mut text = String::from(
        "# Variants and what the grader gives them\n\n\
         Generated: `VARIANTS_WRITE=1 cargo test -p grade -- --ignored variants`. A row is a change of a solution. The \
         columns in the middle are the shares of the criteria: ● all of it, ○ nothing, 0–0.9 between \
         these, · not compared; the last two because it is measured or depends on the order of threads. A task in steps \
         has one for each step, in order.\n",
    );
    for folder in Folder::ALL {
        let rows = verdicts
            .iter()
            .filter(|(variant, _)| variant.folder == folder);
        let title = match folder {
            Folder::Wrong => "Wrong: loses these points, and the cause is named",
            Folder::Unusual => "Unusual, and right: loses nothing for correctness and cleanliness",
            Folder::Cheats => "Dishonest: gains nothing",
        };
        let _ = write!(
            text,
            "\n## {title}\n\n| variant | task | cause | correct | robust | clean | fast | what is changed |\n|---|---|---|---|---|---|---|---|\n"
        );
        for (variant, verdict) in rows {
            let [name, task, cause] = heading(variant);
            let _ = write!(text, "| {name} | {task} | {cause} |");
            for kind in Kind::ALL {
                let _ = write!(text, " {} |", cell(variant, verdict, kind));
            }
            let _ = writeln!(text, " {} |", variant.said.what);
        }
    }
    text
}

fn cell(variant: &Variant, verdict: &Verdict, kind: Kind) -> String {
    let steps = variant.tasks.iter().zip(verdict.shares(kind));
    let cells = steps.map(|(task, share)| match variant.share(task, kind) {
        None => "·".to_owned(),
        Some(Share::Between([low, high])) => format!("{low}–{high}"),
        Some(Share::Exactly(_)) if share >= 1.0 => "●".to_owned(),
        Some(Share::Exactly(_)) if share <= 0.0 => "○".to_owned(),
        Some(Share::Exactly(_)) => format!("{share:.2}"),
    });
    cells.collect::<Vec<_>>().join(" ")
}

/// The beginning of a row: variant, task, cause.
pub fn heading(variant: &Variant) -> [String; 3] {
    let causes = variant.said.causes().into_iter();
    let causes = causes.map(|cause| serde_json::to_value(cause).unwrap());
    let causes: Vec<String> = causes
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    [
        format!("`{}/{}`", variant.folder.name(), variant.name),
        variant.said.task.clone(),
        causes.join(", "),
    ]
}

/// The heading of a line of the table, if it is a row.
pub fn heading_of(line: &str) -> Option<[String; 3]> {
    let cells: Vec<&str> = line
        .strip_prefix("| `")?
        .split('|')
        .map(str::trim)
        .collect();
    Some([
        format!("`{}", cells[0]),
        cells[1].to_owned(),
        cells[2].to_owned(),
    ])
}
