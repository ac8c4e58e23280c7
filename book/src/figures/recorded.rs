//! Pictures of real runs: drawn from recordings of `gpu trace`, which are generated blocks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use gpu_recording::{Access, At, Canvas, Kind, Picture, Recording, Scalar, Space, accesses};

/// A picture of recordings.
pub struct Recorded {
    pub name: &'static str,
    /// The generated blocks that it is drawn from.
    pub recordings: &'static [&'static str],
    /// What it shows, for those who do not see it. Empty if the drawing says it.
    pub description: &'static str,
    pub caption: &'static str,
    pub draw: fn(&[Recording]) -> Result<Picture>,
}

pub const FIGURES: &[Recorded] = &[
    Recorded {
        name: "coalesced",
        recordings: &["coalescing"],
        description: "",
        caption: "Two loads of a warp, recorded. Above, lanes read neighbours: 4 sectors, all of whose words are used (filled). Below, each lane reads from another row: 32 sectors, of which one word of eight is used.",
        draw: all_accesses,
    },
    Recorded {
        name: "banks",
        recordings: &["column-layouts"],
        description: "",
        caption: "A column of a tile, read by a warp, recorded. Above, all its words are in one bank. Below, each row has one unused word, and the words lie in 32 banks.",
        draw: plain_and_padded,
    },
    Recorded {
        name: "column-layouts",
        recordings: &["column-layouts"],
        description: "Three maps of shared memory, 32 banks wide. The words of a column are a vertical line in the plain tile, a diagonal in the padded tile, and scattered over all banks in the swizzled tile.",
        caption: "Where the words of column 5 lie: a map of each tile, 32 banks wide, drawn from the recorded loads. Left, 32 words in one bank; middle and right, one word in each bank.",
        draw: layouts,
    },
    Recorded {
        name: "nn-nt",
        recordings: &["nn-lanes", "nt-lanes"],
        description: "Two matrices b. In NN, the 32 lanes of a warp read the 32 neighbouring elements of row 0. In NT, they read the first elements of 32 rows.",
        caption: "The elements of b that the 32 lanes of warp 0 read at the same moment, for p = 0 (filled), recorded. In NN they are neighbours in memory, in NT each lies in another row.",
        draw: products,
    },
    Recorded {
        name: "nt-banks",
        recordings: &["nt-banks"],
        description: "",
        caption: "The first two loads of the inner product, by the 32 lanes of warp 0, recorded. Above, two lanes read each word of column 0 of b_smem, and rows of 17 floats put these 16 words in 16 banks. Below, 16 lanes read the same word of a_smem.",
        draw: first_of_each_array,
    },
    Recorded {
        name: "tiled-product",
        recordings: &["product-tiles"],
        description: "Matrices a of 32 by 48, b of 48 by 32 and c of 32 by 32. Of a, the lower half is cut into three tiles of 16 by 16, of b the right half. In each step one tile of a and one of b are in shared memory. Warp 0 stores two rows of 16 elements of c.",
        caption: "A block computes the lower right tile of c, recorded. In each of three steps one tile of a and one of b are in shared memory: filled in the second step, grey in the others. Green: what warp 0 stores.",
        draw: tiles,
    },
    Recorded {
        name: "reduction",
        recordings: &["reduction"],
        description: "Words 0 to 31 of the shared array in eight rows. At first each is 1. In each step the active lanes add the word half further on: the words become 2, 4, 8, until the first word is 128. From half = 16 on, only half of the lanes are active, then a quarter, and at last one.",
        caption: "Warp 0 in a tree reduction of 128 ones, recorded: the words that it stores (filled), and those of its own words that they are made of. A barrier stands between the steps, because a thread reads what another one has written.",
        draw: reduction,
    },
    Recorded {
        name: "divergence",
        recordings: &["divergence"],
        description: "Steps of a warp. At the condition all 32 lanes are active, in the then branch the first 12, in the else branch the other 20, and after the branch all 32 again.",
        caption: "A branch that goes two ways within a warp, recorded: both sides run, one after the other. Filled lanes are active.",
        draw: active_lanes,
    },
    Recorded {
        name: "flash-tiles",
        recordings: &["flash-walk"],
        description: "The score matrix is cut into four by four tiles. Block 1 owns the second row of tiles. It keeps its tile of q in shared memory and walks over the tiles of k and v from left to right. In the third step, one tile of k, one of v and one of scores are in shared memory. Warp 0 of the block stores four rows of o.",
        caption: "Block 1 of the fused kernel, recorded, with 128 queries and keys. It keeps a tile of q and walks over four tiles of k and v. Filled: what shared memory holds in the third step; grey: in the first two. Green: the rows of o that warp 0 stores at the end.",
        draw: flash,
    },
    Recorded {
        name: "causal-tiles",
        recordings: &["causal-0", "causal-1", "causal-2", "causal-3"],
        description: "A score matrix of 4 by 4 tiles under a causal mask. The 6 tiles below the diagonal are full, the 4 tiles on the diagonal are mixed, and the 6 tiles above it are never loaded.",
        caption: "Tiles under a causal mask: the walks of the four blocks, recorded. Full tiles run without the test of single scores, mixed ones with it, masked ones are never loaded.",
        draw: causal,
    },
    Recorded {
        name: "flash-lanes",
        recordings: &["scores-lanes", "output-lanes"],
        description: "What the 32 lanes of a warp read from shared memory. For the scores: the same word of each of 4 rows of q, and column 0 of k, a key for each lane. For p v: the same word of each of 4 rows of p, and row 0 of v, two columns for each lane.",
        caption: "Rung 1: the words that warp 0 reads for one key column and for one key, recorded; those of lane 2 are orange. While scores are computed, a lane owns a key of the tile; while p v is computed, columns of o.",
        draw: lanes,
    },
    Recorded {
        name: "register-tile",
        recordings: &["scores-lanes", "register-lanes"],
        description: "Scores of one lane in a tile. In rung 1, lane 2 reads one number of each of 4 rows of q and of one row of k, for 4 scores. In rung 3 it reads from 8 rows of q and 4 rows of k, for 32 scores.",
        caption: "The rows of q and k that lane 2 of warp 0 reads, recorded, and the scores that it computes from them. Numbers and multiply-adds are those of one step along D.",
        draw: register_tile,
    },
];

