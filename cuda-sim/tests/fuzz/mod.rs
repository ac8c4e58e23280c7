//! Broken PTX and senseless driver calls: errors and faults may come of them; no panic, no hang, no
//! unbounded memory.
//!
//! Each test runs this program again as a child, so that a crash or a hang of the driver is a
//! failure of the test, told with the seed of the case. Normally a fixed number of cases with fixed
//! seeds; `FUZZ_SECONDS=600` goes on that long with fresh ones, and `FUZZ_SEED=n` runs one case:
//!
//! ```text
//! FUZZ_SECONDS=600 cargo test -p cuda-sim-tests fuzz::
//! FUZZ_SEED=17 cargo test -p cuda-sim-tests fuzz::ptx_text
//! ```

mod calls;
mod declarations;
mod driver;
mod functions;
mod grammar;
mod instructions;
mod memory;
mod mutation;
mod random;
mod text;

use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

/// A case that runs longer hangs. It may have a slow machine to itself only in part.
const HANG: Duration = Duration::from_secs(60);

#[test]
fn ptx_text() {
    watch("child_runs_ptx_text");
}

#[test]
fn ptx_grammar() {
    watch("child_runs_ptx_by_grammar");
}

#[test]
fn driver_calls() {
    watch("child_makes_driver_calls");
}

#[test]
fn what_was_found_before() {
    watch("child_repeats_what_was_found");
}

#[test]
#[ignore = "run by the test above"]
fn child_repeats_what_was_found() {
    driver::start();
    text::known();
    text::endless_file();
    calls::record_and_wait();
}

#[test]
#[ignore = "run by the test above"]
fn child_runs_ptx_text() {
    let corpus = text::corpus();
    driver::start();
    run(600, |seed| text::case(seed, &corpus));
}

#[test]
#[ignore = "run by the test above"]
fn child_runs_ptx_by_grammar() {
    driver::start();
    run(900, text::whole_case);
}

#[test]
#[ignore = "run by the test above"]
fn child_makes_driver_calls() {
    driver::start();
    run(40, calls::case);
}

/// Runs `count` cases, or those that the environment asks for, and writes down the seed before
/// each.
fn run(count: u64, case: impl Fn(u64)) {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>());
    let number = |name| number(name).map(|parsed| parsed.expect("a whole number"));
    let begin = |seed: u64| {
        if let Some(path) = env::var_os("FUZZ_PROGRESS") {
            fs::write(path, seed.to_string()).unwrap();
        }
        case(seed);
    };
    if let Some(seed) = number("FUZZ_SEED") {
        return begin(seed);
    }
    let Some(seconds) = number("FUZZ_SECONDS") else {
        return (0..count).for_each(begin);
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (first, end) = (
        now.as_micros() as u64,
        Instant::now() + Duration::from_secs(seconds),
    );
    let ran = (first..)
        .take_while(|_| Instant::now() < end)
        .map(begin)
        .count();
    eprintln!("{ran} cases from seed {first}");
}

/// Runs an ignored test of this binary. If it fails, crashes or hangs, so does this, with the seed.
#[track_caller]
fn watch(test: &str) {
    let name = format!("cuda-sim-fuzz-{}-{test}", std::process::id());
    let (progress, output) = (
        env::temp_dir().join(&name),
        env::temp_dir().join(name + ".log"),
    );
    fs::write(&progress, "none").unwrap();
    let log = fs::File::create(&output).unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture"])
        .arg(format!("fuzz::{test}"))
        .env("FUZZ_PROGRESS", &progress)
        .env("CUDA_SIM_MEMORY", "64")
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let ended = wait(&mut child, &progress);
    let (seed, log) = (
        fs::read_to_string(&progress).unwrap(),
        fs::read(&output).unwrap(),
    );
    // The end of it is enough.
    let log = String::from_utf8_lossy(&log);
    let tail: Vec<&str> = log.lines().rev().take(60).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    let passed = ended.as_ref().is_ok_and(|status| status.success()) && log.contains("1 passed");
    fs::remove_file(progress).unwrap();
    fs::remove_file(output).unwrap();
    assert!(
        passed,
        "{test}, seed {seed}: {ended:?}\n{}",
        tail.join("\n")
    );
    if env::var_os("FUZZ_SECONDS").is_some() || env::var_os("FUZZ_SEED").is_some() {
        println!("{log}");
    }
}

fn wait(
    child: &mut Child,
    progress: &std::path::Path,
) -> Result<std::process::ExitStatus, &'static str> {
    let (mut last, mut since) = (String::new(), Instant::now());
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Ok(status);
        }
        let now = fs::read_to_string(progress).unwrap();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > HANG {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err("hangs");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
