//! Pictures of matrix products, and of what stage 2 moves.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[Figure {
    name: "stage2-traffic",
    description: "Four kernels one after the other: GEMM NT writes the scores to device memory, scale and mask reads and writes them, softmax reads them three times and writes them twice, GEMM NN reads them.",
    caption: "The score matrix passes through device memory after every step of stage 2.",
    size: (640, 220),
    draw: traffic,
}];

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
