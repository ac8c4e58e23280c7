//! Pictures of softmax, at once and online.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "softmax-passes",
        description: "A row in device memory is passed over three times: read for the maximum; read and written for exponentials and their sum; read and written to divide by the sum. A block-wide reduction follows the first and the second pass.",
        caption: "Softmax of a row by one block: three passes over device memory, and two reductions in shared memory.",
        size: (620, 230),
        draw: passes,
    },
    Figure {
        name: "online",
        description: "The scores 1, 3, 2, 5 arrive in two tiles. After the first tile the maximum is 3 and the sum is 1.135. The second tile raises the maximum to 5, so the old sum is multiplied by exp of minus 2 before the new terms are added; the sum is then 1.203.",
        caption: "Online softmax of the scores 1, 3, 2, 5 in two tiles. When the maximum grows, what was summed before shrinks by exp(m − m′).",
        size: (640, 240),
        draw: online,
    },
];

fn passes(c: &mut Canvas) {
    c.rect("red", 20.0, 24.0, 580.0, 30.0);
    c.text(At::Middle, 310.0, 44.0, "the row, in device memory");
    let steps = [
        ("1  maximum", "m = max xᵢ", false),
        ("2  exponentials", "xᵢ = exp(xᵢ − m), sum", true),
        ("3  scale", "xᵢ = xᵢ / sum", true),
    ];
    for (index, (name, formula, writes)) in steps.into_iter().enumerate() {
        let x = 20.0 + 205.0 * index as f64;
        c.arrow((x + 60.0, 56.0), (x + 60.0, 102.0));
        c.note(At::End, x + 54.0, 82.0, "read");
        if writes {
            c.arrow((x + 110.0, 102.0), (x + 110.0, 56.0));
            c.note(At::Start, x + 116.0, 82.0, "write");
        }
        c.card("blue", x, 104.0, 170.0, 52.0, &[name, formula]);
        if index < 2 {
            c.arrow((x + 85.0, 158.0), (x + 85.0, 180.0));
            c.cell("green", x, 182.0, 170.0, 34.0, "block_reduce");
        }
    }
}

fn online(c: &mut Canvas) {
    for (tile, scores) in [["1", "3"], ["2", "5"]].into_iter().enumerate() {
        let x = 150.0 + 260.0 * tile as f64;
        c.note(At::Start, x, 18.0, &format!("tile {}", tile + 1));
        for (index, score) in scores.into_iter().enumerate() {
            c.cell("orange", x + 60.0 * index as f64, 26.0, 54.0, 28.0, score);
        }
        c.arrow((x + 57.0, 58.0), (x + 57.0, 96.0));
    }
    c.card("plain", 10.0, 98.0, 90.0, 84.0, &["m = −∞", "l = 0"]);
    c.arrow((102.0, 140.0), (140.0, 140.0));
    c.card(
        "blue",
        142.0,
        98.0,
        132.0,
        84.0,
        &["m = 3", "l = e⁻² + e⁰", "= 1.135"],
    );
    c.arrow((276.0, 140.0), (386.0, 140.0));
    c.note(At::Middle, 330.0, 130.0, "times e³⁻⁵");
    c.card(
        "blue",
        388.0,
        98.0,
        240.0,
        84.0,
        &["m = 5", "l = 0.135 · 1.135 + e⁻³ + e⁰", "= 1.203"],
    );
    c.text(
        At::Start,
        142.0,
        216.0,
        "at once: e¹⁻⁵ + e³⁻⁵ + e²⁻⁵ + e⁵⁻⁵ = 1.203",
    );
}