fn all_accesses(recordings: &[Recording]) -> Result<Picture> {
    accesses(&recordings[0], 0).context("the recording has no accesses")
}

/// The first access to each array.
fn first_of_each_array(recordings: &[Recording]) -> Result<Picture> {
    let mut recording = recordings[0].clone();
    let mut seen = BTreeSet::new();
    for step in &mut recording.steps {
        let mut is_new = |access: &Access| seen.insert(access.arrays.first().copied());
        step.accesses.retain(|access| is_new(access));
    }
    all_accesses(&[recording])
}

fn plain_and_padded(recordings: &[Recording]) -> Result<Picture> {
    let mut recording = recordings[0].clone();
    recording.steps.truncate(2);
    all_accesses(&[recording])
}

fn first(recording: &Recording, wanted: impl Fn(&Access) -> bool) -> Result<&Access> {
    let mut accesses = recording.steps.iter().flat_map(|step| &step.accesses);
    let found = accesses.find(|access| wanted(access));
    found.context("the recording has no such access")
}

fn is_of(recording: &Recording, access: &Access, array: &str) -> bool {
    let name = |at: &usize| recording.arrays[*at].name == array;
    access.arrays.first().is_some_and(name)
}

fn layouts(recordings: &[Recording]) -> Result<Picture> {
    const CELL: f64 = 5.6;
    let mut c = Canvas::new();
    for (panel, name) in ["tile", "padded", "swizzled"].into_iter().enumerate() {
        let of = &recordings[0];
        let access = first(of, |access| is_of(of, access, name))?;
        let left = 40.0 + 214.0 * panel as f64;
        let wavefronts = access.wavefronts();
        c.heading(At::Start, left, 16.0, name);
        let many = if wavefronts == 1 { "" } else { "s" };
        c.note(
            At::Start,
            left + 76.0,
            16.0,
            &format!("{wavefronts} wavefront{many}"),
        );
        c.note(At::Start, left, 34.0, "bank 0");
        c.note(At::End, left + 32.0 * CELL, 34.0, "31");
        c.rect(
            "outline",
            left - 2.0,
            40.0,
            32.0 * CELL + 3.0,
            33.0 * CELL + 3.0,
        );
        // The first word of the tile lies in bank 0 of its map.
        for offset in &access.offsets {
            let (row, bank) = (offset / 4 / 32, offset / 4 % 32);
            let (x, y) = (left + CELL * bank as f64, 42.0 + CELL * row as f64);
            let class = if wavefronts > 1 { "red" } else { "green" };
            c.rect(class, x, y, CELL - 1.2, CELL - 1.2);
        }
    }
    c.note(At::End, 34.0, 50.0, "row 0");
    Ok(Picture {
        canvas: c,
        size: (660, 238),
        description: String::new(),
    })
}

