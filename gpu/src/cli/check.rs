//! `check`: runs a kernel on the simulator under several schedules, and reports the first mistake.

use std::process::ExitCode;

use clap::Args;
use cuda_sim::{Fault, FaultKind};
use gpu::invocation::InvocationError;
use gpu::kernel_file::Sources;

use super::ink::Ink;
use super::kernel::{Job, LaunchArguments};

/// Source lines printed before and after the faulty one.
const CONTEXT: u32 = 2;

/// The flags of `check`.
#[derive(Args)]
#[command(after_help = "\
Example:
  cargo run -p gpu -- check gpu/kernels/vector_add.cu

Exit status: 0 if no mistake was found, even if results differ between schedules; otherwise 1.")]
pub struct Arguments {
    #[command(flatten)]
    launch: LaunchArguments,

    /// Number of schedules; each has another order of blocks and warps.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
}

/// Launches the kernel once for each seed, until a launch faults.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gpu::simulate()?;
    cuda_sim::set_checks(Some(true));
    let ink = Ink::of_stdout();
    let job = arguments.launch.open()?;
    let mut first = None;
    let mut differing = None;
    let mut kernel = String::new();
    for seed in 0..arguments.seeds {
        cuda_sim::set_seed(Some(seed));
        // A context of its own: cudarc remembers errors in it.
        let ctx = gpu::context(0)?;
        let prepared = job.invocation.prepare(&ctx, &job.compiled.ptx)?;
        kernel = prepared.kernel().to_owned();
        cuda_sim::take_fault();
        if let Err(error) = prepared.launch() {
            print!("{}", report(&job, &kernel, seed, &error, ink));
            return Ok(ExitCode::FAILURE);
        }
        let results = prepared.read_all()?;
        match &first {
            None => first = Some(results),
            Some(first) if differing.is_none() => {
                let mut both = first.iter().zip(&results);
                let differs = both.find(|(a, b)| a != b);
                differing = differs.map(|((position, _), _)| (position.clone(), seed));
            }
            Some(_) => {}
        }
    }
    let outcome = match differing {
        None => "clean",
        Some(_) => "no fault, but the results differ",
    };
    println!(
        "{}: {}, under {} schedules",
        ink.bold(outcome),
        job.title(&kernel),
        arguments.seeds
    );
    if let Some((argument, seed)) = differing {
        println!(
            "argument {argument} is another under seed {seed} than under seed 0, so it depends on the order of blocks \
             and warps: {CAUSES}"
        );
    }
    println!("checked: {CHECKED}");
    Ok(ExitCode::SUCCESS)
}

const CHECKED: &str = "bounds, freed memory, alignment, uninitialised reads, races in shared and device memory, \
                       barriers, warp masks, deadlocks, endless loops";

/// Why a kernel without a fault may give other results under another schedule.
const CAUSES: &str = "it adds floats atomically (sums are rounded in that order), takes places in the order of \
                      arrival, or has a race that the checks do not find";

/// What is printed of a launch that failed.
fn report(job: &Job, kernel: &str, seed: u64, error: &InvocationError, ink: Ink) -> String {
    let mut text = format!("{}, seed {seed}\n\n", job.title(kernel));
    let Some(fault) = cuda_sim::take_fault() else {
        // The driver refused the launch: too many threads, too much shared memory.
        return text + &format!("{}\n", ink.red(&error.to_string()));
    };
    let message = fault.to_string();
    let (what, rest) = message.split_once('\n').unwrap_or((&message, ""));
    text += &format!("{}\n{rest}\n", ink.red(what));
    for (file, line) in places(&fault) {
        if let Some(quoted) = quote(&job.compiled.sources, file, line, ink) {
            text += &format!("\n{quoted}");
        }
    }
    text
}

/// The source lines that a fault names.
fn places(fault: &Fault) -> Vec<(&str, u32)> {
    let other = match &fault.kind {
        FaultKind::DivergentBarrier { other } | FaultKind::DifferentBarriers { other } => {
            other.as_ref()
        }
        FaultKind::Race(race) => race.other.source.as_ref(),
        _ => None,
    };
    let places = fault.source.iter().chain(other);
    let mut places: Vec<(&str, u32)> = places.map(|(file, line)| (&**file, *line)).collect();
    places.dedup();
    places
}

/// A source line between its neighbours, with a mark before it.
fn quote(sources: &Sources, file: &str, line: u32, ink: Ink) -> Option<String> {
    let lines: Vec<&str> = sources.text(file)?.lines().collect();
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    lines.get(index)?;
    let (first, last) = (
        line.saturating_sub(CONTEXT).max(1),
        line.saturating_add(CONTEXT),
    );
    let mut text = format!("{}\n", ink.dim(&format!("{file}:{line}")));
    for number in first..=last {
        let Some(source) = lines.get(number as usize - 1) else {
            break;
        };
        let row = if number == line {
            ink.bold(&format!("> {number:>4} | {source}"))
        } else {
            format!("  {number:>4} | {source}")
        };
        text += row.trim_end();
        text.push('\n');
    }
    Some(text)
}
