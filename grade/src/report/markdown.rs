//! `Results.md`: points, the figures that the assignment asks for, the generated text, and where points were lost.

use super::Points;
use super::figures::{Figure, Figures};
use super::groups::groups;
use super::text::{fenced, plain};
use super::{all_or_none, cell, is_bonus_alone, name, row_name, seed, subject};
use crate::verdict::{Grade, Kind};

/// The whole file.
pub fn render(grade: &Grade, figures: &Figures) -> String {
    let mut text = String::from("# Results\n\n");
    text += &facts(grade);
    text += &points(grade);
    text += &speeds(grade);
    text += &assignment(grade, figures);
    text += &faults(grade);
    text
}

fn facts(grade: &Grade) -> String {
    let commit = grade.commit.as_deref().unwrap_or("none");
    format!(
        "| | |\n|---|---|\n| graded | {} |\n| device | {} |\n| date | {} |\n| commit | {commit} |\n| seed | {} |\n\n",
        subject(grade),
        grade.device,
        grade.date,
        seed(grade)
    )
}

fn points(grade: &Grade) -> String {
    let mut text = String::from("## Points\n\n| task | points | of |");
    text += &Kind::ALL.map(|kind| format!(" {kind} |")).concat();
    text += "\n|---|---:|---:|---:|---:|---:|---:|\n";
    for task in &grade.tasks {
        let cells = Kind::ALL.map(|kind| format!(" {} |", cell(task, kind)));
        text += &format!(
            "| {} | {} | {:#} |{}\n",
            row_name(task),
            Points::earned(task),
            Points::worth(task),
            cells.concat()
        );
    }
    let [counted, bonus] = Points::counted_and_bonus(grade);
    let full = Points::full(grade);
    let (total, full) = match (is_bonus_alone(grade), bonus > Points::new(0.0)) {
        (true, _) => (bonus, "bonus".to_owned()),
        (false, true) => (counted, format!("{full:#} + {bonus} bonus")),
        (false, false) => (counted, format!("{full:#}")),
    };
    text += &format!(
        "| **total** | **{total}** | **{full}** | | | | |\n\nCorrect, robust and clean are checks that passed. Fast is the \
         time as a multiple of the solution's."
    );
    if let Some(why) = all_or_none(&grade.tasks) {
        text += &format!(" {why}");
    }
    text + "\n\n"
}

/// The shapes on which speed was judged.
fn speeds(grade: &Grade) -> String {
    let mut text = String::from("## Speed\n\n");
    let mut rows = String::new();
    for task in &grade.tasks {
        if let Some(work) = &task.work {
            rows += &format!(
                "| {} | {} | {} | {:.3} {unit} | {:.3} {unit} |\n",
                name(task),
                work.case,
                work.label,
                work.yours,
                work.reference,
                unit = work.unit,
            );
        }
    }
    if rows.is_empty() {
        text += "Not measured.\n\n";
    } else {
        text += "| task | shape | time is | yours | solution's |\n|---|---|---|---:|---:|\n";
        text += &rows;
        text.push('\n');
    }
    text
}

fn assignment(grade: &Grade, figures: &Figures) -> String {
    let mut text = String::from("## Figures of the assignment\n\n");
    text += &format!(
        "Times are modelled: {}. Attention alone in stages 4 and 5, one head counted for all. Stage 6's program passes one \
         prompt after the other through the network.\n\n",
        grade.device
    );
    for (title, of, rows) in [
        (
            "Stage 4: FlashAttention",
            "stage 2's kernels",
            &figures.flash,
        ),
        (
            "Stage 5: decoding with a cache",
            "recomputing",
            &figures.decode,
        ),
        (
            "Stage 6: the generator",
            "stage 6's program",
            &figures.pipeline,
        ),
    ] {
        text += &format!("### {title}\n\n| | yours | {of} | speed-up |\n|---|---:|---:|---:|\n");
        for row in rows {
            let time = |time: Option<f64>| {
                time.map_or(NOT.to_owned(), |time| format!("{time:.4} {}", row.unit))
            };
            text += &format!(
                "| {} | {} | {} | {} |\n",
                row.label,
                time(row.yours),
                time(row.reference),
                speed_up(row)
            );
        }
        text.push('\n');
    }
    text += "### The generated text\n\n";
    text += &match &figures.text {
        Some(written) => fenced(written),
        None => "Not generated.\n".to_owned(),
    };
    text
}

const NOT: &str = "not measured";

fn speed_up(figure: &Figure) -> String {
    figure
        .speed_up()
        .map_or(NOT.to_owned(), |times| format!("{times:.2} ×"))
}

