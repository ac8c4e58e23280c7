//! Pictures of memory accesses: lanes above, and the sectors or the banks that they access below.

use std::collections::{BTreeMap, BTreeSet};

use crate::canvas::{At, Canvas};
use crate::recording::{Access, Kind, Recording, Space, Step};

/// Width of a picture.
const WIDTH: f64 = 680.0;
/// Left end of the rows, behind their names.
const LEFT: f64 = 48.0;
/// Width of a lane or of a bank, with the gap behind it.
const PITCH: f64 = (WIDTH - LEFT - 2.0) / 32.0;
/// Height of a row of cells.
const ROW: f64 = 20.0;
/// Height of the wires between two rows.
const WIRES: f64 = 52.0;
/// Characters of a source line that are shown.
const SOURCE: usize = 84;

/// A picture.
pub struct Picture {
    /// The drawing.
    pub canvas: Canvas,
    /// Width and height.
    pub size: (u32, u32),
    /// Its description, in words.
    pub description: String,
}

/// The most instructions of a picture: 32 lanes of each are drawn.
const MOST: usize = 32;

/// Draws each memory instruction of a recording once: the way it was made the time `visit`, counted
/// from 0. `None` if there is no instruction that was made so often. Of more than `MOST`
/// instructions, as an unrolled loop has them, the first are drawn, and a line says so.
pub fn accesses(recording: &Recording, visit: usize) -> Option<Picture> {
    let mut visits: BTreeMap<(u32, Space), usize> = BTreeMap::new();
    let mut drawn: Vec<(&Step, &Access)> = Vec::new();
    for step in &recording.steps {
        for access in &step.accesses {
            let seen = visits
                .entry((access.instruction, access.space))
                .or_default();
            if *seen == visit {
                drawn.push((step, access));
            }
            *seen += 1;
        }
    }
    if drawn.is_empty() {
        return None;
    }
    let (mut canvas, mut top) = (Canvas::new(), 0.0);
    let mut descriptions = Vec::new();
    if drawn.len() > MOST {
        let said = format!("The first {MOST} of {} instructions", drawn.len());
        canvas.note(At::Start, 2.0, 16.0, &said);
        descriptions.push(format!("{said}."));
        top += 26.0;
        drawn.truncate(MOST);
    }
    for (step, access) in drawn {
        let said = summary(recording, access);
        let source: String = step.source.chars().take(SOURCE).collect();
        canvas.heading(
            At::Start,
            2.0,
            top + 16.0,
            &format!("{}: {source}", step.line),
        );
        canvas.note(At::Start, 2.0, top + 34.0, &said);
        top += 44.0;
        top = match access.space {
            Space::Global => sectors(&mut canvas, access, top),
            Space::Shared => banks(&mut canvas, access, top),
            Space::Local => top,
        };
        top += 14.0;
        descriptions.push(format!("Line {}: {said}.", step.line));
    }
    Some(Picture {
        canvas,
        size: (WIDTH as u32, top as u32),
        description: descriptions.join(" "),
    })
}

/// `load of f32 by 32 lanes, from tile in shared memory: 32 wavefronts, 1 without conflicts`.
fn summary(recording: &Recording, access: &Access) -> String {
    let (verb, direction) = match access.kind {
        Kind::Load => ("load", "from"),
        Kind::Store => ("store", "to"),
        Kind::Atomic => ("atomic operation", "on"),
    };
    let names: BTreeSet<&str> = (access.arrays.iter())
        .map(|array| &*recording.arrays[*array].name)
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let elements = match access.elements {
        1 => access.ty.clone(),
        many => format!("{many} {}", access.ty),
    };
    let lanes = match access.lanes.len() {
        1 => "1 lane".to_owned(),
        many => format!("{many} lanes"),
    };
    let space = match access.space {
        Space::Global => "device memory",
        Space::Shared => "shared memory",
        Space::Local => "local memory",
    };
    format!(
        "{verb} of {elements} by {lanes}, {direction} {} in {space}: {}",
        names.join(" and "),
        access.cost()
    )
}

fn column(number: u32) -> f64 {
    LEFT + PITCH * f64::from(number)
}

/// A row of 32 cells with their numbers.
fn row(c: &mut Canvas, name: &str, top: f64, class: impl Fn(u32) -> &'static str) {
    c.note(At::End, LEFT - 6.0, top + 14.0, name);
    for number in 0..32 {
        let x = column(number);
        c.rect(class(number), x, top, PITCH - 2.0, ROW);
        let middle = x + (PITCH - 2.0) / 2.0;
        c.note(At::Middle, middle, top + 14.0, &number.to_string());
    }
}

/// From a lane to a place below.
fn wire(c: &mut Canvas, class: &str, lane: u32, top: f64, x: f64) {
    let from = column(lane) + (PITCH - 2.0) / 2.0;
    c.line(class, (from, top + 1.0), (x, top + WIRES - 1.0));
}

