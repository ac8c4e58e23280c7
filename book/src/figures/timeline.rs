//! A decode step, launch by launch: started one by one, and replayed as a graph.

use gpu_recording::{At, Canvas};

use super::Figure;

/// The figure, and the generated block that it is drawn from.
pub const DRAWN_FROM: (&str, &[&str]) = ("replayed-step", &["decode-step"]);

pub const FIGURES: &[Figure] = &[Figure {
    name: DRAWN_FROM.0,
    description: "Two timelines of the launches of a decode step of the storyteller, each launch a grey start and a short coloured run. Started one by one, after the end of the one ahead, each start takes 3 microseconds. In a graph all but the first take 2 microseconds, and the step is over after less than three quarters of the time. Above, the eight launches of one transformer block with their names; below, all launches of the step.",
    caption: "A decode step of the storyteller, by modelled times of an H100. Grey is the start of a launch, a colour is its work. One by one, the host launches a kernel when the one ahead has ended, and each start takes 3 µs. In a graph the next launch is there already: 2 µs. In both, starts take most of the step, since each kernel has little work.",
    size: (650, 304),
    draw: step,
}];

/// Microseconds of a launch overhead, if nothing is ahead in its stream.
const START: f64 = 3.0;

/// A launch of the step.
struct Launch<'a> {
    kernel: &'a str,
    /// Microseconds from its start to its end, if nothing is ahead of it.
    alone: f64,
    /// Microseconds from the end of the one ahead, in a graph.
    behind: f64,
}

/// A time of a launch.
type Time = fn(&Launch<'_>) -> f64;

/// The lines below `launches of a step` of what the bench prints.
fn launches(text: &str) -> Vec<Launch<'_>> {
    let lines = text.lines();
    let lines = lines.skip_while(|line| !line.starts_with("launches of a step"));
    let launch = |line| {
        let words: Vec<&str> = str::split_whitespace(line).collect();
        let [kernel, alone, behind] = words[..] else {
            return None;
        };
        let (alone, behind) = (alone.parse().ok()?, behind.parse().ok()?);
        Some(Launch {
            kernel,
            alone,
            behind,
        })
    };
    lines.skip(1).map_while(launch).collect()
}

const BENCH: &str = include_str!("../../generated/decode-step.txt");

const LEFT: f64 = 10.0;
const WIDTH: f64 = 570.0;

fn step(c: &mut Canvas) {
    let launches = launches(BENCH);
    // A block of the decoder, from its first norm to the launch before the next block's.
    let norms: Vec<usize> = (0..launches.len())
        .filter(|&at| launches[at].kernel == "normalise")
        .collect();
    let block = &launches[norms[0]..norms[2]];
    let heading = format!("one block of the decoder: {} launches", block.len());
    c.heading(At::Start, LEFT, 16.0, &heading);
    let scale = WIDTH / block.iter().map(|launch| launch.alone).sum::<f64>();
    let mut x = LEFT;
    for (index, launch) in block.iter().enumerate() {
        // A name may be wider than its launch, so every second one is higher.
        let y = if index % 2 == 0 { 66.0 } else { 53.0 };
        c.note(At::Start, x, y, launch.kernel);
        x += scale * launch.alone;
    }
    one_by_one_and_in_a_graph(c, block, [(36.0, 72.0), (116.0, 122.0)]);
    let heading = format!("the whole step: {} launches", launches.len());
    c.heading(At::Start, LEFT, 186.0, &heading);
    one_by_one_and_in_a_graph(c, &launches, [(208.0, 214.0), (262.0, 268.0)]);
}

/// Both timelines of some launches. Of each, the line of its name and the upper end of its bar.
fn one_by_one_and_in_a_graph(c: &mut Canvas, launches: &[Launch<'_>], at: [(f64, f64); 2]) {
    let sum = |time: Time| launches.iter().map(time).sum::<f64>();
    let scale = WIDTH / sum(|launch| launch.alone);
    let ways: [(&str, Time); 2] = [
        ("one by one", |launch| launch.alone),
        ("replayed as a graph", |launch| launch.behind),
    ];
    for ((way, time), (name, y)) in ways.into_iter().zip(at) {
        c.note(At::Start, LEFT, name, way);
        let mut x = LEFT;
        for launch in launches {
            let work = launch.alone - START;
            let start = time(launch) - work;
            c.rect("plain", x, y, scale * start, 26.0);
            x += scale * start;
            c.rect(class(launch.kernel), x, y, scale * work, 26.0);
            x += scale * work;
        }
        c.text(
            At::Start,
            x + 8.0,
            y + 18.0,
            &format!("{:.1} µs", sum(time)),
        );
    }
}

/// The colour of a kernel's work.
fn class(kernel: &str) -> &'static str {
    match kernel {
        "gemv" => "blue",
        "normalise" => "green",
        "split" => "orange",
        _ => "red",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_in_a_graph_is_that_of_the_bench_and_each_launch_behind_another_saves_a_microsecond() {
        let launches = launches(BENCH);
        // The time between tokens that the bench prints, to a digit.
        let tbt = BENCH.lines().find(|line| line.starts_with("TBT")).unwrap();
        let tbt = tbt.split_whitespace().nth(1).unwrap();
        let sum: f64 = launches.iter().map(|launch| launch.behind).sum();
        assert_eq!(format!("{sum:.1}"), tbt);
        let saved = launches.iter().map(|launch| launch.alone - launch.behind);
        let saved: Vec<f64> = saved.map(f64::round).collect();
        assert!(launches.len() > 40 && saved[0] == 0.0, "{saved:?}");
        assert!(saved[1..].iter().all(|saved| *saved == 1.0), "{saved:?}");
        assert!(launches.iter().all(|launch| launch.alone > START));
    }
}
