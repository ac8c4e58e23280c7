//! The program: what it prints, and how it refuses.

mod common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{Tensors, scratch, set_weights, tiny, tiny_folder, weights, write_folder};
use rstest::rstest;
use safetensors::tensor::Dtype;

/// The program with the checks of the simulator that it leaves off otherwise.
fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_stage6-pipeline"));
    program.env("CUDA_SIM_CHECK", "on");
    program
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
fn one_token_has_no_time_between_tokens() {
    let told = tell(&["--prompt", "The owl", "--seed", "5", "--max-tokens", "1"]);
    let figures = stderr(&told);
    assert!(
        told.status.success() && figures.contains("(TTFT)"),
        "{figures}"
    );
    assert!(!figures.contains("TBT"), "{figures}");
}

/// The simulator takes less address space where `ulimit -v` leaves little.
#[test]
fn a_story_is_told_within_two_gigabytes_of_address_space() {
    let told = |limit: &str| {
        let script = format!("{limit} exec \"$0\" \"$@\"");
        let mut program = Command::new("sh");
        program
            .env("CUDA_SIM_CHECK", "on")
            .args(["-c", &script, env!("CARGO_BIN_EXE_stage6-pipeline")])
            .args([
                "--prompt",
                "Once upon a time",
                "--seed",
                "7",
                "--max-tokens",
                "12",
            ]);
        let output = program.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    let limited = told("ulimit -v 2000000 &&");
    assert!(limited.starts_with(b"Once upon a time, there was"));
    assert_eq!(limited, told(""));
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

/// Greedy text, and what of it comes before a string that it has.
#[test]
fn a_stop_string_ends_the_text() {
    let common = [
        "--prompt",
        "The owl",
        "--temperature",
        "0",
        "--max-tokens",
        "20",
    ];
    let whole = tell(&common);
    let whole = String::from_utf8(whole.stdout).unwrap();
    let continuation = whole.strip_prefix("The owl").unwrap();
    let characters = Vec::from_iter(continuation.char_indices());
    let (at, _) = characters[characters.len() / 2];
    let stop = String::from_iter(continuation[at..].chars().take(3));
    let expected = format!("The owl{}\n", continuation.split(&stop).next().unwrap());

    let stopped = tell(&[&common[..], &["--stop", "not there", "--stop", &stop]].concat());
    assert_eq!(String::from_utf8_lossy(&stopped.stdout), expected);
    assert!(
        stderr(&stopped).contains("then --stop; "),
        "{}",
        stderr(&stopped)
    );
    // The same in a file of texts, of which two are drawn at a time.
    let several = ["--stories", "3", "--batch", "2", "--stop", &stop];
    let drawn = tell(&[&common[..], &several].concat());
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    let texts = Vec::from_iter(drawn.split("\n\n").skip(1).map(str::trim_end));
    assert_eq!(texts, [expected.trim_end(); 3]);
}

#[test]
fn a_prompt_can_come_from_standard_input() {
    let arguments = ["--temperature", "0", "--max-tokens", "3"];
    let given = tell(&[&["--prompt", "The owl"], &arguments[..]].concat());
    let mut child = program()
        .arg("generate")
        .arg("--model")
        .arg(tiny_folder())
        .args(["--prompt", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"The owl").unwrap();
    let read = child.wait_with_output().unwrap();
    assert!(read.status.success());
    assert_eq!(read.stdout, given.stdout);
}

/// The template writes the text around the prompt, and the answer alone is printed.
#[test]
fn a_chat_prints_the_answer() {
    let folder = scratch("chat");
    write_folder(&tiny(), &folder);
    let tell = |more: &[&str]| {
        let mut program = program();
        program.arg("--model").arg(&folder).args(more);
        program.args(["--temperature", "0", "--max-tokens", "9"]);
        program.output().unwrap()
    };
    let chat = ["--chat", "--prompt", "owl"];
    assert_refused(&tell(&chat), "the model has no chat template");

    let template = "The {{ messages[0].content }} said:";
    std::fs::write(folder.join("chat_template.jinja"), template).unwrap();
    let (answer, plain) = (tell(&chat), tell(&["--prompt", "The owl said:"]));
    assert!(answer.status.success(), "{}", stderr(&answer));
    let text = [&b"The owl said:"[..], &answer.stdout].concat();
    assert_eq!(text, plain.stdout);
}

#[cfg(not(feature = "hub"))]
#[test]
fn a_name_of_a_hub_needs_the_feature() {
    let mut program = program();
    let output = program.args(["--model", "owls/no-such-model"]).output();
    assert_refused(&output.unwrap(), "build with --features hub");
}

/// The text so far, its seed and its times.
#[test]
fn an_interrupt_ends_the_text() {
    let mut child = program()
        .args(["--seed", "3", "--temperature", "1.5"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begin = [0; 24]; // more than the prompt, which comes before the handler is of use
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut begin)
        .unwrap();
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.ends_with(b"\n"));
    let figures = stderr(&output);
    for part in ["seed    3 ", ", then interrupt; ", "TTFT"] {
        assert!(figures.contains(part), "{figures} lacks {part}");
    }
}

/// Interrupts the program a moment after it has installed its handler: it tells stories by then.
fn interrupt(mut child: std::process::Child) -> Output {
    let status = format!("/proc/{}/status", child.id());
    let caught = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = line.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
        mask.is_some_and(|mask| mask & 2 != 0)
    };
    while !caught(std::fs::read_to_string(&status).unwrap()) {
        assert_eq!(child.try_wait().unwrap(), None, "ended too early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    child.wait_with_output().unwrap()
}

/// More stories than memory could hold: those that did not begin leave no prompt behind, and a file stays as it was.
#[test]
fn an_interrupt_ends_the_stories() {
    let folder = scratch("interrupted-stories");
    let out = folder.join("stories.txt");
    std::fs::write(&out, "before").unwrap();
    let start = |more: &[&str]| {
        let mut program = program();
        program.arg("--model").arg(tiny_folder());
        program.args(["--stories", "1000000000000", "--prompt", "The owl"]);
        program.args(["--temperature", "0", "--max-tokens", "2"]);
        program.args(more);
        program.stdout(Stdio::piped()).stderr(Stdio::piped());
        program.spawn().unwrap()
    };
    let output = interrupt(start(&["--batch", "2"]));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let texts = String::from_utf8(output.stdout).unwrap();
    let mut texts = texts.split("\n\n");
    assert!(texts.next().unwrap().starts_with("# cargo run "));
    for text in texts {
        assert_ne!(text.trim_end(), "The owl", "it did not begin");
    }

    let output = interrupt(start(&["--batch", "2", "--out", out.to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("stories.txt is not written"), "{said}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "before");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[rstest]
#[case::no_prompt(&["--prompt-tokens", "0"], "--prompt-tokens")]
#[case::long_prompt(&["--dummy", "--prompt-tokens", "18446744073709551615"], "--prompt-tokens")]
#[case::one_token(&["--tokens", "1"], "--tokens")]
#[case::many_tokens(&["--dummy", "--tokens", "18446744073709551615"], "--tokens")]
#[case::large_batch(&["--batch", "18446744073709551615"], "--batch")]
#[case::many_runs(&["--runs", "18446744073709551615"], "--runs")]
fn bench_refuses_numbers_out_of_range(#[case] arguments: &[&str], #[case] name: &str) {
    let output = program().arg("bench").args(arguments).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(name) && said.contains("is not in "), "{said}");
}

/// Of a petabyte: vocab × hidden × 4 bytes.
#[test]
fn bench_refuses_weights_that_no_host_can_hold() {
    let sizes = [
        "--hidden", "16777216", "--heads", "65536", "--vocab", "16777216",
    ];
    let bench = ["bench", "--dummy", "--layers", "1", "--tokens", "2"];
    let output = program().args(bench).args(sizes).output().unwrap();
    assert_refused(
        &output,
        "weights is a matrix of 16777216 × 16777216 elements of f32 (1125899906842624 bytes)",
    );
}

#[test]
fn bench_writes_figures_that_agree() {
    let json = scratch("bench").join("bench.json");
    let output = program()
        .args(["bench", "--model"])
        .arg(tiny_folder())
        .args([
            "--prompt-tokens",
            "5",
            "--tokens",
            "4",
            "--batch",
            "2",
            "--json",
        ])
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let tbt = number(&report["tbt_us"]["median"]);
    assert!(tbt > 0.0 && number(&report["ttft_us"]["median"]) > 0.0);
    assert!(number(&report["tbt_us"]["p95"]) >= tbt);
    let rate = number(&report["tokens_per_second"]);
    assert!((rate - 2e6 / tbt).abs() <= 1e-6 * rate);
    assert!((0.0..1.0).contains(&number(&report["bandwidth"])));
    let times = report["times"].as_str().unwrap();
    assert!(printed.contains(times), "{printed}");
    let kernels = report["kernels"].as_array().unwrap();
    if times == "measured" {
        assert!(kernels.is_empty());
        return;
    }
    // Of 2 blocks. The shares are of the whole.
    let launches = |name: &str| {
        let of = kernels.iter().find(|of| of["kernel"] == name).unwrap();
        number(&of["launches_per_token"])
    };
    assert_eq!(
        ["update_cache", "argmax", "advance", "increment"].map(launches),
        [2.0, 1.0, 1.0, 1.0]
    );
    let sum = |name: &str| kernels.iter().map(|of| number(&of[name])).sum::<f64>();
    assert!((sum("share") - 1.0).abs() < 1e-9);
    assert!(
        (sum("us_per_token") - tbt).abs() < 0.2 * tbt,
        "{tbt}: {report}"
    );
}

/// Bytes of a step: those of the matrices but for the embedding, of vectors in f32, and of 7 tokens in the cache.
#[rstest]
#[case::dummy(
    &["--dummy", "--layers", "1", "--hidden", "24", "--heads", "3", "--vocab", "50", "--dtype", "bf16"],
    2 * (72 * 24 + 24 * 24 + 192 * 24 + 24 * 96 + 50 * 24) + 4 * 6 * 24 + 2 * 7 * 2 * 24
)]
#[case::config(
    &["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-gpt2/config.json")],
    4 * (2 * (12 * 36 * 36 + 9 * 36 + 4 * 36) + 2 * 36 + 300 * 36) + 2 * 4 * 7 * 2 * 36
)]
fn bench_draws_random_weights(#[case] model: &[&str], #[case] bytes: u64) {
    let json = scratch(&format!("bench-{bytes}")).join("bench.json");
    let sizes = ["--prompt-tokens", "5", "--tokens", "4", "--json"];
    let mut program = program();
    program.arg("bench").args(model).args(sizes).arg(&json);
    let output = program.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = std::fs::read_to_string(json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["step_bytes"], bytes);
}

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
