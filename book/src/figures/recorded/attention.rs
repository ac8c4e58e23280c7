//! The fused kernel, recorded: the walk of a block, the words that lanes read, the scores of a thread.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use gpu_recording::{Access, At, Canvas, Kind, Picture, Recording, Scalar, Space};

use super::{drawn, held, range, rows_of, touches};

/// The walk of a block over the tiles: elements of q, k and v are 0, 1, 2, …, so what a tile holds is where it comes from.
pub fn flash(recordings: &[Recording]) -> Result<Picture> {
    const ROW: f64 = 1.7; // height of a query, width of a key
    const SCORES: (f64, f64) = (170.0, 70.0);
    const QUERIES: f64 = 128.0;
    let recording = &recordings[0];
    let bytes = |name: &str| {
        recording
            .arrays
            .iter()
            .find(|array| array.name == name)
            .map(|array| array.bytes)
    };
    let columns = bytes("q_smem").context("it has no q_smem")? / 4 / 32;
    let held = held(recording);
    // Each row of weights that warp 0 stores is a step; a tile of keys is new where they begin again at row 0.
    let stores_p = |access: &Access| touches(recording, access, "p_smem") && access.offsets[0] == 0;
    let starts: Vec<usize> = (0..recording.steps.len())
        .filter(|&at| recording.steps[at].accesses.iter().any(stores_p))
        .collect();
    ensure!(starts.len() == 4, "it walks over {} tiles", starts.len());
    let queries = range(&rows_of(recording, &held[starts[2]], "q_smem", columns))?;
    // The weights of a tile are complete when those of the next begin.
    let weights = |word: &(&(usize, u64), &&Scalar)| recording.arrays[word.0.0].name == "p_smem";
    let complete = held[starts[3]].iter().filter(weights).count();
    ensure!(
        complete == 32 * 32,
        "{complete} weights are in shared memory"
    );

    let mut c = Canvas::new();
    let place = |at: f64| ROW * at;
    for tile in 0..4 {
        let at = place(32.0 * f64::from(tile));
        c.rect("plain", 60.0, SCORES.1 + at, 60.0, ROW * 32.0 - 3.0);
        c.rect("plain", SCORES.0 + at, 8.0, ROW * 32.0 - 3.0, 22.0);
        c.rect("plain", SCORES.0 + at, 34.0, ROW * 32.0 - 3.0, 22.0);
        c.rect(
            "plain",
            SCORES.0 + place(QUERIES) + 40.0,
            SCORES.1 + at,
            60.0,
            ROW * 32.0 - 3.0,
        );
        for other in 0..4 {
            let y = SCORES.1 + place(32.0 * f64::from(other));
            c.rect(
                "ghost",
                SCORES.0 + at,
                y,
                ROW * 32.0 - 3.0,
                ROW * 32.0 - 3.0,
            );
        }
    }
    let top = SCORES.1 + place(queries.0);
    c.rect("blue", 60.0, top, 60.0, ROW * queries.1 - 3.0);
    for (step, &start) in starts.iter().take(3).enumerate() {
        let now = step == 2;
        for (array, y) in [("k_smem", 8.0), ("v_smem", 34.0)] {
            let keys = range(&rows_of(recording, &held[start], array, columns))?;
            let (x, width) = (SCORES.0 + place(keys.0), ROW * keys.1 - 3.0);
            c.rect(if now { "orange" } else { "done" }, x, y, width, 22.0);
            if array == "k_smem" {
                c.rect(
                    if now { "red" } else { "done" },
                    x,
                    top,
                    width,
                    ROW * queries.1 - 3.0,
                );
            }
        }
    }
    let stored = recording.steps.iter().flat_map(|step| &step.accesses);
    let stored =
        stored.filter(|access| access.kind == Kind::Store && access.space == Space::Global);
    let rows: BTreeSet<u64> = stored
        .flat_map(|access| &access.offsets)
        .map(|offset| offset / 4 / columns)
        .collect();
    let rows = range(&rows)?;
    let x = SCORES.0 + place(QUERIES) + 40.0;
    c.rect("green", x, SCORES.1 + place(rows.0), 60.0, ROW * rows.1);
    c.text(At::End, SCORES.0 - 10.0, 24.0, "k");
    c.text(At::End, SCORES.0 - 10.0, 50.0, "v");
    c.text(At::End, 50.0, SCORES.1 + 20.0, "q");
    c.text(At::Start, x + 68.0, SCORES.1 + 20.0, "o");
    let below = SCORES.1 + place(QUERIES) + 14.0;
    c.arrow((SCORES.0, below), (SCORES.0 + place(QUERIES), below));
    c.note(
        At::Start,
        SCORES.0,
        below + 20.0,
        "steps of the loop over keys",
    );
    Ok(drawn(c, (580, below as u32 + 28)))
}

