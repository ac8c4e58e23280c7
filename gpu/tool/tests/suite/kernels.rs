//! Every kernel of the course states its launch, and `gpu check` finds no mistake in it.

use std::fs;
use std::path::PathBuf;

use crate::common::{root, run};

/// Packages whose kernels are for tests of the simulator, wrong on purpose or several in a file,
/// and one that compiles its kernel when it runs.
const OTHERS: [&str; 3] = ["cuda-sim", "kernel-corpus", "own-project"];

/// The kernel files of the course, from the workspace's root.
fn kernels() -> Vec<PathBuf> {
    let files = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let packages = files(root().to_owned()).chain(files(root().join("examples")));
    let packages = packages.filter(|package| {
        let name = package.file_name();
        !OTHERS.iter().any(|other| name == *other)
    });
    let folders = packages.flat_map(|package| {
        let kernels = package.path().join("kernels");
        [kernels.join("library"), kernels]
    });
    let kernels = folders.flat_map(files);
    let mut kernels: Vec<PathBuf> = kernels
        .map(|kernel| kernel.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .map(|path| path.strip_prefix(root()).unwrap().to_owned())
        .collect();
    kernels.sort();
    kernels
}

#[test]
fn every_kernel_of_the_course_is_clean() {
    let kernels = kernels();
    assert!(kernels.len() >= 26, "{kernels:?}");
    let wrong: Vec<String> = kernels
        .iter()
        .filter_map(|kernel| {
            let file = kernel.to_str().unwrap();
            let check = run(root(), &["check", file, "--seeds", "2"], &[]);
            // Of kernels whose results differ from schedule to schedule, another verdict is given.
            let verdicts = ["clean: ", "no fault found; results not checked: "];
            let begins = |verdict: &&str| check.text.starts_with(*verdict);
            let clean = check.success && verdicts.iter().any(begins);
            (!clean).then(|| format!("{file}:\n{}", check.text))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_fused_kernel_is_profiled_as_its_file_states() {
    let arguments = ["profile", "stage4-flash-cuda/kernels/library/attention.cu"];
    let profile = run(root(), &arguments, &[]);
    profile.succeeds();
    // Every output is stored once: o [1, 2, 100, 64] and lse [1, 2, 100], f32.
    let stores = profile
        .text
        .lines()
        .skip_while(|line| !line.contains("global stores"));
    let bytes = stores.skip(2).map(str::trim).next();
    let expected = "bytes asked for                      52,000 B";
    assert_eq!(bytes, Some(expected), "{}", profile.text);
}
