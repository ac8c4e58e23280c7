//! Tests in a process of their own.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// True in the child process. In the parent: runs the child, which is this test by its path in this
/// program, with nothing but `variables` in its environment and an empty working folder, and fails
/// if the child fails.
#[track_caller]
pub fn in_child(test: &str, variables: &[(&str, &str)]) -> bool {
    const MARK: &str = "GPU_TEST_CHILD";
    if env::var_os(MARK).is_some() {
        return true;
    }
    let folder = folder(test);
    let output = Command::new(env::current_exe().unwrap())
        .args(["--include-ignored", "--exact", test])
        .env_clear()
        .env(MARK, "1")
        .envs(variables.iter().copied())
        .current_dir(&folder)
        .output()
        .unwrap();
    fs::remove_dir_all(folder).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// An empty folder outside the workspace, so that its `.nvrtc` is not found from there.
pub fn folder(test: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("gpu-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
