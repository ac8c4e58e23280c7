//! Modelled times of ladders of kernels against published ones: a ladder of matrix products of this
//! project, whose kernels run here, and public ladders, whose counted work is in `ladders.txt`.

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

use super::*;
use crate::device::DEVICES;
use crate::profile::LaunchProfile;
use crate::program::ptxas_report;

/// Rows and columns of the matrices whose times are published.
const SIZE: u64 = 4096;
/// Rows and columns of the product that is simulated: whole tiles of every kernel.
const SAMPLE: u64 = 256;
/// Depth of the two products that are simulated. What a block does is linear in the depth.
const DEPTHS: [u64; 2] = [64, 128];

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

/// The phases of a launch of full size.
fn phases([a, b]: [&LaunchProfile; 2]) -> Vec<Phase> {
    let phase = |(a, b): (&Phase, &Phase)| {
        let figures = a.figures().into_iter().zip(b.figures());
        Phase::from_figures(figures.map(|((_, a), (_, b))| at_full_size([a, b]))).unwrap()
    };
    a.phases.iter().zip(&b.phases).map(phase).collect()
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
    /// The largest factor in the model between two rungs whose order in print is the other one.
    wrong: f64,
}

/// Times that differ by less are alike.
const ALIKE: f64 = 1.03;

/// A rung: its modelled seconds, those of its two longest parts, and its published seconds.
type Times = (f64, [f64; 2], f64);

impl Comparison {
    fn new(rungs: &[Option<Times>]) -> Comparison {
        let both: Vec<Times> = rungs.iter().flatten().copied().collect();
        let count = both.len() as f64;
        let all = (0..both.len()).collect();
        // Alike by their longest part, rungs are in the order of their second-longest.
        let modelled: Vec<usize> = alike(all, |i| both[i].0)
            .into_iter()
            .flat_map(|rungs| alike(rungs, |i| both[i].1[1]))
            .flat_map(|mut rungs| {
                rungs.sort_by(|&i, &j| both[i].0.total_cmp(&both[j].0));
                rungs
            })
            .collect();
        // Alike in print, they are in the order of the model.
        let place = |i: usize| modelled.iter().position(|&j| j == i).unwrap();
        let published = alike(modelled.clone(), |i| both[i].2);
        let published = published.into_iter().flat_map(|mut rungs| {
            rungs.sort_by_key(|&i| place(i));
            rungs
        });
        let apart = published.enumerate().map(|(rank, i)| {
            let apart = place(i) as f64 - rank as f64;
            apart * apart
        });
        let logs: Vec<f64> = both.iter().map(|&(a, _, b)| (a / b).ln()).collect();
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count;
        let ratio = |&(modelled, _, published): &Times| modelled / published;
        let pairs = both.iter().flat_map(|a| both.iter().map(move |b| (a, b)));
        let wrong = pairs.filter(|(a, b)| a.2 * ALIKE < b.2);
        let wrong = wrong.map(|(a, b)| a.0 / b.0).fold(1.0, f64::max);
        Comparison {
            ratios: rungs.iter().map(|rung| rung.as_ref().map(ratio)).collect(),
            rank: 1.0 - 6.0 * apart.sum::<f64>() / (count * (count * count - 1.0)),
            spread: variance.sqrt().exp(),
            scale: mean.exp(),
            wrong,
        }
    }

    fn relative(&self, rung: usize) -> Option<f64> {
        self.ratios[rung].map(|ratio| ratio / self.scale)
    }
}

/// The rungs by seconds, in groups: each is alike the first of its group.
fn alike(mut rungs: Vec<usize>, seconds: impl Fn(usize) -> f64) -> Vec<Vec<usize>> {
    rungs.sort_by(|&i, &j| seconds(i).total_cmp(&seconds(j)));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for rung in rungs {
        match groups.last_mut() {
            Some(group) if seconds(rung) <= ALIKE * seconds(group[0]) => group.push(rung),
            _ => groups.push(vec![rung]),
        }
    }
    groups
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
            comparison.relative(i).map(|ratio| format!("{ratio:.2}"))
        })
    });
    let sums = [
        row("Spearman's ρ", &|c| Some(format!("{:.3}", c.rank))),
        row("spread", &|c| Some(format!("× {:.2}", c.spread))),
        row("scale", &|c| Some(format!("{:.2}", c.scale))),
        row("wrong order up to", &|c| Some(format!("× {:.2}", c.wrong))),
    ];
    rungs.chain(sums).collect()
}

fn named(name: &str) -> &'static Device {
    DEVICES.iter().find(|device| device.name == name).unwrap()
}

fn times(device: &Device, work: &Work, published: f64) -> Times {
    let time = time(device, work);
    (time.seconds, time.longest_two(), published)
}

#[test]
fn the_page_says_how_well_the_model_ranks_a_ladder_of_products() {
    crate::install().unwrap();
    let stream = CudaContext::new(0).unwrap().default_stream();
    let devices = ["a6000", "rtx4090", "a100"].map(named);
    let mut rungs = devices.map(|_| Vec::new());
    for rung in &RUNGS {
        let [a, b] = samples(&stream, rung);
        for (i, device) in devices.into_iter().enumerate() {
            let work = Work {
                phases: phases([&a, &b]),
                compulsory_bytes: 3 * SIZE * SIZE * 4,
                blocks: SIZE / rung.tile[0] * (SIZE / rung.tile[1]),
                threads: rung.block.0 * rung.block.1,
                shared_bytes: a.shared_bytes,
                resources: ptxas_report::find(rung.ptx, rung.kernel, device.capability.number),
                local_bytes: a.local_bytes,
                atomics_at_one_address: 0,
                slowest_warps: 0,
            };
            let seconds = |gflops: f64| 2e-9 * (SIZE as f64).powi(3) / gflops;
            let published = rung.published[i].map(seconds);
            rungs[i].push(published.map(|published| times(device, &work, published)));
        }
    }
    on_the_page(&table(&rungs.map(|rungs| Comparison::new(&rungs))));
}

