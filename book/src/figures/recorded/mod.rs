//! Pictures of real runs: drawn from recordings of `gpu trace`, which are generated blocks.

mod attention;
mod formats;
mod roles;
mod tensor_cores;
mod vectors;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use gpu_recording::{Access, At, Canvas, Kind, Picture, Recording, Scalar, Space, accesses};

/// A picture of recordings.
pub struct Recorded {
    pub name: &'static str,
    /// The generated blocks that it is drawn from.
    pub recordings: &'static [&'static str],
    /// Description for those who do not see it. Empty if the drawing says it.
    pub description: &'static str,
    pub caption: &'static str,
    pub draw: fn(&[Recording]) -> Result<Picture>,
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Recorded> {
    [
        FIGURES,
        formats::FIGURES,
        roles::FIGURES,
        tensor_cores::FIGURES,
        vectors::FIGURES,
    ]
    .into_iter()
    .flatten()
}

const FIGURES: &[Recorded] = &[
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
        caption: "The transposition of a tile by warp 0, recorded. Above, its 32 lanes read two rows of b. Below, they store them as two columns of b_smem: rows of 17 floats put these 32 words in 31 banks, and only bank 0 has two of them.",
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
        draw: attention::flash,
    },
    Recorded {
        name: "causal-tiles",
        recordings: &["causal-0", "causal-1", "causal-2", "causal-3"],
        description: "A score matrix of 4 by 4 tiles under a causal mask. The 6 tiles below the diagonal are full, the 4 tiles on the diagonal are mixed, and the 6 tiles above it are never loaded.",
        caption: "Tiles under a causal mask: the walks of the four blocks of rung 1, recorded. In full tiles no score is hidden, in mixed ones some are, masked ones are never loaded.",
        draw: attention::causal,
    },
    Recorded {
        name: "flash-lanes",
        recordings: &["scores-lanes", "output-lanes"],
        description: "What the 32 lanes of a warp read from shared memory. For the scores: the same word of each of 4 rows of q, and column 0 of k, a key for each lane. For p v: the same word of each of 4 rows of p, and row 0 of v, two columns for each lane.",
        caption: "Rung 1: the words that warp 0 reads for one key column and for one key, recorded; those of lane 2 are orange. While scores are computed, a lane owns a key of the tile; while p v is computed, columns of o.",
        draw: attention::lanes,
    },
    Recorded {
        name: "register-tile",
        recordings: &["scores-lanes", "register-lanes"],
        description: "Scores of one lane in a tile. In rung 1, lane 2 reads one number of each of 4 rows of q and of one row of k, for 4 scores. In rung 2 it reads from 8 rows of q and 2 rows of k, for 16 scores.",
        caption: "The rows of q and k that lane 2 of warp 0 reads, recorded, and the scores that it computes from them. Numbers and multiply-adds are those of one step along D.",
        draw: attention::register_tile,
    },
];

/// A picture whose figure has a description.
fn drawn(canvas: Canvas, size: (u32, u32)) -> Picture {
    Picture {
        canvas,
        size,
        description: String::new(),
    }
}

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

fn touches(recording: &Recording, access: &Access, array: &str) -> bool {
    let name = |at: &usize| recording.arrays[*at].name == array;
    access.arrays.first().is_some_and(name)
}

fn layouts(recordings: &[Recording]) -> Result<Picture> {
    const CELL: f64 = 5.6;
    let mut c = Canvas::new();
    for (panel, name) in ["tile", "padded", "swizzled"].into_iter().enumerate() {
        let recording = &recordings[0];
        let access = first(recording, |access| touches(recording, access, name))?;
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
    Ok(drawn(c, (660, 238)))
}

fn products(recordings: &[Recording]) -> Result<Picture> {
    const CELL: f64 = 9.0;
    let mut c = Canvas::new();
    let panels = [
        (0, "NN: b [k, n]", 10.0, 8, 32),
        (1, "NT: b [n, k]", 400.0, 32, 8),
    ];
    for (index, name, left, rows, columns) in panels {
        let recording = &recordings[index];
        let access = first(recording, |access| touches(recording, access, "argument 1"))?;
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
    Ok(drawn(c, (640, 340)))
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

/// Contents of shared memory: by array and word, the value.
type Held<'a> = BTreeMap<(usize, u64), &'a Scalar>;

/// Contents of shared memory when each step begins.
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
    // The contents of shared memory when the products of a step begin.
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
        let words = steps.get(step).into_iter().flatten();
        let words = words.filter(|((array, _), _)| recording.arrays[*array].name == name);
        words
            .filter_map(|(_, value)| match value {
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
    Ok(drawn(c, (460, 490)))
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
    Ok(drawn(c, (670, top as u32 - 10)))
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
    Ok(drawn(c, (670, top as u32)))
}
