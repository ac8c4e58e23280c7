//! The parts that every chapter of a stage has, and their order: nobody sees our code before the task.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};

use crate::{folder, tasks};

/// A chapter, the task whose card it has, and whether its code runs on the device.
struct Chapter {
    file: &'static str,
    task: Option<&'static str>,
    device: bool,
}

const fn host(file: &'static str, task: Option<&'static str>) -> Chapter {
    let device = false;
    Chapter { file, task, device }
}

const fn device(file: &'static str, task: Option<&'static str>) -> Chapter {
    let device = true;
    Chapter { file, task, device }
}

const CHAPTERS: &[Chapter] = &[
    host("stage1/attention.md", Some("1/mha")),
    host("stage1/masks-and-heads.md", None),
    device("stage2/softmax.md", Some("2/softmax")),
    device("stage2/gemm.md", Some("2/gemm")),
    device("stage2/together.md", Some("2/attention")),
    host("stage3/online-softmax.md", None),
    host("stage3/tiles.md", Some("3/flash")),
    device("stage4/first-rung.md", Some("4/flash")),
    device("stage4/register-tiles.md", None),
    device("stage4/tensor-cores.md", Some("4/mma")),
    device("stage4/swizzle.md", Some("4/swizzle")),
    device("stage4/pipeline.md", Some("4/pipeline")),
    device("stage4/reuse.md", None),
    device("stage4/tma.md", None),
    device("stage4/wgmma.md", Some("4/wgmma")),
    device("stage4/ping-pong.md", None),
    device("backward.md", Some("4/backward")),
    device("stage4/options.md", None),
    device("stage4/tuning.md", Some("4/tune")),
    device("stage5/update.md", Some("5/update_cache")),
    device("stage5/decode.md", Some("5/decode")),
    device("stage5/split.md", Some("5/split")),
    device("stage5/grouped.md", None),
    device("stage5/paged.md", None),
    device("stage6/decoder.md", Some("6/forward")),
    device("stage6/generating.md", Some("6/demo")),
];

/// The order of those parts that a chapter has. Parts with other headings stand between them.
const ORDER: [&str; 9] = [
    "## The idea",
    "## The mathematics",
    "## By hand",
    "## Predict",
    "## Your task",
    "## Our ",
    "## What goes wrong",
    "## Check your understanding",
    "## Further reading",
];

/// Code that a chapter with a task shows openly. It explains the idea, and is no solution of the task.
const OPEN: [&str; 11] = [
    "stage1-reference/examples/heads.rs shapes",
    "stage2-naive-cuda/kernels/block_reduce.cuh reduce",
    "stage2-naive-cuda/kernels/1_gemm_plain.cu inner_product",
    "stage2-naive-cuda/kernels/2_gemm_tiled.cu inner_product",
    "stage2-naive-cuda/src/steps.rs sizes",
    "stage3-flash-cpu/examples/backward.rs loop",
    "stage4-flash-cuda/kernels/wgmma.cuh descriptor",
    "stage4-flash-cuda/kernels/wgmma.cuh wait",
    "stage6-pipeline/kernels/rope.cu rotate",
    "stage6-pipeline/src/model/batch.rs decode",
    "examples/own-project/src/main.rs launch",
];

/// Parts that chapters lack, chapters of stages that are not listed, and tasks that no chapter sets.
pub fn findings() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let (mut set, mut open) = (BTreeSet::new(), BTreeSet::new());
    for chapter in CHAPTERS {
        let path = folder().join("text").join(chapter.file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let lacking = lacking(chapter, &text).into_iter();
        findings.extend(lacking.map(|part| format!("text/{}: it lacks {part}", chapter.file)));
        open.extend(shown_openly(chapter, &text).into_iter().map(str::to_owned));
        let misplaced = misplaced(chapter, &text).into_iter();
        findings.extend(misplaced.map(|what| format!("text/{}: {what}", chapter.file)));
        set.extend(chapter.task);
    }
    let unused = unused(&open).into_iter();
    findings.extend(unused.map(|code| format!("src/shape.rs: no chapter shows {code} openly")));
    for entry in fs::read_dir(folder().join("text"))? {
        let entry = entry?.path();
        let stage = entry
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !(stage.starts_with("stage") && entry.is_dir()) {
            continue;
        }
        for file in fs::read_dir(&entry)? {
            let file = format!("{stage}/{}", file?.file_name().to_string_lossy());
            if !CHAPTERS.iter().any(|chapter| chapter.file == file) {
                findings.push(format!("text/{file} is not in src/shape.rs"));
            }
        }
    }
    let [tasks, _] = tasks::names()?;
    let tasks = tasks.into_iter();
    let unset = tasks.filter(|task| !set.contains(task.as_str()));
    findings.extend(unset.map(|task| format!("no chapter sets the task {task}")));
    Ok(findings)
}

