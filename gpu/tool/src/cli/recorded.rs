//! A launch that is recorded: the flags that `trace` and `picture` share, and its recording.

use std::path::Path;

use anyhow::Context;
use clap::Args;
use gpu::trace::{self, Selection};
use gpu_launch::extent;
use gpu_recording::Recording;
use gpu_tool::CudaDevice;

use super::kernel::{Job, LaunchArguments};

/// A kernel file, its launch, and what to record of it.
#[derive(Args)]
pub struct RecordedLaunch {
    #[command(flatten)]
    launch: LaunchArguments,

    /// A source line of the kernel file, or of a header like block_reduce.cuh:29; once for each.
    #[arg(long = "line", value_name = "[HEADER:]N", value_parser = place)]
    lines: Vec<(Option<String>, u32)>,

    /// Record the block with this blockIdx: x, or x,y, or x,y,z.
    #[arg(long, value_name = "X,Y,Z", value_parser = index, default_value = "0")]
    block_index: [u32; 3],

    /// Record this warp of the block, counted from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warp: u32,
}

/// Reads `N` or `FILE:N`.
fn place(text: &str) -> Result<(Option<String>, u32), String> {
    let (file, line) = match text.rsplit_once(':') {
        Some((file, line)) => (Some(file.to_owned()), line),
        None => (None, text),
    };
    let line = line.parse().ok().filter(|line| *line > 0);
    let line = line.ok_or("write it as a number from 1, or as HEADER:NUMBER")?;
    Ok((file, line))
}

/// Reads `x`, `x,y` or `x,y,z`; what is left out is 0.
fn index(text: &str) -> Result<[u32; 3], String> {
    let mut index = extent(text)?;
    index[text.split(',').count()..].fill(0);
    Ok(index)
}

impl RecordedLaunch {
    /// True if some lines are named.
    pub fn names_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Runs the launch on the simulator, whose checks look for no mistakes, and gives its title and
    /// the recording of at most `steps` steps.
    pub fn record(&self, steps: usize) -> anyhow::Result<(String, Recording)> {
        gpu::simulate()?;
        gpu::set_checks(false); // `check` looks for mistakes
        let job = self.launch.open_one("a recording")?;
        let device = CudaDevice::new(&gpu::context(0)?);
        let prepared = job.prepare(&device)?;
        let lines = self.lines.iter();
        let selection = Selection {
            lines: lines
                .map(|(file, line)| (named(&job, file.as_deref()), *line))
                .collect(),
            block: self.block_index,
            warp: self.warp,
            steps,
        };
        job.watch.now("running the kernel");
        let (launched, traces) = trace::record(selection, || prepared.launch())?;
        launched?;
        let trace = traces
            .into_iter()
            .next()
            .context("no launch was recorded")?;
        let sources = &job.compiled.sources;
        let recording = gpu_launch::recording(&trace?, &|file| sources.text(file));
        Ok((job.title(&prepared), recording))
    }
}

/// The name in line information of the kernel file, or of a header that is given by the end of its
/// name.
fn named(job: &Job, header: Option<&str>) -> String {
    let given = header
        .map(Path::new)
        .or(job.file.file_name().map(Path::new));
    let given = given.unwrap_or(&job.file);
    let lines = job.compiled.ptx.lines();
    let files = lines.filter_map(|line| line.trim_start().strip_prefix(".file")?.split('"').nth(1));
    let mut files = files.map(gpu::unit::shown);
    let is_ptx = header.is_none() && job.file.extension().is_some_and(|kind| kind == "ptx");
    // A PTX file names the source that it was made of first.
    let found = files.find(|name| is_ptx || Path::new(name).ends_with(given));
    found.map_or_else(|| given.display().to_string(), str::to_owned)
}
