//! Rungs 4 to 7 of stage 4, recorded: the lanes of fragments, banks, copies in flight, and what bounds each rung.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use gpu_recording::{Access, At, Canvas, Kind, Picture, Recording, Scalar, Space, Step};

use super::{Recorded, drawn, touches};
use crate::{devices, generated};

pub const FIGURES: &[Recorded] = &[
    Recorded {
        name: "fragments",
        recordings: &["mma-lanes"],
        description: "Three tiles: a of 16 by 16, b of 16 by 8, and c of 16 by 8. Each pair of elements has the number of the lane that holds it. In a and c, lane 4 g + t has pair t of rows g and g + 8; in b, pair t of column g. Lane 6 has four pairs of a, two of b and two of c.",
        caption: "The lanes that hold the tiles of one mma.sync, recorded from rung 4's loads of q and k and its store of o. A pair of f16 is one register. Lane 6 is orange: g = 1, t = 2.",
        draw: fragments,
    },
    Recorded {
        name: "scores-to-weights",
        recordings: &["mma-lanes"],
        description: "Left, two tiles c of 16 by 8 side by side; right, one tile a of 16 by 16. In each place both have the number of the same lane.",
        caption: "Left: two tiles c, side by side. Right: one tile a. Each place has the same lane, so a lane rounds its own scores to f16 and has its part of the next a. Recorded, as above.",
        draw: scores_to_weights,
    },
    Recorded {
        name: "fragment-banks",
        recordings: &["mma-banks", "swizzle-banks"],
        description: "Two maps of the first 8 rows of a tile, 32 banks wide. In rung 4 the words that a warp reads are a vertical strip in banks 0 to 3: 8 wavefronts. In rung 5 the rows' 16 bytes lie in different banks each, so that they fill all 32: 1 wavefront.",
        caption: "The same 8 × 8 part of q, 16 bytes of each of 8 rows, as a warp reads it; that of k alike: a map of 8 rows of 128 bytes, 32 banks wide, recorded at D = 64.",
        draw: fragment_banks,
    },
    Recorded {
        name: "swizzled-places",
        recordings: &["swizzle-banks"],
        description: "Two tables of 8 rows with 8 places each. Left, vector c lies at place c in each row, and vector 2 is a vertical line. Right, row r has vector c at place c xor r: vector 2 is at places 2, 3, 0, 1, 6, 7, 4, 5.",
        caption: "The vectors of 16 bytes of rows 0 to 7, by their places in shared memory: as plain rows would lie, and as those of rung 5 do, recorded. ldmatrix reads a vector of 8 rows (orange). The copy stores the vectors of a row (outlined). Both have each place once.",
        draw: swizzled_places,
    },
    Recorded {
        name: "ldmatrix-lanes",
        recordings: &["swizzle-lanes"],
        description: "Three tiles of 16 rows with two vectors each, for q, k and v. Each vector has the number of the lane that gives its address. For q and v, lanes 0 to 15 name the left vectors of rows 0 to 15 and lanes 16 to 31 the right ones. For k, lanes 0 to 7 name the left vectors of rows 0 to 7, lanes 8 to 15 the right ones, and lanes 16 to 31 those of rows 8 to 15.",
        caption: "The lane that gives the address of each 16 bytes, recorded in rung 5 at D = 16. The 8 rows of a colour are one 8 × 8 tile and become one register of all lanes: plain d[0], blue d[1], orange d[2], green d[3].",
        draw: addresses,
    },
    Recorded {
        name: "copies-in-flight",
        recordings: &["swizzle-steps", "pipeline-steps"],
        description: "Two timelines of warp 0 over three tiles of keys. In rung 5 each tile has a stretch of copying in which nothing is multiplied. In rung 6 a copy of v is on its way during the scores, and a copy of the next k during softmax and p v.",
        caption: "Warp 0 in the order of its steps, recorded, for three tiles of keys. Dashed: barriers. In rung 5 the threads copy and then multiply. In rung 6 copies of k and v are on their way while tiles are multiplied; a bar ends where the warp waits for it. Lengths are no times.",
        draw: copies,
    },
    Recorded {
        name: "fragment-reuse",
        recordings: &["pipeline-steps", "reuse-lanes"],
        description: "The scores of one warp for 16 keys. In rung 6 it has 16 queries, and the fragment of k serves two products of 16 by 8. In rung 7 it has 32 queries, and the fragment serves four.",
        caption: "One load of k by ldmatrix, 16 keys × 16 columns, and the products that it serves: rows of q and k that warp 0 reads, recorded.",
        draw: reuse,
    },
    Recorded {
        name: "rung-clocks",
        recordings: &[],
        description: "Three bars for each rung from 4 to 7: clocks that an SM of an A100 takes for one mma.sync in its tensor cores, its shared memory and its issue slots. In rung 4 shared memory takes nine times as long as the tensor cores; in rung 5 a third more; in rung 7 the tensor cores are the longest.",
        caption: "Clocks of an A100's SM for each mma.sync, counted at D = 128: the longest bar limits the rung. Drawn from the table that the command below prints.",
        draw: clocks,
    },
];

