//! Verdicts, reports, results and counters of the whole corpus do not depend on the host's threads.
//!
//! The number of host threads is that of a process, so a test runs this program again: once with
//! one thread, which gives the reference, then with several, with random pauses where threads may
//! get in each other's way. The short test has one number of threads and one seed. The long one has
//! several, while the machine is idle and while it is busy. `STRESS_SECONDS=600` goes on that long
//! with fresh seeds, `STRESS_SEED=n` begins at that seed:
//!
//! ```text
//! STRESS_SECONDS=600 cargo test -p kernel-corpus long_stress -- --ignored --nocapture
//! STRESS_SEED=17 cargo test -p kernel-corpus long_stress -- --ignored
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, hint, iter, thread};

use crate::common::{BUDGET, Kernel, kernels};
use cuda_sim::{BadAccess, Fault, FaultKind, UnsetRead};
use cudarc::driver::CudaContext;
use gpu_tool::CudaDevice;

/// Numbers of host threads.
const THREADS: [u32; 5] = [1, 2, 3, 8, 32];
/// Schedules of a round, while the machine is idle. Each kernel also runs in launch order.
const SEEDS: u64 = 3;
/// Of these, how many while it is busy, when everything takes several times as long.
const SEEDS_BUSY: u64 = 1;

/// Settings of a child that are not those of the simulator.
const FIRST_SEED: &str = "STRESS_CHILD_FIRST_SEED";
const SEED_COUNT: &str = "STRESS_CHILD_SEED_COUNT";
const JITTER: &str = "STRESS_CHILD_JITTER";
const OUTCOMES: &str = "STRESS_CHILD_OUTCOMES";

#[test]
fn host_threads_change_nothing() {
    let reference = outcomes(1, 0..1, None);
    compare(&reference, &outcomes(8, 0..1, Some(8)), "8 threads");
}

