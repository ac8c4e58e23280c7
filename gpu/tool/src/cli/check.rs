//! `check`: runs a kernel on the simulator under several schedules, and reports the first mistake.

use std::env;
use std::process::ExitCode;

use clap::Args;
use cuda_sim::{Fault, FaultKind};
use gpu_launch::{LaunchError, Mismatch, Position, Values, readable};

use super::kernel::{Job, LaunchArguments};
use super::output::Output;
use gpu_tool::CudaDevice;
use gpu_tool::ink::Ink;

/// Limits of a checked launch, unless the environment sets them: instructions of one warp, and of
/// all warps together. An endless loop reaches the first within seconds.
const BUDGETS: [(&str, &str); 2] = [
    ("CUDA_SIM_BUDGET", "4194304"),
    ("CUDA_SIM_LAUNCH_BUDGET", "268435456"),
];

/// Exit status if the kernel uses what is not simulated: it may be right.
const NOT_SIMULATED: u8 = 3;

/// The flags of `check`.
#[derive(Args)]
#[command(after_help = "\
Example:
  cargo gpu check gpu/kernels/vector_add.cu

Exit status: 0 if no mistake was found, even if results differ between schedules; 1 for a fault, a wrong result and any other error; \
2 for a wrong command line; 3 if the kernel comes to an instruction or a call that is not simulated; 124 at a limit of time or memory.
Long kernels: CUDA_SIM_BUDGET and CUDA_SIM_LAUNCH_BUDGET raise the limits on instructions, 2^22 for a warp and 2^28 for all.")]
pub struct Arguments {
    #[command(flatten)]
    launch: LaunchArguments,

    /// Number of schedules: launch order, then seeds 1, 2, …, each with another order of blocks and
    /// warps.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
}

/// Launches the kernel once for each schedule, until a launch faults, and compares the results with
/// what the file expects.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    for (name, value) in BUDGETS {
        if env::var_os(name).is_none() {
            // SAFETY: the program has one thread as yet, so nobody reads the environment meanwhile.
            unsafe { env::set_var(name, value) };
        }
    }
    gpu::simulate()?;
    cuda_sim::set_checks(Some(true));
    let mut output = Output::take()?;
    let ink = output.ink();
    let job = arguments.launch.open()?;
    let mut first: Option<Vec<(Position, Values)>> = None;
    let mut differing = None;
    let mut wrong: Option<(String, Vec<Mismatch>)> = None;
    let mut title = String::new();
    for number in 0..arguments.seeds {
        cuda_sim::set_seed((number > 0).then_some(number));
        let schedule = schedule(number);
        job.watch.now(format!(
            "running schedule {} of {}, {schedule}",
            number + 1,
            arguments.seeds
        ));
        // A context of its own: cudarc remembers errors in it.
        let device = CudaDevice::new(&gpu::context(0)?);
        let prepared = job.prepare(&device)?;
        title = job.title(&prepared);
        cuda_sim::take_fault();
        if let Err(error) = prepared.launch() {
            let fault = cuda_sim::take_fault();
            let status = match fault.as_ref().map(|fault| &fault.kind) {
                Some(FaultKind::UnknownInstruction { .. } | FaultKind::UnknownCall { .. }) => {
                    ExitCode::from(NOT_SIMULATED)
                }
                _ => ExitCode::FAILURE,
            };
            output.print(&report(&job, &title, &schedule, &error, fault, ink))?;
            return Ok(status);
        }
        let results = prepared.read_all()?;
        let expectations = job.invocation.expectations.iter();
        let mismatches = expectations.filter_map(|expected| expected.compare(&results).err());
        let mismatches: Vec<Mismatch> = mismatches.collect();
        if wrong.is_none() && !mismatches.is_empty() {
            wrong = Some((schedule.clone(), mismatches));
        }
        match &first {
            None => first = Some(results),
            Some(first) if differing.is_none() => {
                let mut both = first.iter().zip(&results);
                let differs = both.find(|((position, a), (_, b))| {
                    let mut expected = job.invocation.expectations.iter();
                    a != b && !expected.any(|expected| expected.argument == *position)
                });
                differing = differs.map(|((position, _), _)| (position.clone(), schedule));
            }
            Some(_) => {}
        }
    }
    if let Some((schedule, mismatches)) = wrong {
        let mut text = format!("{}: {title}, {schedule}\n", ink.red("wrong result"));
        for mismatch in mismatches {
            text += &format!("{mismatch}\n");
        }
        output.print(&text)?;
        return Ok(ExitCode::FAILURE);
    }
    let expected = !job.invocation.expectations.is_empty();
    let outcome = match (&differing, expected) {
        (Some(_), _) => "no fault, but the results differ",
        (None, true) => "clean",
        (None, false) => "no fault found; results not checked",
    };
    let mut text = format!(
        "{}: {title}, under {} schedules\n",
        ink.bold(outcome),
        arguments.seeds
    );
    if let Some((argument, schedule)) = differing {
        text += &format!(
            "argument {argument} is another {schedule} than {}, so it depends on the order of blocks and warps: {CAUSES}\n",
            self::schedule(0)
        );
    }
    let results = if expected { ", results" } else { "" };
    text += &format!("checked: {CHECKED}{results}\n");
    if !expected {
        text += "not checked: results; `// expect N: TYPE VALUES…` in the file states those of buffer N\n";
    }
    for remark in cuda_sim::remarks(&job.compiled.ptx) {
        let kernel = readable(&remark.kernel);
        let place = remark.source.map(|(file, line)| format!(", {file}:{line}"));
        text += &format!(
            "remark: {kernel}{}: {}\n",
            place.unwrap_or_default(),
            remark.text
        );
    }
    output.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The order of schedule `number`, as part of a sentence: the first is that of the launch, unless
/// the environment sets a seed.
fn schedule(number: u64) -> String {
    match (number, env::var("CUDA_SIM_SEED")) {
        (0, Ok(seed)) => format!("under CUDA_SIM_SEED={seed}"),
        (0, Err(_)) => "in launch order".to_owned(),
        _ => format!("under seed {number}"),
    }
}

const CHECKED: &str = "bounds, freed memory, alignment, uninitialised reads, races in shared and device memory, \
                       barriers, warp masks, deadlocks, endless loops";

/// Why a kernel without a fault may give other results under another schedule.
const CAUSES: &str = "it adds floats atomically (sums are rounded in that order), takes places in the order of \
                      arrival, or has a race that the checks do not find";

/// Text that is printed for a launch that failed.
fn report(
    job: &Job,
    title: &str,
    schedule: &str,
    error: &LaunchError<gpu::Refusal>,
    fault: Option<Fault>,
    ink: Ink,
) -> String {
    let mut text = format!("{title}, {schedule}\n\n");
    let Some(mut fault) = fault else {
        // The driver refused the launch: too many threads, too much shared memory.
        return text + &format!("{}\n", ink.red(&error.to_string()));
    };
    fault.kernel = readable(&fault.kernel);
    let message = fault.to_string();
    let (what, rest) = message.split_once('\n').unwrap_or((&message, ""));
    text += &format!("{}\n{rest}\n", ink.red(what));
    for line in job.compiled.sources.quotes(&fault).lines() {
        let shown = match line.as_bytes() {
            [b'>', ..] => ink.bold(line),
            [b' ', ..] | [] => line.to_owned(),
            _ => ink.dim(line),
        };
        text += &format!("{shown}\n");
    }
    text
}
