//! Pictures of decoding with a cache.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "cache-step",
        description: "A cache with room for 10 tokens holds 6. The new token's key and value are written to slot 6. Then the new query attends to slots 0 to 6 and produces one row of o.",
        caption: "One decode step: the key and value of the new token go into the next free slot; its query then reads all filled slots.",
        size: (620, 200),
        draw: step,
    },
    Figure {
        name: "decode-owners",
        description: "Three steps for 128 keys. Scores: a warp has a key, its lanes lie along the columns of k. Softmax: a thread has a score. Sum: a thread has a column of o and goes over the rows of v. A barrier stands between the steps.",
        caption: "Who has what, for 128 keys at a time. Dashed lines are barriers.",
        size: (640, 190),
        draw: owners,
    },
    Figure {
        name: "split-kv",
        description: "The keys of one sequence are cut into four parts. Four blocks attend to one part each and write o and lse of their part. A second kernel combines them with weights exp of lse s minus lse.",
        caption: "Split decoding: each block attends to a part of the cache; combine weighs the parts by their log-sum-exp.",
        size: (620, 260),
        draw: split,
    },
    Figure {
        name: "grouped",
        description: "Left, rung 2: four blocks, one for each head of q, and each loads the same head of k and v. Right, rung 3: one block has the four heads of q as rows and loads k and v once.",
        caption: "Four heads of q share one head of k and v. Rung 2 loads it once for each head of q, rung 3 once.",
        size: (640, 230),
        draw: grouped,
    },
    Figure {
        name: "paging",
        description: "Two sequences. The page table of sequence a lists pages 2, 0 and 5; that of sequence b lists pages 2 and 4. Both share page 2. The pool has six pages of 4 tokens, in any order.",
        caption: "A paged cache: a page table says which page holds which tokens. Sequences a and b share page 2, where both begin with the same tokens.",
        size: (620, 230),
        draw: paging,
    },
    Figure {
        name: "decoder",
        description: "A decoder from left to right: tokens are embedded as rows x. Each of several blocks adds attention of the norm of x, and then the feed-forward part of the norm of x. A norm and a product with the output matrix give logits.",
        caption: "A decoder. Each block adds two things to the rows x: what they read from earlier rows, and what each computes by itself.",
        size: (640, 220),
        draw: decoder,
    },
    Figure {
        name: "phases",
        description: "A time line: one long prefill of the prompt, then short decode steps, one for each token. The time to first token is the prefill; the time between tokens is a decode step.",
        caption: "Prefill takes all tokens of the prompt in one pass. Then each pass takes one token and gives the next.",
        size: (640, 170),
        draw: phases,
    },
    Figure {
        name: "batching",
        description: "Two time lines of three places in a batch and five texts. Static: texts a, b and c of 3, 8 and 5 steps start together, and d and e of 4 and 3 steps wait until b ends; all ends after 12 steps, with many places idle. Continuous: d takes the place of a, and e that of c, as soon as they end; all ends after 8 steps.",
        caption: "Five texts and three places. A static batch waits for its longest text; a continuous one fills a place as soon as a text ends. Blue is the step with the prompt.",
        size: (640, 300),
        draw: batching,
    },
];

fn step(c: &mut Canvas) {
    for (row, name) in ["k cache", "v cache"].into_iter().enumerate() {
        let y = 50.0 + 56.0 * row as f64;
        c.text(At::End, 96.0, y + 24.0, name);
        for slot in 0..10 {
            let class = match slot {
                0..6 => "blue",
                6 => "orange",
                _ => "ghost",
            };
            c.cell(
                class,
                110.0 + 46.0 * f64::from(slot),
                y,
                42.0,
                36.0,
                &slot.to_string(),
            );
        }
    }
    c.cell("orange", 386.0, 4.0, 42.0, 28.0, "new");
    c.arrow((407.0, 33.0), (407.0, 48.0));
    c.cell("green", 20.0, 162.0, 76.0, 30.0, "q, 1 row");
    c.arrow((110.0, 177.0), (424.0, 177.0));
    c.note(At::Middle, 266.0, 170.0, "reads slots 0 … 6");
    c.cell("red", 436.0, 162.0, 76.0, 30.0, "o, 1 row");
}

