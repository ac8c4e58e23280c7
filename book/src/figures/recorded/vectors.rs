//! Loads of vectors of 16 bytes from shared memory: the wavefronts, from the addresses of the lanes.

use anyhow::{Result, ensure};
use gpu_recording::{Access, At, Canvas, Picture, Recording};

use super::{Recorded, drawn};

pub const FIGURES: &[Recorded] = &[Recorded {
    name: "vector-loads",
    recordings: &["vector-loads"],
    description: "Four loads of 16 bytes by each lane. Each row of 32 banks is a wavefront, and shows which lanes it serves. Plain rows of 64 bytes: 16 wavefronts of 2 lanes, in banks 0 to 3 and 16 to 19, the other banks idle. Padded rows: 4 wavefronts of 8 lanes, all banks busy. Two neighbouring lanes for each row: 2 wavefronts of 16 lanes. Lanes x and x + 16 for each row: 4 wavefronts of 8 lanes.",
    caption: "Loads of 16 bytes, recorded: a row is a wavefront, and the numbers are the lanes that it serves. A colour is a group of lanes that is served together. Left, 8 lanes meet in 8 banks and take 4 wavefronts. Right, all banks are busy; only neighbours with one address make groups of 16.",
    draw: loads,
}];

/// Banks of shared memory, each of which serves one word in a wavefront.
const BANKS: u64 = 32;

/// The lanes of a wavefront, by the first of the banks that serve them.
type Wavefront = Vec<(u64, Vec<u32>)>;

/// The groups of lanes that are served one after the other, and the wavefronts of each.
///
/// Without conflicts, a wavefront has 128 bytes: 8 lanes with 16 bytes each. A group of a load is twice as large if in all
/// of these lanes i and i ^ 1 have the same address, or all lanes i and i ^ 2. (`cuda-sim/MODEL.md`, "Wavefronts".)
fn served(access: &Access) -> Vec<Vec<Wavefront>> {
    let address = |lane: u32| {
        let at = access.lanes.iter().position(|other| *other == lane)?;
        Some(access.offsets[at])
    };
    let mut size = (128 / access.bytes).min(32);
    let is_paired = |first: u32, partner: u32| {
        (first..first + 2 * size).all(|lane| {
            let both = address(lane).zip(address(lane ^ partner));
            both.is_none_or(|(one, other)| one == other)
        })
    };
    let starts = |size: u32| (0..32).step_by(size as usize);
    if size < 32 && starts(2 * size).all(|first| is_paired(first, 1) || is_paired(first, 2)) {
        size *= 2;
    }
    let group = |first: u32| {
        let mut wavefronts: Vec<Wavefront> = Vec::new();
        // The addresses that each wavefront serves. Another one in the same banks has to wait for the next.
        let mut addresses: Vec<Vec<u64>> = Vec::new();
        for lane in first..first + size {
            let Some(address) = address(lane) else {
                continue;
            };
            let bank = address / 4 % BANKS;
            let is_free = |at: usize| wavefronts[at].iter().all(|(other, _)| *other != bank);
            let now = (0..wavefronts.len())
                .find(|&at| addresses[at].contains(&address) || is_free(at))
                .unwrap_or(wavefronts.len());
            if now == wavefronts.len() {
                wavefronts.push(Wavefront::new());
                addresses.push(Vec::new());
            }
            match wavefronts[now].iter_mut().find(|(other, _)| *other == bank) {
                Some((_, lanes)) => lanes.push(lane),
                None => {
                    wavefronts[now].push((bank, vec![lane]));
                    addresses[now].push(address);
                }
            }
        }
        wavefronts
    };
    let groups = starts(size).map(group);
    groups.filter(|group| !group.is_empty()).collect()
}

