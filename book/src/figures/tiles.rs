//! Tiles of scores: a block mask, and the backward pass.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "block-mask",
        description: "A matrix of 8 by 8 blocks of scores. In each row the first block, the block on the diagonal and the one before it are seen: 21 of 64. Beside each row stands its word: 1, 3, 7, 13, 25, 49, 97, 193.",
        caption: "A block mask: each square is 64 queries × 64 keys. Orange blocks are seen by all, blue ones are a band. The number is the row's word, whose bit j is block j.",
        size: (460, 330),
        draw: block_mask,
    },
    Figure {
        name: "backward",
        description: "The matrix of weights in tiles. The backward pass takes a column of tiles, which is a tile of keys, and walks down over the tiles of queries. dK and dV of the column stay in fast memory. Each tile adds its part to dQ of its row.",
        caption: "The backward pass owns a column of tiles. dK and dV stay until the column is done; each tile adds its part to dQ of its row.",
        size: (620, 290),
        draw: backward,
    },
];

fn block_mask(c: &mut Canvas) {
    for j in 0..8 {
        let x = 127.0 + 34.0 * f64::from(j);
        c.text(At::Middle, x, 24.0, &format!("{j}"));
    }
    c.text(At::End, 392.0 + 60.0, 24.0, "word");
    for i in 0..8 {
        let y = 34.0 + 34.0 * f64::from(i);
        c.text(At::End, 100.0, y + 20.0, &format!("block {i}"));
        let mut word = 0;
        for j in 0..8 {
            let class = match (i, j) {
                (_, 0) => "orange",
                (i, j) if j == i || j + 1 == i => "blue",
                _ => "ghost",
            };
            word |= u32::from(class != "ghost") << j;
            c.rect(class, 112.0 + 34.0 * f64::from(j), y, 30.0, 30.0);
        }
        c.text(At::End, 392.0 + 60.0, y + 20.0, &format!("{word}"));
    }
}

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
