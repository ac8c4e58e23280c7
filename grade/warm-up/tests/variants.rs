//! Starters are not begun, solutions are done, and each variant gets the verdict that its file states.
//!
//! `variants/NAME.toml` has bodies for the starter: `wrong` ones, of which `says` are words of the verdict, and unusual ones
//! that are `right`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use warm_up::cli::{file, next_of};
use warm_up::starter::starter as starter_of;
use warm_up::tasks::{WARM_UPS, WarmUp};
use warm_up::{Verdict, judge};

/// The line of a starter that a body takes the place of.
const BODY: &str = "    // Your code.\n";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variants {
    wrong: Vec<Wrong>,
    right: Vec<Right>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrong {
    what: String,
    /// Words of the verdict.
    says: String,
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Right {
    what: String,
    body: String,
}

fn exercises() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../exercises")
}

fn variants(warm_up: &WarmUp) -> Variants {
    let path = format!("tests/variants/{}.toml", warm_up.name);
    toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_warm_up_has_a_starter_a_solution_and_variants() {
    for numbered in (1..).zip(&WARM_UPS) {
        let read = |folder: &str| fs::read_to_string(exercises().join(folder).join(file(numbered)));
        let starter = read("warm-up").unwrap();
        let (task, _) = starter.split_once(BODY).unwrap();
        let solution = exercises().join("solutions/warm-up").join(file(numbered));
        assert!(read("solutions/warm-up").unwrap().starts_with(task));
        assert_eq!(starter_of(&solution).unwrap(), starter);
        let page = exercises().join("..").join(numbered.1.page);
        let row = format!("| `{}` |", numbered.1.name);
        assert!(fs::read_to_string(page).unwrap().contains(&row), "{row}");
        let header = starter.lines().take_while(|line| line.starts_with("//"));
        assert!(header.count() <= 8, "{}", numbered.1.name);
        let variants = variants(numbered.1);
        assert!(variants.wrong.len() >= 5 && variants.right.len() >= 2);
    }
}

#[test]
#[ignore = "compiles kernels: needs NVRTC"]
fn starters_are_not_begun_and_solutions_are_done() {
    gpu::simulate().unwrap();
    for numbered in (1..).zip(&WARM_UPS) {
        let verdict =
            |folder: &str| judge(numbered.1, &exercises().join(folder).join(file(numbered)));
        assert_eq!(verdict("warm-up").unwrap(), Verdict::NothingYet);
        let solution = verdict("solutions/warm-up").unwrap();
        assert_eq!(solution, Verdict::Done, "{}", numbered.1.name);
    }
}

#[test]
#[ignore = "compiles kernels: needs NVRTC"]
fn the_next_one_is_the_first_that_is_not_done() {
    gpu::simulate().unwrap();
    let folder = std::env::temp_dir().join(format!("warm-up-next-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let copy = |from: &str, numbered: (usize, &'static WarmUp)| {
        let text = fs::read(exercises().join(from).join(file(numbered))).unwrap();
        fs::write(folder.join(file(numbered)), text).unwrap();
    };
    for numbered in (1..).zip(&WARM_UPS) {
        copy("warm-up", numbered);
    }
    for numbered in (1..).zip(&WARM_UPS) {
        let (number, warm_up) = numbered;
        let next = next_of(&folder).unwrap().unwrap();
        let first = format!("Next: warm-up {number} of 8, {}: ", warm_up.name);
        assert!(next.starts_with(&first), "{next}");
        assert!(next.contains(&format!("exercises/warm-up/{}\n", file(numbered))));
        copy("solutions/warm-up", numbered);
    }
    assert_eq!(next_of(&folder).unwrap(), None);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "compiles kernels: needs NVRTC"]
fn every_variant_gets_its_verdict() {
    gpu::simulate().unwrap();
    let folder = std::env::temp_dir().join(format!("warm-up-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut complaints = Vec::new();
    for numbered in (1..).zip(&WARM_UPS) {
        let starter = fs::read_to_string(exercises().join("warm-up").join(file(numbered))).unwrap();
        let verdict = |body: &str| {
            let path = folder.join(file(numbered));
            fs::write(&path, starter.replace(BODY, body)).unwrap();
            judge(numbered.1, &path).unwrap()
        };
        let Variants { wrong, right } = variants(numbered.1);
        for Wrong { what, says, body } in wrong {
            match verdict(&body) {
                Verdict::Wrong(text) if text.contains(&says) => {}
                other => complaints.push(format!("{}: {what} {other:?}", numbered.1.name)),
            }
        }
        for Right { what, body } in right {
            match verdict(&body) {
                Verdict::Done => {}
                other => complaints.push(format!("{}: {what} {other:?}", numbered.1.name)),
            }
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
