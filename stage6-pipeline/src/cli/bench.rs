//! `bench`: time to first token and between tokens, and where the time of a token goes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use bench_kit::Peaks;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use gpu::Backend;
use gpu::profile::{LaunchProfile, ModelledTime};
use indicatif::ProgressBar;
use serde::Serialize;
use stage6_pipeline::{Batch, Config, Dtype, Dummy, Model, SequenceId};

use super::{model, progress};

/// Time to first token (TTFT) and between tokens (TBT): measured on a GPU, modelled without one
#[derive(Debug, Args)]
#[command(after_help = "\
On a GPU, times are wall times of the host. On the simulated device they are modelled from counted work; they contain no
time of the host. A kernel's share is known for the simulated device only; on a GPU, use Nsight Systems.")]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Arguments,

    /// Random weights for this config.json, instead of a model
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    config: Option<PathBuf>,

    /// Random weights for the model of the course, instead of a model: 24 layers, width 4096, 32
    /// heads, 8192 tokens, or what the next four flags say
    #[arg(long, conflicts_with_all = ["model", "config"])]
    dummy: bool,

    /// Transformer blocks of the dummy
    #[arg(long, value_name = "N", requires = "dummy")]
    layers: Option<usize>,

    /// Width of the dummy
    #[arg(long, value_name = "N", requires = "dummy")]
    hidden: Option<usize>,

    /// Heads of the dummy
    #[arg(long, value_name = "N", requires = "dummy")]
    heads: Option<usize>,

    /// Token ids of the dummy
    #[arg(long, value_name = "N", requires = "dummy")]
    vocab: Option<usize>,

    /// Element type of random weights: f32, f16 or bf16
    #[arg(long, value_name = "DTYPE", value_parser = model::dtype, default_value = "f32")]
    dtype: Dtype,

    /// Tokens of each prompt
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = from(1))]
    prompt_tokens: usize,

    /// Tokens to generate behind each prompt
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = from(2))]
    tokens: usize,

    /// Sequences at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from(1))]
    batch: usize,

    /// Runs on a GPU, after one that does not count. Modelled times are always the same: one run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = from(1))]
    runs: usize,

    /// Print the launches of the last step, too, in their order; modelled times only
    #[arg(long)]
    launches: bool,

    /// Write all figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// All figures. Times are in microseconds.
#[derive(Debug, Serialize)]
struct Report {
    device: String,
    /// `measured`, or `modelled (h100)`.
    times: String,
    batch: usize,
    prompt_tokens: usize,
    tokens: usize,
    /// Time to first token.
    ttft_us: Summary,
    /// Time between tokens.
    tbt_us: Summary,
    tokens_per_second: f64,
    /// Bytes of weights and cache that a step has to read, in the middle of the run.
    step_bytes: usize,
    /// The share of the device's bandwidth at which a step reads them.
    bandwidth: f64,
    /// Kernels of a token, those with the most time first; none on a GPU.
    kernels: Vec<KernelTime>,
    /// Launches of the last step, in their order; none on a GPU.
    step: Vec<LaunchTime>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Summary {
    median: f64,
    p95: f64,
}

#[derive(Debug, Serialize)]
struct KernelTime {
    kernel: String,
    launches_per_token: f64,
    us_per_token: f64,
    share: f64,
}

#[derive(Debug, Serialize)]
struct LaunchTime {
    kernel: String,
    /// From its start to its end, if it starts when nothing is ahead of it.
    alone_us: f64,
    /// From the end of the launch ahead of it, as the step's time has it.
    us: f64,
}

/// Times of one run, in seconds.
#[derive(Default)]
struct Run {
    first: f64,
    between: Vec<f64>,
    /// Of the steps, one after the other.
    launches: Vec<LaunchProfile>,
    /// How many of them are of the last step: longer texts may have more splits to combine.
    in_last_step: usize,
}

/// A number from `least` to the longest context of a dummy: sums and products
/// of a few cannot overflow.
fn from(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=1 << 24)
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let model = arguments.model()?;
    let report = report(arguments, &model)?;
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    print(&report, arguments.launches)?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn model(&self) -> anyhow::Result<Model> {
        let architecture = match &self.config {
            Some(path) => {
                let name = path.display().to_string();
                let text = fs::read_to_string(path).with_context(|| name.clone())?;
                Config::parse(&text, &name)?.architecture
            }
            None if self.dummy => {
                let full = Dummy::default();
                let dummy = Dummy {
                    layers: self.layers.unwrap_or(full.layers),
                    hidden: self.hidden.unwrap_or(full.hidden),
                    heads: self.heads.unwrap_or(full.heads),
                    vocab: self.vocab.unwrap_or(full.vocab),
                    context: self.prompt_tokens + self.tokens,
                };
                dummy.architecture()?
            }
            None => return Ok(self.model.load(&self.model.files()?)?),
        };
        let progress = ProgressBar::new_spinner().with_message("drawing random weights");
        progress.enable_steady_tick(Duration::from_millis(100));
        let model = self.model.random(architecture, self.dtype)?;
        progress.finish_and_clear();
        Ok(model)
    }
}

