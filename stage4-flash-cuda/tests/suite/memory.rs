//! No buffer is as large as the scores: the fused kernel runs where stage 2's score matrix
//! would not fit in memory.

use conformance::device::{Device, alone};
use conformance::inputs::{normal, tensor};
use stage1_reference::Options;
use stage4_flash_cuda::{Attention, Mode};

/// Queries and keys: their scores take 16 MiB, and q, k, v and o 0.5 MiB.
const N: usize = 2048;

#[test]
fn scores_take_no_memory() {
    let variables = [("GPU", "sim"), ("CUDA_SIM_MEMORY", "4")]; // MiB
    if alone("memory::scores_take_no_memory", &variables).is_some() {
        return;
    }
    let device = Device::open();
    let x = tensor((1, 1, N, 16), 1, normal);
    let (x, options) = (x.view(), Options::default().causal());
    let run = |mode| {
        let attention = Attention::new(device.stream.context()).unwrap();
        let attention = attention.with_mode(mode);
        attention.forward_host(&device.stream, x, x, x, &options)
    };
    let output = run(Mode::Library).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.o.iter().all(|x| x.is_finite()));
    let tiled = run(Mode::Tiled).unwrap_err().to_string();
    assert!(tiled.contains("OUT_OF_MEMORY"), "{tiled}");
}