fn products(recordings: &[Recording]) -> Result<Picture> {
    const CELL: f64 = 9.0;
    let mut c = Canvas::new();
    let panels = [
        (0, "NN: b [k, n]", 10.0, 8, 32),
        (1, "NT: b [n, k]", 400.0, 32, 8),
    ];
    for (of, name, left, rows, columns) in panels {
        let of = &recordings[of];
        let access = first(of, |access| is_of(of, access, "argument 1"))?;
        c.heading(At::Start, left, 18.0, name);
        c.note(At::Start, left, 36.0, &access.cost());
        for element in 0..rows * columns {
            let (row, column) = (element / columns, element % columns);
            let read = access.offsets.contains(&(4 * element));
            let class = if read { "orange" } else { "plain" };
            let (x, y) = (left + CELL * column as f64, 46.0 + CELL * row as f64);
            c.rect(class, x, y, CELL - 2.0, CELL - 2.0);
        }
    }
    Ok(Picture {
        canvas: c,
        size: (640, 340),
        description: String::new(),
    })
}

/// Rows, columns and, by element, whether it is marked: drawn as rectangles of neighbours.
fn marked(c: &mut Canvas, class: &str, at: (f64, f64), cell: f64, columns: u64, elements: &[u64]) {
    let mut left: Vec<u64> = elements.to_vec();
    left.sort_unstable();
    left.dedup();
    while let Some(&start) = left.first() {
        let has = |element: u64| left.binary_search(&element).is_ok();
        let to_the_edge = columns - start % columns;
        let wide = (1..to_the_edge).take_while(|i| has(start + i)).count() as u64 + 1;
        let whole = |row: &u64| (0..wide).all(|i| has(start + row * columns + i));
        let high = (1..).take_while(whole).count() as u64 + 1;
        let (x, y) = (start % columns, start / columns);
        c.rect(
            class,
            at.0 + cell * x as f64,
            at.1 + cell * y as f64,
            cell * wide as f64,
            cell * high as f64,
        );
        left.retain(|element| {
            let (row, column) = (element / columns, element % columns);
            row < y || row >= y + high || column < x || column >= x + wide
        });
    }
}

/// What shared memory holds: by array and word, the value.
type Held<'a> = BTreeMap<(usize, u64), &'a Scalar>;

/// What shared memory holds when each step begins.
fn held(recording: &Recording) -> Vec<Held<'_>> {
    let mut words = Held::new();
    let mut held = Vec::new();
    for step in &recording.steps {
        words.extend(step.before.iter().map(|word| ((word.0, word.1), &word.2)));
        held.push(words.clone());
        words.extend(step.after.iter().map(|word| ((word.0, word.1), &word.2)));
    }
    held
}

/// The rows of the matrix, of `columns` columns and with the elements 0, 1, 2, …, that a shared array holds.
fn rows_of(recording: &Recording, held: &Held<'_>, array: &str, columns: u64) -> BTreeSet<u64> {
    let of_array = held
        .iter()
        .filter(|((at, _), _)| recording.arrays[*at].name == array);
    let elements = of_array.filter_map(|(_, value)| match value {
        Scalar::Float(value) => Some(*value as u64),
        _ => None,
    });
    elements.map(|element| element / columns).collect()
}

