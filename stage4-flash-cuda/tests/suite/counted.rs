//! Counts that the suite cannot know: the traffic of tiles, the library kernel's instructions.

use conformance::device::{Device, profiles};
use conformance::inputs::{normal, tensor};
use conformance::layout::Layout;
use conformance::problems::attention::Problem;
use conformance::suites::stage4::solve;
use gpu::profile::{Class, LaunchProfile};
use half::f16;
use stage1_reference::Options;
use stage4_flash_cuda::{Attention, Mode, Rung, Stage4};

use crate::runs_here;

fn attention(device: &Device, mode: Mode) -> Attention {
    let attention = Attention::new(device.stream.context()).unwrap();
    attention.with_mode(mode)
}

/// Launches self-attention once and gives the profile; `None` on a GPU, which the
/// program cannot count on.
fn count(
    device: &Device,
    mode: Mode,
    heads: usize,
    n: usize,
    head_dim: usize,
) -> Option<LaunchProfile> {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, heads, n, head_dim), seed, normal));
    let problem = Problem::new("counted".to_owned(), q, k, v, Options::default());
    let own = Stage4 {
        stream: device.stream.clone(),
        attention: attention(device, mode),
    };
    let (_, mut launches) = profiles(|| solve::<f32>(device, &own, &problem, [Layout::Packed; 4]))?
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(launches.len(), 1, "one kernel is all there is");
    launches.pop()
}

/// k and v travel once per query tile; q, o and lse once in all.
#[test]
fn traffic_is_what_the_tiles_need() {
    let device = Device::open();
    for mode in [Mode::Library].into_iter().chain(Rung::F32.map(Mode::Rung)) {
        for (n, head_dim) in [(200, 64), (129, 128), (256, 16)] {
            let Some(profile) = count(&device, mode, 2, n, head_dim) else {
                return;
            };
            let variant = attention(&device, mode).variant(head_dim).unwrap();
            let tensor = 2 * n * head_dim * size_of::<f32>(); // bytes of q, k, v or o
            let tiles = n.div_ceil(variant.tile.block_q);
            let loads = 32 * profile.total.global_loads.sectors as usize;
            let needed = tensor + tiles * 2 * tensor;
            assert!(
                loads <= needed * 105 / 100,
                "{mode}, N = {n}, D = {head_dim}: {loads} bytes loaded, {needed} needed"
            );
        }
    }
}

/// What the headers of the rungs on tensor cores say, and the library's `attention_mma.cu`, at
/// D = 128: instructions and wavefronts of shared memory for each `mma.sync`, bank conflicts from
/// `ldmatrix` on, loads of 16 bytes.
#[test]
fn kernels_on_tensor_cores_cost_what_their_headers_say() {
    const N: usize = 512;
    let device = Device::open();
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 1, N, 128), seed, normal));
    let problem = Problem::new("counted".to_owned(), q, k, v, Options::default());
    for (mode, instructions, wavefronts) in [
        (Mode::Rung(Rung::Mma), 15.0, 19.0),
        (Mode::Rung(Rung::Swizzle), 14.0, 3.1),
        (Mode::Rung(Rung::Pipeline), 11.0, 3.1),
        (Mode::Rung(Rung::Reuse), 4.8, 1.7),
        (Mode::Padded, 4.4, 1.9),
    ] {
        let own = Stage4 {
            stream: device.stream.clone(),
            attention: attention(&device, mode),
        };
        let Some(profiled) =
            profiles(|| solve::<f16>(&device, &own, &problem, [Layout::Packed; 4]))
        else {
            return;
        };
        let (_, launches) = profiled.unwrap_or_else(|error| panic!("{error}"));
        let total = &launches[0].total;
        let products = 4 * (N * N * 128) as u64; // two multiply-adds of each score and column
        assert_eq!(total.flops_tensor, products, "{mode}");
        let mma = products as f64 / 4096.0;
        let each = [
            total.warp_instructions as f64 / mma,
            total.shared().wavefronts as f64 / mma,
        ];
        println!("{mode}: {each:.2?} instructions and wavefronts for each mma.sync");
        assert!(
            each[0] <= instructions && each[1] <= wavefronts,
            "{mode}: {each:?}"
        );
        let conflicts = total.shared_loads.wavefronts - total.shared_loads.ideal;
        let expected = mode != Mode::Rung(Rung::Mma);
        assert_eq!(conflicts == 0, expected, "{mode}: {conflicts}");
        let loads = total.global_loads;
        assert!(
            loads.bytes * 10 >= loads.requests * 512 * 9,
            "{mode}: {loads:?}"
        );
        assert_eq!(
            total.local.requests, 0,
            "{mode}: no array went to local memory"
        );
    }
}

