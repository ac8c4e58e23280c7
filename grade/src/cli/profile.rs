//! `profile`: the learner's launches of the timed problem, line by line, and the solution's totals; its lines too, once the task is
//! solved.

use std::fs;
use std::path::Path;

use anyhow::{anyhow, bail};
use clap::Args;
use exercise_kit::message::{Launch, Line};
use gpu_tool::ink::Ink;
use grade::grade::{Settings, profiled};
use grade::places::Places;
use grade::tasks::Task;
use grade::verdict::Kind;

use super::run;
use super::starters::starter;
use super::{compiler, one, print, root, shown, store};

/// Columns that are left for the source.
const SOURCE_WIDTH: usize = 64;

/// The flags of `profile`.
#[derive(Args)]
#[command(after_help = "\
The launches are those of the problem whose time is judged. `cargo gpu profile FILE` counts the launch that the comments of a kernel
file state.")]
pub struct Arguments {
    /// The task, such as softmax, or a step, such as 4/flash/tile; of a task in steps the one to work at.
    task: String,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Counts the launches of the timed problem on the simulator.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let task = one(&arguments.task)?;
    let kernels: Vec<&str> = task.kernels().collect();
    if task.tunes() {
        bail!(
            "{} has no kernel of yours; `cargo grade tune` counts the course's, with each tile",
            task.name()
        );
    }
    if kernels.is_empty() {
        bail!(
            "{} has no kernel; a profiler of the CPU, such as perf, counts it",
            task.name()
        );
    }
    let yours = Places::learner(root());
    let path = |places: &Places, file: &str| places.submission.join(task.folder()).join(file);
    let (starters, kernels): (Vec<&str>, Vec<&str>) = kernels
        .into_iter()
        .partition(|file| is_starter(&path(&yours, file)));
    for file in starters {
        print(&format!(
            "{} is the starter: it does nothing that could be counted. `cargo grade hint {}` helps to begin.\n",
            shown(&path(&yours, file)),
            task.name()
        ))?;
    }
    if kernels.is_empty() {
        return Ok(());
    }
    compiler::ensure_compiler(&yours, &[task], arguments.yes)?;
    let solved = is_solved(task, arguments.yes)?;
    let [own, solution] = profiled(&run::usual(), task).map_err(|error| anyhow!("{error}"))?;
    print(&render([&own, &solution], solved, Ink::stdout()))
}

fn is_starter(path: &Path) -> bool {
    starter(path).is_ok_and(|starter| fs::read(path).is_ok_and(|text| text == starter))
}

/// True if the task's values are right. Nothing else is judged, unless it has been before.
fn is_solved(task: &'static Task, yes: bool) -> anyhow::Result<bool> {
    let result = match store::kept(task) {
        Some(result) => result,
        None => {
            let settings = Settings {
                values_alone: true,
                ..run::usual()
            };
            run::run(&settings, &[task], yes)?.tasks.remove(0)
        }
    };
    let mut criteria = result.criteria.iter();
    Ok(criteria.any(|criterion| criterion.kind == Kind::Correct && criterion.share == 1.0))
}

/// The solution's lines are shown if the task is solved.
fn render([yours, solution]: [&[Launch]; 2], solved: bool, ink: Ink) -> String {
    let mut text = String::new();
    for (name, launches) in [("yours", yours), ("solution", solution)] {
        for launch in launches {
            let (grid, block) = (launch.detail.as_ref())
                .map(|detail| (detail.grid, detail.block))
                .unwrap_or_default();
            let title = format!(
                "{name:9} {}: {}, grid {grid:?}, block {block:?}",
                shown_file(launch.file()),
                launch.kernel,
            );
            text += &format!("{}\n", ink.bold(&title));
            let micros = short(1e6 * launch.seconds);
            text += &format!("{:9} {micros} µs, bound by {}\n", "", launch.bound);
        }
    }
    text += &format!(
        "\n  {:32} {:>12} {:>12} {:>8}\n",
        "modelled", "yours", "solution", "ratio"
    );
    for ((name, mine), (_, least)) in sums(yours).into_iter().zip(sums(solution)) {
        let ratio = match least > 0.0 {
            true => format!("{:.2} ×", mine / least),
            false => String::new(),
        };
        let line = format!(
            "  {name:32} {:>12} {:>12} {ratio:>8}",
            short(mine),
            short(least)
        );
        text += line.trim_end();
        text.push('\n');
    }
    for (name, launches) in [("yours", yours), ("solution", solution)] {
        if name == "solution" && !solved {
            text +=
                "\nThe lines of the solution are shown when all values of the task are right.\n";
            continue;
        }
        let name = ink.bold(&format!("{name:10}"));
        text += &format!("\n{name} line  issue  sectors/request  bank\n");
        text += &lines(launches, ink);
    }
    text + "\nissue: share of warp instructions; sectors/request: 4 is best for floats of a warp, 32 worst; bank: wavefronts of \
            shared\nmemory over those without bank conflicts, 1 is best\n\n"
}

