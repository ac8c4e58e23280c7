//! `picture`: draws the memory accesses of a source line as SVG: lanes, and the sectors or banks
//! that they access.

use anyhow::{bail, ensure};
use clap::Args;

use super::output::Output;
use super::recorded::RecordedLaunch;

/// Steps in which the accesses are looked for.
const STEPS: usize = 1 << 16;

/// The flags of `picture`.
#[derive(Args)]
#[command(after_help = "\
Example:
  cargo gpu picture gpu/kernels/bank_conflicts.cu --line 32 > conflicts.svg")]
pub struct Arguments {
    #[command(flatten)]
    launch: RecordedLaunch,

    /// Draw each instruction, 32 at most, as it runs for this time, counted from 0: a
    /// line in a loop runs often.
    #[arg(long, value_name = "N", default_value_t = 0)]
    visit: usize,
}

/// Draws the accesses of one launch.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut output = Output::take()?;
    ensure!(
        arguments.launch.names_lines(),
        "name the lines to draw: --line N"
    );
    let (_, recording) = arguments.launch.record(STEPS)?;
    let Some(picture) = gpu_recording::accesses(&recording, arguments.visit) else {
        let [x, y, z] = recording.block;
        bail!(
            "warp {} of block ({x}, {y}, {z}) accesses memory at these lines less than {} times; `trace` shows what it does",
            recording.warp,
            arguments.visit + 1
        );
    };
    let (width, height) = picture.size;
    output.print(&picture.canvas.file(width, height, &picture.description))
}