fn lacking(chapter: &Chapter, text: &str) -> Vec<String> {
    let has = |heading: &str| part(text, heading).is_some();
    let in_part = |heading: &str, marks: &[&str]| {
        part(text, heading).is_some_and(|part| marks.iter().any(|mark| part.contains(mark)))
    };
    let understanding = part(text, "## Check your understanding").unwrap_or_default();
    let mut lacking: Vec<&str> = Vec::new();
    let mut demand = |holds: bool, what: &'static str| {
        if !holds {
            lacking.push(what);
        }
    };
    demand(
        text.contains("<div class=\"goal\">"),
        "what the reader will be able to do",
    );
    demand(has("## The idea"), "the idea");
    demand(text.contains("{{figure "), "a picture");
    demand(has("## The mathematics"), "the mathematics");
    demand(
        in_part("## Predict", &["\n{{predict\n"]),
        "fields for a prediction",
    );
    demand(
        in_part("## Predict", &["<details>"]),
        "a prediction with its answer in a fold",
    );
    demand(in_part("## By hand", &["= "]), "a worked example");
    demand(has("## Your task"), "the task, or that there is none");
    demand(
        in_part(
            "## What goes wrong",
            &["{{output fault-", "{{output grade-", "-wrong}}"],
        ) || part(text, "## Your task").is_some_and(|part| part.contains("-wrong}}")),
        "a report of what goes wrong",
    );
    let counters = ["{{number ", "{{output ", "{{rungs "];
    demand(
        !chapter.device || in_part("## What the counters say", &counters),
        "what the counters say",
    );
    demand(
        understanding.matches("<details>").count() >= 2,
        "two questions with answers",
    );
    demand(has("## Further reading"), "further reading");
    let mut lacking: Vec<String> = lacking.into_iter().map(str::to_owned).collect();
    if let Some(task) = chapter.task {
        // Of each step, if it has steps.
        let hints = format!("{{{{hints stage{}", task.replace('/', "-"));
        for mark in [&format!("{{{{task {task}}}}}"), &hints] {
            if !text.contains(mark.as_str()) {
                lacking.push(mark.clone());
            }
        }
        if !in_part("## Your task", &["{{output grade-"]) {
            lacking.push("the grader's verdict on a solution".to_owned());
        }
    }
    lacking
}

/// Parts in another order, and our code where a reader sees it before the task is done.
fn misplaced(chapter: &Chapter, text: &str) -> Vec<String> {
    let mut misplaced = Vec::new();
    let places = ORDER.map(|heading| (heading, text.find(&format!("\n{heading}"))));
    let there = places
        .into_iter()
        .filter_map(|(heading, place)| Some((heading, place?)));
    let there = Vec::from_iter(there);
    for pair in there.windows(2) {
        if let [(first, place), (second, later)] = pair
            && later < place
        {
            misplaced.push(format!("{second} stands before {first}"));
        }
    }
    let open = shown_openly(chapter, text).into_iter();
    let open = open.filter(|code| !OPEN.contains(code));
    misplaced.extend(open.map(|code| format!("{code} is not in a fold")));
    misplaced
}

/// Code that a chapter shows outside of folds. None of chapters without a task, which are there to show code.
fn shown_openly<'a>(chapter: &Chapter, text: &'a str) -> Vec<&'a str> {
    let sets_task = chapter.task.is_some() || text.contains("\n## Our ");
    let mut open = Vec::new();
    for (place, _) in text.match_indices("{{code ").filter(|_| sets_task) {
        let (before, after) = text.split_at(place);
        if before.matches("<details>").count() == before.matches("</details>").count() {
            let code = after.trim_start_matches("{{code ");
            open.push(code.split("}}").next().unwrap_or(code));
        }
    }
    open
}

/// Exceptions of [`OPEN`] that no chapter needs.
fn unused(open: &BTreeSet<String>) -> Vec<&'static str> {
    OPEN.into_iter()
        .filter(|&code| !open.contains(code))
        .collect()
}

/// The text under a heading, up to the next one of its level.
fn part<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("{heading}\n"))?;
    Some(after.split("\n## ").next().unwrap_or(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chapters_have_their_parts() {
        assert_eq!(findings().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_a_reader_would_see_too_early_is_found() {
        let chapter = &CHAPTERS[2];
        let text = fs::read_to_string(folder().join("text").join(chapter.file)).unwrap();
        assert_eq!(misplaced(chapter, &text), Vec::<String>::new());
        let open = text.replace("<details><summary>Open", "<details></details><summary>Open");
        let kernel = "stage2-naive-cuda/kernels/1_softmax_tree.cu kernel is not in a fold";
        assert_eq!(misplaced(chapter, &open), [kernel]);
        let (before, task) = text.split_once("\n## Your task").unwrap();
        let (task, after) = task.split_once("\n## What goes wrong").unwrap();
        let late = format!("{before}\n## What goes wrong{after}\n## Your task{task}");
        assert!(!misplaced(chapter, &late).is_empty());
    }

    #[test]
    fn an_exception_that_no_chapter_needs_is_found() {
        let mut open = BTreeSet::from(OPEN.map(str::to_owned));
        assert_eq!(unused(&open), [""; 0]);
        open.remove(OPEN[3]);
        assert_eq!(unused(&open), [OPEN[3]]);
    }

    #[test]
    fn each_part_is_missed() {
        let chapter = &CHAPTERS[2];
        let text = fs::read_to_string(folder().join("text").join(chapter.file)).unwrap();
        for part in [
            "<div class=\"goal\">",
            "## The idea",
            "{{figure ",
            "## The mathematics",
            "## Predict",
            "{{predict",
            "## By hand",
            "## Your task",
            "## What the counters say",
            "## Check your understanding",
            "## Further reading",
            "{{task ",
            "{{hints ",
        ] {
            assert!(text.contains(part), "{part}");
            assert!(
                !lacking(chapter, &text.replace(part, "")).is_empty(),
                "{part}"
            );
        }
    }
}