/// The lane that is followed.
const LANE: u32 = 6;

/// Lanes by row and, within the row, pair of elements.
type Lanes = BTreeMap<(u64, u64), u32>;

/// The accesses of a kind to a shared array, in order.
fn accesses<'a>(recording: &'a Recording, kind: Kind, array: &str) -> Vec<&'a Access> {
    let all = recording.steps.iter().flat_map(|step| &step.accesses);
    all.filter(|access| access.kind == kind && access.space == Space::Shared)
        .filter(|access| touches(recording, access, array))
        .collect()
}

/// The lanes that access pairs of f16 in rows of 16.
fn lanes(accesses: &[&Access]) -> Result<Lanes> {
    let mut lanes = Lanes::new();
    for access in accesses {
        for (lane, offset) in access.lanes.iter().zip(&access.offsets) {
            let before = lanes.insert((offset / 32, offset % 32 / 4), *lane);
            ensure!(before.is_none(), "two lanes have {offset}");
        }
    }
    Ok(lanes)
}

/// The first accesses.
fn first<'a>(accesses: &[&'a Access], count: usize) -> Result<Vec<&'a Access>> {
    let first = accesses.get(..count);
    Ok(first.context("the recording is too short")?.to_vec())
}

fn a_tile(recording: &Recording) -> Result<Lanes> {
    lanes(&first(&accesses(recording, Kind::Load, "q_smem"), 4)?)
}

/// Two tiles c, side by side.
fn c_tiles(recording: &Recording) -> Result<Lanes> {
    let stores = accesses(recording, Kind::Store, "q_smem");
    let of_words: Vec<&Access> = stores.into_iter().filter(|x| x.bytes == 4).collect();
    lanes(&first(&of_words, 4)?)
}

/// A tile: a cell for each pair, with its lane. `size` is that of a cell.
fn tile(c: &mut Canvas, at: (f64, f64), size: (f64, f64), cells: &Lanes) {
    for (&(row, pair), lane) in cells {
        let class = match (*lane == LANE, (row / 8 + pair / 4) % 2) {
            (true, _) => "orange",
            (false, 0) => "plain",
            (false, _) => "blue",
        };
        let (x, y) = (at.0 + size.0 * pair as f64, at.1 + size.1 * row as f64);
        c.rect(class, x, y, size.0 - 1.5, size.1 - 1.5);
        c.note(
            At::Middle,
            x + size.0 / 2.0 - 0.8,
            y + size.1 / 2.0 + 3.4,
            &lane.to_string(),
        );
    }
}

const PAIR: (f64, f64) = (29.0, 17.0);

