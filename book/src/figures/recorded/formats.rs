//! What number formats lose: plots of what kernels computed, from the stores of their results.

use anyhow::{Context, Result};
use gpu_recording::{At, Canvas, Kind, Picture, Recording, Scalar};

use super::{Recorded, drawn};

pub const FIGURES: &[Recorded] = &[
    Recorded {
        name: "rounding",
        recordings: &["rounding"],
        description: "Largest relative error of rounding, over the size of the number from 2 to the minus 32 to 2 to the 32. bf16 loses up to 2 to the minus 8 everywhere, tf32 2 to the minus 11. f16 loses 2 to the minus 11 from 2 to the minus 14 to 65,504; below, the error grows to 100 percent, above there is infinity.",
        caption: "Largest relative error of rounding numbers of each size, recorded. bf16 and tf32 lose the same everywhere. f16 is as exact as tf32, but only within its range.",
        draw: rounding,
    },
    Recorded {
        name: "rounded-sums",
        recordings: &["rounded-sums"],
        description: "The sum of up to 4,096 weights of 1/4096. In f32 it grows in a straight line to 1. In f16 it stops at one half, after 2,048 weights; in bf16 at one sixteenth, after 256.",
        caption: "The sum of equal weights, recorded. All 4,096 together are 1. A sum in f16 stops at a half, and one in bf16 at a sixteenth: there a weight is half a step of the format or less, and is rounded away.",
        draw: sums,
    },
    Recorded {
        name: "rounded-attention",
        recordings: &["rounded-attention"],
        description: "Largest error of attention over the size of the scores, both in powers of two and ten. With weights and result alone in f16 the error stays below one ten thousandth. With scores in f16 too it grows with the scores, to more than a tenth at 2 to the 12; in bf16 it is about eight times as large.",
        caption: "Largest error of 16 rows of attention, recorded. Scores are of the size below and differ by up to 4; values lie between −1 and 1. The rungs round weights and result alone. The other two store scores, too.",
        draw: attention,
    },
];

/// The values that the kernel stored, in the order of their places.
fn stored(recording: &Recording) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    let accesses = recording.steps.iter().flat_map(|step| &step.accesses);
    for access in accesses.filter(|access| access.kind == Kind::Store) {
        for (offset, value) in access.offsets.iter().zip(&access.values) {
            let value = match value.first() {
                Some(Scalar::Float(value)) => *value,
                Some(Scalar::Whole(value)) => *value as f64,
                _ => f64::INFINITY,
            };
            values.push((*offset, value));
        }
    }
    values.sort_by_key(|(offset, _)| *offset);
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

/// The values of the format with this number, of `count`.
fn series(values: &[f64], format: usize, count: usize) -> Result<&[f64]> {
    let part = values.get(format * count..(format + 1) * count);
    part.context("the kernel stored fewer values")
}

/// An area with axes: values from `x.0` to `x.1`, and from `y.0` to `y.1`.
struct Plot {
    x: (f64, f64),
    y: (f64, f64),
}

const LEFT: f64 = 78.0;
const TOP: f64 = 22.0;
const SIZE: (f64, f64) = (480.0, 210.0);

impl Plot {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let part = |value: f64, range: (f64, f64)| (value - range.0) / (range.1 - range.0);
        (
            LEFT + SIZE.0 * part(x, self.x),
            TOP + SIZE.1 * (1.0 - part(y, self.y)),
        )
    }

    fn axes(&self, c: &mut Canvas, x: &str, y: &str) {
        c.rect("outline", LEFT, TOP, SIZE.0, SIZE.1);
        c.note(At::Middle, LEFT + SIZE.0 / 2.0, TOP + SIZE.1 + 38.0, x);
        c.note(At::Start, LEFT - 70.0, TOP - 8.0, y);
    }

    fn x_tick(&self, c: &mut Canvas, x: f64, text: &str) {
        let (at, bottom) = (self.at(x, self.y.0).0, TOP + SIZE.1);
        c.line("guide", (at, TOP), (at, bottom));
        c.note(At::Middle, at, bottom + 16.0, text);
    }

    fn y_tick(&self, c: &mut Canvas, y: f64, text: &str) {
        let at = self.at(self.x.0, y).1;
        c.line("guide", (LEFT, at), (LEFT + SIZE.0, at));
        c.note(At::End, LEFT - 8.0, at + 4.0, text);
    }

    fn dots(&self, c: &mut Canvas, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        for (x, y) in points.filter(|point| point.1.is_finite()) {
            let (x, y) = self.at(x, y);
            c.dot(class, x, y);
        }
    }
}

