//! Modelled times of a ladder of matrix products against published ones.

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

use super::*;
use crate::device::{Capability, DEVICES};
use crate::profile::{LaunchProfile, Sectors, Wavefronts};
use crate::program::ptxas_report;

/// Rows and columns of the matrices whose times are published.
const SIZE: u64 = 4096;
/// Rows and columns of the product that is simulated: whole tiles of every kernel.
const SAMPLE: u64 = 256;
/// Depth of the two products that are simulated. What a block does is linear in the depth.
const DEPTHS: [u64; 2] = [64, 128];

/// NVIDIA RTX A6000 data sheet: 768 GB/s, 38.7 TFLOPS, which is 1.8 GHz. NVIDIA Ampere GA102 GPU
/// Architecture white paper: the multiprocessor. CUDA C++ Programming Guide: limits of 8.6.
const A6000: Device = Device {
    name: "a6000",
    product: "RTX A6000",
    capability: &Capability {
        number: 86,
        max_threads_per_multiprocessor: 1536,
        max_blocks_per_multiprocessor: 16,
        shared_per_multiprocessor: 100 << 10,
        shared_per_block_optin: 99 << 10,
        shared_reserved_per_block: 1 << 10,
        shared_grain: 128,
        fp32_lanes: 128,
        fp64_lanes: 2,
        special_lanes: 16,
        tensor_fmas: 512,
        tensor_tf32_fmas: 256,
        tensor_f64_fmas: 2,
        tensor_int8_fmas: 1024,
        load_store_lanes: 16,
        shared_bytes_per_clock: 128,
    },
    multiprocessors: 84,
    clock_khz: 1_800_000,
    l2_bytes: 6 << 20,
    // Estimated: as much for each multiprocessor as the RTX 4090's.
    l2_bytes_per_clock: 1064.6,
    memory_bytes: 48 << 30,
    memory_clock_khz: 8_001_000,
    memory_bus_bits: 384,
    dram_bytes_per_second: 768e9,
    host_bytes_per_second: 32e9,
    copy_engines: 2,
};

struct Rung {
    kernel: &'static str,
    ptx: &'static str,
    /// Rows and columns of a block's tile.
    tile: [u64; 2],
    block: (u32, u32),
    /// GFLOP/s, on the A6000, the RTX 4090 and the A100.
    published: [Option<f64>; 3],
}

const LADDER: &str = include_str!("../../ptx/sgemm_ladder.ptx");
const WARPS: &str = include_str!("../../ptx/sgemm_warps.ptx");

#[rustfmt::skip]
const RUNGS: [Rung; 11] = [
    Rung { kernel: "sgemm_naive", ptx: LADDER, tile: [32, 32], block: (32, 32), published: [Some(309.0), Some(681.3), Some(290.7)] },
    Rung { kernel: "sgemm_coalesced", ptx: LADDER, tile: [32, 32], block: (32, 32), published: [Some(1986.5), Some(4834.0), Some(3006.9)] },
    Rung { kernel: "sgemm_shared", ptx: LADDER, tile: [32, 32], block: (32, 32), published: [Some(2980.3), Some(6552.0), Some(4859.7)] },
    Rung { kernel: "sgemm_column", ptx: LADDER, tile: [64, 64], block: (512, 1), published: [Some(8474.7), Some(19282.1), Some(9260.8)] },
    Rung { kernel: "sgemm_square", ptx: LADDER, tile: [128, 128], block: (256, 1), published: [Some(15971.7), Some(36052.5), Some(12276.0)] },
    Rung { kernel: "sgemm_vectors", ptx: LADDER, tile: [128, 128], block: (256, 1), published: [Some(18237.3), Some(43326.3), Some(13033.9)] },
    Rung { kernel: "sgemm_linearised", ptx: LADDER, tile: [128, 128], block: (256, 1), published: [Some(16213.4), Some(36745.5), Some(12740.6)] },
    Rung { kernel: "sgemm_padded", ptx: LADDER, tile: [128, 128], block: (256, 1), published: [Some(16459.2), Some(37437.6), Some(12728.0)] },
    Rung { kernel: "sgemm_deeper", ptx: LADDER, tile: [128, 128], block: (256, 1), published: [Some(19721.0), Some(42945.9), Some(12844.7)] },
    Rung { kernel: "sgemm_warps", ptx: WARPS, tile: [128, 128], block: (128, 1), published: [Some(21779.3), Some(46349.9), Some(13462.2)] },
    Rung { kernel: "sgemm_two_buffers", ptx: WARPS, tile: [128, 256], block: (256, 1), published: [Some(17278.3), None, Some(13192.7)] },
];

