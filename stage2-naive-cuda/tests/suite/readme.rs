//! The table of README.md is that of the program. `UPDATE_README=1` writes it anew.

use std::fs;
use std::path::Path;

use bench_kit::readme::{keep, output, with_table};
use stage2_naive_cuda::{GemmRung, SoftmaxRung};

#[test]
fn the_table_of_the_ladder_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let program = env!("CARGO_BIN_EXE_stage2-naive-cuda");
    let table = output(program, &["ladder"]).unwrap();
    // A head of two lines, both products of each rung, scale_and_mask, and each rung of softmax.
    let rungs = 2 * GemmRung::ALL.len() + 1 + SoftmaxRung::ALL.len();
    assert_eq!(table.lines().count(), 2 + rungs);
    let current = with_table(&readme, "| kernel | step | sectors loaded", &table).unwrap();
    keep(&path, &current).unwrap();
}