/// A dot and a name for each series, to the right of the plot.
fn legend(c: &mut Canvas, entries: &[(&str, &str)]) {
    for (line, (class, text)) in entries.iter().enumerate() {
        let y = TOP + 14.0 + 24.0 * line as f64;
        c.dot(class, LEFT + SIZE.0 + 18.0, y - 4.0);
        c.note(At::Start, LEFT + SIZE.0 + 28.0, y, text);
    }
}

fn power(base: u32, exponent: i32) -> String {
    let digits = exponent.to_string();
    let raised = digits.chars().map(|c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    });
    format!("{base}{}", raised.collect::<String>())
}

fn rounding(recordings: &[Recording]) -> Result<Picture> {
    let values = stored(&recordings[0])?;
    let mut c = Canvas::new();
    let plot = Plot {
        x: (-33.0, 32.0),
        y: (-12.5, 0.8),
    };
    plot.axes(&mut c, "size of the number", "error");
    for exponent in [-24, -14, 0, 16] {
        let text = power(2, exponent);
        let text = if exponent == 0 { "1" } else { &*text };
        plot.x_tick(&mut c, f64::from(exponent), text);
    }
    for exponent in [-11, -8, -4] {
        plot.y_tick(&mut c, f64::from(exponent), &power(2, exponent));
    }
    plot.y_tick(&mut c, 0.0, "100 %");
    // The last is drawn on top.
    for (format, class) in [(1, "blue"), (2, "green"), (0, "orange")] {
        let errors = series(&values, format, 64)?.iter().enumerate();
        let points = errors.map(|(at, error)| (at as f64 - 32.0, error.log2()));
        plot.dots(&mut c, class, points);
    }
    let (x, y) = plot.at(17.0, -5.0);
    c.note(At::Start, x, y, "f16: infinity");
    legend(
        &mut c,
        &[("orange", "f16"), ("blue", "bf16"), ("green", "tf32")],
    );
    Ok(drawn(c, (650, 276)))
}

fn sums(recordings: &[Recording]) -> Result<Picture> {
    let values = stored(&recordings[0])?;
    let mut c = Canvas::new();
    let plot = Plot {
        x: (0.0, 4224.0),
        y: (-0.04, 1.08),
    };
    plot.axes(&mut c, "weights added", "sum");
    for count in [256, 1024, 2048, 4096] {
        plot.x_tick(&mut c, f64::from(count), &count.to_string());
    }
    for sum in ["0.0625", "0.5", "1"] {
        plot.y_tick(&mut c, sum.parse()?, sum);
    }
    for (format, class) in [(0, "green"), (1, "orange"), (2, "blue")] {
        let sums = series(&values, format, 32)?.iter().enumerate();
        let points = sums.map(|(at, sum)| (128.0 * (at as f64 + 1.0), *sum));
        plot.dots(&mut c, class, points);
    }
    legend(
        &mut c,
        &[
            ("green", "sum in f32"),
            ("orange", "sum in f16"),
            ("blue", "sum in bf16"),
        ],
    );
    Ok(drawn(c, (680, 276)))
}

fn attention(recordings: &[Recording]) -> Result<Picture> {
    let values = stored(&recordings[0])?;
    let mut c = Canvas::new();
    let plot = Plot {
        x: (-0.5, 16.0),
        y: (-4.6, 0.0),
    };
    plot.axes(&mut c, "size of the scores", "error");
    for exponent in [4, 8, 12] {
        plot.x_tick(&mut c, f64::from(exponent), &power(2, exponent));
    }
    plot.x_tick(&mut c, 0.0, "1");
    plot.x_tick(&mut c, f64::log2(10_000.0), "10,000");
    for exponent in [-4, -3, -2, -1] {
        plot.y_tick(&mut c, f64::from(exponent), &power(10, exponent));
    }
    for (kind, class) in [(0, "green"), (1, "orange"), (2, "blue")] {
        let errors = series(&values, kind, 32)?.iter().enumerate();
        let points = errors.map(|(at, error)| (at as f64 / 2.0, error.log10()));
        plot.dots(&mut c, class, points);
    }
    legend(
        &mut c,
        &[
            ("green", "p, o in f16"),
            ("orange", "s, p, o in f16"),
            ("blue", "s, p, o in bf16"),
        ],
    );
    Ok(drawn(c, (690, 276)))
}