/// The banks of an access to shared memory, once for each group of lanes that is served together.
/// Returns the lower end.
fn banks(c: &mut Canvas, access: &Access, mut top: f64) -> f64 {
    for pass in &access.passes {
        // The different words that each bank is asked for.
        let mut asked: Vec<BTreeSet<(usize, u64)>> = vec![BTreeSet::new(); 32];
        let served = |lane: &u32| pass.lanes.contains(lane);
        let places: Vec<usize> = (0..access.lanes.len())
            .filter(|&at| served(&access.lanes[at]))
            .collect();
        for &at in &places {
            for word in 0..access.words(at) {
                let bank = (u64::from(access.banks[at]) + word) % 32;
                let word = access.offsets[at] / 4 + word;
                asked[bank as usize].insert((access.arrays[at], word));
            }
        }
        row(c, "lane", top, |lane| match served(&lane) {
            true => "blue",
            false if access.lanes.contains(&lane) => "plain",
            false => "ghost",
        });
        top += ROW;
        for &at in &places {
            let (first, words) = (u64::from(access.banks[at]), access.words(at));
            let clash = (first..first + words).any(|bank| asked[bank as usize % 32].len() > 1);
            let x = column(access.banks[at]) + (PITCH * words as f64 - 2.0) / 2.0;
            let class = if clash { "clash" } else { "wire" };
            wire(c, class, access.lanes[at], top, x.min(WIDTH - 4.0));
        }
        top += WIRES;
        row(c, "bank", top, |bank| match asked[bank as usize].len() {
            0 => "plain",
            1 => "green",
            _ => "red",
        });
        top += ROW;
        if asked.iter().any(|words| words.len() > 1) {
            c.note(At::End, LEFT - 6.0, top + 13.0, "words");
            for (bank, words) in (0..).zip(&asked) {
                if words.len() > 1 {
                    let middle = column(bank) + (PITCH - 2.0) / 2.0;
                    c.note(At::Middle, middle, top + 13.0, &words.len().to_string());
                }
            }
            top += 16.0;
        }
        top += 8.0;
    }
    top
}

/// The sectors of an access to device memory, each with its eight words. Returns the lower end.
fn sectors(c: &mut Canvas, access: &Access, mut top: f64) -> f64 {
    let touched: BTreeSet<(usize, u64)> = access
        .arrays
        .iter()
        .copied()
        .zip(access.sectors.iter().copied())
        .collect();
    let touched: Vec<(usize, u64)> = touched.into_iter().collect();
    let pitch = ((WIDTH - LEFT - 2.0) / touched.len().max(1) as f64).min(160.0);
    let left = |sector: usize| LEFT + pitch * sector as f64;
    let word_width = (pitch - 4.0) / 8.0;
    row(c, "lane", top, |lane| {
        if access.lanes.contains(&lane) {
            "blue"
        } else {
            "ghost"
        }
    });
    top += ROW;
    // For each sector, the words that some lane accesses.
    let mut used = vec![BTreeSet::new(); touched.len()];
    for at in 0..access.lanes.len() {
        let sector = touched.binary_search(&(access.arrays[at], access.sectors[at]));
        let Ok(sector) = sector else { continue };
        let first = access.offsets[at] % 32 / 4;
        let words = access.words(at);
        used[sector].extend(first..(first + words).min(8));
        let middle = first as f64 + words as f64 / 2.0;
        let x = left(sector) + 1.0 + word_width * middle;
        wire(c, "wire", access.lanes[at], top, x);
    }
    top += WIRES;
    c.note(At::End, LEFT - 6.0, top + 14.0, "sector");
    // Words that are too narrow have no room for their edges, and not every number has room.
    let is_narrow = word_width < 6.0;
    let digits = touched.last().map_or(1, |(_, n)| n.to_string().len());
    let labelled = (7.0 * digits as f64 / pitch).ceil().max(1.0) as usize;
    for (sector, (_, number)) in touched.iter().enumerate() {
        let x = left(sector);
        c.rect("outline", x - 1.0, top - 1.0, pitch - 2.0, ROW + 2.0);
        for word in 0..8 {
            let is_used = used[sector].contains(&word);
            if !is_used && is_narrow {
                continue;
            }
            let class = if is_used { "orange" } else { "plain" };
            let x = x + 1.0 + word_width * word as f64;
            c.rect(class, x, top + 1.0, word_width - 0.5, ROW - 2.0);
        }
        if sector % labelled == 0 {
            let middle = x + pitch / 2.0 - 2.0;
            c.note(At::Middle, middle, top + ROW + 14.0, &number.to_string());
        }
    }
    top + ROW + 20.0
}