/// The first row and the number of rows, if they are neighbours.
fn range(rows: &BTreeSet<u64>) -> Result<(f64, f64)> {
    let (first, last) = rows.first().zip(rows.last()).context("no row is held")?;
    let count = last - first + 1;
    ensure!(
        count == rows.len() as u64,
        "the rows are no neighbours: {rows:?}"
    );
    Ok((*first as f64, count as f64))
}

/// Elements of a and b in the order 0, 1, 2, …: what a tile holds is where it comes from.
fn tiles(recordings: &[Recording]) -> Result<Picture> {
    const CELL: f64 = 5.0;
    let recording = &recordings[0];
    let (a, b, product) = ((20.0, 290.0), (282.0, 24.0), (282.0, 290.0));
    let mut c = Canvas::new();
    for (name, at, rows, columns) in [
        ("a", a, 32.0, 48.0),
        ("b", b, 48.0, 32.0),
        ("c", product, 32.0, 32.0),
    ] {
        c.rect("plain", at.0, at.1, CELL * columns, CELL * rows);
        c.text(At::Start, at.0, at.1 - 6.0, name);
    }
    // What shared memory holds when the products of a step begin.
    let (mut steps, mut was_loading) = (Vec::new(), true);
    for (step, held) in recording.steps.iter().zip(held(recording)) {
        let reads_tiles =
            |access: &Access| access.space == Space::Shared && access.kind == Kind::Load;
        let reads = step.accesses.iter().any(reads_tiles);
        let loads = step
            .accesses
            .iter()
            .any(|access| access.space == Space::Global);
        if was_loading && reads {
            steps.push(held);
        }
        was_loading = loads || (was_loading && !reads);
    }
    let elements = |step: usize, name: &str| -> Vec<u64> {
        let of = steps.get(step).into_iter().flatten();
        let of = of.filter(|((array, _), _)| recording.arrays[*array].name == name);
        of.filter_map(|(_, value)| match value {
            Scalar::Float(value) => Some(*value as u64),
            _ => None,
        })
        .collect()
    };
    for step in [0, 2, 1] {
        let class = if step == 1 { "orange" } else { "done" };
        marked(&mut c, class, a, CELL, 48, &elements(step, "a_smem"));
        marked(&mut c, class, b, CELL, 32, &elements(step, "b_smem"));
    }
    let store = first(recording, |access| {
        access.kind == Kind::Store && access.space == Space::Global
    })?;
    let stored: Vec<u64> = store.offsets.iter().map(|offset| offset / 4).collect();
    marked(&mut c, "green", product, CELL, 32, &stored);
    c.arrow((20.0, 464.0), (258.0, 464.0));
    c.note(At::Start, 20.0, 482.0, "k0 = 0, 16, 32");
    Ok(Picture {
        canvas: c,
        size: (460, 490),
        description: String::new(),
    })
}

