//! README.md shows what the program prints and draws.
//!
//! `UPDATE_README=1 cargo test -p training readme` writes both anew.

use std::fs;
use std::path::Path;

use bench_kit::readme::{keep, output, transcripts};

#[test]
fn the_transcript_and_the_curve_of_the_readme_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let plots = env!("CARGO_TARGET_TMPDIR");
    let path = folder.join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let run = |_, arguments: &[&str]| {
        assert_eq!(arguments, ["--plot", "examples/training"]);
        output(env!("CARGO_BIN_EXE_training"), &["--plot", plots])
    };
    let (current, count) = transcripts(&readme, "training", run).unwrap();
    assert_eq!(count, 1);
    let curve = fs::read_to_string(Path::new(plots).join("loss.svg")).unwrap();
    keep(&folder.join("loss.svg"), &curve).unwrap();
    keep(&path, &current).unwrap();
}
