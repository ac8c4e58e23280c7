//! Broken model files: an error may come of them; no panic, no hang, and no more memory
//! than the files are long.
//!
//! A fixed number of cases with fixed seeds; `FUZZ_SECONDS=600` goes on that long with fresh ones,
//! and `FUZZ_SEED=n` runs one case:
//!
//! ```text
//! FUZZ_SECONDS=600 cargo test -p stage6-pipeline --test fuzz
//! FUZZ_SEED=17 cargo test -p stage6-pipeline --test fuzz -- --exact damaged_models
//! ```

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../cuda-sim/tests/fuzz/random.rs"]
mod random;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use common::{FIXTURES, fixture, scratch, set_weights, weights};
use random::Random;
use stage6_pipeline::{Config, Error, Host, Message, ModelFiles, Text, Weights};

/// The longest case may take so long on a busy machine; alone it takes a hundredth.
const HANG: Duration = Duration::from_secs(20);

/// The most bytes at one time: the files have half a megabyte.
const MOST: usize = 64 << 20;

/// Counts the bytes that are allocated, and the most that ever were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and `System` allocated.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn damaged_models() {
    damaged(300);
}

#[test]
#[ignore = "takes several seconds"]
fn many_damaged_models() {
    damaged(1500);
}

fn damaged(count: u64) {
    let models: Vec<ModelFiles> = FIXTURES.map(|name| in_memory(fixture(name).files)).into();
    run(count, |seed| case(seed, &models));
}

/// An index of weights lies in a folder beside the files that it names.
#[test]
fn damaged_indices() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpt2-f16");
    let folder = scratch("fuzz-index");
    for entry in fs::read_dir(&source).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let index = folder.join("model.safetensors.index.json");
    let whole = fs::read_to_string(&index).unwrap();
    run(200, |seed| {
        fs::write(&index, text(&mut Random::new(seed), &whole)).unwrap();
        let start = Instant::now();
        let _ = ModelFiles::read(&folder).and_then(|files| load(&files));
        let took = start.elapsed();
        assert!(took < HANG, "seed {seed}: {took:?}");
        took
    });
}

