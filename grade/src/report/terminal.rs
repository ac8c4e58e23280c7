//! The table of points and the faults, for a terminal: at most 100 columns. Of a task in steps it tells the faults of the one that is
//! to be worked at.

use std::ptr;

use super::Points;
use super::groups::{Group, groups};
use super::text::{first_lines, plain, wrap};
use super::{
    all_or_none, are_steps, cell, criterion, is_begun, name, open_of, row_name, seed, subject,
    total,
};
use crate::verdict::{Grade, Kind, TaskGrade};
use gpu_tool::ink::Ink;

/// Columns of the terminal.
const WIDTH: usize = 100;

/// Columns before the text of a fault.
const INDENT: usize = 11;

/// Distinct faults that are shown of a task.
const FAULTS: usize = 4;

/// Lines of a fault report or a compiler's message, and of captured output: of one task alone, and of several.
const DETAIL_LINES: [usize; 2] = [40, 8];

/// The whole report.
pub fn render(grade: &Grade, ink: Ink) -> String {
    let mut text = head(grade, ink);
    text += &table(grade, ink);
    let lines = DETAIL_LINES[usize::from(grade.tasks.len() > 1)];
    for task in grade.tasks.iter().filter(|task| !Points::is_full(task)) {
        let steps = grade.tasks.iter();
        match open_of(steps.filter(|it| ptr::eq(*it, task) || are_steps(it, task))) {
            Some(shown) if ptr::eq(shown, task) => text += &faults(task, lines, ink),
            // It does not compile, or is not begun.
            Some(shown) if shown.headline == task.headline => {}
            _ => {
                let (name, slow) = (name(task), cell(task, Kind::Fast));
                let open = match Points::is_right(task) {
                    true => format!("{name} is right, and slow ({slow} the solution's time)"),
                    false => format!("{name} is open too"),
                };
                text += &format!("\n{open}: `cargo grade {name}` says why.\n");
            }
        }
    }
    text
}

fn head(grade: &Grade, ink: Ink) -> String {
    let title = format!("Grade of {}", subject(grade));
    let commit = grade.commit.as_deref().unwrap_or("none");
    format!(
        "{}: {}, seed {}, {}, commit {commit}\n\n",
        ink.bold(&title),
        grade.device,
        seed(grade),
        grade.date
    )
}

fn table(grade: &Grade, ink: Ink) -> String {
    let mut text = format!("  {:18} {:>12}", "task", "points");
    for kind in Kind::ALL {
        text += &format!(" {kind:>10}");
    }
    text.push('\n');
    for task in &grade.tasks {
        text += &row(task, ink);
    }
    let points = format!("{:>12}", total(grade));
    let full = Points::full(grade).value().max(f64::MIN_POSITIVE);
    let [counted, _] = Points::counted_and_bonus(grade);
    let share = counted.value() / full;
    text += &format!("  {:18} {}\n", "total", ink.by_share(share, &points));
    if let Some(why) = all_or_none(&grade.tasks) {
        text += &format!("  {}\n", ink.dim(why));
    }
    text
}

fn row(task: &TaskGrade, ink: Ink) -> String {
    let points = format!("{} of {:#}", Points::earned(task), Points::worth(task));
    let mut text = format!(
        "  {:18} {}",
        row_name(task),
        ink.by_share(Points::share(task), &format!("{points:>12}"))
    );
    for kind in Kind::ALL {
        let cell = format!("{:>10}", cell(task, kind));
        text += " ";
        text += &match criterion(task, kind) {
            Some(criterion) => ink.by_share(criterion.share, &cell),
            None => ink.dim(&cell),
        };
    }
    text.push('\n');
    text
}

