//! Gradescope's `results.json`, as its autograder specifications describe it:
//! <https://gradescope-autograders.readthedocs.io/en/latest/specs/>.

use std::slice;

use serde_json::{Value, json};

use super::Points;
use super::groups::groups;
use super::text::{first_lines, plain};
use super::{all_or_none, cell, name, row_name, seed, total};
use crate::verdict::{Grade, Kind, TaskGrade};

/// Lines of a fault's detail, and of captured output.
const LINES: usize = 40;

/// The JSON text. A task is a test case; the score of the submission is the total of the table, bonus included.
pub fn render(grade: &Grade) -> String {
    format!("{:#}\n", value(grade))
}

fn value(grade: &Grade) -> Value {
    let seconds: f64 = grade.tasks.iter().map(|task| task.seconds).sum();
    let commit = grade.commit.as_deref().unwrap_or("none");
    json!({
        "score": Points::total(grade).value(),
        "execution_time": seconds.ceil() as u64,
        "output": format!(
            "{} points, on {}, seed {}, commit {commit}",
            total(grade),
            grade.device,
            seed(grade),
        ),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": grade.tasks.iter().map(test).collect::<Vec<_>>(),
    })
}

/// A test case. Gradescope adds what a bonus gives to the total, and shows it as `1.00 / 0.00`.
fn test(task: &TaskGrade) -> Value {
    let max = if task.bonus {
        0.0
    } else {
        Points::worth(task).value()
    };
    json!({
        "name": format!("{}: {}", row_name(task), task.title),
        "number": name(task).replace('/', "."),
        "score": Points::earned(task).value(),
        "max_score": max,
        "status": if Points::is_full(task) { "passed" } else { "failed" },
        "output": output(task),
        "extra_data": { "seconds": task.seconds },
    })
}

fn output(task: &TaskGrade) -> String {
    let mut text = format!("{}\n", plain(&task.headline));
    for kind in Kind::ALL {
        text += &format!("{:8} {}\n", kind, cell(task, kind));
    }
    if let Some(why) = all_or_none(slice::from_ref(task)) {
        text += &format!("{why}\n");
    }
    for group in groups(task) {
        let finding = group.first;
        text += &format!("\n{}: ", finding.kind);
        if !finding.case.is_empty() {
            text += &format!("{}: ", plain(&finding.case));
        }
        text += &plain(&finding.sentence);
        text.push('\n');
        let remedy = group.remedy.map(str::to_owned);
        let detail = first_lines(&finding.detail, LINES);
        for line in remedy.into_iter().chain(detail).chain(group.others()) {
            text += &format!("  {line}\n");
        }
    }
    let printed = first_lines(&task.output, LINES);
    if !printed.is_empty() {
        text += "\nprinted by the submission:\n";
        for line in printed {
            text += &format!("  {line}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{example, terminal};
    use super::*;
    use gpu_tool::ink::Ink;

    #[test]
    fn the_total_is_that_of_the_table_and_of_the_tests() {
        let mut grade = example::grade();
        grade.tasks[1].score = 0.333_333; // thirds do not add up when they are rounded one by one
        grade.tasks[2].score = 1.333_333;
        grade.tasks[3].score = 0.666_666;
        let value = value(&grade);
        let score = value["score"].as_f64().unwrap();
        let table = terminal::render(&grade, Ink(false));
        let total = table.lines().find(|line| line.contains("total")).unwrap();
        assert!(total.contains("3.66 of 7 + 0.66 bonus"), "{total}");
        let tests = value["tests"].as_array().unwrap();
        let hundredths = |test: &Value| (100.0 * test["score"].as_f64().unwrap()).round() as u64;
        let sum: u64 = tests.iter().map(hundredths).sum();
        assert_eq!(sum, (100.0 * score).round() as u64);
        assert_eq!(sum, 200 + 33 + 133 + 66);
        let max = tests.iter().map(|test| test["max_score"].as_f64().unwrap());
        assert_eq!(max.sum::<f64>(), 7.0, "the bonus is on top");
    }

    #[test]
    fn a_fault_is_told_once() {
        let value = value(&example::grade());
        let output = value["tests"][1]["output"].as_str().unwrap();
        let expected = "\
The values of 4 of 5 problems are wrong.
correct  1/5
robust   -
clean    -
fast     -
One failed problem costs all of correct or robust; a fault, leak or differing result all of clean.

correct: r2_c33_peaks: o[0, 1] is NaN, expected 0.25.
  The values are those of a softmax without the maximum subtracted: look at the argument of exp.
  and 2 more like it

correct: r1_c1: out-of-bounds store of 4 bytes in softmax.cu:12.

printed by the submission:
  hello
";
        assert_eq!(output, expected, "\n{output}");
        assert_eq!(value["tests"][1]["status"], "failed");
        assert_eq!(value["tests"][0]["status"], "passed");
    }
}
