//! What the kernels do, counted by the simulator: traffic, bank conflicts, instructions, and work that masks save.

mod support;

use conformance::inputs::{normal, tensor};
use gpu::profile::{Class, LaunchProfile};
use ndarray::Array4;
use stage1_reference::{Options, Sizes};
use stage4_flash_cuda::{Attention, Mode, Strategy};
use support::{Device, Layout, Modes, Random};

/// Launches once and gives the profile; `None` on a GPU, which the program cannot count on.
fn count(
    device: &Device,
    attention: &Attention,
    sizes: Sizes,
    options: Options,
) -> Option<LaunchProfile> {
    if gpu::backend().expect("it was chosen") == gpu::Backend::Cuda {
        println!("not counted: a GPU's counters are Nsight Compute's to read");
        return None;
    }
    let Sizes {
        batch,
        heads,
        kv_heads,
        nq,
        nk,
        head_dim,
    } = sizes;
    let rows = |heads, n| [batch, heads, n, head_dim];
    let problem = Random {
        name: format!("{sizes:?}"),
        sizes,
        options,
        q: tensor(rows(heads, nq), 1, normal),
        k: tensor(rows(kv_heads, nk), 2, normal),
        v: tensor(rows(kv_heads, nk), 3, normal),
        layouts: [Layout::Packed; 4],
    };
    let (output, mut launches) =
        gpu::profile::profile(|| problem.solve(device, attention)).expect("it is simulated");
    output.unwrap_or_else(|error| panic!("{}: {error}", problem.name));
    assert_eq!(launches.len(), 1, "one kernel is all there is");
    launches.pop()
}

fn self_attention(heads: usize, n: usize, head_dim: usize) -> Sizes {
    Sizes {
        batch: 1,
        heads,
        kv_heads: heads,
        nq: n,
        nk: n,
        head_dim,
    }
}

/// k and v travel once per query tile; q, o and lse once in all.
#[test]
fn traffic_is_what_the_tiles_need() {
    let device = Device::open();
    for strategy in [Strategy::Exact, Strategy::RegisterTiled] {
        let attention = device.attention(Mode::FusedBy(strategy));
        for (n, head_dim) in [(200, 64), (129, 128), (256, 72)] {
            let sizes = self_attention(2, n, head_dim);
            let Some(profile) = count(&device, &attention, sizes, Options::default()) else {
                return;
            };
            let variant = attention.variant(head_dim).unwrap().unwrap();
            let tensor = 2 * n * head_dim * size_of::<f32>(); // bytes of q, k, v or o
            let rows = 2 * n * size_of::<f32>(); // bytes of lse
            let tiles = n.div_ceil(variant.tile.block_q);
            let loads = 32 * profile.total.global_loads.sectors as usize;
            let needed = tensor + tiles * 2 * tensor;
            assert!(
                loads <= needed * 105 / 100,
                "{strategy}, {sizes:?}: {loads} bytes loaded, {needed} needed"
            );
            let stores = 32 * profile.total.global_stores.sectors as usize;
            // Each row's lse is a sector's eighth at worst.
            let needed = tensor + 8 * rows;
            assert!(
                stores <= needed,
                "{strategy}, {sizes:?}: {stores} bytes stored, {needed} needed"
            );
            let written = profile.compulsory_write_bytes as usize;
            assert!(
                written <= (tensor + rows) * 105 / 100 + 64,
                "{written} bytes written"
            );
        }
    }
}

/// At D = 64 most instructions of rung 2 are multiply-adds, and its lanes do not wait for each other's banks.
#[test]
fn rung_2_multiplies_and_adds() {
    let device = Device::open();
    let attention = device.attention(Mode::FusedBy(Strategy::RegisterTiled));
    let sizes = self_attention(1, 512, 64);
    let Some(profile) = count(&device, &attention, sizes, Options::default()) else {
        return;
    };
    let total = &profile.total;
    let degree = total.shared().conflict_degree();
    assert!(degree <= 1.05, "bank-conflict degree {degree}");
    let share = total.of(Class::Fma32) as f64 / total.warp_instructions as f64;
    println!(
        "D = 64: {:.1}% FFMA, bank-conflict degree {degree:.3}",
        100.0 * share
    );
    assert!(
        share >= 0.6,
        "{:.1}% of the instructions are FFMA",
        100.0 * share
    );
    assert_eq!(total.local.requests, 0, "no array went to local memory");
}

/// The handle tells what the compiler said of its kernel.
#[test]
fn the_compilers_report_is_at_hand() {
    let device = Device::open();
    let attention = device.attention(Mode::FusedBy(Strategy::RegisterTiled));
    let report = attention.resources(64).unwrap();
    let report = report.expect("its PTX is committed");
    for architecture in ["sm_80", "sm_90"] {
        let line = report.iter().find(|line| line.starts_with(architecture));
        let line = line.unwrap_or_else(|| panic!("no report for {architecture}: {report:?}"));
        assert!(line.contains("spill stores 0, spill loads 0,"), "{line}");
    }
    assert!(
        device
            .attention(Mode::Tiled)
            .resources(64)
            .unwrap()
            .is_none()
    );
}

/// A causal mask saves almost half of the work, and a block mask what it hides.
#[test]
fn masked_tiles_are_skipped() {
    const N: usize = 4096;
    let device = Device::open();
    let attention = device.attention(Mode::FusedBy(Strategy::RegisterTiled));
    let flops = |options| {
        let profile = count(&device, &attention, self_attention(1, N, 16), options)?;
        Some(profile.total.flops_f32 as f64)
    };
    let Some(full) = flops(Options::default()) else {
        return;
    };
    let causal = flops(Options::default().causal()).unwrap() / full;
    let blocks = Array4::from_shape_fn((1, 1, N / 64, N / 64), |(_, _, i, j)| (i + j) % 4 == 0);
    let blocks = flops(Options::default().blocks(blocks)).unwrap() / full;
    let window = flops(Options::default().window(63, 0)).unwrap() / full;
    println!(
        "N = {N}: causal {causal:.3}, a quarter of the blocks {blocks:.3}, window of 64 {window:.3} of the full FLOPs"
    );
    assert!(causal <= 0.56, "causal: {causal}");
    assert!(blocks <= 0.30, "a quarter of the blocks: {blocks}");
    assert!(window <= 3.0 * 64.0 / N as f64, "window of 64: {window}");
}