/// The sums of the figures of some launches.
fn sums(launches: &[Launch]) -> Vec<(&str, f64)> {
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for (name, value) in launches
        .iter()
        .flat_map(|launch| &launch.detail)
        .flat_map(|it| &it.figures)
    {
        match sums.iter_mut().find(|(other, _)| other == name) {
            Some((_, sum)) => *sum += value,
            None => sums.push((name, *value)),
        }
    }
    sums
}

/// The lines that execute instructions, in the order of each file, summed over the launches.
fn lines(launches: &[Launch], ink: Ink) -> String {
    let mut sums: Vec<Line> = Vec::new();
    for line in launches
        .iter()
        .flat_map(|launch| &launch.detail)
        .flat_map(|it| &it.lines)
    {
        let same = |other: &&mut Line| other.file == line.file && other.line == line.line;
        match sums.iter_mut().find(same) {
            Some(sum) => {
                sum.instructions += line.instructions;
                for i in 0..2 {
                    sum.global[i] += line.global[i];
                    sum.shared[i] += line.shared[i];
                }
            }
            None => sums.push(line.clone()),
        }
    }
    let all: u64 = sums.iter().map(|line| line.instructions).sum();
    let mut text = String::new();
    let mut last = "";
    for line in &sums {
        if last != line.file {
            text += &format!("{:15} {}\n", "", ink.dim(shown_file(&line.file)));
        }
        text += &row(line, all.max(1) as f64, ink);
        last = &line.file;
    }
    text
}

/// A file as it is found in the checkout.
fn shown_file(file: &str) -> &str {
    match file {
        "prelude.cuh" => "gpu/kernels/prelude.cuh",
        file => file,
    }
}

fn row(line: &Line, all: f64, ink: Ink) -> String {
    let share = line.instructions as f64 / all;
    let ratio = |[one, other]: [u64; 2]| match one {
        0 => String::new(),
        _ => format!("{:.1}", other as f64 / one as f64),
    };
    let [sectors, bank] = [line.global, line.shared].map(ratio);
    let text = fs::read_to_string(root().join(shown_file(&line.file))).unwrap_or_default();
    let index = usize::try_from(line.line).unwrap_or(0).saturating_sub(1);
    let source = text.lines().nth(index).unwrap_or_default();
    let issue = format!("{:>5.1}%", 100.0 * share);
    let issue = if share >= 0.1 {
        ink.bold(&issue)
    } else {
        issue
    };
    let source: String = source.chars().take(SOURCE_WIDTH).collect();
    let row = format!(
        "{:>15} {issue} {sectors:>16} {bank:>5}  {source}",
        line.line
    );
    format!("{}\n", row.trim_end())
}

/// `1.23 M`: three digits that count.
fn short(value: f64) -> String {
    let (scaled, suffix) = match value {
        value if value >= 1e9 => (value / 1e9, " G"),
        value if value >= 1e6 => (value / 1e6, " M"),
        value if value >= 1e4 => (value / 1e3, " k"),
        value => (value, ""),
    };
    let digits = match scaled {
        scaled if scaled.fract() == 0.0 || scaled >= 100.0 => 0,
        scaled if scaled >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{suffix}")
}

#[cfg(test)]
mod tests {
    use exercise_kit::message::{Detail, Means};

    use super::*;

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 2.514, 128.0, 9_999.0, 12_345.0, 1_234_567.0, 5e9];
        let written = numbers.map(short);
        assert_eq!(
            written,
            ["0", "2.51", "128", "9999", "12.3 k", "1.23 M", "5 G"]
        );
    }

    #[test]
    fn launches_are_shown_beside_others() {
        let launch = |file: &str, micros: f64| Launch {
            kernel: "gemm".to_owned(),
            files: vec!["prelude.cuh".to_owned(), file.to_owned()],
            seconds: 1e-6 * micros,
            flops: 1,
            read_bytes: 1,
            write_bytes: 1,
            bound: "DRAM".to_owned(),
            parts: Vec::new(),
            means: Means::default(),
            detail: Some(Detail {
                grid: [2, 1, 1],
                block: [128, 1, 1],
                figures: vec![("time, µs".to_owned(), micros)],
                lines: vec![Line {
                    file: file.to_owned(),
                    line: 1,
                    instructions: 8,
                    global: [2, 8],
                    shared: [0, 0],
                }],
            }),
        };
        let yours = [launch("exercises/stage2/kernels/gemm.cu", 3.0)];
        let solution = launch("stage2-naive-cuda/kernels/2_gemm_tiled.cu", 1.0);
        let solution = [solution.clone(), solution];
        let unsolved = render([&yours, &solution], false, Ink(false));
        assert!(
            !unsolved.contains("100.0%              4.0        // Matrix product, tiled: a block")
        );
        let text = render([&yours, &solution], true, Ink(false));
        for words in [
            "yours     exercises/stage2/kernels/gemm.cu: gemm, grid [2, 1, 1], block [128, 1, 1]",
            "          3 µs, bound by DRAM",
            "  time, µs                                    3            2   1.50 ×",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert_eq!(text.matches("100.0%").count(), 2, "{text}");
    }
}
