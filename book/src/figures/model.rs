//! Pictures of the simulator and of the roofline.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "simulator",
        description: "A kernel file is compiled to PTX by NVRTC. The simulated driver reads PTX, decodes it to operations, and runs warps of 32 lanes on the host's vector instructions. Each memory access goes through checks and counters. Results, faults and counters come out.",
        caption: "From kernel file to results. Without a GPU, the simulated driver takes the place of NVIDIA's.",
        size: (640, 230),
        draw: simulator,
    },
    Figure {
        name: "roofline",
        description: "A roofline of an H100 on logarithmic axes. The limit is a slope of 3350 GB/s up to the flat peak, which is 66.9 TFLOP/s for f32 from 20 FLOP per byte on, and 1070 TFLOP/s for f16 on tensor cores from 320 on. Vector addition lies at 1/12, a decode step with an f32 cache at about one half, attention by the fused kernel far to the right.",
        caption: "Roofline of an H100. A kernel lies at its arithmetic intensity; it cannot be above the line of its arithmetic: f32, or f16 on tensor cores. The marked places are theoretical intensities, not measurements.",
        size: (620, 320),
        draw: roofline,
    },
    Figure {
        name: "kernels-roofline",
        description: "The roofline of an H100 on logarithmic axes, with kernels of the course as dots. At half a FLOP per byte, decode: the first rung at 70 percent of the slope, the library just below it; at 1 the library with a cache in f16. At about 10 the tiled kernels of stage 2, at a fifth of the slope. At about 1,000 the fused kernels in f32: rung 1 at more than a quarter of the peak, the library at more than 60 percent. At 2,000 the rungs on tensor cores: rung 4 at 54 of 1070 TFLOP/s, rung 7 at half of the peak.",
        caption: "Kernels of the course under the roofs of an H100, by modelled times: something else than device memory or arithmetic takes the time that a dot lacks to its roof. Fusing moves attention to the right (tiled to flash), and the later rungs move it up. Blue is f32, orange f16. Attention with N = 4096 tokens; decode steps of 16 sequences.",
        size: (640, 350),
        draw: kernels,
    },
];

/// Peaks of an H100 in TFLOP/s, and its bandwidth in bytes per picosecond.
const PEAK: f64 = 66.9;
const TENSOR_PEAK: f64 = 16.0 * PEAK;
const BANDWIDTH: f64 = 3.35;

fn simulator(c: &mut Canvas) {
    let steps: [(&str, &[&str]); 4] = [
        ("plain", &["softmax.cu"]),
        ("blue", &["PTX", "text, committed"]),
        ("orange", &["operations", "decoded once"]),
        ("green", &["warps", "32 lanes at once"]),
    ];
    for (index, (class, lines)) in steps.into_iter().enumerate() {
        let x = 10.0 + 162.0 * index as f64;
        c.card(class, x, 30.0, 130.0, 56.0, lines);
        if index > 0 {
            c.arrow((x - 30.0, 58.0), (x - 2.0, 58.0));
        }
    }
    c.note(At::Middle, 156.0, 22.0, "NVRTC");
    c.arrow((540.0, 88.0), (540.0, 112.0));
    c.arrow((580.0, 112.0), (580.0, 88.0));
    c.card(
        "red",
        470.0,
        114.0,
        156.0,
        46.0,
        &["memory", "and its checks"],
    );
    c.arrow((468.0, 137.0), (410.0, 137.0));
    c.card(
        "plain",
        170.0,
        112.0,
        238.0,
        96.0,
        &[
            "results",
            "faults: line, block, thread",
            "counters, by source line",
            "modelled time",
        ],
    );
}

fn roofline(c: &mut Canvas) {
    let x = |intensity: f64| 80.0 + 100.0 * (intensity.log10() + 2.0);
    let y = |tflops: f64| 270.0 - 46.0 * (tflops.log10() + 2.0);
    for decade in -2..=3 {
        let at = x(10f64.powi(decade));
        c.line("guide", (at, 24.0), (at, 270.0));
        let label = ["0.01", "0.1", "1", "10", "100", "1000"][(decade + 2) as usize];
        c.note(At::Middle, at, 286.0, label);
    }
    for decade in -2..=3 {
        let at = y(10f64.powi(decade));
        c.line("guide", (80.0, at), (580.0, at));
        let label = ["0.01", "0.1", "1", "10", "100", "1000"][(decade + 2) as usize];
        c.note(At::End, 74.0, at + 4.0, label);
    }
    c.note(At::Start, 8.0, 16.0, "TFLOP/s");
    c.note(At::Middle, 330.0, 308.0, "FLOP per byte of device memory");
    let start = (x(0.01), y(0.01 * BANDWIDTH));
    for peak in [PEAK, TENSOR_PEAK] {
        let ridge = (x(peak / BANDWIDTH), y(peak));
        c.chain("roof", &[start, ridge, (x(1000.0), y(peak))]);
    }
    c.text(At::Start, 420.0, y(PEAK) + 18.0, "66.9 TFLOP/s, f32");
    c.text(
        At::End,
        500.0,
        y(TENSOR_PEAK) + 4.0,
        "1070 TFLOP/s, tensor cores",
    );
    c.text(At::End, x(0.5), y(0.9 * BANDWIDTH), "3350 GB/s");
    for (intensity, name) in [
        (1.0 / 12.0, "vector add"),
        (0.5, "decode, f32 cache"),
        (512.0, "fused, N = 2048"),
    ] {
        let limit = (intensity * BANDWIDTH).min(PEAK);
        c.line("mark", (x(intensity), y(limit)), (x(intensity), 270.0));
        c.dot("spot", x(intensity), y(limit));
        let (at, shift) = if name.starts_with("decode") {
            (At::Start, 8.0)
        } else {
            (At::End, -8.0)
        };
        c.text(at, x(intensity) + shift, 262.0, name);
    }
}