fn report(arguments: &Arguments, model: &Model) -> anyhow::Result<Report> {
    let (n, tokens) = (arguments.prompt_tokens, arguments.tokens);
    let mut batch = model.batch(arguments.batch, n + tokens)?;
    let simulated = gpu::backend()? == Backend::Simulator;
    // The first run loads kernels and captures graphs.
    let count = if simulated { 1 } else { 1 + arguments.runs };
    let progress = progress((count * tokens) as u64, "steps");
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(one_run(&mut batch, arguments, simulated, &progress)?);
    }
    progress.finish_and_clear();
    if !simulated {
        runs.remove(0);
    }
    let micro = |seconds: &f64| 1e6 * seconds;
    let between = Vec::from_iter(runs.iter().flat_map(|run| &run.between).map(micro));
    let tbt = summary(between);
    let launches = runs.iter().flat_map(|run| &run.launches);
    let launches = Vec::from_iter(launches);
    let steps = runs.iter().map(|run| run.between.len()).sum::<usize>();
    let step_bytes = model.step_bytes(arguments.batch, n + tokens / 2);
    let context = model.context();
    let modelled = launches.first().map(|launch| launch.time.device);
    Ok(Report {
        device: gpu::device_label(context)?,
        times: match modelled {
            Some(device) => format!("modelled ({device})"),
            None => "measured".to_owned(),
        },
        batch: arguments.batch,
        prompt_tokens: n,
        tokens,
        ttft_us: summary(Vec::from_iter(runs.iter().map(|run| micro(&run.first)))),
        tbt_us: tbt,
        tokens_per_second: arguments.batch as f64 / tbt.median * 1e6,
        step_bytes,
        bandwidth: step_bytes as f64 / (tbt.median * 1e-6) / Peaks::of(context)?.bytes,
        kernels: by_kernel(&launches, steps),
        step: runs.last().map_or(Vec::new(), last_step),
    })
}

/// Prompts of tokens that depend on nothing but their places, then greedy tokens.
fn one_run(
    batch: &mut Batch<'_>,
    arguments: &Arguments,
    simulated: bool,
    progress: &ProgressBar,
) -> anyhow::Result<Run> {
    let vocab = batch.model().architecture().vocab;
    let token = |row: usize, i: usize| ((row * 7919 + i * 104_729 + 1) % vocab) as u32;
    let prompt = |row| Vec::from_iter((0..arguments.prompt_tokens).map(|i| token(row, i)));
    let prompts = Vec::from_iter((0..arguments.batch).map(prompt));
    let sequences = Vec::from_iter((0..arguments.batch).map(|_| batch.create()));
    let mut run = Run::default();
    let new = sequences.iter().zip(&prompts);
    let new = Vec::from_iter(new.map(|(&sequence, prompt)| (sequence, &prompt[..])));
    let (mut next, seconds, _) = step(batch, &new, simulated)?;
    run.first = seconds;
    progress.inc(1);
    for _ in 1..arguments.tokens {
        let new = sequences.iter().zip(&next);
        let new =
            Vec::from_iter(new.map(|(&sequence, next)| (sequence, std::slice::from_ref(next))));
        let (likeliest, seconds, launches) = step(batch, &new, simulated)?;
        run.between.push(seconds);
        run.in_last_step = launches.len();
        run.launches.extend(launches);
        next = likeliest;
        progress.inc(1);
    }
    for sequence in sequences {
        batch.free(sequence)?;
    }
    Ok(run)
}

type Step = (Vec<u32>, f64, Vec<LaunchProfile>);

