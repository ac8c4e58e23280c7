//! Why kernels take longer than the solution's: the part of the modelled time that grew most, and a line.

use exercise_kit::message::{Launch, Line};
use gpu::profile::{LaunchProfile, Resource};

/// The least share of all wavefronts, or sectors, that a line has in excess where it is named.
const LARGE: f64 = 0.1;

/// Sectors of a request of a warp that loads 32 floats in a row.
const SECTORS: u64 = 4;

/// The least share of the longest part that a part has to which a longer time may be due.
const LONG: f64 = 0.5;

/// A part of the modelled time, in seconds: the learner's, and the solution's.
type Part = (String, [f64; 2]);

/// What makes the launches slower than the solution's, as a sentence with a space before it.
pub(super) fn why_slow(launches: &[&Launch], solutions: &[LaunchProfile]) -> Option<String> {
    let all = solutions.iter().flat_map(|launch| &launch.time.parts);
    let solutions_parts = all.map(|(resource, seconds)| (resource.name(), *seconds));
    let all = launches.iter().flat_map(|launch| &launch.parts);
    let parts = all.map(|(name, seconds)| (&**name, *seconds));
    let (name, [yours, theirs]) = most_grown(parts, solutions_parts)?;
    let mut text = match name == Resource::Launch.name() {
        true => format!(
            " It launches {} kernels, the solution {}: each takes some µs to begin.",
            launches.len(),
            solutions.len()
        ),
        false => format!(
            " Of the longest parts of that time, {} grew most: {:.3} µs, the solution's {:.3} µs{}.",
            words(&name),
            1e6 * yours,
            1e6 * theirs,
            kernel_of(launches, &name).unwrap_or_default()
        ),
    };
    let lines = launches.iter().flat_map(|launch| &launch.detail);
    let lines = Vec::from_iter(lines.flat_map(|detail| &detail.lines));
    if name == Resource::Shared.name() {
        text += &conflicts(&lines).unwrap_or_default();
    }
    let by_sectors = [Resource::Shared, Resource::L2, Resource::Dram].map(Resource::name);
    if by_sectors.contains(&&*name) {
        text += &scattered(&lines).unwrap_or_default();
    }
    Some(text)
}

/// The kernel in which a part is longest, if there are several launches.
fn kernel_of(launches: &[&Launch], part: &str) -> Option<String> {
    let seconds = |launch: &Launch| {
        let parts = launch.parts.iter().filter(|(name, _)| name == part);
        parts.map(|(_, seconds)| *seconds).sum::<f64>()
    };
    let longest = launches
        .iter()
        .max_by(|a, b| seconds(a).total_cmp(&seconds(b)))?;
    (launches.len() > 1).then(|| format!(", most of it in kernel `{}`", longest.kernel))
}

/// The part with the largest difference, of those that are long; `None` if none grew.
fn most_grown<'a>(
    yours: impl Iterator<Item = (&'a str, f64)>,
    solutions: impl Iterator<Item = (&'a str, f64)>,
) -> Option<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let yours = yours.map(|part| (part, 0));
    for ((name, seconds), side) in yours.chain(solutions.map(|part| (part, 1))) {
        let at = parts.iter().position(|(other, _)| other == name);
        let at = at.unwrap_or_else(|| {
            parts.push((name.to_owned(), [0.0; 2]));
            parts.len() - 1
        });
        parts[at].1[side] += seconds;
    }
    let grown = |(_, [yours, theirs]): &Part| yours - theirs;
    let of_kernels = parts
        .iter()
        .filter(|(name, _)| name != Resource::Launch.name());
    let longest = of_kernels.fold(0.0, |longest: f64, (_, [yours, _])| longest.max(*yours));
    let long = |(_, [yours, _]): &Part| *yours >= LONG * longest;
    let most = parts.into_iter().filter(long);
    let most = most.max_by(|a, b| grown(a).total_cmp(&grown(b)))?;
    (grown(&most) > 0.0).then_some(most)
}

