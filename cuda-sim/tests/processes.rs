//! What needs a process of its own: settings read once, and the time before `cuInit`.
//!
//! Each test runs this test binary again, for one of the functions marked `ignore`, with its own environment.

mod common;

use std::{env, fs, process::Command};

use common::{Outcome, context, expect_error};
use cudarc::driver::{CudaContext, result, sys::CUresult};

/// Runs one ignored test of this binary with `CUDA_SIM_MEMORY` set.
#[track_caller]
fn run(test: &str, memory: &str) {
    let binary = env::current_exe().expect("this test's path");
    let output = Command::new(binary)
        .args(["--ignored", "--exact", test])
        .env("CUDA_SIM_MEMORY", memory)
        .output()
        .expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_memory_limit_is_a_setting() {
    run("child_has_64_mib", "64");
}

#[test]
#[ignore = "run by the test above"]
fn child_has_64_mib() -> Outcome {
    let context = context()?;
    assert_eq!(context.total_mem()?, 64 << 20);
    let stream = context.default_stream();
    let half = stream.alloc_zeros::<u8>(32 << 20)?;
    expect_error(
        stream.alloc_zeros::<u8>((32 << 20) + 1),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    );
    drop(half);
    stream.alloc_zeros::<u8>(64 << 20)?;
    Ok(())
}

#[test]
fn a_bad_memory_limit_is_a_typed_error() {
    run("child_is_refused", "lots");
}

#[test]
#[ignore = "run by the test above"]
fn child_is_refused() {
    let value = "lots".to_owned();
    assert_eq!(
        cuda_sim::install(),
        Err(cuda_sim::InstallError::MemoryLimit { value })
    );
}

#[test]
fn a_driver_that_was_there_first_is_a_typed_error() {
    run("child_has_another_driver", "64");
}

#[test]
#[ignore = "run by the test above"]
fn child_has_another_driver() -> Outcome {
    let folder = env::temp_dir().join(format!("cuda-sim-another-driver-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (source, library) = (folder.join("empty.c"), folder.join("libcuda.so"));
    fs::write(&source, "")?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-Wl,-soname,libcuda.so", "-o"])
        .arg(&library)
        .arg(&source);
    assert!(
        compiler.status()?.success(),
        "no C compiler, which Rust needs to link too"
    );
    // SAFETY: an empty library.
    let first = unsafe { libloading::Library::new(&library) }?;
    fs::remove_dir_all(&folder)?;
    assert_eq!(
        cuda_sim::install(),
        Err(cuda_sim::InstallError::AnotherDriver)
    );
    drop(first);
    Ok(())
}

#[test]
fn calls_before_initialisation_are_refused() {
    run("child_is_early", "64");
}

#[test]
#[ignore = "run by the test above"]
fn child_is_early() -> Outcome {
    cuda_sim::install()?;
    expect_error(
        result::device::get_count(),
        CUresult::CUDA_ERROR_NOT_INITIALIZED,
    );
    result::init()?;
    assert_eq!(result::device::get_count()?, 1);
    Ok(())
}

#[test]
fn released_contexts_leave_nothing_and_can_be_had_again() {
    run("child_retains_again", "64");
}

#[test]
#[ignore = "run by the test above"]
fn child_retains_again() -> Outcome {
    let context = context()?;
    let leaked = context.default_stream().alloc_zeros::<u8>(1000)?.leak();
    drop(context);
    let again = CudaContext::new(0)?;
    assert_eq!(again.mem_get_info()?, (64 << 20, 64 << 20));
    // SAFETY: refused.
    let copy = unsafe { result::memcpy_dtoh_sync(&mut [0u8], leaked) };
    expect_error(copy, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(
        again
            .default_stream()
            .clone_dtoh(&again.default_stream().clone_htod(&[1u8])?)?,
        [1]
    );
    Ok(())
}

#[test]
fn addresses_repeat_from_process_to_process() {
    let address = || {
        let binary = env::current_exe().expect("this test's path");
        let output = Command::new(binary)
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "child_prints_an_address",
            ])
            .output()
            .expect("a child process");
        let text = String::from_utf8(output.stdout).expect("text");
        let address = text
            .split("address ")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next());
        address.expect("an address").to_owned()
    };
    assert_eq!(address(), address());
}

#[test]
#[ignore = "run by the test above"]
fn child_prints_an_address() -> Outcome {
    let stream = context()?.default_stream();
    stream.alloc_zeros::<u8>(1000)?;
    println!("address {:#x}", stream.alloc_zeros::<u8>(100)?.leak());
    Ok(())
}
