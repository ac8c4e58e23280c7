//! The corpus of instructions in `cases/`: every file is launched and must leave what it says it
//! leaves.
//!
//! On the simulator, or with `GPU=cuda` on a GPU, which skips files for a newer architecture than
//! its own.

use std::fs;
use std::path::{Path, PathBuf};

use cudarc::driver::sys::CUdevice_attribute_enum::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
};
use gpu_launch::Invocation;
use gpu_tool::CudaDevice;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = files
        .filter_map(|file| file.file_name().into_string().ok())
        .filter(|name| name.ends_with(".ptx"))
        .collect();
    names.sort();
    names
}

/// The number after `.target sm_`.
fn target(text: &str) -> i32 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(".target sm_"));
    line.unwrap().trim_end_matches('a').parse().unwrap()
}

/// Failures after the launch.
fn failures(device: &CudaDevice, text: &str) -> Vec<String> {
    let case = match Invocation::parse(text, &folder()) {
        Ok(case) => case,
        Err(error) => return vec![error.to_string()],
    };
    assert!(!case.expectations.is_empty(), "a case expects something");
    let left = match case.run(device, text) {
        Ok(left) => left,
        Err(error) => return vec![error.to_string()],
    };
    let expectations = case.expectations.iter();
    expectations
        .filter_map(|expected| expected.compare(&left).err())
        .map(|mismatch| mismatch.to_string())
        .collect()
}

#[test]
fn every_case_leaves_what_it_expects() {
    let ctx = gpu::context(0).unwrap();
    let capability = 10
        * ctx
            .attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
            .unwrap()
        + ctx
            .attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
            .unwrap();
    let device = CudaDevice::new(&ctx);
    let mut wrong = Vec::new();
    let mut run = 0;
    for name in names() {
        let text = fs::read_to_string(folder().join(&name)).unwrap();
        if target(&text) > capability {
            println!("{name} is for a newer device");
            continue;
        }
        run += 1;
        wrong.extend(
            failures(&device, &text)
                .iter()
                .map(|what| format!("{name}: {what}")),
        );
    }
    assert!(
        wrong.is_empty(),
        "{} of {run} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(run >= 40, "only {run} cases were found");
}
