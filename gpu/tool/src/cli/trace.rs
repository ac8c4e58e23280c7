//! `trace`: records what the lanes of a warp do at chosen source lines, on the simulator.

use clap::Args;
use gpu_recording::{Access, Kind, Recording};

use super::output::Output;
use super::recorded::RecordedLaunch;

/// The flags of `trace`.
#[derive(Args)]
#[command(after_help = "\
Example:
  cargo gpu trace stage2-naive-cuda/kernels/2_gemm_tiled.cu --line 49
  cargo gpu trace stage2-naive-cuda/kernels/2_gemm_tiled.cu --line 49 --json

Without --line, all lines are recorded. gpu/recording/src/recording.rs documents the JSON.")]
pub struct Arguments {
    #[command(flatten)]
    launch: RecordedLaunch,

    /// Record at most so many steps. A step is a stretch of instructions of one line.
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    steps: usize,

    /// Print the recording as JSON.
    #[arg(long)]
    json: bool,
}

/// Records one launch.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut output = Output::take()?;
    let (title, recording) = arguments.launch.record(arguments.steps)?;
    output.print(&if arguments.json {
        recording.json()?
    } else {
        text(&title, &recording)
    })
}

/// The steps, and under each its accesses.
fn text(title: &str, recording: &Recording) -> String {
    let [x, y, z] = recording.block;
    let mut text = format!("{title}\nblock ({x}, {y}, {z}), warp {}\n", recording.warp);
    for (index, step) in recording.steps.iter().enumerate() {
        let lanes = counted(step.active.len() as u64, "lane");
        text += &format!("\nstep {}, {}:{}, {lanes}", index + 1, step.file, step.line);
        if step.barrier {
            text += ", at a barrier";
        }
        if !step.source.is_empty() {
            text += &format!("\n  | {}", step.source);
        }
        text.push('\n');
        for access in &step.accesses {
            text += &format!("  {}\n", said(recording, access));
        }
        for (changes, when) in [(&step.before, "before"), (&step.after, "after")] {
            if !changes.is_empty() {
                let words = counted(changes.len() as u64, "word");
                text += &format!("  {when}: {words} of shared memory changed\n");
            }
        }
    }
    if recording.steps.is_empty() {
        text += "\nthis warp runs none of the lines\n";
    }
    if recording.left_out > 0 {
        text += &format!(
            "\n{} left out: --steps records more\n",
            counted(recording.left_out, "more step")
        );
    }
    text
}

/// `load  f32 argument 0[64 … 95]: 4 sectors`.
fn said(recording: &Recording, access: &Access) -> String {
    let kind = match access.kind {
        Kind::Load => "load  ",
        Kind::Store => "store ",
        Kind::Atomic => "atomic",
    };
    let mut arrays = access.arrays.clone();
    arrays.sort_unstable();
    arrays.dedup();
    let element = u64::from((access.bytes / access.elements.max(1)).max(1));
    let ranges = arrays.iter().map(|&array| {
        let of_array = access.arrays.iter().zip(&access.offsets);
        let offsets = of_array
            .filter(|(index, _)| **index == array)
            .map(|(_, at)| *at);
        let (first, last) = (offsets.clone().min(), offsets.max());
        let name = &recording.arrays[array].name;
        match (first.unwrap_or(0), last.unwrap_or(0)) {
            (first, last) if first == last => format!("{name}[{}]", first / element),
            (first, last) => format!("{name}[{} … {}]", first / element, last / element),
        }
    });
    let ranges: Vec<String> = ranges.collect();
    let vector = match access.elements {
        1 => String::new(),
        elements => format!(" × {elements}"),
    };
    format!(
        "{kind} {}{vector}  {}: {}",
        access.ty,
        ranges.join(", "),
        access.cost()
    )
}

/// `1 word`, `2 words`.
fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let counts = [0, 1, 2].map(|count| counted(count, "word"));
        assert_eq!(counts, ["0 words", "1 word", "2 words"]);
    }
}
