//! Pictures of attention itself.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "attention",
        description: "The matrices of one head. q with nq rows and D columns times k transposed gives the scores, nq by nk. Softmax of each row gives the weights p. p times v, nk by D, gives o, nq by D.",
        caption: "One head of attention. A row of each matrix belongs to a token: queries on the left, keys and values above and to the right.",
        size: (640, 230),
        draw: attention,
    },
    Figure {
        name: "causal",
        description: "Two masks. With 6 queries and 6 keys, query i sees keys 0 to i: a triangle. With 3 queries and 6 keys, the first query sees 4 keys, the last one all 6: the triangle is aligned at the bottom right corner.",
        caption: "Causal masks. Filled: the query sees the key. The last query always sees all keys.",
        size: (600, 250),
        draw: causal,
    },
    Figure {
        name: "heads",
        description: "A matrix of N rows and hidden columns is cut into four bands of D columns. Each band becomes the N by D matrix of one head.",
        caption: "Splitting heads: D neighbouring columns of each token belong to one head. [B, N, hidden] becomes [B, H, N, D].",
        size: (620, 210),
        draw: heads,
    },
];

fn attention(c: &mut Canvas) {
    c.cell("blue", 20.0, 80.0, 44.0, 110.0, "q");
    c.note(At::Middle, 42.0, 206.0, "nq × D");
    c.cell("orange", 90.0, 22.0, 110.0, 44.0, "kᵀ");
    c.note(At::Start, 206.0, 48.0, "D × nk");
    c.cell("plain", 90.0, 80.0, 110.0, 110.0, "s = q kᵀ");
    c.note(At::Middle, 145.0, 206.0, "nq × nk");
    c.arrow((208.0, 135.0), (276.0, 135.0));
    c.note(At::Middle, 242.0, 112.0, "scale,");
    c.note(At::Middle, 242.0, 126.0, "mask, softmax");
    c.cell("plain", 286.0, 80.0, 110.0, 110.0, "p");
    c.note(At::Middle, 341.0, 206.0, "rows sum to 1");
    c.text(At::Middle, 414.0, 140.0, "×");
    c.cell("green", 432.0, 80.0, 44.0, 110.0, "v");
    c.note(At::Middle, 454.0, 206.0, "nk × D");
    c.text(At::Middle, 500.0, 140.0, "=");
    c.cell("red", 524.0, 80.0, 44.0, 110.0, "o");
    c.note(At::Middle, 546.0, 206.0, "nq × D");
}

fn causal(c: &mut Canvas) {
    for (panel, rows) in [6, 3].into_iter().enumerate() {
        let (left, top) = (70.0 + 290.0 * panel as f64, 46.0);
        c.heading(At::Start, left, 18.0, &format!("nq = {rows}, nk = 6"));
        for key in 0..6 {
            c.note(
                At::Middle,
                left + 14.0 + 30.0 * f64::from(key),
                38.0,
                &key.to_string(),
            );
        }
        for query in 0..rows {
            let y = top + 28.0 * f64::from(query);
            c.note(At::End, left - 8.0, y + 17.0, &format!("query {query}"));
            for key in 0..6 {
                let seen = key <= query + 6 - rows;
                c.rect(
                    if seen { "blue" } else { "ghost" },
                    left + 30.0 * f64::from(key),
                    y,
                    27.0,
                    25.0,
                );
            }
        }
    }
    c.text(
        At::Start,
        70.0,
        238.0,
        "query i sees the keys j ≤ i + nk − nq",
    );
}

fn heads(c: &mut Canvas) {
    let classes = ["blue", "orange", "green", "red"];
    c.note(At::Middle, 140.0, 20.0, "x w_q, [N, hidden]");
    for (head, class) in classes.into_iter().enumerate() {
        c.rect(class, 40.0 + 50.0 * head as f64, 32.0, 50.0, 120.0);
        c.note(At::Middle, 65.0 + 50.0 * head as f64, 168.0, "D");
    }
    c.note(At::Middle, 24.0, 96.0, "N");
    c.arrow((256.0, 92.0), (320.0, 92.0));
    for (head, class) in classes.into_iter().enumerate() {
        let x = 340.0 + 68.0 * head as f64;
        c.cell(class, x, 32.0, 50.0, 120.0, &head.to_string());
        c.note(At::Middle, x + 25.0, 168.0, &format!("head {head}"));
    }
    c.note(At::Middle, 467.0, 196.0, "each head attends by itself");
}
