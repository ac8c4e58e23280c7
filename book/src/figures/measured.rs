//! Pictures of times that were measured on a GPU.

use std::sync::LazyLock;

use gpu_recording::{At, Canvas};
use serde_json::Value;

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "measured-ladders",
        description: "Bars of TFLOP/s on a logarithmic axis, measured on an H200, N = 4096. In f32: naive, tiled, flash, register_tiles, async_copy and the library; in f16 on tensor cores: mma, swizzle, pipeline, reuse, the library and PyTorch's flash backend. The figures stand at the bars' ends.",
        caption: "Attention forward on an H200, measured: 4 sequences of 32 heads, D = 128, N = 4096, no mask. TFLOP/s, on a logarithmic axis. Blue is f32 on CUDA cores, orange f16 on tensor cores; PyTorch's flash backend ran in another run.",
        size: (640, 380),
        draw: ladders,
    },
    Figure {
        name: "measured-lengths",
        description: "Milliseconds against N on logarithmic axes, measured on an H200. Five lines with about the same slope, four times the time for twice the length: naive far above, then tiled, the library in f32, swizzle, and reuse lowest.",
        caption: "The same problems against N, measured: milliseconds, both axes logarithmic. From N = 1024 on all lines have about the slope of N squared; a better kernel is a lower line.",
        size: (640, 380),
        draw: lengths,
    },
];

/// The kernels of the ladders, in their order, and their element type.
const LADDERS: [(&str, &str); 11] = [
    ("naive", "f32"),
    ("tiled", "f32"),
    ("flash", "f32"),
    ("register_tiles", "f32"),
    ("async_copy", "f32"),
    ("library", "f32"),
    ("mma", "f16"),
    ("swizzle", "f16"),
    ("pipeline", "f16"),
    ("reuse", "f16"),
    ("library", "f16"),
];

static MEASURED: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../hardware/h200.json");
    serde_json::from_str(text).expect("the figures that hardware/tables.py reads are JSON")
});

/// N and milliseconds of a list's rows with D = 128 and without a mask.
fn times(list: &str, column: &str, is: impl Fn(&Value) -> bool) -> Vec<(f64, f64)> {
    let rows = MEASURED[list].as_array().into_iter().flatten();
    let rows = rows.filter(|row| row["d"] == 128 && row["causal"] == false && is(row));
    rows.filter_map(|row| Some((row["n"].as_f64()?, row[column].as_f64()?)))
        .collect()
}

/// Those of a kernel of this repository.
fn of_kernel((kernel, element): (&str, &str)) -> Vec<(f64, f64)> {
    times("forward", "ms", |row| {
        row["kernel"] == kernel && row["dtype"] == element
    })
}

fn ladders(c: &mut Canvas) {
    const LEFT: f64 = 190.0;
    let x = |tflops: f64| LEFT + 125.0 * (tflops / 0.5).log10();
    for (tflops, label) in [(1.0, "1"), (10.0, "10"), (100.0, "100"), (1000.0, "1000")] {
        c.line("guide", (x(tflops), 14.0), (x(tflops), 346.0));
        c.note(At::Middle, x(tflops), 364.0, label);
    }
    let ours = LADDERS.map(|ladder| {
        let (kernel, element) = ladder;
        (format!("{kernel}, {element}"), element, of_kernel(ladder))
    });
    let torch = times("flash", "flash", |_| true);
    let torch = ("PyTorch, flash, f16".to_owned(), "f16", torch);
    for (row, (name, element, times)) in ours.iter().chain([&torch]).enumerate() {
        let Some(&(n, ms)) = times.iter().find(|time| time.0 == 4096.0) else {
            continue;
        };
        // Two products of N · N · D multiply-adds for each of 4 · 32 heads.
        let tflops = 4.0 * n * n * 128.0 * 128.0 / ms / 1e9;
        let y = 20.0 + 27.0 * row as f64;
        let class = if *element == "f32" { "blue" } else { "orange" };
        c.text(At::End, LEFT - 8.0, y + 16.0, name);
        c.rect(class, LEFT, y, x(tflops) - LEFT, 21.0);
        let digits = usize::from(tflops < 100.0);
        c.text(
            At::Start,
            x(tflops) + 6.0,
            y + 16.0,
            &format!("{tflops:.digits$}"),
        );
    }
}

fn lengths(c: &mut Canvas) {
    let x = |n: f64| 70.0 + 105.0 * (n / 512.0).log2();
    let y = |ms: f64| 330.0 - 62.0 * (ms / 0.05).log10();
    for n in [512.0, 1024.0, 2048.0, 4096.0, 8192.0] {
        c.line("guide", (x(n), 20.0), (x(n), 340.0));
        c.note(At::Middle, x(n), 356.0, &format!("{n:.0}"));
    }
    for ms in [0.1, 1.0, 10.0, 100.0, 1000.0] {
        c.line("guide", (70.0, y(ms)), (490.0, y(ms)));
        c.note(At::End, 62.0, y(ms) + 4.0, &format!("{ms}"));
    }
    c.note(At::Start, 8.0, 16.0, "ms");
    c.note(At::Middle, 280.0, 374.0, "N");
    let shown = [0, 1, 5, 7, 9].map(|place: usize| LADDERS[place]);
    for (kernel, element) in shown {
        let times = of_kernel((kernel, element));
        let points = Vec::from_iter(times.iter().map(|&(n, ms)| (x(n), y(ms))));
        c.chain(if element == "f32" { "roof" } else { "path" }, &points);
        if let Some(&(end, height)) = points.last() {
            c.text(
                At::Start,
                end + 8.0,
                height + 4.0,
                &format!("{kernel}, {element}"),
            );
        }
    }
}