/// A row of tiles for each block: those that it loads, and those of them with hidden scores.
pub fn causal(recordings: &[Recording]) -> Result<Picture> {
    const TILE: f64 = 54.0;
    const COLUMNS: u64 = 16; // D
    let mut c = Canvas::new();
    let mut seen = BTreeMap::from([("blue", 0), ("orange", 0), ("ghost", 16)]);
    for row in 0..4 {
        for column in 0..4 {
            let (x, y) = (
                64.0 + TILE * f64::from(column),
                28.0 + TILE * f64::from(row),
            );
            c.rect("ghost", x, y, TILE - 4.0, TILE - 4.0);
        }
    }
    for recording in recordings {
        let held = held(recording);
        // A walk to a tile: its keys, and true if some of its scores are hidden.
        let mut walk: Vec<(u64, bool)> = Vec::new();
        let mut row = 0.0;
        for held in &held {
            let keys = range(&rows_of(recording, held, "k_smem", COLUMNS))?;
            row = range(&rows_of(recording, held, "q_smem", COLUMNS))?.0 / 32.0;
            let is_hidden = |(word, value): (&(usize, u64), &&Scalar)| {
                recording.arrays[word.0].name == "p_smem" && matches!(value, Scalar::Float(0.0))
            };
            walk.push((keys.0 as u64 / 32, held.iter().any(is_hidden)));
        }
        for (tile, is_mixed) in walk {
            let class = if is_mixed { "orange" } else { "blue" };
            *seen.entry(class).or_default() += 1;
            *seen.entry("ghost").or_default() -= 1;
            let (x, y) = (64.0 + TILE * tile as f64, 28.0 + TILE * row);
            c.rect(class, x, y, TILE - 4.0, TILE - 4.0);
        }
    }
    c.note(At::Start, 64.0, 18.0, "keys");
    c.note(At::End, 56.0, 48.0, "queries");
    let kinds = [
        ("blue", "full"),
        ("orange", "mixed"),
        ("ghost", "masked: never loaded"),
    ];
    for (line, (class, text)) in kinds.into_iter().enumerate() {
        let y = 256.0 + 32.0 * line as f64;
        c.rect(class, 64.0, y, 28.0, 24.0);
        c.text(
            At::Start,
            102.0,
            y + 17.0,
            &format!("{} {text}", seen[class]),
        );
    }
    Ok(drawn(c, (300, 350)))
}

/// A map of a shared array, `columns` words wide, and in it the words of accesses: orange those of lane 2.
fn map(c: &mut Canvas, at: (f64, f64), size: (u64, u64), stride: u64, read: &[&Access]) {
    const CELL: f64 = 4.4;
    let (rows, columns) = size;
    c.rect(
        "plain",
        at.0,
        at.1,
        CELL * columns as f64,
        CELL * rows as f64,
    );
    for access in read {
        // All lanes may read the same word: it is drawn once, as a word of lane 2 too.
        for (lane, offset) in access.lanes.iter().zip(&access.offsets) {
            let (row, column) = (offset / 4 / stride, offset / 4 % stride);
            let is_shared = access.offsets.iter().all(|other| other == offset);
            let class = if *lane == LANE || is_shared {
                "orange"
            } else {
                "blue"
            };
            if is_shared && *lane != LANE {
                continue;
            }
            let (x, y) = (at.0 + CELL * column as f64, at.1 + CELL * row as f64);
            c.rect(class, x, y, CELL - 0.6, CELL - 0.6);
        }
    }
}

/// The lane that is followed in a picture.
const LANE: u32 = 2;

/// The first loads from a shared array.
fn loads<'a>(recording: &'a Recording, array: &str, count: usize) -> Result<Vec<&'a Access>> {
    let all = recording.steps.iter().flat_map(|step| &step.accesses);
    let found: Vec<&Access> = all
        .filter(|access| access.kind == Kind::Load && touches(recording, access, array))
        .take(count)
        .collect();
    ensure!(found.len() == count, "{} loads from {array}", found.len());
    Ok(found)
}

