//! Profiles do not depend on seeds, on threads, on checks, or on the run.
//!
//! `CUDA_SIM_THREADS` and `CUDA_SIM_CHECK` are those of a process, so this test runs its own binary
//! again.

use std::{env, process::Command};

use cuda_sim::LaunchProfile;

use super::rig::Rig;
use super::{tiles, traffic};

/// Setting of a child: the seed of random pauses.
const JITTER: &str = "REPEATABLE_CHILD_JITTER";

/// Profiles of all kernels, in the same order each time.
fn all(rig: &Rig) -> Vec<LaunchProfile> {
    vec![
        traffic::copy(rig),
        traffic::copy_offset(rig),
        traffic::copy_strided(rig, 2),
        traffic::copy_strided(rig, 32),
        traffic::copy_vectors(rig),
        traffic::copy_bytes(rig),
        traffic::broadcast(rig),
        traffic::two_arrays(rig),
        traffic::axpy(rig),
        traffic::uneven_loop(rig),
        traffic::two_ways(rig),
        traffic::local_array(rig, |i| i % 8),
        tiles::transpose(rig, "transpose_naive"),
        tiles::transpose(rig, "transpose_tile"),
        tiles::transpose(rig, "transpose_padded"),
        tiles::naive_gemm(rig),
        tiles::tiled_gemm(rig, 96),
        tiles::row_softmax(rig),
        tiles::bank_stride(rig, 2),
        tiles::bank_vectors(rig, 4, 2),
        tiles::bank_partners(rig, 30),
        tiles::two_spaces(rig),
        tiles::histogram(rig, |i| 2 * i),
        tiles::block_sum(rig),
    ]
}

/// Counters of a process with these settings, as text.
fn counted(settings: &[(&str, &str)]) -> String {
    let binary = env::current_exe().expect("this test's path");
    let output = Command::new(binary)
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("counters::repeatable::child_prints_profiles")
        .envs(settings.iter().copied())
        .output()
        .expect("a child process");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{settings:?}: {text}");
    let (_, profiles) = text.split_once("profiles:").expect("profiles");
    let (profiles, _) = profiles.split_once("end of profiles").expect("an end");
    profiles.to_owned()
}

#[test]
fn threads_seeds_and_checks_change_no_counter() {
    let reference = counted(&[("CUDA_SIM_THREADS", "1")]);
    assert_eq!(reference.matches("LaunchProfile").count(), 24);
    let others: [&[(&str, &str)]; 6] = [
        &[("CUDA_SIM_THREADS", "1")],
        &[("CUDA_SIM_THREADS", "2"), (JITTER, "2")],
        &[("CUDA_SIM_THREADS", "3"), (JITTER, "3")],
        &[("CUDA_SIM_THREADS", "8"), (JITTER, "8")],
        &[("CUDA_SIM_THREADS", "32"), (JITTER, "32")],
        &[("CUDA_SIM_THREADS", "8"), ("CUDA_SIM_CHECK", "off")],
    ];
    for settings in others {
        // Not `assert_eq`: the texts have thousands of lines.
        assert!(counted(settings) == reference, "{settings:?}");
    }
}

#[test]
#[ignore = "run by the test above"]
fn child_prints_profiles() {
    let rig = Rig::open();
    let jitter = env::var(JITTER).ok();
    cuda_sim::set_jitter(jitter.map(|seed| seed.parse().expect("a whole number")));
    let first = all(&rig);
    for seed in 0..=5 {
        cuda_sim::set_seed(Some(seed));
        for (profile, same) in all(&rig).iter().zip(&first) {
            assert_eq!(profile, same, "seed {seed}");
        }
    }
    println!("profiles:\n{first:#?}\nend of profiles");
}
