//! The commands that judge nothing, run as a learner does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use grade::verdict::Grade;

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
fn a_reader_that_stops_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_grade"))
        .args(["hint", "softmax"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // every write fails from here on
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_profile_of_starters_judges_nothing() {
    let output = grade(&["profile", "gemm"]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert_eq!(said.matches(" is the starter: ").count(), 1, "{said}");
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
            "`flash` is several tasks: 3/flash/online, 3/flash/ragged, 3/flash/causal, 4/flash/tile,",
        ),
        (&["profile", "mha"], "1/mha has no kernel"),
        (
            &["clinic", "nobody"],
            "no kernel `nobody`; it has causal_mean,",
        ),
        (
            &["warm-up", "nobody"],
            "no warm-up `nobody`; there are map, guard,",
        ),
        (
            &["warm-up", "reset", "nobody"],
            "no warm-up `nobody`; there are map, guard,",
        ),
        (
            &["story", "--prompt", "", "--solution"],
            "the prompt is empty",
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
    // A pipe, a link to another's submission, and a link to another's file.
    let sources = submissions.join("fay/stage1/src");
    fs::create_dir_all(&sources).unwrap();
    let made = Command::new("mkfifo").arg(sources.join("lib.rs")).status();
    assert!(made.unwrap().success());
    symlink(submissions.join("ben"), submissions.join("=cid")).unwrap();
    fs::create_dir_all(submissions.join("dan/stage1/src")).unwrap();
    symlink("/etc/hosts", submissions.join("dan/stage1/src/lib.rs")).unwrap();
    // Of an earlier run.
    fs::create_dir_all(&reports).unwrap();
    fs::write(reports.join("ada.zip.json"), "{}").unwrap();
    let [submissions, reports_name] = [&submissions, &reports].map(|path| path.to_str().unwrap());
    let output = grade(&["class", submissions, "mha", "--reports", reports_name]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = format!(
        "submission,1/mha,total,note\n\
         '=cid,,,not graded: it is a link\n\
         \"Zoë, empty\",,,\"not graded: {submissions}/Zoë, empty has no stage: it should be a checkout, or hold stage1, stage2 and so on; \
         there is nothing\"\n\
         ada.zip,,,not graded: it is no folder: unpack it first\n\
         ben,0.00,0.00,\n\
         dan,,,not graded: preparing the build: stage1/src/lib.rs is a link\n\
         fay,,,not graded: preparing the build: stage1/src/lib.rs is neither a file nor a folder\n"
    );
    assert_eq!(
        fs::read_to_string(reports.join("grades.csv")).unwrap(),
        expected
    );
    // The rows are printed as they come, behind the head.
    assert_eq!(text(&output.stdout), expected);
    let written = ["ben.json", "ben.html", "ada.zip.json"].map(|name| reports.join(name).is_file());
    assert_eq!(written, [true, true, false]);
    assert!(!reports.join("grades.csv.unfinished").exists());
}

#[test]
fn a_class_with_kernels_needs_the_compiler() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("class-without-compiler");
    let _ = fs::remove_dir_all(&folder);
    let (submissions, reports) = (folder.join("submissions"), folder.join("reports"));
    fs::create_dir_all(submissions.join("ben/stage1")).unwrap();
    fs::create_dir_all(&reports).unwrap();
    fs::write(reports.join("grades.csv"), "finished").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_grade"))
        .args(["class", submissions.to_str().unwrap(), "softmax"])
        .args(["--reports", reports.to_str().unwrap()])
        .env("NVRTC_PATH", "none")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let errors = text(&output.stderr);
    assert!(errors.contains("there is no NVRTC"), "{errors}");
    let table = fs::read_to_string(reports.join("grades.csv")).unwrap();
    assert_eq!(table, "finished");
}

/// Looking for the cause of wrong values runs the program again, which it may not survive.
#[test]
fn a_search_for_the_cause_costs_no_points() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fragile");
    let _ = fs::remove_dir_all(&folder);
    let source = folder.join("stage1/src");
    fs::create_dir_all(&source).unwrap();
    let solution = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exercises/solutions/stage1/src");
    for name in ["heads.rs", "lib.rs"] {
        fs::write(source.join(name), fs::read(solution.join(name)).unwrap()).unwrap();
    }
    let marker = "        Ok(Output { o, lse })";
    let lib = fs::read_to_string(source.join("lib.rs")).unwrap();
    assert_eq!(lib.matches(marker).count(), 1);
    // A problem with large scores is never right, and ends the program when it comes back.
    let fragile = "        if lse.iter().any(|x: &f32| x.is_finite() && x.abs() > 1e4) {
            static SEEN: std::sync::Mutex<Vec<Vec<u32>>> = std::sync::Mutex::new(Vec::new());
            let inputs = q.iter().chain(&k).chain(&v).chain(&options.scale);
            let key: Vec<u32> = inputs.map(|x| x.to_bits()).chain([options.causal.into()]).collect();
            let mut seen = SEEN.lock().unwrap();
            if seen.contains(&key) {
                std::process::exit(3);
            }
            seen.push(key);
            o.fill(1.0);
        }
";
    fs::write(
        source.join("lib.rs"),
        lib.replace(marker, &format!("{fragile}{marker}")),
    )
    .unwrap();
    let json = folder.join("grade.json");
    let output = grade(&[
        "mha",
        "--submission",
        folder.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let grade: Grade = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let [task] = &grade.tasks[..] else {
        panic!("{grade:?}")
    };
    let shares: Vec<f64> = task
        .criteria
        .iter()
        .map(|criterion| criterion.share)
        .collect();
    assert_eq!(shares[..3], [1.0, 0.0, 1.0], "{task:#?}");
    assert!(shares[3] > 0.0, "{task:#?}");
}
