//! `ptx`: prints the PTX of a kernel file.

use std::collections::BTreeMap;

use clap::Args;
use gpu_tool::kernel_file::CompiledFile;

use super::kernel::FileArguments;

/// The flags of `ptx`.
#[derive(Args)]
#[command(after_help = "\
Example:
  cargo gpu ptx gpu/kernels/vector_add.cu --lines

The output is PTX. Comments at its top give registers, spills and shared memory by architecture.")]
pub struct Arguments {
    #[command(flatten)]
    file: FileArguments,

    /// Print each source line, as a comment, before the instructions that it was compiled to.
    #[arg(long)]
    lines: bool,
}

/// Prints the PTX.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let job = arguments.file.open()?;
    let text = if arguments.lines {
        with_sources(&job.compiled)
    } else {
        job.compiled.ptx
    };
    super::print(&text)
}

/// The PTX with a comment before each `.loc` that names another line than the one before.
fn with_sources(compiled: &CompiledFile) -> String {
    let names: BTreeMap<&str, &str> = compiled.ptx.lines().filter_map(file_directive).collect();
    let mut text = String::with_capacity(2 * compiled.ptx.len());
    let mut last = None;
    for line in compiled.ptx.lines() {
        if let Some(place) = location(line)
            && last != Some(place)
        {
            last = Some(place);
            let (file, number) = place;
            let name = names.get(file).copied().unwrap_or("?");
            let source = compiled.sources.text(name).unwrap_or_default();
            let source = source
                .lines()
                .nth(number.saturating_sub(1))
                .unwrap_or_default();
            text += format!("// {name}:{number}: {}", source.trim()).trim_end();
            text.push('\n');
        }
        text += line;
        text.push('\n');
    }
    text
}

/// Number and name of `.file 1 "/k/x.cu"`.
fn file_directive(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix(".file")?;
    let number = rest.split_whitespace().next()?;
    let name = rest.split('"').nth(1)?;
    Some((number, gpu::unit::shown(name)))
}

/// The number of the file, and the line, of `.loc 1 14 5`.
fn location(line: &str) -> Option<(&str, usize)> {
    let mut words = line.trim_start().strip_prefix(".loc")?.split_whitespace();
    Some((words.next()?, words.next()?.parse().ok()?))
}
