//! `run_autograder` in folders laid out as Gradescope's, with another grader in place of the built one: whatever that does, there
//! is a result that obeys the schema.

#[path = "../../src/report/schemas/check.rs"]
mod check;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Gradescope's folders, under another root.
struct Autograder {
    root: PathBuf,
}

impl Autograder {
    /// With a shell script as the grader: `$own` is the file that it must write, `$submission` what it is given.
    fn new(name: &str, grader: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("gradescope")
            .join(name);
        let _ = fs::remove_dir_all(&root);
        for folder in ["autograder/results", "autograder/submission", "home", "bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let of = Self { root };
        let script = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("gradescope/run_autograder"),
        )
        .unwrap();
        let root = of.root.to_str().unwrap();
        for word in ["/autograder/", "/home/grader", "limit=1800"] {
            assert!(script.contains(word), "{word}");
        }
        let script = script
            .replace("/autograder/", &format!("{root}/autograder/"))
            .replace("/home/grader", &format!("{root}/home"))
            .replace("limit=1800", "limit=2");
        of.program("autograder/run_autograder", &script);
        // Another user takes root; here it is the same one, and nobody is killed.
        of.program("bin/runuser", "#!/bin/sh\n[ \"$1 $2 $3\" = \"--user grader --\" ] || exit 126\nshift 3\nexec \"$@\"\n");
        of.program("bin/pkill", "#!/bin/sh\n");
        let grader = format!(
            "#!/bin/bash\n[[ $1 = --submission && $3 = --secret-seed && $5 = --gradescope && $(<$4) = 1 ]] || exit 9\nsubmission=$2 own=$6\n{grader}\n"
        );
        of.program("autograder/source/target/debug/grade", &grader);
        of
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The result that Gradescope reads.
    fn result(&self) -> Value {
        let path = std::env::var("PATH").unwrap();
        let output = Command::new(self.root.join("autograder/run_autograder"))
            .env(
                "PATH",
                format!("{}:{path}", self.root.join("bin").display()),
            )
            .env("SECRET", "of root")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = fs::read_to_string(self.root.join("autograder/results/results.json")).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        let schema = serde_json::from_str(include_str!("../../schema/gradescope.json")).unwrap();
        assert_eq!(check::errors(&schema, &result), [""; 0], "{text}");
        result
    }
}

fn failed(name: &str, grader: &str, reason: &str) {
    let result = Autograder::new(name, grader).result();
    assert_eq!(result["score"], 0, "{result}");
    let output = result["output"].as_str().unwrap();
    assert!(output.contains(reason), "{output}");
}

#[test]
fn points_come_through_and_the_environment_of_root_does_not() {
    for status in [0, 1] {
        let grader = format!(
            r#"test -z "$SECRET" && test -d "$submission" && test "$PWD" = "$HOME" || exit 9
            echo '{{"score": 18.5, "tests": [{{"name": "1 mha", "score": 1.5, "max_score": 2}}]}}' >"$own"
            exit {status}"#
        );
        let result = Autograder::new(&format!("points-{status}"), &grader).result();
        assert_eq!(result["score"], 18.5);
    }
}

#[test]
fn without_points_there_is_a_reason() {
    failed(
        "failed",
        r#"echo 'error: "no" \ such folder' >&2; exit 2"#,
        "status 2: error: no  such folder",
    );
    failed("too-long", "sleep 60", "longer than 2 seconds");
    failed("no-result", "exit 1", "status 2");
    failed(
        "link",
        r#"echo '{"score": 20, "tests": []}' >"$HOME/forged"; ln -s "$HOME/forged" "$own"; exit 0"#,
        "status 2",
    );
}

#[test]
fn a_result_of_the_submission_before_does_not_count() {
    let autograder = Autograder::new("before", "exit 1");
    let forged = r#"{"score": 20, "tests": []}"#;
    fs::write(autograder.root.join("home/results.json"), forged).unwrap();
    assert_eq!(autograder.result()["score"], 0);
}
