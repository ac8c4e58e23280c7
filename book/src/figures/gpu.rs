//! Pictures of how a GPU runs a kernel.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "grid",
        description: "A grid of six blocks. One block is shown in detail: four warps. One warp is shown in detail: 32 lanes, numbered 0 to 31.",
        caption: "A launch is a grid of blocks. A block is some warps. A warp is 32 lanes, each of which runs one thread.",
        size: (620, 270),
        draw: grid,
    },
    Figure {
        name: "memory",
        description: "Four kinds of memory from fast to slow: registers of one thread, shared memory of one block, the L2 cache of all blocks, and device memory.",
        caption: "Memory of an H100, with the sizes of the whole chip. Each kind is slower than the one above it.",
        size: (650, 270),
        draw: memory,
    },
    Figure {
        name: "race",
        description: "Two timelines of two warps. Without a barrier, warp 1 reads the tile before warp 0 has written its part. With a barrier, both warps write, wait for each other, and then read.",
        caption: "Two warps and one tile in shared memory. Without the barrier, the result depends on which warp is faster.",
        size: (620, 250),
        draw: race,
    },
];

fn grid(c: &mut Canvas) {
    c.line("guide", (126.0, 82.0), (220.0, 32.0));
    c.line("guide", (126.0, 124.0), (220.0, 174.0));
    c.line("guide", (228.0, 99.0), (10.0, 226.0));
    c.line("guide", (432.0, 99.0), (610.0, 226.0));
    c.heading(At::Start, 10.0, 20.0, "grid");
    for block in 0..6 {
        let (x, y) = (
            10.0 + 62.0 * f64::from(block % 2),
            32.0 + 50.0 * f64::from(block / 2),
        );
        let class = if block == 3 { "blue" } else { "plain" };
        c.cell(class, x, y, 54.0, 42.0, &format!("block {block}"));
    }
    c.heading(At::Start, 220.0, 20.0, "block 3");
    c.rect("outline", 220.0, 32.0, 220.0, 142.0);
    for warp in 0..4 {
        let class = if warp == 1 { "orange" } else { "plain" };
        let y = 40.0 + 33.0 * f64::from(warp);
        c.cell(
            class,
            228.0,
            y,
            204.0,
            26.0,
            &format!("warp {warp}: threads {}…{}", 32 * warp, 32 * warp + 31),
        );
    }
    c.heading(At::Start, 10.0, 214.0, "warp 1");
    for lane in 0..32 {
        let x = 10.0 + 18.75 * f64::from(lane);
        c.rect("orange", x, 226.0, 17.0, 26.0);
        c.note(At::Middle, x + 8.5, 243.0, &lane.to_string());
    }
}

fn memory(c: &mut Canvas) {
    let kinds = [
        ("green", "registers", "one thread", "33 MiB: 256 KiB per SM"),
        (
            "blue",
            "shared memory",
            "the threads of a block",
            "up to 29 MiB: 228 KiB per SM",
        ),
        ("orange", "L2 cache", "all blocks", "50 MiB"),
        (
            "red",
            "device memory",
            "all blocks, and the host by copies",
            "80 GiB",
        ),
    ];
    c.note(At::Start, 400.0, 18.0, "who sees it, and its size");
    for (row, (class, name, who, size)) in kinds.into_iter().enumerate() {
        let y = 28.0 + 60.0 * row as f64;
        let width = 120.0 + 80.0 * row as f64;
        c.cell(class, 200.0 - width / 2.0, y, width, 44.0, name);
        c.text(At::Start, 400.0, y + 18.0, who);
        c.note(At::Start, 400.0, y + 36.0, size);
        if row > 0 {
            c.arrow((190.0, y - 15.0), (190.0, y - 1.0));
            c.arrow((210.0, y - 1.0), (210.0, y - 15.0));
        }
    }
}

fn race(c: &mut Canvas) {
    for (panel, title) in ["without a barrier", "with __syncthreads()"]
        .into_iter()
        .enumerate()
    {
        let top = 20.0 + 122.0 * panel as f64;
        c.heading(At::Start, 10.0, top, title);
        for warp in 0..2 {
            let y = top + 12.0 + 40.0 * f64::from(warp);
            c.text(At::Start, 10.0, y + 20.0, &format!("warp {warp}"));
            let (write, read) = match (panel, warp) {
                (0, 0) => ((230.0, 150.0), (390.0, 120.0)),
                (0, _) => ((80.0, 120.0), (208.0, 130.0)),
                (_, 0) => ((230.0, 150.0), (420.0, 120.0)),
                (_, _) => ((80.0, 120.0), (420.0, 120.0)),
            };
            c.cell("blue", write.0, y, write.1, 30.0, "writes its part");
            let wrong = (panel, warp) == (0, 1);
            let text = if wrong {
                "reads too early"
            } else {
                "reads the tile"
            };
            c.cell(
                if wrong { "red" } else { "green" },
                read.0,
                y,
                read.1,
                30.0,
                text,
            );
        }
        if panel == 1 {
            c.line("barrier", (400.0, top + 6.0), (400.0, top + 88.0));
        }
    }
    c.arrow((80.0, 242.0), (600.0, 242.0));
    c.note(At::End, 70.0, 246.0, "time");
}
