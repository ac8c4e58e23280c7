//! The backward pass on tiles.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[Figure {
    name: "backward",
    description: "The matrix of weights in tiles. The backward pass takes a column of tiles, which is a tile of keys, and walks down over the tiles of queries. dK and dV of the column stay in fast memory. Each tile adds its part to dQ of its row.",
    caption: "The backward pass owns a column of tiles. dK and dV stay until the column is done; each tile adds its part to dQ of its row.",
    size: (620, 290),
    draw: backward,
}];

fn backward(c: &mut Canvas) {
    c.text(At::Start, 130.0, 32.0, "k, v");
    c.text(At::Start, 20.0, 84.0, "q, dO");
    for tile in 0..6 {
        let x = 190.0 + 56.0 * f64::from(tile);
        let class = if tile == 2 { "blue" } else { "plain" };
        c.cell(class, x, 10.0, 52.0, 36.0, &format!("{tile}"));
    }
    for row in 0..4 {
        let y = 56.0 + 46.0 * f64::from(row);
        c.rect(
            if row == 1 { "orange" } else { "plain" },
            90.0,
            y,
            60.0,
            42.0,
        );
        for tile in 0..6 {
            let class = match (row, tile) {
                (1, 2) => "red",
                (0, 2) | (_, 0 | 1) => "done",
                _ => "ghost",
            };
            c.rect(class, 190.0 + 56.0 * f64::from(tile), y, 52.0, 42.0);
        }
        c.rect(
            if row == 1 { "orange" } else { "plain" },
            544.0,
            y,
            60.0,
            42.0,
        );
    }
    c.text(At::Middle, 574.0, 36.0, "dQ");
    c.card("green", 292.0, 244.0, 72.0, 36.0, &["dK, dV"]);
}