fn reduction(recordings: &[Recording]) -> Result<Picture> {
    const PITCH: f64 = 19.0;
    const LEFT: f64 = 62.0;
    let recording = &recordings[0];
    // The second reduction sums: its first step stores what the threads bring.
    let is_store = |access: &Access| access.kind == Kind::Store;
    let brings = |at: &usize| {
        let step = &recording.steps[*at];
        step.accesses.len() == 1
            && is_store(&step.accesses[0])
            && (*at == 0
                || !recording.steps[at - 1]
                    .accesses
                    .iter()
                    .any(|a| a.kind == Kind::Load))
    };
    let starts: Vec<usize> = (0..recording.steps.len()).filter(brings).collect();
    let start = *starts.get(1).context("the recording has one reduction")?;
    let mut c = Canvas::new();
    let middle = |word: u64| LEFT + PITCH * word as f64 + (PITCH - 2.0) / 2.0;
    let mut words = vec![None; 32];
    let (mut top, mut loads): (f64, Vec<&Access>) = (8.0, Vec::new());
    for access in recording.steps[start..]
        .iter()
        .flat_map(|step| &step.accesses)
    {
        if !is_store(access) {
            loads.push(access);
            continue;
        }
        // The operands: the lane's own word, and that `half` further on.
        let half = loads.iter().map(|load| load.offsets[0] / 4).max();
        if let Some(half) = half {
            c.note(At::End, LEFT - 8.0, top + 14.0, &format!("half = {half}"));
            for lane in access.lanes.iter().map(|lane| u64::from(*lane)) {
                if lane + half < 32 {
                    c.line(
                        "wire",
                        (middle(lane + half), top - 24.0),
                        (middle(lane), top - 1.0),
                    );
                }
            }
            if half >= 32 {
                let (first, last) = (half, half + 31);
                c.note(
                    At::Start,
                    LEFT,
                    top - 8.0,
                    &format!("+ words {first} … {last}, which other warps have stored"),
                );
            }
        } else {
            c.note(At::End, LEFT - 8.0, top + 14.0, "values");
        }
        for (at, value) in access.offsets.iter().zip(&access.values) {
            if let (Some(word), Some(Scalar::Float(value))) =
                (words.get_mut(*at as usize / 4), value.first())
            {
                *word = Some(*value);
            }
        }
        for (word, value) in (0..).zip(&words) {
            let stored = access.offsets.contains(&(4 * word));
            let x = LEFT + PITCH * word as f64;
            c.rect(
                if stored { "blue" } else { "ghost" },
                x,
                top,
                PITCH - 2.0,
                20.0,
            );
            if let (true, Some(value)) = (stored, value) {
                c.note(At::Middle, middle(word), top + 14.0, &value.to_string());
            }
        }
        loads.clear();
        top += 46.0;
        if top > 46.0 * 8.0 {
            break;
        }
    }
    Ok(Picture {
        canvas: c,
        size: (670, top as u32 - 10),
        description: String::new(),
    })
}

/// A row for each step: its line, and the active lanes.
fn active_lanes(recordings: &[Recording]) -> Result<Picture> {
    const PITCH: f64 = 13.0;
    const LEFT: f64 = 252.0;
    let mut c = Canvas::new();
    let mut top = 30.0;
    for (at, step) in recordings[0].steps.iter().enumerate() {
        // A line may be left in two steps: the lanes that go the other way jump a little later.
        if at > 0 && recordings[0].steps[at - 1].line == step.line {
            continue;
        }
        c.note(
            At::Start,
            24.0,
            top + 17.0,
            &format!("{}: {}", step.line, step.source),
        );
        for lane in 0..32 {
            let class = if step.active.contains(&lane) {
                "blue"
            } else {
                "ghost"
            };
            c.rect(
                class,
                LEFT + PITCH * f64::from(lane),
                top,
                PITCH - 2.0,
                26.0,
            );
        }
        top += 38.0;
    }
    c.note(At::Start, LEFT, 20.0, "lane 0");
    c.note(At::End, LEFT + 32.0 * PITCH - 2.0, 20.0, "lane 31");
    c.arrow((10.0, 34.0), (10.0, top - 8.0));
    c.note(At::Start, 0.0, 22.0, "time");
    Ok(Picture {
        canvas: c,
        size: (670, top as u32),
        description: String::new(),
    })
}

/// The walk of a block over the tiles: elements of q, k and v are 0, 1, 2, …, so what a tile holds is where it comes from.
fn flash(recordings: &[Recording]) -> Result<Picture> {
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
    let stores_p = |access: &Access| is_of(recording, access, "p_smem") && access.offsets[0] == 0;
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
    Ok(Picture {
        canvas: c,
        size: (580, below as u32 + 28),
        description: String::new(),
    })
}

