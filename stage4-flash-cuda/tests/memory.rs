//! No buffer is as large as the scores: the fused kernel does with memory that stage 2's scores do not fit into.

mod support;

use std::env;
use std::process::Command;

use conformance::inputs::{normal, tensor};
use stage1_reference::Options;
use stage4_flash_cuda::Mode;
use support::{Device, Modes};

/// Queries and keys: their scores take 16 MiB, and q, k, v and o 0.5 MiB.
const N: usize = 2048;

/// MiB of the simulated device.
const MEMORY: &str = "4";

/// Set for the process that computes.
const CHILD: &str = "STAGE4_SMALL_MEMORY";

#[test]
fn scores_take_no_memory() {
    if env::var_os(CHILD).is_some() {
        return compute();
    }
    // The simulator reads its settings once.
    let program = env::current_exe().expect("this program");
    let child = Command::new(&program)
        .args(["--exact", "scores_take_no_memory", "--nocapture"])
        .env("GPU", "sim")
        .env("CUDA_SIM_MEMORY", MEMORY)
        .env(CHILD, "1")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}{errors}");
    assert!(text.contains("1 passed"), "{text}");
}

fn compute() {
    let device = Device::open();
    let x = tensor((1, 1, N, 16), 1, normal);
    let (x, options) = (x.view(), Options::default().causal());
    let run = |mode| {
        let attention = device.attention(mode);
        attention.forward_host(&device.stream, x, x, x, &options)
    };
    let fused = run(Mode::Fused).unwrap_or_else(|error| panic!("{error}"));
    assert!(fused.o.iter().all(|x| x.is_finite()));
    let tiled = run(Mode::Tiled).unwrap_err().to_string();
    assert!(tiled.contains("OUT_OF_MEMORY"), "{tiled}");
}
