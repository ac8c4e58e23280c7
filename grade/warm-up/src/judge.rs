//! Compiles a kernel, launches it under several orders of blocks and warps with all checks, compares values and counters.

use std::path::Path;

use gpu::profile::{Counters, profile};
use gpu_launch::Invocation;
use gpu_tool::CudaDevice;
use gpu_tool::kernel_file::KernelFile;

use crate::tasks::{Case, Output, WarmUp};

/// Orders of blocks and warps that each case is launched in.
const SEEDS: u64 = 10;

/// Instructions that a warp may run: a hundred times what one thread that does all the work of a case runs.
const BUDGET: u64 = 1 << 20;

/// The verdict on a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No fault in any order, the expected values, by the idea of the warm-up.
    Done,
    /// It stores nothing in its first case.
    NothingYet,
    /// What is wrong: the compiler's message, the report of a fault, wrong values, or what counters say.
    Wrong(String),
}

/// Judges the kernel in a file.
///
/// # Errors
///
/// NVRTC is missing; the device cannot be opened.
pub fn judge(warm_up: &WarmUp, path: &Path) -> anyhow::Result<Verdict> {
    let ptx = match KernelFile::read(path).and_then(|file| file.compile(&[])) {
        Ok(compiled) => compiled.ptx,
        Err(gpu_tool::Error::Gpu(error @ gpu::Error::NvrtcMissing { .. })) => {
            return Err(error.into());
        }
        Err(error) => return Ok(Verdict::Wrong(error.to_string())),
    };
    gpu::set_checks(true);
    for (number, case) in (warm_up.cases)().iter().enumerate() {
        for seed in 0..SEEDS {
            let launched = || profile(|| launch(warm_up.name, case, &ptx));
            let (launched, _) = gpu::with_seed(seed, || gpu::with_budget(BUDGET, launched));
            let (values, launches) = launched?;
            let values = match values {
                Ok(values) => values,
                Err(fault) => return Ok(Verdict::Wrong(fault)),
            };
            let counters = launches.first().map(|launch| launch.total);
            let counters = counters.unwrap_or_default();
            if number == 0 && stores(&counters) == 0 {
                return Ok(Verdict::NothingYet);
            }
            let wrong = wrong_values(case, &values).or_else(|| (warm_up.idea)(case, &counters));
            if let Some(wrong) = wrong {
                return Ok(Verdict::Wrong(format!("{}: {wrong}.", sizes(case))));
            }
        }
    }
    Ok(Verdict::Done)
}

fn stores(counters: &Counters) -> u64 {
    counters.global_stores.requests + counters.global_atomics.requests
}

/// The output after a launch, or the report of a fault.
fn launch(kernel: &str, case: &Case, ptx: &str) -> Result<Vec<f64>, String> {
    let Output {
        ty,
        before,
        expected,
        ..
    } = &case.output;
    let before = vec![before.to_string(); expected.len()].join(",");
    let mut arguments = case.inputs.clone();
    arguments.push(format!("{ty}[{}]={{{before}}}", expected.len()));
    arguments.extend(case.passed.iter().map(|size| format!("i32={size}")));
    let ([grid_x, grid_y], [block_x, block_y]) = (case.grid, case.block);
    let text = format!(
        "// launch: grid={grid_x},{grid_y} block={block_x},{block_y} kernel={kernel}\n// args: {}\n",
        arguments.join(" ")
    );
    let invocation = Invocation::parse(&text, Path::new("")).map_err(|error| error.to_string())?;
    // A context of its own: cudarc remembers errors in it.
    let context = gpu::context(0).map_err(|error| error.to_string())?;
    let buffers = invocation.run(&CudaDevice::new(&context), ptx);
    let mut buffers = buffers.map_err(|error| explained(&error.to_string(), case))?;
    let (_, output) = buffers.swap_remove(case.inputs.len());
    Ok(output.to_f64())
}

/// The report of a fault, with the sizes of the case, and a cause that is true here: all buffers of a launch live until it ends, and
/// threads that meet in global memory need not want to.
fn explained(report: &str, case: &Case) -> String {
    let known = [
        (
            "use of freed memory",
            "the index is far outside the buffer: only what earlier launches used was freed",
        ),
        (
            "in global memory, and an earlier",
            "two threads use the same element in no order: the index is wrong, or a barrier or an atomic operation is missing",
        ),
    ];
    let cause = known.iter().find(|(words, _)| report.contains(words));
    let lines = report.lines().map(|line| match cause {
        Some((_, cause)) if line.starts_with("  cause ") => format!("  cause   {cause}"),
        _ if line.starts_with("  kernel ") => format!("{line}\n  sizes   {}", sizes(case)),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The first wrong value, and the known mistake that gives exactly these values.
fn wrong_values(case: &Case, values: &[f64]) -> Option<String> {
    let output = &case.output;
    let pairs = || values.iter().zip(&output.expected);
    let first = pairs().position(|(value, expected)| !same(*value, *expected))?;
    let wrong = pairs().filter(|(value, expected)| !same(**value, **expected));
    let index = match output.columns {
        Some(columns) => format!("row {}, column {}", first / columns, first % columns),
        None => first.to_string(),
    };
    let value = match values[first] {
        value if value == output.before && output.before != 0.0 => {
            "what was there before the launch".to_owned()
        }
        value => value.to_string(),
    };
    let mut text = format!(
        "{} is wrong in {} of {} elements, first in {}[{index}]: {value}, not {}",
        output.name,
        wrong.count(),
        values.len(),
        output.name,
        output.expected[first]
    );
    let known = case.mistakes.iter().find(|(_, mistaken)| {
        let mut pairs = mistaken.iter().zip(values);
        pairs.all(|(mistaken, value)| same(*mistaken, *value))
    });
    if let Some((mistake, _)) = known {
        text += &format!(". Exactly these values come out if {mistake}");
    }
    Some(text)
}

fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

/// `rows = 20, columns = 50`
fn sizes(case: &Case) -> String {
    let sizes = case.sizes.iter();
    let sizes: Vec<String> = sizes
        .map(|(name, size)| format!("{name} = {size}"))
        .collect();
    sizes.join(", ")
}