fn fragments(recordings: &[Recording]) -> Result<Picture> {
    let recording = &recordings[0];
    let mut c = Canvas::new();
    let (left, right, top) = (72.0, 350.0, 262.0);
    c.heading(At::Start, left, top - 26.0, "a [16, 16]: q");
    c.note(At::Start, left, top - 8.0, "a[0], below it a[1]");
    c.note(
        At::Start,
        left + 4.0 * PAIR.0,
        top - 8.0,
        "a[2], below it a[3]",
    );
    tile(&mut c, (left, top), PAIR, &a_tile(recording)?);
    let one = c_tiles(recording)?.into_iter();
    let one = one.filter(|((_, pair), _)| *pair < 4).collect();
    c.heading(At::Start, right, top - 26.0, "c [16, 8]: s");
    c.note(
        At::Start,
        right,
        top - 8.0,
        "c[0], c[1]; below them c[2], c[3]",
    );
    tile(&mut c, (right, top), (2.0 * PAIR.0, PAIR.1), &one);
    // A row of k is a column of b.
    let b = lanes(&first(&accesses(recording, Kind::Load, "k_smem"), 2)?)?;
    c.heading(At::Start, right, 18.0, "b [16, 8]: k, transposed");
    c.note(At::End, right - 8.0, 50.0, "b0");
    c.note(At::End, right - 8.0, 50.0 + 4.0 * 22.0, "b1");
    for (&(key, pair), lane) in &b {
        let class = match (*lane == LANE, pair / 4) {
            (true, _) => "orange",
            (false, 0) => "plain",
            (false, _) => "blue",
        };
        let (x, y) = (right + PAIR.0 * key as f64, 32.0 + 22.0 * pair as f64);
        c.rect(class, x, y, PAIR.0 - 1.5, 20.5);
        c.note(
            At::Middle,
            x + PAIR.0 / 2.0 - 0.8,
            y + 14.0,
            &lane.to_string(),
        );
    }
    for row in [0, 1, 7, 8, 15] {
        let y = top + PAIR.1 * f64::from(row) + 12.0;
        c.note(At::End, left - 8.0, y, &format!("row {row}"));
    }
    Ok(drawn(c, (600, 540)))
}

fn scores_to_weights(recordings: &[Recording]) -> Result<Picture> {
    let (scores, weights) = (c_tiles(&recordings[0])?, a_tile(&recordings[0])?);
    ensure!(scores == weights, "the lanes of c are not those of a");
    let mut c = Canvas::new();
    for (x, name, cells) in [
        (8.0, "s_reg[n], s_reg[n + 1]", &scores),
        (350.0, "p_reg", &weights),
    ] {
        c.heading(At::Start, x, 18.0, name);
        tile(&mut c, (x, 30.0), PAIR, cells);
    }
    c.line(
        "barrier",
        (8.0 + 4.0 * PAIR.0 - 0.7, 24.0),
        (8.0 + 4.0 * PAIR.0 - 0.7, 304.0),
    );
    c.arrow((252.0, 160.0), (338.0, 160.0));
    c.note(At::Middle, 294.0, 150.0, "exp, round");
    Ok(drawn(c, (600, 310)))
}

fn fragment_banks(recordings: &[Recording]) -> Result<Picture> {
    const CELL: f64 = 8.6;
    let mut c = Canvas::new();
    for (panel, (recording, name)) in recordings.iter().zip(["rung 4", "rung 5"]).enumerate() {
        let left = 52.0 + 312.0 * panel as f64;
        let access = first(&accesses(recording, Kind::Load, "q_smem"), 1)?[0];
        let pass = access.passes.first().context("it has no passes")?;
        c.heading(At::Start, left, 16.0, name);
        let many = if pass.wavefronts == 1 { "" } else { "s" };
        let cost = format!("{} wavefront{many}", pass.wavefronts);
        c.note(At::Start, left + 66.0, 16.0, &cost);
        c.note(At::Start, left, 36.0, "bank 0");
        c.note(At::End, left + 32.0 * CELL, 36.0, "31");
        c.rect(
            "outline",
            left - 2.0,
            42.0,
            32.0 * CELL + 3.0,
            8.0 * 17.0 + 3.0,
        );
        let mut words = BTreeSet::new();
        for (at, lane) in access.lanes.iter().enumerate() {
            if pass.lanes.contains(lane) {
                let first = access.offsets[at] / 4;
                words.extend(first..first + access.words(at));
            }
        }
        ensure!(words.len() == 32, "it reads {} words", words.len());
        for word in words {
            let (row, bank) = (word / 32, word % 32);
            let (x, y) = (left + CELL * bank as f64, 44.0 + 17.0 * row as f64);
            let class = if pass.wavefronts > 1 { "red" } else { "green" };
            c.rect(class, x, y, CELL - 1.4, 15.0);
        }
    }
    for row in [0, 7] {
        c.note(
            At::End,
            46.0,
            56.0 + 17.0 * f64::from(row),
            &format!("row {row}"),
        );
    }
    Ok(drawn(c, (650, 192)))
}