#[test]
#[ignore = "takes a minute"]
fn host_threads_change_nothing_in_long_stress() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>());
    let number = |name| number(name).map(|parsed| parsed.expect("a whole number"));
    let Some(seconds) = number("STRESS_SECONDS") else {
        return round(number("STRESS_SEED").unwrap_or(0));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = number("STRESS_SEED").unwrap_or(now.as_micros() as u64);
    println!("from seed {first}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let rounds = (0..).take_while(|_| Instant::now() < end);
    let rounds = rounds.map(|n| round(first + n * SEEDS)).count();
    println!("{rounds} rounds of {SEEDS} seeds");
}

/// Compares what all numbers of threads make of the seeds from `first` on.
fn round(first: u64) {
    let reference = outcomes(1, first..first + SEEDS, None);
    let pauses = |threads: u32| Some(first << 8 | u64::from(threads));
    for threads in THREADS {
        let outcomes = outcomes(threads, first..first + SEEDS, pauses(threads));
        compare(&reference, &outcomes, &format!("{threads} threads, idle"));
    }
    beside_busy_threads(|| {
        for threads in THREADS {
            let outcomes = outcomes(threads, first..first + SEEDS_BUSY, pauses(threads + 100));
            compare(&reference, &outcomes, &format!("{threads} threads, busy"));
        }
    });
}

/// Runs `f` while each core has two other threads to run.
fn beside_busy_threads(f: impl FnOnce()) {
    let done = AtomicBool::new(false);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..2 * cores {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        // Also after a panic of `f`, or the scope would wait for ever.
        let _end = OnDrop(|| done.store(true, Ordering::Relaxed));
        f();
    });
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Outcomes of the corpus in a process with so many host threads.
fn outcomes(threads: u32, seeds: Range<u64>, jitter: Option<u64>) -> String {
    let path = env::temp_dir().join(format!("kernel-corpus-stress-{}", std::process::id()));
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args(["--ignored", "--exact", "stress::child_runs_the_corpus"])
        .env("CUDA_SIM_THREADS", threads.to_string())
        .env(FIRST_SEED, seeds.start.to_string())
        .env(SEED_COUNT, (seeds.end - seeds.start).to_string())
        .env(OUTCOMES, &path);
    if let Some(jitter) = jitter {
        child.env(JITTER, jitter.to_string());
    }
    let output = child.output().unwrap();
    assert!(
        output.status.success(),
        "{threads} threads, seeds {seeds:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    text
}

/// Says which kernels differ, and how the first of them does.
fn compare(reference: &str, got: &str, whose: &str) {
    let (expected, got) = (by_title(reference), by_title(got));
    assert!(!got.is_empty(), "{whose}: nothing ran");
    let differing: Vec<&str> = got
        .iter()
        .filter(|(title, outcome)| expected[*title] != **outcome)
        .map(|(title, _)| *title)
        .collect();
    let Some(first) = differing.first() else {
        return;
    };
    let mut message = format!("{whose}: not as with one thread:\n  ");
    message += &differing[..differing.len().min(20)].join("\n  ");
    writeln!(
        message,
        "\n{} in all. The first, with one thread (-), and with {whose} (+):",
        differing.len()
    )
    .unwrap();
    let (old, new) = (expected[first], got[first]);
    for (sign, lines, others) in [('-', old, new), ('+', new, old)] {
        let only_here = |line: &&str| !others.lines().any(|other| other == *line);
        lines
            .lines()
            .filter(only_here)
            .for_each(|line| writeln!(message, "{sign} {line}").unwrap());
    }
    panic!("{message}");
}

/// The outcomes in a child's text: kernel and seed, and what came of it.
fn by_title(text: &str) -> BTreeMap<&str, &str> {
    text.split_terminator('\0')
        .map(|part| part.split_once('\n').expect("a title"))
        .collect()
}

#[test]
#[ignore = "run by the tests above"]
fn child_runs_the_corpus() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let given = |name| number(name).expect("set by the tests above");
    let seeds = given(FIRST_SEED)..given(FIRST_SEED) + given(SEED_COUNT);
    let mut file = fs::File::create(env::var_os(OUTCOMES).unwrap()).unwrap();
    cuda_sim::install().unwrap();
    cuda_sim::set_jitter(number(JITTER));
    cuda_sim::set_budget(Some(BUDGET));
    let device = CudaDevice::new(&CudaContext::new(0).unwrap());
    let kernels = kernels("");
    // Seed by seed, because numbers of allocations, which reports tell, depend on what ran before.
    for seed in iter::once(None).chain(seeds.map(Some)) {
        cuda_sim::set_seed(seed);
        for kernel in &kernels {
            let outcome = outcome(&device, kernel, &kernel.ptx());
            write!(file, "{}, seed {seed:?}\n{outcome}\0", kernel.file).unwrap();
        }
    }
}

/// All that came of a run: report, contents of the buffers, counters.
fn outcome(device: &CudaDevice, kernel: &Kernel, ptx: &str) -> String {
    cuda_sim::take_fault();
    let prepared = match kernel.invocation.prepare(device, ptx) {
        Ok(prepared) => prepared,
        Err(error) => return format!("refused: {error}\n"),
    };
    let launched = prepared.launch();
    let mut text = match (&launched, cuda_sim::take_fault()) {
        (Ok(_), _) => String::new(),
        (Err(_), Some(fault)) => format!("{0}\n{0:?}\n", without_addresses(fault)),
        (Err(error), None) => format!("refused: {error}\n"),
    };
    for (position, values) in prepared.read_all().unwrap() {
        writeln!(text, "argument {position}: {:016x}", hash(values.bytes())).unwrap();
    }
    if launched.is_ok() {
        let profile = cuda_sim::last_launch().expect("a launch");
        let lines = hash(&format!("{profile:?}"));
        writeln!(text, "{:?}", profile.total).unwrap();
        writeln!(
            text,
            "compulsory {} + {} bytes, profile {lines:016x}",
            profile.compulsory_read_bytes, profile.compulsory_write_bytes
        )
        .unwrap();
    }
    text
}

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The fault with addresses relative to their allocations: those of device memory differ between
/// processes.
fn without_addresses(mut fault: Fault) -> Fault {
    if let FaultKind::OutOfBounds(access)
    | FaultKind::UseAfterFree(access)
    | FaultKind::Misaligned(access)
    | FaultKind::UninitialisedRead(UnsetRead { access, .. }) = &mut fault.kind
    {
        make_relative(access);
    }
    if let FaultKind::UnfinishedCopy(copy) = &mut fault.kind {
        make_relative(&mut copy.access);
    }
    if let FaultKind::TensorOutOfBounds(tensor) = &mut fault.kind {
        make_relative(&mut tensor.access);
    }
    if let FaultKind::Race(race) | FaultKind::MissingProxyFence(race) = &mut fault.kind {
        make_relative(&mut race.access);
    }
    fault
}

fn make_relative(access: &mut BadAccess) {
    if let Some(nearest) = &mut access.nearest {
        let start = nearest.start;
        access.address = access.address.wrapping_sub(start);
        nearest.start = 0;
        if let Some(neighbour) = &mut access.neighbour {
            neighbour.start = neighbour.start.wrapping_sub(start);
        }
    }
}
