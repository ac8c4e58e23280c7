//! A submission is linked with what the tests have built.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

/// The crates that `cargo` builds with these arguments: `half v2.7.1|std`, its features last. One that is built twice, for the
/// compiler and for the program, may be there with both sets of features.
fn crates(arguments: &[&str]) -> BTreeSet<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--no-dedupe", "--prefix", "none"])
        .args(["--format", "{p}|{f}"])
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    // Of the workspace's own, the simulator takes the time.
    let other = |line: &&str| {
        let own = line.contains("(/");
        !own || ["cuda-sim ", "gpu "]
            .iter()
            .any(|name| line.starts_with(name))
    };
    lines
        .lines()
        .filter(other)
        .map(|line| line.replace(" (proc-macro)", "").replace(" (*)", ""))
        .collect()
}

#[test]
fn the_exercises_use_the_crates_that_the_tests_have_built() {
    let tests = crates(&["--workspace"]);
    for packages in [
        &["exercise-stage1"][..],
        &[
            "exercise-stage2",
            "exercise-stage4",
            "exercise-stage5",
            "exercise-stage6",
            "exercise-story",
        ],
        &["exercise-stage3"],
    ] {
        let mut arguments = vec!["--edges", "normal,build"];
        arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
        let own = crates(&arguments);
        assert!(own.len() > 10, "{own:?}");
        let others: Vec<_> = own.difference(&tests).collect();
        assert!(others.is_empty(), "{packages:?}: {others:?}");
    }
}
