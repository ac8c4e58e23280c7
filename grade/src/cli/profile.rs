//! `profile`: the learner's kernels, line by line, and the solution's totals; its lines too, once the task is solved.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use gpu::profile::{LaunchProfile, LineProfile};
use gpu::sources::Sources;
use gpu_tool::ink::Ink;
use gpu_tool::invocation::Invocation;
use gpu_tool::kernel_file::KernelFile;
use grade::grade::Settings;
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
The launch is the one that the comments `// launch:` and `// args:` of a kernel file state; give both files the same arguments.
`cargo gpu profile FILE` counts more, of one file.")]
pub struct Arguments {
    /// The task, such as softmax or 4/flash.
    task: String,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Counts each kernel of the task on the simulator.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let task = one(&arguments.task)?;
    let kernels = task.files.iter().filter(|file| file.ends_with(".cu"));
    let kernels: Vec<&str> = kernels.copied().collect();
    if kernels.is_empty() {
        bail!(
            "{} has no kernel; a profiler of the CPU, such as perf, counts it",
            task.name()
        );
    }
    let [yours, solution] = [Places::learner(root()), Places::solution(root())];
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
    gpu::simulate()?;
    gpu::set_checks(false); // they cost time, and change no counter
    let ink = Ink::stdout();
    for file in kernels {
        let own = Counted::read(path(&yours, file))?;
        let solution = Counted::read(path(&solution, file))?;
        print(&render(&own, &solution, solved, ink))?;
    }
    Ok(())
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

/// A kernel file with the counters of its launch.
struct Counted {
    path: PathBuf,
    launch: LaunchProfile,
    sources: Sources,
}

impl Counted {
    fn read(path: PathBuf) -> anyhow::Result<Self> {
        let context = || shown(&path);
        let file = KernelFile::read(&path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let invocation = Invocation::parse(file.text(), folder).with_context(context)?;
        let constants = invocation.constants.iter();
        let constants: Vec<(&str, &str)> =
            constants.map(|(name, value)| (&**name, &**value)).collect();
        let compiled = file.compile(&constants)?;
        let device = gpu::context(0)?;
        let prepared = invocation
            .prepare(&device, &compiled.ptx)
            .with_context(context)?;
        let (launched, mut launches) = gpu::profile::profile(|| prepared.launch())?;
        launched.with_context(context)?;
        ensure!(
            launches.len() == 1,
            "{}: {} launches",
            shown(&path),
            launches.len()
        );
        Ok(Self {
            launch: launches.remove(0),
            sources: compiled.sources,
            path,
        })
    }
}

/// The solution's lines are shown if the task is solved.
fn render(yours: &Counted, solution: &Counted, solved: bool, ink: Ink) -> String {
    let title = |counted: &Counted| {
        let launch = &counted.launch;
        format!(
            "{}: {}, grid {:?}, block {:?}",
            shown(&counted.path),
            launch.kernel,
            launch.grid,
            launch.block
        )
    };
    let mut text = format!(
        "{}\n{}\n\n  {:32} {:>12} {:>12} {:>8}\n",
        ink.bold(&format!("yours     {}", title(yours))),
        ink.bold(&format!("solution  {}", title(solution))),
        format!("modelled ({})", yours.launch.time.device),
        "yours",
        "solution",
        "ratio"
    );
    for (figure, other) in figures(&yours.launch).iter().zip(figures(&solution.launch)) {
        let (name, mine, least) = (figure.0, figure.1, other.1);
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
    for (name, counted) in [("yours", yours), ("solution", solution)] {
        if name == "solution" && !solved {
            text +=
                "\nThe lines of the solution are shown when all values of the task are right.\n";
            continue;
        }
        let name = ink.bold(&format!("{name:10}"));
        text += &format!("\n{name} line  issue  sectors/request  bank\n");
        text += &lines(counted, ink);
    }
    text + "\nissue: share of warp instructions; sectors/request: 4 is best for floats of a warp, 32 worst; bank: wavefronts of \
            shared\nmemory over those without bank conflicts, 1 is best\n\n"
}

/// Figures of a launch, of which less is better: its name, and its value.
fn figures(launch: &LaunchProfile) -> Vec<(&'static str, f64)> {
    let total = &launch.total;
    vec![
        ("time, µs", 1e6 * launch.time.seconds),
        ("warp instructions", total.warp_instructions as f64),
        ("f32 operations", total.flops_f32 as f64),
        ("global sectors", total.global().sectors as f64),
        (
            "DRAM bytes, at least",
            (launch.compulsory_read_bytes + launch.compulsory_write_bytes) as f64,
        ),
        ("shared wavefronts", total.shared().wavefronts as f64),
        ("barriers, once per warp", total.barriers as f64),
        ("divergent branches", total.divergent_branches as f64),
    ]
}

/// The lines that execute instructions, in the order of the file, under the names of headers.
fn lines(counted: &Counted, ink: Ink) -> String {
    let all = counted.launch.total.warp_instructions.max(1) as f64;
    let mut text = String::new();
    let mut last = None;
    for line in &counted.launch.lines {
        if last.is_some_and(|last| last != &line.file) || (last.is_none() && is_header(&line.file))
        {
            text += &format!("{:15} {}\n", "", ink.dim(&line.file));
        }
        text += &row(line, all, &counted.sources, ink);
        last = Some(&line.file);
    }
    text
}

fn is_header(file: &str) -> bool {
    file.ends_with(".cuh")
}

fn row(line: &LineProfile, all: f64, sources: &Sources, ink: Ink) -> String {
    let counters = &line.counters;
    let share = counters.warp_instructions as f64 / all;
    let (global, shared) = (counters.global(), counters.shared());
    let sectors = match global.requests {
        0 => String::new(),
        _ => format!("{:.1}", global.per_request()),
    };
    let bank = match shared.requests {
        0 => String::new(),
        _ => format!("{:.1}", shared.conflict_degree()),
    };
    let index = usize::try_from(line.line)
        .ok()
        .and_then(|line| line.checked_sub(1));
    let text = sources.text(&line.file).zip(index);
    let source = text.and_then(|(text, index)| text.lines().nth(index));
    let issue = format!("{:>5.1}%", 100.0 * share);
    let issue = if share >= 0.1 {
        ink.bold(&issue)
    } else {
        issue
    };
    let source: String = source
        .unwrap_or_default()
        .chars()
        .take(SOURCE_WIDTH)
        .collect();
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
    fn a_kernel_is_counted_beside_another() {
        gpu::simulate().unwrap();
        let folder = super::super::root().join("stage2-naive-cuda/kernels");
        let plain = Counted::read(folder.join("1_gemm_plain.cu")).unwrap();
        let tiled = Counted::read(folder.join("2_gemm_tiled.cu")).unwrap();
        let unsolved = render(&plain, &tiled, false, Ink(false));
        assert!(!unsolved.contains("__syncthreads();"), "{unsolved}");
        assert!(unsolved.contains("2_gemm_tiled.cu"), "{unsolved}");
        let text = render(&plain, &tiled, true, Ink(false));
        let row = |name: &str| {
            text.lines()
                .find(|line| line.trim().starts_with(name))
                .unwrap()
        };
        assert!(
            row("shared wavefronts").split_whitespace().nth(2) == Some("0"),
            "{text}"
        );
        assert!(text.contains("2_gemm_tiled.cu"), "{text}");
        assert!(text.contains("__syncthreads();"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 120),
            "{text}"
        );
    }
}