fn swizzled_places(recordings: &[Recording]) -> Result<Picture> {
    const CELL: (f64, f64) = (34.0, 24.0);
    const VECTOR: u64 = 2;
    const STORED: f64 = 5.0;
    // Of the loads of the first 16 keys, lanes 0 to 7 read vector c of rows 0 to 7, and lanes 8 to 15 vector c + 1.
    let of_rows = |access: &&Access| access.offsets.iter().all(|offset| *offset < 16 * 128);
    let loads = accesses(&recordings[0], Kind::Load, "k_smem");
    let loads: Vec<&Access> = loads.into_iter().filter(of_rows).collect();
    let mut places = BTreeMap::new();
    for (access, first) in first(&loads, 4)?.into_iter().zip([0, 2, 4, 6]) {
        for at in 0..16 {
            let (row, place) = (access.offsets[at] / 128, access.offsets[at] % 128 / 16);
            places.insert((row, place), first + at as u64 / 8);
        }
    }
    ensure!(places.len() == 64, "{} places are read", places.len());
    let mut c = Canvas::new();
    for (x, name, swizzled) in [(60.0, "plain rows", false), (400.0, "rung 5", true)] {
        c.heading(At::Start, x, 18.0, name);
        for (&(row, place), &vector) in &places {
            let vector = if swizzled { vector } else { place };
            let class = if vector == VECTOR { "orange" } else { "plain" };
            let (x, y) = (x + CELL.0 * place as f64, 46.0 + CELL.1 * row as f64);
            c.cell(class, x, y, CELL.0 - 2.0, CELL.1 - 2.0, &vector.to_string());
        }
        c.note(At::Start, x, 38.0, "banks 0 … 3");
        c.note(At::End, x + 8.0 * CELL.0 - 2.0, 38.0, "28 … 31");
        let y = 45.0 + CELL.1 * STORED;
        c.rect(
            "outline",
            x - 2.0,
            y - 1.0,
            8.0 * CELL.0 + 2.0,
            CELL.1 + 2.0,
        );
    }
    for row in 0..8 {
        let y = 62.0 + CELL.1 * f64::from(row);
        c.note(At::End, 52.0, y, &format!("row {row}"));
    }
    Ok(drawn(c, (680, 250)))
}

/// The value of a small whole number in f16, from its bits.
fn whole(bits: u64) -> u64 {
    let (exponent, mantissa) = (bits >> 10 & 31, bits & 1023);
    match exponent {
        25.. => (1024 + mantissa) << (exponent - 25),
        1.. => (1024 + mantissa) >> (25 - exponent),
        0 => 0,
    }
}

/// Elements are 0, 1, 2, …: the first one that a lane reads tells its row and its vector.
fn addresses(recordings: &[Recording]) -> Result<Picture> {
    const CLASSES: [&str; 4] = ["plain", "blue", "orange", "green"];
    let mut c = Canvas::new();
    for (panel, (array, name)) in [
        ("q_smem", "q: tile a"),
        ("k_smem", "k: tiles b, twice"),
        ("v_smem", "v: tiles b, .trans"),
    ]
    .into_iter()
    .enumerate()
    {
        let left = 56.0 + 205.0 * panel as f64;
        c.heading(At::Start, left, 18.0, name);
        let access = first(&accesses(&recordings[0], Kind::Load, array), 1)?[0];
        for (lane, values) in access.lanes.iter().zip(&access.values) {
            let Some(Scalar::Whole(word)) = values.first() else {
                bail!("lane {lane} reads no word");
            };
            let element = whole(word.cast_unsigned() & 0xffff);
            let (row, vector) = (element / 16, element % 16 / 8);
            ensure!(row < 16, "lane {lane} reads row {row}");
            let (x, y) = (left + 78.0 * vector as f64, 30.0 + 18.0 * row as f64);
            c.rect(CLASSES[*lane as usize / 8], x, y, 76.0, 16.5);
            c.note(At::Middle, x + 38.0, y + 12.0, &format!("lane {lane}"));
        }
    }
    for row in [0, 7, 8, 15] {
        let y = 42.0 + 18.0 * f64::from(row);
        c.note(At::End, 50.0, y, &format!("row {row}"));
    }
    Ok(drawn(c, (640, 326)))
}

/// Something that a warp does with tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    CopyK,
    CopyV,
    Wait,
    Barrier,
    Scores,
    Softmax,
    Product,
}

/// What a step does.
fn event(recording: &Recording, step: &Step) -> Option<Event> {
    let shared = |kind: Kind, array: &str| {
        let mut found = step.accesses.iter();
        found.any(|x| x.kind == kind && x.space == Space::Shared && touches(recording, x, array))
    };
    if step.barrier {
        Some(Event::Barrier)
    } else if step.source.contains("wait_group") {
        Some(Event::Wait)
    } else if shared(Kind::Store, "k_smem") {
        Some(Event::CopyK)
    } else if shared(Kind::Store, "v_smem") {
        Some(Event::CopyV)
    } else if shared(Kind::Load, "k_smem") {
        Some(Event::Scores)
    } else if shared(Kind::Load, "v_smem") {
        Some(Event::Product)
    } else {
        None
    }
}

