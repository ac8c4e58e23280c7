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
];

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
    const PEAK: f64 = 66.9e12;
    const TENSOR_PEAK: f64 = 16.0 * PEAK;
    const BANDWIDTH: f64 = 3350e9;
    let x = |intensity: f64| 80.0 + 100.0 * (intensity.log10() + 2.0);
    let y = |flops: f64| 270.0 - 46.0 * (flops.log10() - 10.0);
    for decade in -2..=3 {
        let at = x(10f64.powi(decade));
        c.line("guide", (at, 24.0), (at, 270.0));
        let label = ["0.01", "0.1", "1", "10", "100", "1000"][(decade + 2) as usize];
        c.note(At::Middle, at, 286.0, label);
    }
    for decade in 10..=15 {
        let at = y(10f64.powi(decade));
        c.line("guide", (80.0, at), (580.0, at));
        let label = ["0.01", "0.1", "1", "10", "100", "1000"][(decade - 10) as usize];
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
