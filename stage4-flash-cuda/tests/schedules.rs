//! The order of blocks and warps, and the number of threads that simulate them, change no bit of a result.

mod support;

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use conformance::inputs::hash;
use stage4_flash_cuda::{Mode, Strategy};
use support::{Device, Modes, Random};

/// What a line with a digest begins with.
const DIGEST: &str = "digest of all bits:";

/// Computes some problems by both rungs, and prints a digest of the results. The other test runs it in processes of its
/// own, because the simulator reads its settings once.
#[test]
fn digest() {
    let device = Device::open();
    let mut digest = 0;
    for strategy in [Strategy::Exact, Strategy::RegisterTiled] {
        let attention = device.attention(Mode::FusedBy(strategy));
        for (seed, head_dim) in [(1, 64), (2, 16), (3, 72), (4, 128)] {
            let problem = Random::new(seed << 8, head_dim);
            let output = problem.solve(&device, &attention);
            let output = output.unwrap_or_else(|error| panic!("{}: {error}", problem.name));
            for x in output.o.iter().chain(&output.lse) {
                digest = hash(digest, u64::from(x.to_bits()));
            }
        }
    }
    println!("{DIGEST} {digest:016x}");
}

#[test]
fn no_bit_depends_on_the_schedule() {
    let program = env::current_exe().expect("this program");
    let mut digests = BTreeSet::new();
    let mut runs = 0;
    for seed in 0..20 {
        let threads = 1 + seed % 2;
        let child = Command::new(&program)
            .args(["--exact", "digest", "--nocapture"])
            .env("CUDA_SIM_SEED", seed.to_string())
            .env("CUDA_SIM_THREADS", threads.to_string())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        let found = text.lines().find_map(|line| line.split_once(DIGEST));
        let (_, digest) = found.unwrap_or_else(|| {
            panic!(
                "seed {seed}: {text}{}",
                String::from_utf8_lossy(&child.stderr)
            )
        });
        digests.insert(digest.trim().to_owned());
        runs += 1;
    }
    assert_eq!((runs, digests.len()), (20, 1), "{digests:?}");
}