fn faults(grade: &Grade) -> String {
    let mut text = String::new();
    for task in grade.tasks.iter().filter(|task| !Points::is_full(task)) {
        text += &format!("\n### {}\n\n{}\n\n", name(task), plain(&task.headline));
        for group in groups(task) {
            let finding = group.first;
            let case = match &*finding.case {
                "" => String::new(),
                case => format!(" `{}`", plain(case)),
            };
            let remedy = group.remedy.map(|remedy| format!(" {remedy}"));
            let others = group.others().map(|others| format!(" ({others})"));
            text += &format!(
                "- **{}**{case}: {}{}{}\n",
                finding.kind,
                plain(&finding.sentence),
                remedy.unwrap_or_default(),
                others.unwrap_or_default()
            );
        }
    }
    match &*text {
        "" => text,
        _ => format!("\n## Where points were lost\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn a_bonus_is_shown_beside_the_total() {
        let mut grade = example::grade();
        for task in &mut grade.tasks {
            task.score = task.points;
        }
        let text = render(&grade, &Figures::default());
        let total = text.lines().find(|line| line.contains("**total**"));
        let expected = "| **total** | **7.00** | **7 + 1.00 bonus** | | | | |";
        assert_eq!(total, Some(expected));
    }

    #[test]
    fn a_bonus_alone_is_not_of_nothing() {
        let mut grade = example::grade();
        grade.tasks.retain(|task| task.bonus);
        grade.tasks[0].score = 1.0;
        let text = render(&grade, &Figures::default());
        let total = text.lines().find(|line| line.contains("total"));
        assert_eq!(total, Some("| **total** | **1.00** | **bonus** | | | | |"));
    }

    #[test]
    fn the_results_are_this_text() {
        let mut figures = Figures {
            text: Some("Once upon a time\n".to_owned()),
            ..Figures::default()
        };
        figures.flash[0].yours = Some(0.25);
        figures.flash[0].reference = Some(1.0);
        let expected = "\
# Results

| | |
|---|---|
| graded | the learner's code |
| device | cuda-sim (h100) |
| date | 2026-11-22T16:58:21Z |
| commit | 45ad50c+ |
| seed | 7 |

## Points

| task | points | of | correct | robust | clean | fast |
|---|---:|---:|---:|---:|---:|---:|
| 1 mha | 2.00 | 2 | 3/3 | 4/4 | 2/2 | 1.10 × |
| 2 softmax | 0.00 | 1 | 1/5 | - | - | - |
| 4 flash | 3.00 | 4 | 6/6 | 2/4 | 2/2 | 3.00 × |
| 5 split (bonus) | 0.00 | 1 | 0/2 | - | - | - |
| **total** | **5.00** | **7** | | | | |

Correct, robust and clean are checks that passed. Fast is the time as a multiple of the solution's. \
One failed problem costs all of correct or robust; a fault, leak or differing result all of clean.

## Speed

| task | shape | time is | yours | solution's |
|---|---|---|---:|---:|
| 1/mha | b1_h8_n256_d64 | time on the CPU | 110.000 µs | 100.000 µs |
| 4/flash | b1_h8_n256_d64 | modelled (h100) | 30.000 µs | 10.000 µs |

## Figures of the assignment

Times are modelled: cuda-sim (h100). Attention alone in stages 4 and 5, one head counted for all. Stage 6's program \
passes one prompt after the other through the network.

### Stage 4: FlashAttention

| | yours | stage 2's kernels | speed-up |
|---|---:|---:|---:|
| B = 4, N = 128, not causal | 0.2500 ms | 1.0000 ms | 4.00 × |
| B = 4, N = 128, causal | not measured | not measured | not measured |
| B = 64, N = 4096, not causal | not measured | not measured | not measured |
| B = 64, N = 4096, causal | not measured | not measured | not measured |

### Stage 5: decoding with a cache

| | yours | recomputing | speed-up |
|---|---:|---:|---:|
| TTFT: B = 16, prompt of 1024 | not measured | not measured | not measured |
| TBT: 100 steps, room for 2048 | not measured | not measured | not measured |

### Stage 6: the generator

| | yours | stage 6's program | speed-up |
|---|---:|---:|---:|
| TTFT: the storyteller | not measured | not measured | not measured |
| TBT: the storyteller | not measured | not measured | not measured |

### The generated text

```text
Once upon a time
```

## Where points were lost

### 2/softmax

The values of 4 of 5 problems are wrong.

- **correct** `r2_c33_peaks`: o[0, 1] is NaN, expected 0.25. The values are those of a softmax without the maximum \
subtracted: look at the argument of exp. (and 2 more like it)
- **correct** `r1_c1`: out-of-bounds store of 4 bytes in softmax.cu:12.

### 4/flash

Bad arguments are not refused.

- **robust**: q of rank 3 was not refused. (and 1 more like it)

### 5/split

It is the starter.

";
        let text = render(&example::grade(), &figures);
        assert_eq!(text, expected, "\n{text}");
    }
}
