//! The commands that judge nothing, run as a learner does.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn grade(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_grade"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_hint_is_printed_plain_where_no_terminal_is() {
    let output = grade(&["hint", "softmax"]);
    assert!(output.status.success(), "{output:?}");
    let hint = text(&output.stdout);
    assert!(hint.starts_with("2/softmax, hint 1 of 3\n\n"), "{hint}");
    assert!(
        hint.contains("cargo grade hint 2/softmax --tier 2"),
        "{hint}"
    );
    assert!(!hint.contains('\u{1b}'), "{hint:?}");
    let last = text(&grade(&["hint", "softmax", "--tier", "3"]).stdout);
    assert!(last.contains("exercises/solutions/stage2"), "{last}");
}

#[test]
fn the_profile_of_starters_judges_nothing() {
    let output = grade(&["profile", "gemm"]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert_eq!(said.matches(" is the starter: ").count(), 2, "{said}");
    // A task that is judged is named on standard error.
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_clinic_says_what_is_wrong_with_each_kernel() {
    let output = grade(&["clinic"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let table = text(&output.stdout);
    assert!(table.ends_with("\n0 of 10 mended\n"), "{table}");
    let row = table.lines().find(|line| line.starts_with("copy_rows "));
    assert!(
        row.is_some_and(|row| row.contains("misaligned load")),
        "{table}"
    );
    assert_eq!(table.lines().count(), 11, "{table}");

    let output = grade(&["clinic", "--solution"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).ends_with("\n10 of 10 mended\n"));

    // Of one kernel, the whole report, with the line.
    let report = text(&grade(&["clinic", "copy_rows"]).stdout);
    assert!(report.contains("copy_rows.cu:"), "{report}");
    assert!(report.lines().count() > 5, "{report}");
}

#[test]
fn what_cannot_be_done_is_status_2_and_says_why() {
    for (arguments, reason) in [
        (
            &["sofmax"][..],
            "there is no task `sofmax`; the tasks are 1/mha, 2/softmax",
        ),
        (&["7"], "there is no stage 7; the stages are 1 to 6"),
        (
            &["hint", "flash"],
            "`flash` is several tasks: 3/flash, 4/flash",
        ),
        (&["profile", "mha"], "1/mha has no kernel"),
        (
            &["clinic", "nobody"],
            "no kernel `nobody`; it has causal_mean,",
        ),
        (&["--submission", "/nowhere"], "/nowhere"),
    ] {
        let output = grade(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(reason), "{arguments:?}: {errors}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn a_class_has_a_row_for_each_submission() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("class");
    let _ = fs::remove_dir_all(&folder);
    let (submissions, reports) = (folder.join("submissions"), folder.join("reports"));
    fs::create_dir_all(submissions.join("ben/exercises/stage1/src")).unwrap();
    fs::create_dir_all(submissions.join("Zoë, empty")).unwrap();
    fs::write(submissions.join("ada.zip"), "").unwrap();
    fs::write(submissions.join(".DS_Store"), "").unwrap();
    let [submissions, reports_name] = [&submissions, &reports].map(|path| path.to_str().unwrap());
    let output = grade(&["class", submissions, "mha", "--reports", reports_name]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = format!(
        "submission,1/mha,total,note\n\
         \"Zoë, empty\",,,\"{submissions}/Zoë, empty has no stage: it should be a checkout, or hold stage1, stage2 and so on; \
         there is nothing\"\n\
         ada.zip,,,it is no folder: unpack it first\n\
         ben,0.00,0.00,\n"
    );
    assert_eq!(
        fs::read_to_string(reports.join("grades.csv")).unwrap(),
        expected
    );
    // The rows are printed as they come, behind the head.
    assert_eq!(text(&output.stdout), expected);
    let written = ["ben.json", "ben.html", "ada.zip.json"].map(|name| reports.join(name).is_file());
    assert_eq!(written, [true, true, false]);
}
