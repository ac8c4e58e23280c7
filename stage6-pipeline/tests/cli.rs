//! The program: what it prints, and how it refuses.

mod common;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{Tensors, scratch, set_weights, tiny, tiny_folder, weights, write_folder};
use rstest::rstest;
use safetensors::tensor::Dtype;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_stage6-pipeline"))
}

/// Runs the tiny model; arguments in `more` come last.
fn tell(more: &[&str]) -> Output {
    program()
        .arg("--model")
        .arg(tiny_folder())
        .args(more)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Refused: exit code 1, the message on standard error, and nothing on standard output.
#[track_caller]
fn assert_refused(output: &Output, message: &str) {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("error: ") && stderr.contains(message),
        "{stderr}"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

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

#[test]
fn a_seed_tells_the_same_story_again() {
    let arguments = [
        "--prompt",
        "The owl",
        "--seed",
        "5",
        "--max-tokens",
        "12",
        "--temperature",
        "0.9",
    ];
    let (first, second) = (tell(&arguments), tell(&arguments));
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(first.stdout, second.stdout);
    assert!(first.stdout.starts_with(b"The owl"));
    let figures = stderr(&first);
    for part in [
        "device  ",
        "seed    5 ",
        "tokens  12, then --max-tokens; ",
        " tokens/s after start-up",
        "TTFT",
        "TBT",
    ] {
        assert!(figures.contains(part), "{figures} lacks {part}");
    }
}

#[test]
fn a_file_of_stories_is_the_stories_of_their_seeds() {
    let folder = scratch("stories");
    std::fs::create_dir(folder.join("tiny model")).unwrap();
    write_folder(&tiny(), &folder.join("tiny model"));
    let common = ["--prompt", "The owl", "--max-tokens", "6"];
    let several = ["--stories", "3", "--seed", "7", "--out", "stories.txt"];
    let output = program()
        .current_dir(&folder)
        .args(["--model", "tiny model"])
        .args(common)
        .args(several)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(output.stdout, b"");

    let story = |seed| {
        let story = tell(&[&common[..], &["--seed", seed]].concat());
        String::from_utf8(story.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
            + "\n"
    };
    let header = "# cargo run --release -p stage6-pipeline -- --prompt 'The owl' --temperature 0.8 --seed 7 --stories 3 \
         --max-tokens 6 --model 'tiny model' --out stories.txt\n"
        .to_owned();
    let expected = [header, story("7"), story("8"), story("9")].join("\n");
    let written = std::fs::read_to_string(folder.join("stories.txt")).unwrap();
    assert_eq!(written, expected);
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        2,
        "something was left behind"
    );
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let mut child = program()
        .arg("--model")
        .arg(tiny_folder())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // Every write fails from here on.
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    assert!(
        !stderr.contains("error") && !stderr.contains("panicked"),
        "{stderr}"
    );
}