fn faults(task: &TaskGrade, lines: usize, ink: Ink) -> String {
    let mut text = String::from("\n");
    for line in wrap(&format!("{}: {}", name(task), plain(&task.headline)), WIDTH) {
        text += &format!("{}\n", ink.bold(&line));
    }
    if !is_begun(task) {
        return text; // the headline says what to write
    }
    let groups = groups(task);
    for (i, group) in groups.iter().take(FAULTS).enumerate() {
        text += &fault(group, if i == 0 { lines } else { 0 }, &task.headline, ink);
    }
    if groups.len() > FAULTS {
        let more = groups.len() - FAULTS;
        text += &format!("  {more} more faults of other kinds: --json FILE has all\n");
    }
    let told = task
        .findings
        .iter()
        .any(|finding| finding.detail == task.output);
    if !told {
        text += &indented("printed", &first_lines(&task.output, lines), ink);
    }
    text
}

/// The sentence of a fault behind its criterion, unless the headline is the same; then its detail, and how many others there are.
fn fault(group: &Group<'_>, lines: usize, headline: &str, ink: Ink) -> String {
    let finding = group.first;
    let mut sentence = finding.sentence.clone();
    if !finding.case.is_empty() {
        sentence = format!("{}: {sentence}", finding.case);
    }
    let told = headline.starts_with(&sentence);
    if let Some(remedy) = group.remedy {
        sentence += &format!(" {remedy}");
    }
    let kind = finding.kind.to_string();
    let mut text = String::new();
    if !told {
        for (i, line) in wrap(&plain(&sentence), WIDTH - INDENT).iter().enumerate() {
            let head = if i == 0 { &*kind } else { "" };
            text += &format!("  {head:8} {line}\n");
        }
    }
    if lines > 0 {
        text += &indented("", &first_lines(&finding.detail, lines), ink);
    }
    if let Some(others) = group.others() {
        text += &indented("", &[others], ink);
    }
    text
}