fn owners(c: &mut Canvas) {
    c.heading(At::Middle, 105.0, 20.0, "scores");
    c.heading(At::Middle, 320.0, 20.0, "softmax");
    c.heading(At::Middle, 535.0, 20.0, "sum");
    for row in 0..4 {
        let y = 36.0 + 26.0 * f64::from(row);
        let class = if row == 1 { "orange" } else { "plain" };
        c.rect(class, 20.0, y, 170.0, 22.0);
        c.rect(class, 290.0, y, 60.0, 22.0);
        for column in 0..6 {
            let class = if column == 1 { "orange" } else { "plain" };
            c.rect(class, 450.0 + 29.0 * f64::from(column), y, 25.0, 22.0);
        }
    }
    c.text(At::Middle, 105.0, 77.0, "lanes 0 … 31 of a warp");
    c.note(At::Middle, 105.0, 162.0, "rows of k: a warp has a key");
    c.note(At::Middle, 320.0, 162.0, "a thread has a score");
    c.note(At::Middle, 535.0, 162.0, "rows of v: a thread has a column");
    c.line("barrier", (230.0, 10.0), (230.0, 180.0));
    c.line("barrier", (410.0, 10.0), (410.0, 180.0));
}

fn split(c: &mut Canvas) {
    for part in 0..4 {
        let x = 60.0 + 130.0 * f64::from(part);
        c.cell("blue", x, 20.0, 124.0, 34.0, &format!("keys, part {part}"));
        c.arrow((x + 62.0, 56.0), (x + 62.0, 84.0));
        c.cell(
            "orange",
            x + 12.0,
            86.0,
            100.0,
            34.0,
            &format!("block {part}"),
        );
        c.arrow((x + 62.0, 122.0), (x + 62.0, 148.0));
        c.cell("green", x + 12.0, 150.0, 100.0, 32.0, "oₛ, lseₛ");
        c.arrow(
            (x + 62.0, 184.0),
            (318.0 + 20.0 * (f64::from(part) - 1.5), 212.0),
        );
    }
    c.cell(
        "red",
        200.0,
        214.0,
        236.0,
        34.0,
        "combine: Σ exp(lseₛ − lse) oₛ",
    );
}

fn grouped(c: &mut Canvas) {
    c.heading(
        At::Middle,
        150.0,
        20.0,
        "rung 2: a block for each head of q",
    );
    c.heading(At::Middle, 490.0, 20.0, "rung 3: a block for the group");
    for head in 0..4 {
        let y = 36.0 + 46.0 * f64::from(head);
        c.cell("blue", 20.0, y, 110.0, 36.0, &format!("q head {head}"));
        c.arrow((210.0, 122.0), (134.0, y + 18.0));
        c.rect("blue", 360.0, y, 110.0, 40.0);
        c.text(At::Middle, 415.0, y + 24.0, &format!("q head {head}"));
    }
    c.rect("outline", 352.0, 30.0, 126.0, 190.0);
    c.card("orange", 212.0, 92.0, 90.0, 60.0, &["k, v", "head 0"]);
    c.arrow((548.0, 122.0), (482.0, 122.0));
    c.card("orange", 550.0, 92.0, 84.0, 60.0, &["k, v", "head 0"]);
    c.note(At::Middle, 257.0, 172.0, "loaded 4 times");
    c.note(At::Middle, 592.0, 172.0, "loaded once");
}

fn paging(c: &mut Canvas) {
    let tables: [(&str, &[u32]); 2] = [("a", &[2, 0, 5]), ("b", &[2, 4])];
    let page_x = |page: u32| 40.0 + 96.0 * f64::from(page);
    for (row, (name, pages)) in tables.into_iter().enumerate() {
        let left = 60.0 + 300.0 * row as f64;
        c.text(At::End, left - 8.0, 34.0, name);
        for (index, page) in pages.iter().enumerate() {
            let x = left + 44.0 * index as f64;
            let class = if row == 0 { "blue" } else { "orange" };
            c.cell(class, x, 16.0, 40.0, 28.0, &page.to_string());
            c.arrow(
                (x + 20.0, 46.0),
                (page_x(*page) + 40.0 + 8.0 * row as f64, 148.0),
            );
        }
    }
    c.note(At::End, 612.0, 34.0, "page tables");
    for page in 0..6 {
        let class = match page {
            2 => "green",
            0 | 5 => "blue",
            4 => "orange",
            _ => "ghost",
        };
        for token in 0..4 {
            c.rect(
                class,
                page_x(page) + 21.0 * f64::from(token),
                150.0,
                19.0,
                36.0,
            );
        }
        c.note(
            At::Middle,
            page_x(page) + 41.0,
            204.0,
            &format!("page {page}"),
        );
    }
    c.note(At::Start, 40.0, 224.0, "the pool; dashed pages are free");
}

