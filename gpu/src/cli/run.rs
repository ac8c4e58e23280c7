//! `run`: launches a kernel of any file, and shows or saves what its buffers hold.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use gpu::invocation::Values;

use super::kernel::LaunchArguments;

/// Elements that are printed of a buffer unless a number is asked for.
const PRINTED: usize = 8;

/// The flags of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo run -p gpu -- run gpu/kernels/vector_add.cu
  cargo run -p gpu -- run gpu/kernels/vector_add.cu --grid 2 --block 256 \\
      --arg f32=@a.npy --arg 'f32[300]=ones' --arg 'f32[300]=uninit' --arg i32=300 --out 2=sum.npy

A file can state its launch itself, in comments:
  // launch: grid=4 block=256 shared=0 kernel=vector_add
  // args: f32[1000]=iota f32[1000]=ones f32[1000]=uninit i32=1000
  // define: BLOCK=256")]
pub struct Arguments {
    #[command(flatten)]
    launch: LaunchArguments,

    /// Save the buffer of argument N, counted from 0, as a NumPy file.
    #[arg(long, value_name = "N=FILE.npy", value_parser = numbered_file)]
    out: Vec<(usize, PathBuf)>,

    /// Print the first COUNT elements, or all, of argument N, counted from 0.
    /// Without --print and --out, 8 of each buffer are printed.
    #[arg(long, value_name = "N[:COUNT]", value_parser = numbered_count, verbatim_doc_comment)]
    print: Vec<(usize, usize)>,
}

/// Runs the kernel. Fails also if the file states what a buffer must hold and it does not.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let job = arguments.launch.open()?;
    let ctx = gpu::context(0)?;
    let prepared = job.invocation.prepare(&ctx, &job.compiled.ptx)?;
    println!(
        "{}, on {}",
        job.title(prepared.kernel()),
        gpu::device_label(&ctx)?
    );
    prepared.launch()?;

    let buffer = |number: usize| -> anyhow::Result<Values> {
        prepared
            .read(number)?
            .with_context(|| format!("argument {number} is no buffer"))
    };
    for (number, path) in &arguments.out {
        buffer(*number)?.write_npy(path)?;
    }
    if arguments.print.is_empty() && arguments.out.is_empty() {
        for number in 0..job.invocation.arguments.len() {
            if let Some(values) = prepared.read(number)? {
                super::print(&shown(number, &values, PRINTED))?;
            }
        }
    }
    for (number, count) in &arguments.print {
        super::print(&shown(*number, &buffer(*number)?, *count))?;
    }
    let mut differences = Vec::new();
    for expectation in &job.invocation.expectations {
        if let Err(mismatch) = expectation.compare(&buffer(expectation.argument)?) {
            differences.push(mismatch.to_string());
        }
    }
    if !differences.is_empty() {
        bail!("not what the file expects\n{}", differences.join("\n"));
    }
    Ok(())
}

/// `argument 2, f32[300]: 1 2 3 …`, as a line.
fn shown(number: usize, values: &Values, count: usize) -> String {
    let elements = values.bits().take(count);
    let elements: String = elements
        .map(|bits| format!(" {}", values.ty().show(bits)))
        .collect();
    let rest = if values.len() > count { " …" } else { "" };
    format!(
        "argument {number}, {}[{}]:{elements}{rest}\n",
        values.ty(),
        values.len()
    )
}

fn numbered_file(text: &str) -> Result<(usize, PathBuf), String> {
    let (number, file) = text.split_once('=').ok_or("write it N=FILE.npy")?;
    Ok((argument_number(number)?, file.into()))
}

fn numbered_count(text: &str) -> Result<(usize, usize), String> {
    let Some((number, count)) = text.split_once(':') else {
        return Ok((argument_number(text)?, usize::MAX));
    };
    let count = count
        .parse()
        .map_err(|_| format!("{count:?} is not a number of elements"))?;
    Ok((argument_number(number)?, count))
}

fn argument_number(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not an argument's number"))
}