/// The words of shared memory that a warp reads at once: for the scores, where a lane is a key, and for the output, where a lane
/// is a column.
pub fn lanes(recordings: &[Recording]) -> Result<Picture> {
    let mut c = Canvas::new();
    let [scores, output] = recordings else {
        bail!("it is drawn from two recordings");
    };
    c.heading(At::Start, 8.0, 18.0, "scores: a lane is a key");
    c.note(
        At::Start,
        8.0,
        42.0,
        "q_smem, 4 rows of the warp: one word each",
    );
    map(
        &mut c,
        (8.0, 50.0),
        (4, 64),
        64,
        &loads(scores, "q_smem", 4)?,
    );
    c.note(At::Start, 8.0, 92.0, "k_smem: a row for each lane");
    map(
        &mut c,
        (8.0, 100.0),
        (32, 64),
        65,
        &loads(scores, "k_smem", 1)?,
    );
    c.heading(At::Start, 330.0, 18.0, "p v: a lane is two columns of o");
    c.note(
        At::Start,
        330.0,
        42.0,
        "p_smem, 4 rows of the warp: one word each",
    );
    let of_key = |access: &&Access| access.offsets[0].is_multiple_of(128);
    let p: Vec<&Access> = loads(output, "p_smem", 8)?
        .into_iter()
        .filter(of_key)
        .collect();
    map(&mut c, (330.0, 50.0), (4, 32), 32, &p);
    c.note(At::Start, 330.0, 92.0, "v_smem: two columns for each lane");
    map(
        &mut c,
        (330.0, 100.0),
        (32, 64),
        64,
        &loads(output, "v_smem", 2)?,
    );
    c.rect("orange", 8.0, 256.0, 12.0, 12.0);
    c.note(At::Start, 26.0, 267.0, "lane 2");
    c.rect("blue", 90.0, 256.0, 12.0, 12.0);
    c.note(At::Start, 108.0, 267.0, "other lanes");
    Ok(drawn(c, (630, 276)))
}

/// The scores of one lane in its tile, and the rows that they are made of.
pub fn register_tile(recordings: &[Recording]) -> Result<Picture> {
    let mut c = Canvas::new();
    const SIDE: f64 = 236.0;
    let [rung_1, rung_2] = recordings else {
        bail!("it is drawn from two recordings");
    };
    // Rows of 16 floats in q_smem, of 20 in k_smem.
    let (q, k) = (loads(rung_2, "q_smem", 8)?, loads(rung_2, "k_smem", 2)?);
    let panels = [
        (
            "rung 1",
            (32, 32),
            rows(&loads(rung_1, "q_smem", 4)?, 64)?,
            rows(&loads(rung_1, "k_smem", 1)?, 65)?,
        ),
        ("rung 2", (64, 32), rows(&q, 16)?, rows(&k, 20)?),
    ];
    for (panel, (name, tile, queries, keys)) in panels.into_iter().enumerate() {
        let (height, width) = (SIDE / f64::from(tile.0), SIDE / f64::from(tile.1));
        let mark = |cell| f64::max(cell, 7.0); // a smaller one would be all edge
        let (left, top) = (44.0 + 310.0 * panel as f64, 66.0);
        c.heading(At::Start, left - 34.0, 18.0, name);
        let (loads, products) = (queries.len() + keys.len(), queries.len() * keys.len());
        c.note(
            At::Start,
            left + 24.0,
            18.0,
            &format!("{loads} numbers, {products} multiply-adds"),
        );
        c.note(At::Start, left, 40.0, &format!("k: {} rows", tile.1));
        c.note(At::End, left - 26.0, top + 14.0, "q");
        c.rect("plain", left - 20.0, top, 14.0, SIDE);
        c.rect("plain", left, top - 20.0, SIDE, 14.0);
        c.rect("plain", left, top, SIDE, SIDE);
        let down = |query: &u64| top + height * *query as f64;
        let across = |key: &u64| left + width * *key as f64;
        for query in &queries {
            c.rect("blue", left - 20.0, down(query), 14.0, mark(height));
            for key in &keys {
                c.rect("green", across(key), down(query), width, height);
            }
        }
        for key in &keys {
            c.rect("orange", across(key), top - 20.0, mark(width), 14.0);
        }
    }
    Ok(drawn(c, (600, 312)))
}

/// The rows that lane 2 reads from a shared array with rows of `stride` words.
fn rows(read: &[&Access], stride: u64) -> Result<BTreeSet<u64>> {
    let row = |access: &&Access| {
        let at = access.lanes.iter().position(|lane| *lane == LANE)?;
        Some(access.offsets[at] / 4 / stride)
    };
    let rows: Option<BTreeSet<u64>> = read.iter().map(row).collect();
    rows.context("lane 2 does not read it")
}
