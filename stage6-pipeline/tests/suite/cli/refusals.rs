//! Refusals by the program: arguments, models and files.

use std::path::Path;

use rstest::rstest;
use safetensors::tensor::Dtype;

use super::{assert_refused, program, tell};
use crate::common::{Tensors, scratch, set_weights, tiny, weights, write_folder};

#[rstest]
#[case::no_prompt(&["--prompt", ""], "the prompt is empty")]
#[case::long_prompt(&["--prompt", &"owl ".repeat(80)], "but the model's context of 75")]
#[case::no_stories(&["--stories", "0"], "stories is 0, expected at least 1")]
#[case::no_tokens(&["--max-tokens", "0"], "max-tokens is 0, expected at least 1")]
#[case::cold(&["--temperature", "-0.5"], "temperature is -0.5, expected a number of at least 0")]
#[case::nan(&["--temperature", "nan"], "temperature is NaN")]
#[case::top_k(&["--top-k", "0"], "top-k is 0, expected at least 1")]
#[case::top_p_zero(&["--top-p", "0"], "top-p is 0, expected above 0")]
#[case::top_p_negative(&["--top-p", "-1"], "top-p is -1, expected above 0")]
#[case::top_p_large(&["--top-p", "1.5"], "top-p is 1.5")]
#[case::min_p(&["--min-p", "1.5"], "min-p is 1.5, expected 0 to 1")]
#[case::repetition_penalty(&["--repetition-penalty", "0"], "repetition-penalty is 0, expected a number above 0")]
#[case::no_batch(&["--batch", "0"], "batch is 0, expected at least 1")]
#[case::no_device(&["--device", "99"], "no device 99")]
#[case::out_in_no_folder(&["--out", "/no/such/folder/stories.txt"], "cannot write /no/such/folder/stories.txt")]
#[case::out_is_a_folder(&["--out", "/"], "cannot write /: it exists and is not a regular file")]
// The second error keeps a program that overlooks the first from replacing the device.
#[case::out_is_a_device(&["--out", "/dev/null", "--max-tokens", "0"], "cannot write /dev/null: it exists and is not a regular file")]
fn refuses(#[case] arguments: &[&str], #[case] message: &str) {
    assert_refused(&tell(arguments), message);
}

#[rstest]
#[case::negative_tokens(&["--max-tokens", "-1"])]
#[case::no_number(&["--seed", "x"])]
#[case::out_has_no_name(&["--out", ""])]
#[case::unknown(&["--temprature", "1"])]
fn refuses_what_it_cannot_read(#[case] arguments: &[&str]) {
    assert_eq!(tell(arguments).status.code(), Some(2));
}

#[test]
fn refuses_damaged_models() {
    let folder = scratch("damaged-models");
    let run = |folder: &Path| program().arg("--model").arg(folder).output().unwrap();

    assert_refused(
        &run(&folder.join("nowhere")),
        "nowhere/config.json: No such file",
    );

    let mut files = tiny();
    let mut bytes = weights(&files);
    bytes.truncate(100_000);
    set_weights(&mut files, bytes);
    write_folder(&files, &folder);
    assert_refused(
        &run(&folder),
        "model.safetensors is truncated or not a safetensors file (100000 bytes read)",
    );

    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    tensors
        .entry("transformer.h.0.attn.c_attn.weight")
        .1
        .reverse();
    tensors.write_into(&mut files);
    write_folder(&files, &folder);
    assert_refused(
        &run(&folder),
        "h.0.attn.c_attn.weight has shape [108, 36], expected [36, 108]",
    );

    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    let (dtype, _, data) = tensors.entry("transformer.wpe.weight");
    *dtype = Dtype::F64;
    data.resize(75 * 36 * 8, 0);
    tensors.write_into(&mut files);
    write_folder(&files, &folder);
    assert_refused(
        &run(&folder),
        "wpe.weight is stored as F64, expected F32, F16 or BF16",
    );
}

#[test]
fn a_refusal_leaves_the_file_alone() {
    let folder = scratch("untouched");
    let out = folder.join("stories.txt");
    std::fs::write(&out, "before").unwrap();
    let output = tell(&["--device", "99", "--out", out.to_str().unwrap()]);
    assert_refused(&output, "no device 99");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "before");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn a_link_is_not_replaced() {
    let folder = scratch("link");
    let (file, link) = (folder.join("before.txt"), folder.join("link"));
    std::fs::write(&file, "before").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let output = tell(&["--max-tokens", "1", "--out", link.to_str().unwrap()]);
    assert_refused(&output, "/link: it exists and is not a regular file");
    assert_eq!(std::fs::read_link(&link).unwrap(), file);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
}

#[cfg(not(feature = "hub"))]
#[test]
fn a_name_of_a_hub_needs_the_feature() {
    let mut program = program();
    let output = program.args(["--model", "owls/no-such-model"]).output();
    assert_refused(&output.unwrap(), "build with --features hub");
}