/// The events of a warp, each stretch once. Between scores and p v is the softmax.
fn events(recording: &Recording) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for event in recording
        .steps
        .iter()
        .filter_map(|step| event(recording, step))
    {
        if events.last() == Some(&event) {
            continue;
        }
        // The softmax ends where the warp waits for v, or reads it.
        let after_scores = events.iter().rev().take_while(|e| **e != Event::Product);
        let has = |wanted: Event| after_scores.clone().any(|event| *event == wanted);
        if has(Event::Scores)
            && !has(Event::Softmax)
            && matches!(event, Event::Wait | Event::Product)
        {
            events.push(Event::Softmax);
        }
        events.push(event);
    }
    events
}

fn copies(recordings: &[Recording]) -> Result<Picture> {
    const LEFT: f64 = 76.0;
    let mut c = Canvas::new();
    for (panel, (recording, name)) in recordings.iter().zip(["rung 5", "rung 6"]).enumerate() {
        let top = 26.0 + 152.0 * panel as f64;
        c.heading(At::Start, 0.0, top - 8.0, name);
        let rows = [
            ("copy of k", top),
            ("copy of v", top + 34.0),
            ("warp", top + 68.0),
        ];
        for (name, y) in rows {
            c.note(At::End, LEFT - 10.0, y + 18.0, name);
        }
        let is_asynchronous = recording
            .steps
            .iter()
            .any(|step| step.source.contains("wait_group"));
        let events = events(recording);
        let width = |event: &Event| match event {
            Event::Scores | Event::Product => 43.0,
            Event::Softmax => 52.0,
            Event::CopyK | Event::CopyV if is_asynchronous => 6.0,
            Event::CopyK | Event::CopyV => 22.0,
            Event::Wait | Event::Barrier => 6.0,
        };
        let starts: Vec<f64> = events
            .iter()
            .scan(LEFT, |x, event| {
                let start = *x;
                *x += width(event);
                Some(start)
            })
            .collect();
        for (at, event) in events.iter().enumerate() {
            let (x, w) = (starts[at], width(event));
            let text = match event {
                Event::Scores => "q kᵀ",
                Event::Softmax => "softmax",
                Event::Product => "p v",
                Event::Barrier => {
                    c.line("barrier", (x + 3.0, top), (x + 3.0, top + 98.0));
                    continue;
                }
                Event::Wait => continue,
                Event::CopyK | Event::CopyV => {
                    let read = if *event == Event::CopyK {
                        Event::Scores
                    } else {
                        Event::Product
                    };
                    let y = rows[usize::from(*event == Event::CopyV)].1;
                    // A copy ends with the last wait before its tile is read; one of threads ends at once.
                    let used = (at..events.len()).find(|at| events[*at] == read);
                    let before = at..used.unwrap_or(events.len());
                    let waits = before.rev().find(|at| events[*at] == Event::Wait);
                    let end = match waits {
                        Some(wait) if is_asynchronous => starts[wait] + 3.0,
                        _ => x + w,
                    };
                    c.rect("orange", x, y, end - x, 26.0);
                    if !is_asynchronous {
                        c.rect("done", x, rows[2].1, w - 1.0, 26.0);
                    }
                    continue;
                }
            };
            c.rect("green", x, rows[2].1, w - 1.0, 26.0);
            c.note(At::Middle, x + w / 2.0 - 0.5, rows[2].1 + 17.0, text);
        }
    }
    c.arrow((LEFT, 296.0), (640.0, 296.0));
    c.note(At::End, LEFT - 10.0, 300.0, "time");
    Ok(drawn(c, (690, 306)))
}

/// The rows of 16 f16 that loads read, counted from `base` bytes.
fn rows_read(loads: &[&Access], base: u64) -> BTreeSet<u64> {
    let offsets = loads.iter().flat_map(|load| &load.offsets);
    offsets.map(|offset| (offset - base) / 32).collect()
}

