//! `compare`: a model against a reference.

use std::collections::BTreeMap;
use std::path::Path;

use rstest::rstest;
use safetensors::tensor::Dtype;

use super::{assert_refused, program, stderr};
use crate::common::{Tensors, scratch, tiny_folder};

#[rstest]
#[case::nan(2, &[1.0, f32::NAN], "/reference: tensor logits holds NaN at flat index 1")]
#[case::infinite(1, &[f32::NEG_INFINITY], "/reference: tensor logits holds -inf at flat index 0")]
#[case::no_columns(0, &[], "logits has no columns")]
fn compare_refuses_a_reference_that_nothing_can_differ_from(
    #[case] columns: usize,
    #[case] logits: &[f32],
    #[case] message: &str,
) {
    let logits = Vec::from_iter(logits.iter().flat_map(|x| x.to_le_bytes()));
    let tensors = Tensors(BTreeMap::from([
        ("tokens".to_owned(), (Dtype::I64, vec![1], vec![0; 8])),
        ("greedy".to_owned(), (Dtype::I64, vec![0], vec![])),
        ("logits".to_owned(), (Dtype::F32, vec![1, columns], logits)),
    ]));
    let file = scratch(&format!("compare-refuses-{columns}")).join("reference");
    std::fs::write(&file, tensors.to_bytes()).unwrap();
    let mut program = program();
    program.args(["compare", "--model"]).arg(tiny_folder());
    let output = program.arg("--reference").arg(file).output().unwrap();
    assert_refused(&output, message);
}

/// References that `fixtures/reference.py` has made, as they are and with one bit flipped.
#[rstest]
#[case::equal(None, 0, "32 of 32 agree")]
#[case::a_logit_is_off(Some("logits"), 1, "32 of 32 agree")]
#[case::a_token_is_another(Some("greedy"), 1, "0 of 32 agree")]
fn compare_tells_a_model_from_another(
    #[values("tiny-gpt2", "qwen2")] model: &str,
    #[case] spoilt: Option<&str>,
    #[case] code: i32,
    #[case] line: &str,
) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let reference = fixtures.join(format!("references/{model}.safetensors"));
    let mut tensors = Tensors::parse(&std::fs::read(reference).unwrap());
    if let Some(name) = spoilt {
        tensors.entry(name).2[2] ^= 1; // 1% of the first logit, or an id outside the vocabulary
    }
    let file = scratch(&format!("compare-{model}-{spoilt:?}")).join("reference");
    std::fs::write(&file, tensors.to_bytes()).unwrap();
    let mut program = program();
    program
        .args(["compare", "--model"])
        .arg(fixtures.join(model));
    let output = program.arg("--reference").arg(file).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{printed}{said}");
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn compare_refuses_the_reference_of_another_vocabulary() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut program = program();
    program
        .args(["compare", "--model"])
        .arg(fixtures.join("qwen2"));
    let reference = fixtures.join("references/tiny-gpt2.safetensors");
    let output = program.arg("--reference").arg(reference).output().unwrap();
    assert_refused(&output, "the reference has 300 logits, the model 301");
}