fn on_the_page(table: &[String]) {
    let page = include_str!("../../MODEL.md");
    for row in table {
        assert!(
            page.contains(row),
            "MODEL.md should have\n{}",
            table.join("\n")
        );
    }
}

#[test]
fn the_page_says_how_well_the_model_ranks_public_ladders() {
    let text = include_str!("ladders.txt");
    let ladders = text.split("\nladder ").skip(1).map(|ladder| {
        let (heading, rungs) = ladder.split_once('\n').unwrap();
        let (device, name) = heading.split_once(' ').unwrap();
        let rungs: Vec<(&str, Times)> = rungs
            .split("rung ")
            .skip(1)
            .map(|rung| public_rung(named(device), rung))
            .collect();
        let comparison =
            Comparison::new(&rungs.iter().map(|rung| Some(rung.1)).collect::<Vec<_>>());
        // The rungs that are furthest from their place.
        let mut furthest: Vec<(&str, f64)> = (rungs.iter().enumerate())
            .map(|(i, rung)| (rung.0, comparison.relative(i).unwrap()))
            .collect();
        furthest.sort_by(|a, b| b.1.ln().abs().total_cmp(&a.1.ln().abs()));
        let furthest = furthest[..2]
            .iter()
            .map(|(rung, ratio)| format!("{rung} × {ratio:.2}"));
        format!(
            "| {name} | {device} | {} | {:.2} | × {:.2} | {} | {:.2} | × {:.2} |",
            rungs.len(),
            comparison.rank,
            comparison.spread,
            furthest.collect::<Vec<_>>().join(", "),
            comparison.scale,
            comparison.wrong
        )
    });
    on_the_page(&ladders.collect::<Vec<_>>());
}

/// Name and times of a rung of `ladders.txt`.
fn public_rung<'a>(device: &Device, text: &'a str) -> (&'a str, Times) {
    let mut lines = text.lines();
    let mut head = lines.next().unwrap().split(' ');
    let name = head.next().unwrap();
    let published = head.next().unwrap().parse().unwrap();
    let mut number = || head.next().unwrap().parse::<u64>().unwrap();
    let mut work = Work {
        blocks: number(),
        threads: number() as u32,
        shared_bytes: number() as u32,
        compulsory_bytes: number(),
        local_bytes: number() as u32,
        phases: Vec::new(),
        resources: None,
        atomics_at_one_address: 0,
        slowest_warps: 0,
    };
    // Only a rung whose warps may have roles has this figure.
    if let Some(clocks) = head.next() {
        work.slowest_warps = clocks.parse().unwrap();
    }
    for line in lines.filter(|line| !line.is_empty()) {
        let (kind, figures) = line.split_once(' ').unwrap();
        let mut figures = figures
            .split(' ')
            .map(|figure| figure.parse::<u64>().unwrap());
        if kind == "phase" {
            // It was recorded before the last figures were counted.
            let figures = figures.chain(std::iter::repeat(0));
            work.phases.push(Phase::from_figures(figures).unwrap());
            continue;
        }
        let mut next = || figures.next().unwrap() as u32;
        let report = Resources {
            architecture: next(),
            registers: next(),
            frame: next(),
            spill_stores: next(),
            spill_loads: next(),
            ignores_setmaxnreg: false,
        };
        // The newest that is not above the device's.
        if report.architecture <= device.capability.number {
            work.resources = Some(report);
        }
    }
    (name, times(device, &work, published))
}

#[test]
fn ranks_spread_and_scale_by_hand() {
    // Ranks 0, 1, 2 against 1, 0, 2: squares 1, 1, 0, so 1 - 6 · 2 / (3 · 8). Ratios 2 and, twice,
    // 1/2: logarithms ±ln 2.
    let rung = |modelled, published| Some((modelled, [modelled, 0.0], published));
    let found = Comparison::new(&[rung(2.0, 1.0), rung(1.0, 2.0), None, rung(4.0, 8.0)]);
    assert_eq!(found.rank, 0.5);
    assert_eq!(found.ratios, [Some(2.0), Some(0.5), None, Some(0.5)]);
    assert!((found.scale.ln() + 2f64.ln() / 3.0).abs() < 1e-12);
    assert_eq!(found.wrong, 2.0); // the first two
    assert!((found.spread.ln() - 2f64.ln() * 8f64.sqrt() / 3.0).abs() < 1e-12);
    // Alike in print, any order is right.
    assert_eq!(
        Comparison::new(&[rung(2.0, 1.0), rung(1.0, 1.02)]).rank,
        1.0
    );
    // Alike by the model, the second-longest part decides.
    let found = [Some((1.0, [1.0, 0.5], 1.0)), Some((0.99, [0.99, 0.7], 2.0))];
    assert_eq!(Comparison::new(&found).rank, 1.0);
}