fn reuse(recordings: &[Recording]) -> Result<Picture> {
    /// Bytes of q's tile in rung 7, behind which the keys lie.
    const Q_BYTES: u64 = 128 * 32;
    let [rung_6, rung_7] = recordings else {
        bail!("it is drawn from two recordings");
    };
    let q = first(&accesses(rung_6, Kind::Load, "q_smem"), 1)?;
    let k = first(&accesses(rung_6, Kind::Load, "k_smem"), 1)?;
    let loads = accesses(rung_7, Kind::Load, "q_smem");
    let (of_q, of_k): (Vec<&Access>, Vec<&Access>) = loads
        .into_iter()
        .partition(|access| access.offsets.iter().all(|offset| *offset < Q_BYTES));
    let panels = [
        ("rung 6", rows_read(&q, 0), rows_read(&k, 0)),
        (
            "rung 7",
            rows_read(&first(&of_q, 2)?, 0),
            rows_read(&first(&of_k, 1)?, Q_BYTES),
        ),
    ];
    let mut c = Canvas::new();
    for (panel, (name, queries, keys)) in panels.into_iter().enumerate() {
        let left = 70.0 + 310.0 * panel as f64;
        let (products, down) = (keys.len() / 8 * (queries.len() / 16), queries.len() / 16);
        c.heading(At::Start, left - 60.0, 18.0, name);
        let said = format!("1 ldmatrix of k, {products} mma.sync");
        c.note(At::Start, left, 18.0, &said);
        c.card("orange", left, 30.0, 196.0, 26.0, &["k: 16 keys"]);
        for m in 0..down {
            let y = 66.0 + 66.0 * m as f64;
            c.card("blue", left - 62.0, y, 54.0, 60.0, &["q: 16", "rows"]);
            for n in 0..keys.len() / 8 {
                let x = left + 99.0 * n as f64;
                c.cell("green", x, y, 96.0, 60.0, "16 × 8");
            }
        }
    }
    Ok(drawn(c, (600, 200)))
}

/// The bars of rungs 4 to 7, from the table of `ladder --f16`.
fn clocks(_: &[Recording]) -> Result<Picture> {
    const PER_CLOCK: f64 = 25.0;
    const LEFT: f64 = 172.0;
    /// Products of an `mma.sync`.
    const PRODUCTS: f64 = 2048.0;
    /// Warp instructions that an SM starts in a clock.
    const ISSUE: f64 = 4.0;
    let table = generated::block("ladder-f16")?;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let header = rows.first().context("the table is empty")?;
    let column = |name: &str| {
        let at = header.iter().position(|cell| *cell == name);
        at.with_context(|| format!("the table has no column {name:?}"))
    };
    let (instructions, wavefronts) = (
        column("instructions per mma")?,
        column("shared wavefronts per mma")?,
    );
    let time = column("ms, a100")?;
    let per_clock: f64 = devices::figure("a100", "tensor core multiply-adds, f16")?.parse()?;
    let mut c = Canvas::new();
    let mut top = 8.0;
    let (mut last, mut rungs) = ("", 0);
    // Of a rung with two tiles, the last one.
    for (at, row) in rows.iter().enumerate().skip(2) {
        // The rung in f32 multiplies by no mma, and an A100 does not run those for Hopper.
        let is_rung = row[1].starts_with('`') && !row[1].contains("library");
        let multiplies = row[instructions] != "–" && row[time] != "–";
        if !is_rung
            || !multiplies
            || rows.get(at + 1).is_some_and(|next| next[1] == row[1])
            || row[1] == last
        {
            continue;
        }
        (last, rungs) = (row[1], rungs + 1);
        c.heading(At::Start, 0.0, top + 32.0, row[1].trim_matches('`'));
        let parts = [
            ("green", "tensor", PRODUCTS / per_clock),
            ("red", "shared", row[wavefronts].parse()?),
            ("blue", "issue", row[instructions].parse::<f64>()? / ISSUE),
        ];
        for (line, (class, name, clocks)) in parts.into_iter().enumerate() {
            let y = top + 19.0 * line as f64;
            c.note(At::End, LEFT - 6.0, y + 12.0, name);
            c.rect(class, LEFT, y, PER_CLOCK * clocks, 15.0);
            let text = format!("{clocks:.1}");
            c.note(At::Start, LEFT + PER_CLOCK * clocks + 6.0, y + 12.0, &text);
        }
        top += 74.0;
    }
    ensure!(rungs == 4, "the table has {rungs} rungs");
    Ok(drawn(c, (690, top as u32)))
}
