//! `generate`: texts, on standard output and in files.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::{assert_refused, program, stderr, tell};
use crate::common::{scratch, tiny, tiny_folder, write_folder};

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
            .env("GPU", "sim") // NVIDIA's driver reserves more addresses than that
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