/// Left, the load with conflicts; right, the others.
fn loads(recordings: &[Recording]) -> Result<Picture> {
    let accesses: Vec<(&str, &Access)> = recordings[0]
        .steps
        .iter()
        .flat_map(|step| step.accesses.iter().map(|access| (&*step.source, access)))
        .collect();
    ensure!(accesses.len() == 4, "it has {} loads", accesses.len());
    let mut c = Canvas::new();
    let bottom = panel(&mut c, (20.0, 18.0), accesses[0])?;
    let mut top = 18.0;
    for &load in &accesses[1..] {
        top = panel(&mut c, (350.0, top), load)? + 32.0;
    }
    Ok(drawn(c, (660, f64::max(bottom, top - 32.0) as u32 + 6)))
}

/// A load: its code, its lanes, and a row of banks for each wavefront. Returns the lower end.
fn panel(c: &mut Canvas, at: (f64, f64), (source, access): (&str, &Access)) -> Result<f64> {
    const BANK: f64 = 9.0;
    const ROW: f64 = 18.0;
    const CLASSES: [&str; 4] = ["blue", "orange", "green", "red"];
    let groups = served(access);
    let count: usize = groups.iter().map(Vec::len).sum();
    ensure!(
        count == access.wavefronts() as usize,
        "{source}: {count} wavefronts by the rule, {} counted",
        access.wavefronts()
    );
    let (left, mut y) = at;
    let code = source.split("//").next().unwrap_or(source).trim_end();
    c.heading(At::Start, left, y, code.trim_end_matches(';'));
    c.note(At::Start, left, y + 18.0, &access.cost());
    c.note(At::Start, left, y + 36.0, "bank 0");
    c.note(At::End, left + BANK * 32.0, y + 36.0, "31");
    y += 42.0;
    let words = u64::from(access.bytes / 4);
    for (group, class) in groups.iter().zip(CLASSES.iter().cycle()) {
        for wavefront in group {
            c.rect("plain", left, y, BANK * 32.0, ROW - 3.0);
            for (bank, lanes) in wavefront {
                let x = left + BANK * *bank as f64;
                c.rect(class, x, y, BANK * words as f64, ROW - 3.0);
                let numbers: Vec<String> = lanes.iter().map(u32::to_string).collect();
                let middle = x + BANK * words as f64 / 2.0;
                c.note(At::Middle, middle, y + 11.5, &numbers.join(", "));
            }
            y += ROW;
        }
    }
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated;

    /// The passes of each access to shared memory, as the simulator counts them, and by the rule.
    #[test]
    fn the_rule_gives_the_wavefronts_that_the_simulator_counts() {
        let mut seen = std::collections::BTreeSet::new();
        // Loads of 16 bytes with and without pairs and conflicts; of 4 bytes, with 1 to 32 wavefronts.
        for name in [
            "vector-loads",
            "register-lanes",
            "column-layouts",
            "nt-banks",
            "mma-lanes",
            "mma-banks",
            "softmax-warp",
        ] {
            let recording = generated::recording(name).unwrap();
            let accesses = recording.steps.iter().flat_map(|step| &step.accesses);
            for access in accesses.filter(|access| !access.passes.is_empty()) {
                let counted: Vec<(Vec<u32>, u32)> = (access.passes.iter())
                    .map(|pass| (pass.lanes.clone(), pass.wavefronts))
                    .collect();
                let groups = served(access).into_iter().map(|group| {
                    let lanes = group.iter().flatten().flat_map(|(_, lanes)| lanes);
                    let mut lanes: Vec<u32> = lanes.copied().collect();
                    lanes.sort_unstable();
                    (lanes, group.len() as u32)
                });
                assert_eq!(groups.collect::<Vec<_>>(), counted, "{name}: {access:?}");
                seen.insert((access.bytes, counted[0].0.len(), access.wavefronts()));
            }
        }
        for kind in [
            (16, 8, 16),
            (16, 8, 4),
            (16, 16, 2),
            (4, 32, 32),
            (4, 32, 1),
        ] {
            assert!(seen.contains(&kind), "{seen:?}");
        }
    }
}