/// A row of tiles for each block: those that it loads, and where it tests single scores.
fn causal(recordings: &[Recording]) -> Result<Picture> {
    const TILE: f64 = 54.0;
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
        // A walk to a tile: its keys, and whether scores are tested before the next begins.
        let mut walk: Vec<(u64, bool)> = Vec::new();
        let mut row = 0.0;
        for (step, held) in recording.steps.iter().zip(&held) {
            if step.file.ends_with("mask.cuh") {
                walk.last_mut()
                    .context("a score is tested before keys are loaded")?
                    .1 = true;
                continue;
            }
            let keys = range(&rows_of(recording, held, "kv_smem", 1))?;
            row = range(&rows_of(recording, held, "q_smem", 1))?.0 / 32.0;
            walk.push((keys.0 as u64 / 32, false));
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
        let y = 70.0 + 40.0 * line as f64;
        c.rect(class, 330.0, y, 28.0, 24.0);
        c.text(
            At::Start,
            368.0,
            y + 17.0,
            &format!("{} {text}", seen[class]),
        );
    }
    Ok(Picture {
        canvas: c,
        size: (560, 250),
        description: String::new(),
    })
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
        .filter(|access| access.kind == Kind::Load && is_of(recording, access, array))
        .take(count)
        .collect();
    ensure!(found.len() == count, "{} loads from {array}", found.len());
    Ok(found)
}

fn lanes(recordings: &[Recording]) -> Result<Picture> {
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
    let of_key = |access: &&Access| access.offsets[0] % 128 == 0;
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
    Ok(Picture {
        canvas: c,
        size: (630, 276),
        description: String::new(),
    })
}

/// The scores of one lane in its tile, and the rows that they are made of.
fn register_tile(recordings: &[Recording]) -> Result<Picture> {
    let mut c = Canvas::new();
    let [rung_1, rung_3] = recordings else {
        bail!("it is drawn from two recordings");
    };
    // Rung 3 has one array: q has 64 rows of 20 words, k lies behind it.
    let of_q = |access: &&Access| access.offsets[0] < 4 * 64 * 20;
    let all = loads(rung_3, "smem", 12)?;
    let (q, k): (Vec<&Access>, Vec<&Access>) = all.into_iter().partition(of_q);
    let panels = [
        (
            "rung 1",
            32,
            rows(&loads(rung_1, "q_smem", 4)?, 64, 0)?,
            rows(&loads(rung_1, "k_smem", 1)?, 65, 0)?,
        ),
        ("rung 3", 64, rows(&q, 20, 0)?, rows(&k, 20, 64)?),
    ];
    for (panel, (name, tile, queries, keys)) in panels.into_iter().enumerate() {
        let cell = 192.0 / f64::from(tile);
        let (left, top) = (44.0 + 310.0 * panel as f64, 66.0);
        c.heading(At::Start, left - 34.0, 18.0, name);
        let (loads, products) = (queries.len() + keys.len(), queries.len() * keys.len());
        c.note(
            At::Start,
            left + 24.0,
            18.0,
            &format!("{loads} numbers, {products} multiply-adds"),
        );
        c.note(At::Start, left, 40.0, &format!("k: {tile} rows"));
        c.note(At::End, left - 26.0, top + 14.0, "q");
        c.rect("plain", left - 20.0, top, 14.0, 192.0);
        c.rect("plain", left, top - 20.0, 192.0, 14.0);
        c.rect("plain", left, top, 192.0, 192.0);
        let place = |row: &u64| cell * *row as f64;
        for query in &queries {
            c.rect("blue", left - 20.0, top + place(query), 14.0, cell);
            for key in &keys {
                c.rect("green", left + place(key), top + place(query), cell, cell);
            }
        }
        for key in &keys {
            c.rect("orange", left + place(key), top - 20.0, cell, 14.0);
        }
    }
    Ok(Picture {
        canvas: c,
        size: (560, 268),
        description: String::new(),
    })
}

/// The rows that lane 2 reads from a shared array with rows of `stride` words, whose first row is `first`.
fn rows(read: &[&Access], stride: u64, first: u64) -> Result<BTreeSet<u64>> {
    let row = |access: &&Access| {
        let at = access.lanes.iter().position(|lane| *lane == LANE)?;
        (access.offsets[at] / 4 / stride).checked_sub(first)
    };
    let rows: Option<BTreeSet<u64>> = read.iter().map(row).collect();
    rows.context("lane 2 does not read it")
}