/// What a part is, with what makes it grow.
fn words(part: &str) -> String {
    let more = match part {
        "issue" => ", the instructions of all warps,",
        "fp64" => ", arithmetic in f64: a literal without f, such as 0.5, makes it so,",
        "special" => ", the unit of exponentials, divisions and roots,",
        "load/store" => ", the lanes of memory instructions,",
        "L1/shared" => ", shared memory and the cache beside it,",
        "latency" => ", what a block waits for its own results and barriers,",
        "L2" => ", what the caches of the multiprocessors miss,",
        "DRAM" => ", the bytes of device memory,",
        _ => "",
    };
    format!("`{part}`{more}")
}

/// The line with most wavefronts of shared memory by bank conflicts.
fn conflicts(lines: &[&Line]) -> Option<String> {
    let all: f64 = lines.iter().map(|line| line.shared[1] as f64).sum();
    let excess = |line: &Line| line.shared[1].saturating_sub(line.shared[0]);
    let worst = worst(lines, all, excess)?;
    Some(format!(
        " Line {} of {} has bank conflicts: {:.1} times the wavefronts that it would have without.",
        worst.line,
        worst.file,
        worst.shared[1] as f64 / worst.shared[0].max(1) as f64
    ))
}

/// The line with most sectors of global memory beyond those of a row of floats.
fn scattered(lines: &[&Line]) -> Option<String> {
    let all: f64 = lines.iter().map(|line| line.global[1] as f64).sum();
    // Vectors of 16 bytes of neighbours have four times as many sectors, and none too many.
    let excess = |line: &Line| match line.global[1] <= line.global[0].saturating_mul(4 * SECTORS) {
        true => 0,
        false => line.global[1].saturating_sub(SECTORS.saturating_mul(line.global[0])),
    };
    let worst = worst(lines, all, excess)?;
    Some(format!(
        " Line {} of {} touches {:.1} sectors with each request of a warp; {SECTORS} are enough for 32 floats in a row.",
        worst.line,
        worst.file,
        worst.global[1] as f64 / worst.global[0].max(1) as f64
    ))
}

/// The line with the largest excess, if it is a large share of all.
fn worst<'a>(lines: &[&'a Line], all: f64, excess: impl Fn(&Line) -> u64) -> Option<&'a Line> {
    let worst = lines.iter().max_by_key(|line| excess(line))?;
    (excess(worst) as f64 > LARGE * all).then_some(*worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_grew_most_is_told_and_no_launch_without_more_launches() {
        let yours = [
            ("launch", 3.0),
            ("issue", 2.0),
            ("L1/shared", 9.0),
            ("DRAM", 1.0),
        ];
        let solutions = [
            ("launch", 3.0),
            ("issue", 1.0),
            ("L1/shared", 6.0),
            ("L2", 8.0),
        ];
        let (name, seconds) = most_grown(yours.into_iter(), solutions.into_iter()).unwrap();
        assert_eq!((&*name, seconds), ("L1/shared", [9.0, 6.0]));
        let short = [("latency", 9.0), ("issue", 4.0)];
        let (name, _) = most_grown(short.into_iter(), [("latency", 8.0)].into_iter()).unwrap();
        assert_eq!(name, "latency");
        assert_eq!(
            most_grown(solutions.into_iter(), solutions.into_iter()),
            None
        );
        assert!(words("fp64").contains("a literal without f"));
    }

    #[test]
    fn a_line_is_told_if_its_excess_is_large() {
        let line = |line, global, shared| Line {
            file: "flash.cu".to_owned(),
            line,
            instructions: 1,
            global,
            shared,
        };
        let lines = [
            line(3, [10, 40], [0, 0]),
            line(7, [10, 320], [100, 100]),
            line(9, [0, 0], [100, 3200]),
            line(11, [u64::MAX, 0], [1, 2]),
        ];
        let lines = Vec::from_iter(&lines);
        let told = conflicts(&lines).unwrap();
        assert!(
            told.starts_with(" Line 9 of flash.cu has bank conflicts: 32.0 times"),
            "{told}"
        );
        let told = scattered(&lines).unwrap();
        assert!(
            told.starts_with(" Line 7 of flash.cu touches 32.0 sectors"),
            "{told}"
        );
        assert_eq!(conflicts(&lines[..2]), None);
        assert_eq!(scattered(&lines[..1]), None);
    }
}
