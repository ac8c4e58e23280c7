//! The exercises are a workspace of their own. What both workspaces take from the registry is built once.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

/// The features of each crate of the registry that `cargo` builds with these arguments.
fn features(arguments: &[&str]) -> BTreeMap<String, String> {
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
    let lines = lines.lines().filter(|line| !line.contains("(/")); // folders
    lines
        .filter_map(|line| {
            let (package, features) = line.split_once('|')?;
            let package = package.trim_end_matches(" (proc-macro)").to_owned();
            Some((package, features.trim_end_matches(" (*)").to_owned()))
        })
        .collect()
}

#[test]
fn the_exercises_use_the_crates_that_the_tests_have_built() {
    let tests = features(&["--workspace"]);
    let exercises = [
        "--manifest-path",
        "exercises/Cargo.toml",
        "--edges",
        "normal,build",
    ];
    for packages in [
        &["exercise-stage1"][..],
        &[
            "exercise-stage2",
            "exercise-stage4",
            "exercise-stage5",
            "exercise-stage6",
        ],
        &["exercise-stage3"],
    ] {
        let mut arguments = exercises.to_vec();
        arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
        let own = features(&arguments);
        assert!(own.len() > 10, "{own:?}");
        for (package, features) in own {
            assert_eq!(
                Some(&features),
                tests.get(&package),
                "{package} of {packages:?}"
            );
        }
    }
}