/// Profiles of a kernel for products of the sample's size and both depths.
fn samples(stream: &Arc<CudaStream>, rung: &Rung) -> [LaunchProfile; 2] {
    let module = stream.context().load_module(Ptx::from_src(rung.ptx));
    let kernel = module.unwrap().load_function(rung.kernel).unwrap();
    DEPTHS.map(|depth| product(stream, &kernel, rung, depth))
}

fn product(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    rung: &Rung,
    depth: u64,
) -> LaunchProfile {
    let size = SAMPLE as usize * depth as usize;
    let words =
        |modulus: usize| -> Vec<f32> { (0..size).map(|i| (i % modulus) as f32 - 3.0).collect() };
    let (a, b) = (words(7), words(5));
    let (on_a, on_b) = (
        stream.clone_htod(&a).unwrap(),
        stream.clone_htod(&b).unwrap(),
    );
    let n = SAMPLE as usize;
    let mut on_c = stream.alloc_zeros::<f32>(n * n).unwrap();
    let [rows, columns] = rung.tile.map(|tile| (SAMPLE / tile) as u32);
    let shape = LaunchConfig {
        grid_dim: (columns, rows, 1),
        block_dim: (rung.block.0, rung.block.1, 1),
        shared_mem_bytes: 0,
    };
    let (n, k) = (n as i32, depth as i32);
    let (result, launches) = crate::profile(|| {
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&on_a).arg(&on_b).arg(&mut on_c).arg(&n).arg(&k);
        // SAFETY: the arguments are the kernel's, and the sizes are multiples of its tiles.
        unsafe { launch.launch(shape) }.map(|_| ())
    });
    result.unwrap();
    let c = stream.clone_dtoh(&on_c).unwrap();
    let (n, k) = (n as usize, k as usize);
    for (i, found) in c.iter().enumerate().step_by(251) {
        let expected: f32 = (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum();
        assert_eq!(*found, expected, "{}, element {i}", rung.kernel);
    }
    let [launch] = <[LaunchProfile; 1]>::try_from(launches).unwrap();
    launch
}

/// Value at full size of the line through both samples, for as many blocks.
fn at_full_size(samples: [u64; 2]) -> u64 {
    let steps = (SIZE - DEPTHS[0]) / (DEPTHS[1] - DEPTHS[0]);
    let blocks = (SIZE / SAMPLE) * (SIZE / SAMPLE);
    (samples[0] + steps * (samples[1] - samples[0])) * blocks
}

fn latency_clocks(launch: &LaunchProfile) -> u64 {
    // All blocks of a sample run at once, each warp alone: one round on the default device.
    let blocks: u32 = launch.grid.iter().product();
    let warps = launch.block.iter().product::<u32>() / WARP_SIZE * blocks;
    let (_, seconds) = launch
        .time
        .parts
        .iter()
        .find(|(r, _)| *r == Resource::Latency)
        .unwrap();
    (seconds * DEVICES[0].clock_hz() * f64::from(warps)).round() as u64
}

/// Everything that the model looks at.
fn counters([a, b]: [&Counters; 2]) -> Counters {
    let sectors = |f: fn(&Counters) -> Sectors| {
        let (a, b) = (f(a), f(b));
        Sectors {
            requests: at_full_size([a.requests, b.requests]),
            sectors: at_full_size([a.sectors, b.sectors]),
            bytes: at_full_size([a.bytes, b.bytes]),
        }
    };
    let wavefronts = |f: fn(&Counters) -> Wavefronts| {
        let (a, b) = (f(a), f(b));
        Wavefronts {
            requests: at_full_size([a.requests, b.requests]),
            wavefronts: at_full_size([a.wavefronts, b.wavefronts]),
            ideal: at_full_size([a.ideal, b.ideal]),
            bytes: at_full_size([a.bytes, b.bytes]),
        }
    };
    let mut counters = Counters {
        warp_instructions: at_full_size([a.warp_instructions, b.warp_instructions]),
        global_loads: sectors(|c| c.global_loads),
        global_stores: sectors(|c| c.global_stores),
        local: sectors(|c| c.local),
        cache_lines: at_full_size([a.cache_lines, b.cache_lines]),
        shared_loads: wavefronts(|c| c.shared_loads),
        shared_stores: wavefronts(|c| c.shared_stores),
        ..Counters::default()
    };
    for class in Class::ALL {
        counters.classes[class as usize] = at_full_size([a.of(class), b.of(class)]);
    }
    counters
}