/// The likeliest tokens, the seconds until the host has them, and the
/// launches if they are profiled.
fn step(
    batch: &mut Batch<'_>,
    new: &[(SequenceId, &[u32])],
    simulated: bool,
) -> anyhow::Result<Step> {
    let mut work = || {
        batch.forward(new)?;
        (0..new.len())
            .map(|row| batch.likeliest(row))
            .collect::<Result<Vec<_>, _>>()
    };
    if simulated {
        let (next, mut launches) = gpu::profile::profile(work)?;
        // The host waits for none but the last: each is submitted before the one ahead has ended.
        for launch in launches.iter_mut().skip(1) {
            launch.time.seconds = launch.time.seconds_behind(true);
        }
        let seconds = launches.iter().map(|launch| launch.time.seconds).sum();
        return Ok((next?, seconds, launches));
    }
    let start = Instant::now();
    let next = work()?;
    Ok((next, start.elapsed().as_secs_f64(), Vec::new()))
}

/// The median, and the value that 95% are not above.
fn summary(mut values: Vec<f64>) -> Summary {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or(f64::NAN)
    };
    Summary {
        median: at(0.5),
        p95: at(0.95),
    }
}

fn by_kernel(launches: &[&LaunchProfile], steps: usize) -> Vec<KernelTime> {
    let mut kernels: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for launch in launches {
        let (count, seconds) = kernels.entry(&launch.kernel).or_default();
        *count += 1;
        *seconds += launch.time.seconds;
    }
    let total: f64 = kernels.values().map(|(_, seconds)| seconds).sum();
    let time = |(kernel, (count, seconds)): (&str, (usize, f64))| KernelTime {
        kernel: kernel.to_owned(),
        launches_per_token: count as f64 / steps as f64,
        us_per_token: 1e6 * seconds / steps as f64,
        share: seconds / total,
    };
    let mut kernels = Vec::from_iter(kernels.into_iter().map(time));
    kernels.sort_by(|a, b| b.us_per_token.total_cmp(&a.us_per_token));
    kernels
}

fn last_step(run: &Run) -> Vec<LaunchTime> {
    let earlier = run.launches.len() - run.in_last_step;
    let time = |launch: &LaunchProfile| LaunchTime {
        kernel: launch.kernel.clone(),
        alone_us: 1e6 * ModelledTime::seconds_of(&launch.time.parts),
        us: 1e6 * launch.time.seconds,
    };
    Vec::from_iter(run.launches[earlier..].iter().map(time))
}

fn print(report: &Report, with_launches: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}, times {}", report.device, report.times)?;
    writeln!(
        out,
        "batch {}, prompts of {} tokens, {} tokens behind each\n",
        report.batch, report.prompt_tokens, report.tokens
    )?;
    writeln!(out, "{:5} {:>12} {:>12}", "µs", "median", "p95")?;
    for (name, summary) in [("TTFT", report.ttft_us), ("TBT", report.tbt_us)] {
        writeln!(
            out,
            "{name:5} {:>12.1} {:>12.1}",
            summary.median, summary.p95
        )?;
    }
    writeln!(
        out,
        "\n{:.0} tokens/s; {:.1} MB of weights and cache a step, at {:.1}% of the device's bandwidth",
        report.tokens_per_second,
        report.step_bytes as f64 * 1e-6,
        100.0 * report.bandwidth,
    )?;
    if report.kernels.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:24} {:>16} {:>14} {:>7}",
        "kernel", "launches/token", "µs/token", "share"
    )?;
    for kernel in &report.kernels {
        writeln!(
            out,
            "{:24} {:>16.1} {:>14.2} {:>6.1}%",
            kernel.kernel,
            kernel.launches_per_token,
            kernel.us_per_token,
            100.0 * kernel.share,
        )?;
    }
    if with_launches {
        writeln!(
            out,
            "\n{:24} {:>16} {:>14}",
            "launches of a step", "µs alone", "µs behind"
        )?;
        for launch in &report.step {
            writeln!(
                out,
                "{:24} {:>16.3} {:>14.3}",
                launch.kernel, launch.alone_us, launch.us
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let both = |values: &[f64]| {
            let Summary { median, p95 } = summary(values.to_vec());
            (median, p95)
        };
        assert_eq!(both(&[3.0]), (3.0, 3.0));
        assert_eq!(both(&[4.0, 1.0, 3.0, 2.0]), (2.0, 4.0));
        let hundred = Vec::from_iter((1..=100).map(f64::from));
        assert_eq!(both(&hundred), (50.0, 95.0));
    }
}
