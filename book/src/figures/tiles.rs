//! Pictures of FlashAttention.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "flash-tiles",
        description: "The score matrix is cut into tiles. A block owns one row of tiles. It keeps its tile of q, its rows of o and the running m and l, and walks over the tiles of k and v from left to right. One tile of scores exists at a time.",
        caption: "A block of the fused kernel. It keeps a tile of q and its part of o on the chip, and walks over tiles of k and v. Only one tile of scores exists at a time.",
        size: (620, 300),
        draw: flash,
    },
    Figure {
        name: "backward",
        description: "The matrix of weights in tiles. The backward pass takes a column of tiles, which is a tile of keys, and walks down over the tiles of queries. dK and dV of the column stay in fast memory. Each tile adds its part to dQ of its row.",
        caption: "The backward pass owns a column of tiles. dK and dV stay until the column is done; each tile adds its part to dQ of its row.",
        size: (620, 290),
        draw: backward,
    },
    Figure {
        name: "causal-tiles",
        description: "A score matrix of 8 by 8 tiles under a causal mask. 28 tiles below the diagonal are seen fully, 8 tiles on the diagonal are mixed, 28 tiles above are masked.",
        caption: "Tiles under a causal mask: full ones need no mask, mixed ones test each score, masked ones are never loaded.",
        size: (560, 290),
        draw: causal,
    },
    Figure {
        name: "flash-lanes",
        description: "Two uses of the 32 lanes of a warp. For the scores, lane j computes the score of key j for each of the warp's queries. For the output, lane d sums the weights times column d of v, and column d plus 32.",
        caption: "Rung 1: what a lane owns. While scores are computed, a key of the tile; while p v is computed, columns of o. The weights pass from lane to lane through shared memory.",
        size: (620, 250),
        draw: lanes,
    },
    Figure {
        name: "register-tile",
        description: "Left: a thread computes one score; for each step along D it loads one number of q and one of k for one multiply-add. Right: a thread computes 4 by 4 scores; it loads 4 numbers of q and 4 of k for 16 multiply-adds.",
        caption: "Numbers loaded from shared memory for each step along D, and the multiply-adds that they make. A square of 4 × 4 needs a quarter of the loads per multiply-add.",
        size: (620, 240),
        draw: register_tile,
    },
];

fn flash(c: &mut Canvas) {
    c.text(At::Start, 158.0, 20.0, "k, v");
    c.text(At::Start, 20.0, 84.0, "q");
    for tile in 0..6 {
        let x = 190.0 + 56.0 * f64::from(tile);
        let class = if tile == 2 { "orange" } else { "plain" };
        c.cell(class, x, 10.0, 52.0, 46.0, &format!("{tile}"));
    }
    for row in 0..4 {
        let y = 70.0 + 50.0 * f64::from(row);
        c.rect(if row == 1 { "blue" } else { "plain" }, 40.0, y, 60.0, 46.0);
        for tile in 0..6 {
            let class = match (row, tile) {
                (1, 2) => "red",
                (1, 0 | 1) => "done",
                _ => "ghost",
            };
            c.rect(class, 190.0 + 56.0 * f64::from(tile), y, 52.0, 46.0);
        }
        c.rect(
            if row == 1 { "green" } else { "plain" },
            544.0,
            y,
            60.0,
            46.0,
        );
    }
    c.text(At::Middle, 574.0, 60.0, "o");
    c.card("blue", 108.0, 120.0, 66.0, 46.0, &["m, l"]);
    c.arrow((200.0, 282.0), (510.0, 282.0));
    c.note(At::Start, 20.0, 286.0, "filled: on the chip, now");
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

fn causal(c: &mut Canvas) {
    for row in 0..8 {
        for column in 0..8 {
            let class = match column - row {
                0 => "orange",
                1.. => "ghost",
                _ => "blue",
            };
            c.rect(
                class,
                60.0 + 34.0 * f64::from(column),
                28.0 + 31.0 * f64::from(row),
                32.0,
                29.0,
            );
        }
    }
    c.note(At::Start, 60.0, 18.0, "keys");
    c.note(At::End, 52.0, 48.0, "queries");
    for (line, (class, text)) in [
        ("blue", "28 full"),
        ("orange", "8 mixed"),
        ("ghost", "28 masked: skipped"),
    ]
    .into_iter()
    .enumerate()
    {
        let y = 70.0 + 40.0 * line as f64;
        c.rect(class, 370.0, y, 28.0, 24.0);
        c.text(At::Start, 408.0, y + 17.0, text);
    }
}

fn lanes(c: &mut Canvas) {
    c.heading(At::Start, 10.0, 18.0, "scores: a lane is a key");
    c.heading(At::Start, 330.0, 18.0, "p v: a lane is a column of o");
    for row in 0..4 {
        c.rect("blue", 10.0, 92.0 + 24.0 * f64::from(row), 60.0, 21.0);
        for lane in 0..8 {
            c.rect(
                if lane == 2 { "orange" } else { "plain" },
                90.0 + 24.0 * f64::from(lane),
                92.0 + 24.0 * f64::from(row),
                21.0,
                21.0,
            );
            c.rect(
                "plain",
                330.0 + 13.0 * f64::from(lane),
                92.0 + 24.0 * f64::from(row),
                11.0,
                21.0,
            );
            c.rect(
                if lane == 2 { "green" } else { "plain" },
                450.0 + 18.0 * f64::from(lane),
                92.0 + 24.0 * f64::from(row),
                16.0,
                21.0,
            );
        }
    }
    for lane in 0..8 {
        c.rect(
            if lane == 2 { "orange" } else { "plain" },
            90.0 + 24.0 * f64::from(lane),
            30.0,
            21.0,
            54.0,
        );
        for key in 0..4 {
            c.rect(
                if lane == 2 { "green" } else { "plain" },
                450.0 + 18.0 * f64::from(lane),
                30.0 + 14.0 * f64::from(key),
                16.0,
                12.0,
            );
        }
    }
    c.text(At::Middle, 40.0, 212.0, "q");
    c.text(At::Start, 290.0, 62.0, "kᵀ");
    c.text(At::Middle, 186.0, 212.0, "s, then p");
    c.text(At::Middle, 382.0, 212.0, "p");
    c.text(At::Start, 600.0, 62.0, "v");
    c.text(At::Middle, 522.0, 212.0, "o");
    c.note(
        At::Start,
        10.0,
        240.0,
        "4 queries of a warp; 8 of 32 lanes are drawn, lane 2 is filled",
    );
}

fn register_tile(c: &mut Canvas) {
    for (panel, size) in [1, 4].into_iter().enumerate() {
        let left = 60.0 + 300.0 * panel as f64;
        c.heading(
            At::Start,
            left - 50.0,
            18.0,
            if size == 1 { "1 × 1" } else { "4 × 4" },
        );
        for index in 0..size {
            let offset = 34.0 * f64::from(index);
            c.cell("blue", left, 72.0 + offset, 30.0, 30.0, "q");
            c.cell("orange", left + 40.0 + offset, 32.0, 30.0, 30.0, "k");
            for other in 0..size {
                c.cell(
                    "green",
                    left + 40.0 + offset,
                    72.0 + 34.0 * f64::from(other),
                    30.0,
                    30.0,
                    "+=",
                );
            }
        }
        let (loads, products) = (2 * size, size * size);
        let text = format!(
            "{loads} loads, {products} multiply-add{}",
            if products == 1 { "" } else { "s" }
        );
        c.text(At::Start, left - 50.0, 230.0, &text);
    }
}