/// The rungs for Hopper and the library's kernel: products where they belong, instructions and
/// wavefronts of shared memory for 4096 FLOPs, no bank conflict, no spill, each tile copied once.
#[test]
fn kernels_for_hopper_cost_what_their_headers_say() {
    const N: usize = 512;
    let device = Device::open();
    // Of the wavefronts 1.25 are those of `ldmatrix`, which rung 8 alone has, and 0.25 those of
    // copies of k and v.
    let [tma, wgmma, ping_pong] = Rung::HOPPER.map(Mode::Rung);
    for (mode, head_dim, instructions, wavefronts) in [
        (tma, 64, 6.1, 1.7),
        (tma, 128, 5.0, 1.7),
        (wgmma, 64, 4.8, 0.45),
        (wgmma, 128, 2.9, 0.45),
        (ping_pong, 64, 5.0, 0.45),
        (ping_pong, 128, 3.0, 0.45),
        (Mode::Library, 64, 5.2, 0.45),
        (Mode::Library, 128, 3.1, 0.45),
    ] {
        if !runs_here(ping_pong) {
            continue;
        }
        let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, N, head_dim), seed, normal));
        let problem = Problem::new("counted".to_owned(), q, k, v, Options::default());
        let own = Stage4 {
            stream: device.stream.clone(),
            attention: attention(&device, mode),
        };
        let Some(profiled) =
            profiles(|| solve::<f16>(&device, &own, &problem, [Layout::Packed; 4]))
        else {
            return;
        };
        let (_, launches) = profiled.unwrap_or_else(|error| panic!("{error}"));
        let total = &launches[0].total;
        let products = 2 * 4 * (N * N * head_dim) as u64; // two heads, two products
        assert_eq!(total.flops_tensor, products, "{mode}");
        let by_wgmma = if mode == tma { 0 } else { products };
        assert_eq!(total.flops_wgmma, by_wgmma, "{mode}");
        let mma = products as f64 / 4096.0;
        let each = [
            total.warp_instructions as f64 / mma,
            total.shared().wavefronts as f64 / mma,
        ];
        println!("{mode}, D = {head_dim}: {each:.2?} instructions and wavefronts for 4096 FLOPs");
        assert!(
            each[0] <= instructions && each[1] <= wavefronts,
            "{mode}, D = {head_dim}: {each:.2?}"
        );
        for shared in [total.shared_loads, total.shared_stores] {
            let conflicts = shared.wavefronts - shared.ideal;
            assert_eq!(conflicts, 0, "{mode}, D = {head_dim}");
        }
        assert_eq!(total.local.requests, 0, "{mode}, D = {head_dim}");
        let tensor = (2 * N * head_dim * size_of::<f16>()) as u64;
        let needed = tensor + (N / 128) as u64 * 2 * tensor; // q; k and v for each tile of queries
        let loaded = 32 * total.global_loads.sectors;
        assert!(
            (needed..=needed * 101 / 100).contains(&loaded),
            "{mode}, D = {head_dim}: {loaded} bytes loaded, {needed} needed"
        );
    }
}

/// At D = 64 most instructions of the library's kernel are multiply-adds, and
/// it has no bank conflicts.
#[test]
fn the_library_multiplies_and_adds() {
    let device = Device::open();
    let Some(profile) = count(&device, Mode::Library, 1, 512, 64) else {
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