/// Dimmed lines, the first behind a word.
fn indented(head: &str, lines: &[String], ink: Ink) -> String {
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        let head = if i == 0 { head } else { "" };
        text += format!("  {head:8} {}", ink.dim(line)).trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn the_report_is_this_text() {
        let expected = "\
Grade of the learner's code: cuda-sim (h100), seed 7, 2026-11-22T16:58:21Z, commit 45ad50c+

  task                     points    correct     robust      clean       fast
  1 mha                 2.00 of 2        3/3        4/4        2/2     1.10 ×
  2 softmax             0.00 of 1        1/5          -          -          -
  4 flash               3.00 of 4        6/6        2/4        2/2     3.00 ×
  5 split (bonus)       0.00 of 1        0/2          -          -          -
  total                 5.00 of 7
  One failed problem costs all of correct or robust; a fault, leak or differing result all of clean.

2/softmax: The values of 4 of 5 problems are wrong.
  correct  r2_c33_peaks: o[0, 1] is NaN, expected 0.25. The values are those of a softmax without
           the maximum subtracted: look at the argument of exp.
           and 2 more like it
  correct  r1_c1: out-of-bounds store of 4 bytes in softmax.cu:12.
  printed  hello

4/flash: Bad arguments are not refused.
  robust   q of rank 3 was not refused.
           expected an error that names q
           and 1 more like it

5/split: It is the starter.
";
        let text = render(&example::grade(), Ink(false));
        assert_eq!(text, expected, "\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn nothing_is_said_twice() {
        let mut grade = example::grade();
        grade.tasks.retain(|task| task.task == "softmax");
        let task = &mut grade.tasks[0];
        task.findings.drain(..3);
        task.headline = format!("r1_c1: {}", task.findings[0].sentence);
        task.output = "error: expected `;`\n".to_owned();
        task.findings[0].detail = task.output.clone();
        let text = render(&grade, Ink(false));
        assert_eq!(text.matches("out-of-bounds").count(), 1, "{text}");
        assert_eq!(text.matches("expected `;`").count(), 1, "{text}");
    }

    #[test]
    fn the_faults_are_those_of_the_first_open_step() {
        let mut grade = example::grade();
        grade.tasks.truncate(2);
        for (task, step) in grade.tasks.iter_mut().zip(["flash/tile", "flash/online"]) {
            (task.stage, task.task, task.score) = (4, step.to_owned(), 0.0);
            task.criteria[0].share = 0.0;
            task.headline = "It does not compile: flash.cu(3).".to_owned();
        }
        let text = render(&grade, Ink(false));
        assert_eq!(text.matches("does not compile").count(), 1, "{text}");
        assert!(text.contains("\n  4 flash/online "), "{text}");
        grade.tasks[1].headline = "r1_c1: out-of-bounds store.".to_owned();
        let text = render(&grade, Ink(false));
        let open = "\n4/flash/online is open too: `cargo grade 4/flash/online` says why.\n";
        assert!(text.ends_with(open), "{text}");
        // A step that lacks speed alone goes behind one that lacks more.
        for criterion in &mut grade.tasks[0].criteria {
            criterion.share = if criterion.kind == Kind::Fast {
                0.9
            } else {
                1.0
            };
        }
        let text = render(&grade, Ink(false));
        assert!(
            text.contains("\n4/flash/tile is right, and slow ("),
            "{text}"
        );
        assert!(text.contains("\n4/flash/online: r1_c1: "), "{text}");
        grade.tasks[0].score = grade.tasks[0].points;
        let text = render(&grade, Ink(false));
        assert!(text.contains("\n4/flash/online: r1_c1: "), "{text}");
    }

    #[test]
    fn a_bonus_alone_is_not_of_nothing() {
        let mut grade = example::grade();
        grade.tasks.retain(|task| task.bonus);
        grade.tasks[0].score = 1.0;
        let text = render(&grade, Ink(false));
        let total = text.lines().find(|line| line.contains("total")).unwrap();
        assert_eq!(
            Vec::from_iter(total.split_whitespace()),
            ["total", "1.00", "bonus"]
        );
    }

    #[test]
    fn a_bonus_is_shown_beside_the_total() {
        let mut grade = example::grade();
        for task in &mut grade.tasks {
            task.score = task.points;
        }
        let text = render(&grade, Ink(false));
        assert!(text.contains("7.00 of 7 + 1.00 bonus\n"), "{text}");
    }

    #[test]
    fn the_rule_is_told_where_checks_that_passed_earn_nothing() {
        let mut grade = example::grade();
        let rule = all_or_none(&grade.tasks).unwrap();
        grade.tasks.retain(|task| task.task == "flash");
        assert!(!render(&grade, Ink(false)).contains(rule)); // 2 of 4 refusals earn half
        let robust = &mut grade.tasks[0].criteria[1];
        assert_eq!((robust.kind, robust.passed), (Kind::Robust, 2));
        robust.share = 0.0;
        assert!(render(&grade, Ink(false)).contains(rule));
    }

    #[test]
    fn colour_adds_no_width() {
        let coloured = render(&example::grade(), Ink(true));
        assert!(
            coloured.contains("\u{1b}[32m   2.00 of 2\u{1b}[0m"),
            "{coloured}"
        );
        assert!(coloured.contains("\u{1b}[31m   0.00 of 1\u{1b}[0m"));
        assert!(coloured.contains("\u{1b}[33m   3.00 of 4\u{1b}[0m"));
        let plain = console::strip_ansi_codes(&coloured);
        assert_eq!(plain, render(&example::grade(), Ink(false)));
    }

    #[test]
    fn a_report_of_one_task_has_the_whole_detail() {
        let mut grade = example::grade();
        grade.tasks.retain(|task| task.task == "softmax");
        grade.tasks[0].findings[0].detail = (0..50).map(|i| format!("line {i}\n")).collect();
        let text = render(&grade, Ink(false));
        assert!(
            text.contains("line 39\n           … 10 more lines\n"),
            "{text}"
        );
    }
}