/// A kernel of the course, by FLOP per byte and TFLOP/s.
struct Point {
    name: &'static str,
    element: &'static str,
    intensity: f64,
    tflops: f64,
}

/// From the tables that the benches print.
fn points() -> Vec<Point> {
    let mut points = Vec::new();
    let fused = include_str!("../../generated/results-lengths.txt");
    for line in fused.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let names = ["tiled", "flash", "library"];
        let name = names.into_iter().find(|name| words.first() == Some(name));
        if let Some(name) = name
            && words.get(3) == Some(&"4096")
        {
            let (tflops, bytes) = (number(words[7]), number(words[9]));
            points.push(Point {
                name,
                element: "f32",
                intensity: 1000.0 * tflops / bytes,
                tflops,
            });
        }
    }
    // Their launch: 8 heads, N = 4096, D = 128. Two products of N · N · D multiply-adds; q, k, v and o once, in f16.
    let (heads, n, d) = (8.0, 4096.0, 128.0);
    let rungs = include_str!("../../generated/ladder-f16.txt");
    for (file, name) in [
        ("4_mma.cu", "4, mma"),
        ("5_swizzle.cu", "5, swizzle"),
        ("7_reuse.cu", "7, reuse"),
    ] {
        // Of a rung with two tiles, the larger one.
        let mut rows = rungs.lines().filter(|line| line.contains(file));
        let cells: Option<Vec<&str>> = rows.next_back().map(|row| row.split('|').collect());
        let cells = cells.expect("the ladder has each rung");
        let flop = 4.0 * n * n * d * heads;
        points.push(Point {
            name,
            element: "f16",
            intensity: flop / (4.0 * n * d * heads * 2.0),
            tflops: flop / number(cells[10].trim()) / 1e9,
        });
    }
    // A step of decoding: 4 FLOP for an element of k and one of v.
    let decode = include_str!("../../generated/results-decode.txt");
    for line in decode.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, element, bytes) = match words[..] {
            ["decode", "f32", ..] => ("decode", "f32", 4.0),
            ["library", "f32", ..] => ("decode, library", "f32", 4.0),
            ["library", "f16", ..] => ("decode, library", "f16", 2.0),
            _ => continue,
        };
        let intensity = 4.0 / (2.0 * bytes);
        points.push(Point {
            name,
            element,
            intensity,
            tflops: intensity * BANDWIDTH * number(words[6].trim_end_matches('%')) / 100.0,
        });
    }
    points
}

fn number(word: &str) -> f64 {
    word.parse().expect("a table of the benches has numbers")
}

fn kernels(c: &mut Canvas) {
    let x = |intensity: f64| 60.0 + 110.0 * (intensity.log10() + 1.0);
    let y = |tflops: f64| 300.0 - 70.0 * (tflops.log10() + 0.5);
    for (power, label) in (-1..=4).zip(["0.1", "1", "10", "100", "1000", "10,000"]) {
        let at = x(10f64.powi(power));
        c.line("guide", (at, 24.0), (at, 300.0));
        c.note(At::Middle, at, 316.0, label);
    }
    for (power, label) in (0..=3).zip(["1", "10", "100", "1000"]) {
        let at = y(10f64.powi(power));
        c.line("guide", (60.0, at), (610.0, at));
        c.note(At::End, 54.0, at + 4.0, label);
    }
    c.note(At::Start, 8.0, 16.0, "TFLOP/s");
    c.note(At::Middle, 335.0, 338.0, "FLOP per byte of device memory");
    for peak in [PEAK, TENSOR_PEAK] {
        let roof = [
            (0.1, 0.1 * BANDWIDTH),
            (peak / BANDWIDTH, peak),
            (1e4, peak),
        ];
        c.chain("roof", &roof.map(|(at, height)| (x(at), y(height))));
    }
    c.text(At::Start, x(60.0), y(PEAK) - 7.0, "66.9, f32");
    c.text(
        At::Start,
        x(400.0),
        y(TENSOR_PEAK) - 7.0,
        "1070, tensor cores",
    );
    c.text(At::End, x(4.0), y(5.0 * BANDWIDTH), "3350 GB/s");
    for point in points() {
        let class = if point.element == "f32" {
            "blue"
        } else {
            "orange"
        };
        let (at, height) = (x(point.intensity), y(point.tflops));
        c.dot(class, at, height);
        // The dots at 1000 have their names on the left, where there is room.
        let is_left = (500.0..1500.0).contains(&point.intensity);
        // Two names would lie on others, or on a roof.
        let below = match point.name {
            "decode" | "4, mma" => 9.0,
            _ => 0.0,
        };
        let (side, shift) = if is_left {
            (At::End, -9.0)
        } else {
            (At::Start, 9.0)
        };
        c.text(
            side,
            at + shift,
            height + 5.0 + below,
            &format!("{}, {}", point.name, point.element),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_lie_below_their_roofs() {
        let points = points();
        assert_eq!(points.len(), 9);
        for Point {
            name,
            element,
            intensity,
            tflops,
        } in points
        {
            let peak = if element == "f32" { PEAK } else { TENSOR_PEAK };
            let roof = peak.min(intensity * BANDWIDTH);
            assert!(
                (0.0..roof).contains(&tflops),
                "{name}, {element}: {tflops} of {roof}"
            );
        }
    }
}
