//! A launch that is recorded: the flags that `trace` and `picture` share, and its recording.

use std::path::Path;

use anyhow::Context;
use clap::Args;
use gpu::sources::Sources;
use gpu::trace::{self, LaunchTrace, Selection};
use gpu_recording::{Access, Array, FORMAT, Kind, Pass, Recording, Scalar, Space, Step, Word};
use gpu_tool::invocation::{Type, extent, readable};

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
        let ctx = gpu::context(0)?;
        let prepared = job.invocation.prepare(&ctx, &job.compiled.ptx)?;
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
        let recording = recording(&trace?, &job.compiled.sources);
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

fn recording(trace: &LaunchTrace, sources: &Sources) -> Recording {
    let source = |step: &trace::Step| {
        let index = step.line.checked_sub(1)? as usize;
        sources.text(&step.file)?.lines().nth(index)
    };
    let arrays = trace.arrays.iter().map(|array| Array {
        name: array.name.clone(),
        space: space(array.space),
        bytes: array.bytes,
        ty: array.ty.to_owned(),
    });
    let steps = trace.steps.iter().map(|step| Step {
        file: step.file.clone(),
        line: step.line,
        source: source(step).unwrap_or_default().trim().to_owned(),
        active: numbers(step.active),
        barrier: step.barrier,
        before: words(trace, &step.before),
        after: words(trace, &step.after),
        accesses: step.accesses.iter().map(access).collect(),
    });
    Recording {
        version: FORMAT,
        kernel: readable(&trace.kernel),
        grid: trace.grid,
        threads: trace.threads,
        block: trace.block,
        warp: trace.warp,
        arrays: arrays.collect(),
        steps: steps.collect(),
        left_out: trace.left_out,
    }
}

fn access(access: &trace::Access) -> Access {
    let lanes = &access.lanes;
    let places = |space: trace::Space| lanes.iter().filter(move |_| access.space == space);
    let pass = |pass: &trace::Pass| Pass {
        lanes: numbers(pass.lanes),
        wavefronts: pass.wavefronts,
    };
    let values = |lane: &trace::Lane| {
        lane.values
            .iter()
            .map(|bits| scalar(access.ty, *bits))
            .collect()
    };
    Access {
        instruction: access.instruction,
        kind: match access.kind {
            trace::AccessKind::Load => Kind::Load,
            trace::AccessKind::Store => Kind::Store,
            trace::AccessKind::Atomic => Kind::Atomic,
        },
        space: space(access.space),
        ty: access.ty.to_owned(),
        elements: access.elements,
        bytes: access.bytes,
        lanes: lanes.iter().map(|lane| lane.lane).collect(),
        arrays: lanes.iter().map(|lane| lane.array).collect(),
        offsets: lanes.iter().map(|lane| lane.offset).collect(),
        values: lanes.iter().map(values).collect(),
        banks: places(trace::Space::Shared)
            .map(|lane| lane.place as u32)
            .collect(),
        sectors: places(trace::Space::Global)
            .map(|lane| lane.place)
            .collect(),
        sector_count: access.sectors,
        passes: access.passes.iter().map(pass).collect(),
    }
}

fn space(space: trace::Space) -> Space {
    match space {
        trace::Space::Global => Space::Global,
        trace::Space::Shared => Space::Shared,
        trace::Space::Local => Space::Local,
    }
}

/// The numbers of the bits that are set.
fn numbers(mask: u32) -> Vec<u32> {
    (0..32).filter(|lane| mask >> lane & 1 == 1).collect()
}

fn words(trace: &LaunchTrace, words: &[trace::Word]) -> Vec<Word> {
    let word = |word: &trace::Word| {
        let ty = trace.arrays[word.array].ty;
        let ty = if ty.ends_with("32") { ty } else { "u32" };
        Word(word.array, word.index, scalar(ty, u64::from(word.bits)))
    };
    words.iter().map(word).collect()
}

/// The value with these bits, as JSON has it.
fn scalar(ty: &str, bits: u64) -> Scalar {
    let text = Type::parse(ty).map_or_else(|_| bits.to_string(), |ty| ty.show(bits));
    if ty.contains('f') {
        let finite = text.parse().ok().filter(|value: &f64| value.is_finite());
        return finite.map_or(Scalar::Text(text), Scalar::Float);
    }
    match text.parse() {
        Ok(number) => Scalar::Whole(number),
        Err(_) => Scalar::Large(bits),
    }
}
