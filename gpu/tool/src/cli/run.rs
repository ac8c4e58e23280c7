//! `run`: launches a kernel of any file, and prints or saves its buffers.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use gpu_launch::{Position, Values};
use gpu_tool::CudaDevice;

use super::kernel::LaunchArguments;

/// Elements printed of a buffer by default.
const PRINTED: usize = 8;

/// The flags of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo gpu run gpu/kernels/vector_add.cu
  cargo gpu run gpu/kernels/vector_add.cu --grid 2 --block 256 \\
      --arg f32=@a.npy --arg 'f32[300]=ones' --arg 'f32[300]=uninit' --arg i32=300 --out 2=sum.npy

A file can state its launch itself, in comments:
  // launch: grid=4 block=256 shared=0 kernel=vector_add
  // args: f32[1000]=iota f32[1000]=ones f32[1000]=uninit i32=1000
  // define: BLOCK=256")]
pub struct Arguments {
    #[command(flatten)]
    launch: LaunchArguments,

    /// Save the buffer of argument N (from 0) as a NumPy file. N.M is field M of a struct.
    #[arg(long, value_name = "N=FILE.npy", value_parser = numbered_file)]
    out: Vec<(Position, PathBuf)>,

    /// Print the first COUNT elements, or all elements, of argument N (from 0).
    /// Without --print and --out, the first 8 elements of each buffer are printed.
    #[arg(long, value_name = "N[:COUNT]", value_parser = numbered_count, verbatim_doc_comment)]
    print: Vec<(Position, usize)>,
}

/// Runs the kernel. Fails also if the file states what a buffer must hold and it does not.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let job = arguments.launch.open()?;
    let ctx = gpu::context(0)?;
    let device = CudaDevice::new(&ctx);
    let prepared = job.prepare(&device)?;
    let title = job.title(&prepared);
    super::print(&format!("{title}, on {}\n", gpu::device_label(&ctx)?))?;
    job.watch.now("running the kernel");
    prepared.launch()?;

    let buffers = prepared.read_all()?;
    let buffer = |position: &Position| -> anyhow::Result<&Values> {
        let mut found = buffers.iter().filter(|(place, _)| place == position);
        let (_, values) = found
            .next()
            .with_context(|| position.no_buffer(buffers.iter().map(|(place, _)| place)))?;
        Ok(values)
    };
    for (position, path) in &arguments.out {
        buffer(position)?.write_npy(path)?;
    }
    if arguments.print.is_empty() && arguments.out.is_empty() {
        for (position, values) in &buffers {
            super::print(&shown(position, values, PRINTED))?;
        }
    }
    for (position, count) in &arguments.print {
        super::print(&shown(position, buffer(position)?, *count))?;
    }
    let expectations = job.invocation.expectations.iter();
    let differences: Vec<String> = expectations
        .filter_map(|expectation| expectation.compare(&buffers).err())
        .map(|mismatch| mismatch.to_string())
        .collect();
    if !differences.is_empty() {
        bail!("not what the file expects\n{}", differences.join("\n"));
    }
    Ok(())
}

/// `argument 2, f32[300]: 1 2 3 …`, as a line.
fn shown(position: &Position, values: &Values, count: usize) -> String {
    let elements = values.bits().take(count);
    let elements: String = elements
        .map(|bits| format!(" {}", values.ty().show(bits)))
        .collect();
    let rest = if values.len() > count { " …" } else { "" };
    format!(
        "argument {position}, {}[{}]:{elements}{rest}\n",
        values.ty(),
        values.len()
    )
}

fn numbered_file(text: &str) -> Result<(Position, PathBuf), String> {
    let (position, file) = text.split_once('=').ok_or("write it N=FILE.npy")?;
    Ok((position.parse()?, file.into()))
}

fn numbered_count(text: &str) -> Result<(Position, usize), String> {
    let Some((position, count)) = text.split_once(':') else {
        return Ok((text.parse()?, usize::MAX));
    };
    let count = count
        .parse()
        .map_err(|_| format!("{count:?} is not a number of elements"))?;
    Ok((position.parse()?, count))
}