/// Modelled over published seconds of each rung that has a published time, and what `MODEL.md` says
/// of them.
struct Comparison {
    ratios: Vec<Option<f64>>,
    /// Spearman's rank correlation.
    rank: f64,
    /// The exponential of the standard deviation of the ratios' logarithms.
    spread: f64,
    /// The geometric mean of the ratios.
    scale: f64,
}

impl Comparison {
    fn new(times: &[(f64, Option<f64>)]) -> Comparison {
        let both: Vec<(f64, f64)> = times.iter().filter_map(|&(a, b)| Some((a, b?))).collect();
        let count = both.len() as f64;
        let rank = |time: f64, all: fn(&(f64, f64)) -> f64| {
            both.iter().filter(|other| all(other) < time).count() as f64
        };
        let apart = both.iter().map(|&(modelled, published)| {
            (rank(modelled, |b| b.0) - rank(published, |b| b.1)).powi(2)
        });
        let logs: Vec<f64> = both.iter().map(|&(a, b)| (a / b).ln()).collect();
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count;
        Comparison {
            ratios: times.iter().map(|&(a, b)| Some(a / b?)).collect(),
            rank: 1.0 - 6.0 * apart.sum::<f64>() / (count * (count * count - 1.0)),
            spread: variance.sqrt().exp(),
            scale: mean.exp(),
        }
    }
}

/// The rows of the table in `MODEL.md`.
fn table(comparisons: &[Comparison]) -> Vec<String> {
    let row = |name: &str, value: &dyn Fn(&Comparison) -> Option<String>| {
        let cell = |comparison| value(comparison).unwrap_or_else(|| "–".to_owned());
        let cells: Vec<String> = comparisons.iter().map(cell).collect();
        format!("| {name} | {} |", cells.join(" | "))
    };
    let rungs = RUNGS.iter().enumerate().map(|(i, rung)| {
        row(&format!("`{}`", rung.kernel), &|comparison| {
            comparison.ratios[i].map(|ratio| format!("{:.2}", ratio / comparison.scale))
        })
    });
    let sums = [
        row("Spearman's ρ", &|c| Some(format!("{:.3}", c.rank))),
        row("spread", &|c| Some(format!("× {:.2}", c.spread))),
        row("scale", &|c| Some(format!("{:.2}", c.scale))),
    ];
    rungs.chain(sums).collect()
}

#[test]
fn the_page_says_how_well_the_model_ranks_a_ladder_of_products() {
    crate::install().unwrap();
    let stream = CudaContext::new(0).unwrap().default_stream();
    let named = |name| DEVICES.iter().find(|device| device.name == name).unwrap();
    let devices = [&A6000, named("rtx4090"), named("a100")];
    let mut times = devices.map(|_| Vec::new());
    for rung in &RUNGS {
        let [a, b] = samples(&stream, rung);
        let counters = counters([&a.total, &b.total]);
        for (i, device) in devices.into_iter().enumerate() {
            let work = Work {
                counters: &counters,
                compulsory_bytes: 3 * SIZE * SIZE * 4,
                blocks: SIZE / rung.tile[0] * (SIZE / rung.tile[1]),
                threads: rung.block.0 * rung.block.1,
                shared_bytes: a.shared_bytes,
                resources: ptxas_report::find(rung.ptx, rung.kernel, device.capability.number),
                latency_clocks: at_full_size([latency_clocks(&a), latency_clocks(&b)]),
            };
            let seconds = |gflops: f64| 2e-9 * (SIZE as f64).powi(3) / gflops;
            let published = rung.published[i].map(seconds);
            times[i].push((time(device, &work).seconds, published));
        }
    }
    let comparisons = times.map(|times| Comparison::new(&times));
    let page = include_str!("../../MODEL.md");
    let table = table(&comparisons);
    for row in &table {
        assert!(
            page.contains(row),
            "MODEL.md should have\n{}",
            table.join("\n")
        );
    }
}

#[test]
fn ranks_spread_and_scale_by_hand() {
    // Ranks 0, 1, 2 against 1, 0, 2: squares 1, 1, 0, so 1 - 6 · 2 / (3 · 8). Ratios 2 and, twice,
    // 1/2: logarithms ±ln 2.
    let found = Comparison::new(&[
        (2.0, Some(1.0)),
        (1.0, Some(2.0)),
        (5.0, None),
        (4.0, Some(8.0)),
    ]);
    assert_eq!(found.rank, 0.5);
    assert_eq!(found.ratios, [Some(2.0), Some(0.5), None, Some(0.5)]);
    assert!((found.scale.ln() + 2f64.ln() / 3.0).abs() < 1e-12);
    assert!((found.spread.ln() - 2f64.ln() * 8f64.sqrt() / 3.0).abs() < 1e-12);
}