/// A model whose weights can be damaged: the first file of a sharded one.
fn in_memory(mut files: ModelFiles) -> ModelFiles {
    files.weights.truncate(1);
    let bytes = weights(&files);
    set_weights(&mut files, bytes);
    let config = r#"{"bos_token": "<s>", "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}"#;
    files.tokenizer_config = Some(config.to_owned());
    files.generation_config = Some(r#"{"eos_token_id": [1, 2], "do_sample": true}"#.to_owned());
    files
}

/// Loads one broken model. Returns the time that it took.
fn case(seed: u64, models: &[ModelFiles]) -> Duration {
    let mut random = Random::new(seed);
    let mut files = random.pick(models).clone();
    match random.below(8) {
        0 | 1 => files.config = text(&mut random, &files.config).into(),
        2 | 3 => files.tokenizer = text(&mut random, &files.tokenizer).into(),
        4 if random.one_in(2) => {
            let config = files.generation_config.take().unwrap_or_default();
            files.generation_config = Some(text(&mut random, &config));
        }
        4 => {
            let config = files.tokenizer_config.take().unwrap_or_default();
            files.tokenizer_config = Some(text(&mut random, &config));
        }
        _ => {
            let mut bytes = weights(&files);
            let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            match random.below(4) {
                // The header and its length; the text keeps its length, or the
                // file is cut where it ends.
                0 => bytes[random.below(8)] = random.bits() as u8,
                1 => bytes.truncate(random.below(bytes.len())),
                _ => {
                    let mut head = bytes[8..8 + header].to_vec();
                    mutate(&mut random, &mut head);
                    if random.one_in(2) {
                        head.resize(header, b' ');
                    }
                    let length = (head.len() as u64).to_le_bytes();
                    bytes = [&length[..], &head, &bytes[8 + header..]].concat();
                }
            }
            set_weights(&mut files, bytes);
        }
    }
    let start = Instant::now();
    PEAK.store(NOW.load(Ordering::Relaxed), Ordering::Relaxed);
    let before = NOW.load(Ordering::Relaxed);
    // The result does not matter; that there is one does.
    let _ = load(&files);
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(peak <= MOST, "seed {seed}: {peak} bytes");
    let took = start.elapsed();
    assert!(took < HANG, "seed {seed}: {took:?}");
    took
}

fn load(files: &ModelFiles) -> Result<(), Error> {
    let config = Config::load(files)?;
    let text = Text::load(files, &config.architecture);
    Weights::load(files, &config, &Host)?;
    let text = text?;
    let tokens = text.encode("The owl’s boat 🦉\n\n is  blue, 12345 <s> </s>")?;
    text.decode(&tokens);
    let message = Message {
        role: "user".to_owned(),
        content: "Hi".to_owned(),
    };
    text.encode_chat(&[message])?;
    Ok(())
}

fn text(random: &mut Random, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    mutate(random, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One to four changes to JSON: a byte, a piece that goes or comes twice, a number, a word
/// in the place of another.
fn mutate(random: &mut Random, text: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        if text.is_empty() {
            return;
        }
        let at = random.below(text.len());
        match random.below(9) {
            0 => text[at] ^= 1 << random.below(8),
            1 => text[at] = *random.pick(b"{}[]:,\"0-.eE \\"),
            2 => text.truncate(at),
            3 => {
                let end = (at + random.below(60)).min(text.len());
                text.drain(at..end);
            }
            4 => {
                let end = (at + random.below(200)).min(text.len());
                let piece = text[at..end].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, piece.repeat(1 + random.below(3)));
            }
            5 | 6 => {
                if let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
                    let start = at + digit;
                    let digits = text[start..]
                        .iter()
                        .take_while(|byte| byte.is_ascii_digit())
                        .count();
                    text.splice(
                        start..start + digits,
                        random.number().to_string().into_bytes(),
                    );
                }
            }
            7 => {
                let word = word(text, at);
                let values: [&[u8]; 8] = [
                    b"null",
                    b"true",
                    b"{}",
                    b"[]",
                    b"\"\"",
                    b"-1",
                    b"1e400",
                    b"[[[[]]]]",
                ];
                text.splice(word, random.pick(&values).to_vec());
            }
            _ => {
                let from = word(text, random.below(text.len()));
                let copy = text[from].to_vec();
                let to = word(text, at);
                text.splice(to, copy);
            }
        }
    }
}

/// The JSON string, number or name around `at`.
fn word(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let holds = |byte: &u8| !b"{}[],: \n".contains(byte);
    let start = text[..at]
        .iter()
        .rposition(|byte| !holds(byte))
        .map_or(0, |i| i + 1);
    let end = text[at..]
        .iter()
        .position(|byte| !holds(byte))
        .map_or(text.len(), |i| at + i);
    start..end
}

fn run(count: u64, case: impl Fn(u64) -> Duration) {
    // The tokenizer library panics on some files, and the crate makes an error of it. A backtrace
    // would take more memory than any case may.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>());
    let number = |name| number(name).map(|parsed| parsed.expect("a whole number"));
    if let Some(seed) = number("FUZZ_SEED") {
        case(seed);
        return;
    }
    let caught = |seed| {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(seed)));
        result.unwrap_or_else(|_| panic!("seed {seed} panicked"))
    };
    let Some(seconds) = number("FUZZ_SECONDS") else {
        for seed in 0..count {
            caught(seed);
        }
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (first, end) = (
        now.as_micros() as u64,
        Instant::now() + Duration::from_secs(seconds),
    );
    let seeds = (first..).take_while(|_| Instant::now() < end);
    let (mut ran, mut longest) = (0, Duration::ZERO);
    for took in seeds.map(caught) {
        ran += 1;
        longest = longest.max(took);
    }
    println!("{ran} cases from seed {first}; the longest took {longest:.1?}");
}
