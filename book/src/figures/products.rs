//! Pictures of matrix products, and of what stage 2 moves.

use super::Figure;
use super::canvas::{At, Canvas};

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "nn-nt",
        description: "Two products. NN: a row of a meets a column of b. NT: a row of a meets a row of b. In both, the 32 lanes of a warp compute 32 neighbouring elements of a row of c. In NN they read 32 neighbouring elements of a row of b; in NT each lane reads from another row of b.",
        caption: "Which elements of b the lanes of a warp read at the same moment (filled). In NN they are neighbours in memory, in NT they are a whole row apart.",
        size: (640, 280),
        draw: nn_nt,
    },
    Figure {
        name: "tiled-product",
        description: "A tile of c is the sum of products of tiles along a row of tiles of a and a column of tiles of b. In each step one tile of a and one of b lie in shared memory.",
        caption: "A block computes one tile of c. It walks along k; in each step one tile of a and one of b are in shared memory (filled).",
        size: (560, 316),
        draw: tiled,
    },
    Figure {
        name: "stage2-traffic",
        description: "Four kernels one after the other: GEMM NT writes the scores to device memory, scale and mask reads and writes them, softmax reads them three times and writes them twice, GEMM NN reads them.",
        caption: "The score matrix passes through device memory after every step of stage 2.",
        size: (640, 220),
        draw: traffic,
    },
];

/// A grid of cells, of which some are filled.
fn matrix(
    c: &mut Canvas,
    at: (f64, f64),
    size: (u32, u32),
    class: impl Fn(u32, u32) -> &'static str,
) {
    for row in 0..size.0 {
        for column in 0..size.1 {
            let (x, y) = (
                at.0 + 16.0 * f64::from(column),
                at.1 + 16.0 * f64::from(row),
            );
            c.rect(class(row, column), x, y, 14.0, 14.0);
        }
    }
}

fn nn_nt(c: &mut Canvas) {
    c.heading(At::Start, 10.0, 18.0, "NN: c = a b");
    c.text(At::Middle, 54.0, 160.0, "a  [m, k]");
    matrix(c, (14.0, 172.0), (5, 5), |row, column| {
        match (row, column) {
            (1, 2) => "orange",
            (1, _) => "blue",
            _ => "plain",
        }
    });
    c.text(At::Start, 226.0, 66.0, "b  [k, n]");
    matrix(c, (118.0, 34.0), (5, 6), |row, _| {
        if row == 2 { "orange" } else { "plain" }
    });
    c.text(At::Start, 226.0, 214.0, "c  [m, n]");
    matrix(c, (118.0, 172.0), (5, 6), |row, _| {
        if row == 1 { "green" } else { "plain" }
    });
    c.note(At::Start, 118.0, 128.0, "p = 2: 6 lanes, 6 neighbours");
    c.heading(At::Start, 340.0, 18.0, "NT: c = a bᵀ");
    c.text(At::Middle, 384.0, 160.0, "a  [m, k]");
    matrix(c, (344.0, 172.0), (5, 5), |row, column| {
        match (row, column) {
            (1, 2) => "orange",
            (1, _) => "blue",
            _ => "plain",
        }
    });
    c.text(At::Start, 540.0, 66.0, "b  [n, k]");
    matrix(c, (448.0, 34.0), (6, 5), |_, column| {
        if column == 2 { "orange" } else { "plain" }
    });
    c.text(At::Start, 556.0, 214.0, "c  [m, n]");
    matrix(c, (448.0, 172.0), (5, 6), |row, _| {
        if row == 1 { "green" } else { "plain" }
    });
    c.note(At::Start, 448.0, 146.0, "p = 2: 6 lanes, 6 rows");
    c.note(
        At::Start,
        10.0,
        274.0,
        "6 of 32 lanes; each computes one element of the filled row of c",
    );
}

fn tiled(c: &mut Canvas) {
    let tile = |c: &mut Canvas, class: &str, x: f64, y: f64, text: &str| {
        c.cell(class, x, y, 50.0, 50.0, text)
    };
    c.text(At::Start, 30.0, 110.0, "a");
    for row in 0..3 {
        for step in 0..4 {
            let class = match (row, step) {
                (1, 2) => "orange",
                (1, _) => "blue",
                _ => "plain",
            };
            tile(
                c,
                class,
                30.0 + 52.0 * f64::from(step),
                120.0 + 52.0 * f64::from(row),
                "",
            );
        }
    }
    c.text(At::Start, 470.0, 40.0, "b");
    for step in 0..2 {
        for column in 0..4 {
            let class = match (step, column) {
                (1, 1) => "orange",
                (_, 1) => "blue",
                _ => "plain",
            };
            tile(
                c,
                class,
                256.0 + 52.0 * f64::from(column),
                8.0 + 52.0 * f64::from(step),
                "",
            );
        }
    }
    c.text(At::Start, 470.0, 150.0, "c");
    for row in 0..3 {
        for column in 0..4 {
            let class = if (row, column) == (1, 1) {
                "green"
            } else {
                "plain"
            };
            tile(
                c,
                class,
                256.0 + 52.0 * f64::from(column),
                120.0 + 52.0 * f64::from(row),
                "",
            );
        }
    }
    c.arrow((30.0, 288.0), (236.0, 288.0));
    c.note(At::Start, 30.0, 306.0, "k0 = 0, 16, 32, …");
    c.note(
        At::Start,
        256.0,
        292.0,
        "filled tile of c: one block, 16 × 16 threads",
    );
}

fn traffic(c: &mut Canvas) {
    c.cell(
        "red",
        10.0,
        150.0,
        620.0,
        44.0,
        "scores [B, H, nq, nk], in device memory",
    );
    let kernels = [
        ("gemm_nt", &["write"][..]),
        ("scale_and_mask", &["read", "write"][..]),
        ("softmax", &["read", "read", "write", "read", "write"][..]),
        ("gemm_nn", &["read"][..]),
    ];
    for (index, (name, accesses)) in kernels.into_iter().enumerate() {
        let x = 10.0 + 158.0 * index as f64;
        c.cell("blue", x, 20.0, 146.0, 40.0, name);
        for (access, kind) in accesses.iter().enumerate() {
            let at = x + 146.0 * (access as f64 + 1.0) / (accesses.len() as f64 + 1.0);
            if *kind == "write" {
                c.arrow((at, 62.0), (at, 148.0));
            } else {
                c.arrow((at, 148.0), (at, 62.0));
            }
        }
    }
    c.note(At::Start, 10.0, 212.0, "down: written; up: read");
}