fn decoder(c: &mut Canvas) {
    c.card("plain", 6.0, 84.0, 74.0, 44.0, &["tokens"]);
    c.card("blue", 100.0, 84.0, 74.0, 44.0, &["embed"]);
    c.arrow((82.0, 106.0), (98.0, 106.0));
    c.rect("outline", 194.0, 22.0, 268.0, 150.0);
    c.note(
        At::Start,
        202.0,
        188.0,
        "a block; there are 12 in a small GPT-2",
    );
    c.line("arrow", (176.0, 106.0), (480.0, 106.0));
    for (index, (name, class)) in [("attention", "orange"), ("feed-forward", "green")]
        .into_iter()
        .enumerate()
    {
        let x = 206.0 + 130.0 * index as f64;
        c.cell("plain", x, 66.0, 100.0, 26.0, "norm");
        c.cell(class, x, 30.0, 100.0, 26.0, name);
        c.arrow((x + 8.0, 106.0), (x + 8.0, 94.0));
        c.arrow((x + 50.0, 66.0), (x + 50.0, 57.0));
        c.chain(
            "path",
            &[(x + 100.0, 43.0), (x + 112.0, 43.0), (x + 112.0, 96.0)],
        );
        c.dot("spot", x + 112.0, 106.0);
        c.note(At::Middle, x + 112.0, 128.0, "+");
    }
    c.note(At::Middle, 328.0, 156.0, "x, one row for each token");
    c.card("plain", 482.0, 84.0, 60.0, 44.0, &["norm"]);
    c.arrow((544.0, 106.0), (556.0, 106.0));
    c.card("red", 558.0, 84.0, 76.0, 44.0, &["logits"]);
}

fn phases(c: &mut Canvas) {
    c.cell("blue", 20.0, 54.0, 220.0, 44.0, "prefill: Once upon a time");
    for (step, word) in [",", "there", "was", "a", "little"].into_iter().enumerate() {
        c.cell("orange", 246.0 + 74.0 * step as f64, 54.0, 70.0, 44.0, word);
    }
    c.note(At::Middle, 130.0, 30.0, "TTFT");
    c.line("guide", (20.0, 38.0), (240.0, 38.0));
    c.note(At::Middle, 281.0, 30.0, "TBT");
    c.line("guide", (246.0, 38.0), (316.0, 38.0));
    c.arrow((20.0, 128.0), (620.0, 128.0));
    c.note(
        At::Start,
        20.0,
        150.0,
        "time; a decode step is drawn with the token that goes into it",
    );
}

fn batching(c: &mut Canvas) {
    /// A text: its name, its place, its first step and the one after its last.
    type Text = (&'static str, usize, usize, usize);
    const STATIC: &[Text] = &[
        ("a", 0, 0, 3),
        ("b", 1, 0, 8),
        ("c", 2, 0, 5),
        ("d", 0, 8, 12),
        ("e", 1, 8, 11),
    ];
    const CONTINUOUS: &[Text] = &[
        ("a", 0, 0, 3),
        ("b", 1, 0, 8),
        ("c", 2, 0, 5),
        ("d", 0, 3, 7),
        ("e", 2, 5, 8),
    ];
    for (top, heading, texts) in [(30.0, "static", STATIC), (162.0, "continuous", CONTINUOUS)] {
        c.text(At::Start, 20.0, top - 8.0, heading);
        for &(name, place, first, end) in texts {
            for step in first..end {
                let class = if step == first { "blue" } else { "orange" };
                let (x, y) = (20.0 + 50.0 * step as f64, top + 32.0 * place as f64);
                c.cell(class, x, y, 46.0, 28.0, name);
            }
        }
    }
    c.arrow((20.0, 272.0), (620.0, 272.0));
    c.note(At::Start, 20.0, 292.0, "time, in passes of the decoder");
}
