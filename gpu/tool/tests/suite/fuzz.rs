//! Broken kernel comments, kernel files and `.npy` files: errors may come of them; no panic, no
//! long wait.
//!
//! Normally a fixed number of cases with fixed seeds; `FUZZ_SECONDS=60` goes on that long with
//! fresh ones, and `FUZZ_SEED=17` runs one case.

#[allow(dead_code)] // the fuzz tests of the simulator use all of it
#[path = "../../../../cuda-sim/tests/fuzz/random.rs"]
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use gpu::ptx_file;
use gpu::unit::{Folder, Unit};
use gpu_launch::{Invocation, Type, Values, entries, readable};
use gpu_tool::variants;
use random::Random;

use crate::common::root;

/// A case that takes longer hangs, or takes time out of all proportion to its few kilobytes.
const HANG: Duration = Duration::from_secs(10);

/// Runs `count` cases, or those that the environment asks for.
fn run(count: u64, case: impl Fn(&mut Random)) {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let begin = |seed: u64| {
        let start = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| case(&mut Random::new(seed))));
        assert!(ran.is_ok(), "FUZZ_SEED={seed} panics");
        assert!(
            start.elapsed() < HANG,
            "FUZZ_SEED={seed} takes {:?}",
            start.elapsed()
        );
    };
    if let Some(seed) = number("FUZZ_SEED") {
        return begin(seed);
    }
    let Some(seconds) = number("FUZZ_SECONDS") else {
        return (0..count).for_each(begin);
    };
    let first = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_micros() as u64;
    let end = Instant::now() + Duration::from_secs(seconds);
    let ran = (first..)
        .take_while(|_| Instant::now() < end)
        .map(begin)
        .count();
    println!("{ran} cases from seed {first}");
}

/// Pieces that may be put into a text: those of the format, and others that break parsers.
const PIECES: [&str; 50] = [
    "// launch: ",
    "// args: ",
    "// define: ",
    "// expect 0: ",
    "// expect x: ",
    "// bug: none",
    "// arch: compute_80",
    "grid=",
    "block=",
    "shared=",
    "kernel=",
    "f32",
    "i64",
    "bf16",
    "u8",
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ":",
    "\n",
    " ",
    "\t",
    "iota",
    "random:",
    "uninit",
    "null",
    "@",
    "@../x.npy",
    "alignas(",
    "tensormap{0,",
    "box=",
    ")",
    "x4",
    "nan",
    "-inf",
    "0x",
    "ulp 1",
    "abs 1e-3",
    "rel",
    "#include ",
    "#include \"x\"",
    "\\\n",
    "/*",
    "*/",
    "é",
    "\u{0}",
    "-",
];

/// A text with some changes.
fn mutated(text: &str, random: &mut Random) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(8) {
        let at = random.below(characters.len() + 1);
        let end = (at + random.below(12)).min(characters.len());
        match random.below(5) {
            0 => drop(characters.drain(at..end)),
            1 => insert(&mut characters, at, PIECES[random.below(PIECES.len())]),
            2 => insert(&mut characters, at, &random.number().to_string()),
            3 => {
                let again: String = characters[at..end].iter().collect();
                insert(&mut characters, at, &again.repeat(1 + random.below(40)));
            }
            _ => {
                let deep = ["{", "{{i32=1},", "alignas(16){", "// args: "][random.below(4)];
                insert(&mut characters, at, &deep.repeat(random.below(200)));
            }
        }
    }
    characters.into_iter().collect()
}

fn insert(characters: &mut Vec<char>, at: usize, text: &str) {
    characters.splice(at..at, text.chars());
}

/// The files of a folder of the workspace.
fn files(folder: &str) -> Vec<String> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

#[test]
fn comments_of_kernels() {
    let corpus: Vec<String> = [files("kernel-corpus/kernels"), files("gpu/kernels")].concat();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    run(3000, |random| {
        let text = mutated(&corpus[random.below(corpus.len())], random);
        if let Ok(invocation) = Invocation::parse(&text, &folder) {
            assert!(invocation.arguments.len() <= text.len());
        }
        let _ = variants::parse(&text);
        let read = |folder: Folder<'_>, name: &str| {
            let own = folder == Folder::Own && (name == "a.cu" || name.len() == 1);
            Ok(own.then(|| text.clone()))
        };
        if let Ok(unit) = Unit::new("p", "a.cu", &[], read) {
            assert_eq!(unit.unwrap().key().len(), 64);
        }
    });
}

#[test]
fn heads_of_ptx() {
    let corpus = files("gpu/ptx");
    run(500, |random| {
        let text = mutated(&corpus[random.below(corpus.len())], random);
        for entry in entries(&text) {
            readable(&entry.name);
        }
        ptx_file::resources(&text);
        let name: String = text
            .chars()
            .filter(|c| c.is_alphanumeric())
            .take(300)
            .collect();
        readable(&format!("_Z{name}"));
    });
}

#[test]
fn npy_files() {
    const TYPES: [Type; 4] = [Type::U8, Type::Bf16, Type::F32, Type::I64];
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}.npy", std::process::id()));
    run(1000, |random| {
        let ty = *random.pick(&TYPES);
        let count = random.below(40);
        let values = Values::from_bits(ty, (0..count).map(|_| random.bits()));
        values.write_npy(&path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap(); // a file that is written again waits for the disk
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.bits() as u8,
                1 => bytes.truncate(at + 1),
                2 => drop(bytes.splice(at..at, random.number().to_string().into_bytes())),
                _ => drop(bytes.splice(at..at, b"(1, 99999999999, ".repeat(random.below(30)))),
            }
        }
        fs::write(&path, &bytes).unwrap();
        let read = Values::read_npy(&path, *random.pick(&TYPES));
        assert!(read.is_err() || read.unwrap().bytes().len() <= bytes.len());
        fs::remove_file(&path).unwrap();
    });
}
