//! Committed PTX file: a header of comments, then the compiler's output, byte for byte.
//!
//! ```text
//! // key: 64 hexadecimal digits
//! // file: /k/gpu/kernels/vector_add.cu
//! // options: --generate-line-info --gpu-architecture=compute_75 --std=c++17 -DBLOCK=64
//! // compiler: nvidia-cuda-nvrtc-cu12==12.4.127
//! // sm_80 vector_add: registers 12, spill stores 0, spill loads 0, shared 0
//! ```
//!
//! Registers are 32-bit and per thread; spills and static shared memory are bytes, spills per
//! thread. `, frame 64` at the end is local memory per thread, spilled registers with it; no frame
//! stands there if none is left. `, setmaxnreg ignored` comes last, if the compiler says so.

use std::fmt;

use crate::unit::{PINNED_COMPILER, Unit};

/// Registers, spills and shared memory of a kernel, compiled for one architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// The real architecture, like `sm_80`.
    pub architecture: String,
    /// The kernel's name.
    pub kernel: String,
    /// 32-bit registers per thread.
    pub registers: u32,
    /// Bytes per thread that are stored because registers are too few.
    pub spill_stores: u32,
    /// Bytes per thread that are loaded back.
    pub spill_loads: u32,
    /// Static shared memory per block, bytes.
    pub shared: u32,
    /// Local memory per thread, bytes: arrays that are not kept in
    /// registers, and spilled registers.
    pub frame: u32,
    /// `setmaxnreg` has no effect: the code needs more registers than it would
    /// leave.
    pub ignores_setmaxnreg: bool,
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.architecture, self.kernel)?;
        write!(f, "registers {}, ", self.registers)?;
        write!(f, "spill stores {}, ", self.spill_stores)?;
        write!(f, "spill loads {}, ", self.spill_loads)?;
        write!(f, "shared {}", self.shared)?;
        if self.frame > 0 {
            write!(f, ", frame {}", self.frame)?;
        }
        match self.ignores_setmaxnreg {
            true => write!(f, ", {SETMAXNREG_IGNORED}"),
            false => Ok(()),
        }
    }
}

const SETMAXNREG_IGNORED: &str = "setmaxnreg ignored";

/// The header of a file, before its resource report.
pub(crate) fn header(unit: &Unit) -> String {
    format!(
        "// key: {}\n// file: {}\n// options: {}\n// compiler: {PINNED_COMPILER}\n",
        unit.key(),
        unit.virtual_name(),
        unit.all_options().join(" "),
    )
}

/// The line before PTX that names an instance of a template, for `gpu_launch`: `// instance:
/// scale<4> = _Z5scaleILi4EEvPf`.
pub(crate) fn instance_line(instance: &str, name: &str) -> String {
    format!("// instance: {instance} = {name}\n")
}

/// The file's name: the kernel file's stem, then its constants, like `gemm-TILE_16.ptx`.
pub fn name(unit: &Unit) -> String {
    let mut name = unit.file().trim_end_matches(".cu").to_owned();
    for (constant, value) in unit.constants() {
        let value: String = value
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        name += &format!("-{constant}_{value}");
    }
    name + ".ptx"
}

/// The key in a file's first line.
pub fn key(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix("// key: ")
}

/// The resource report in a file's header, ordered by architecture, then kernel.
pub fn resources(text: &str) -> Vec<Resources> {
    let header = text.lines().map_while(|line| line.strip_prefix("// "));
    header.filter_map(resources_of_line).collect()
}

fn resources_of_line(line: &str) -> Option<Resources> {
    let (subject, numbers) = line.split_once(": ")?;
    let (architecture, kernel) = subject.split_once(' ')?;
    let mut numbers = numbers.split(", ");
    let mut number = |label: &str| {
        numbers
            .next()?
            .strip_prefix(label)?
            .trim_start()
            .parse()
            .ok()
    };
    Some(Resources {
        architecture: architecture.to_owned(),
        kernel: kernel.to_owned(),
        registers: number("registers")?,
        spill_stores: number("spill stores")?,
        spill_loads: number("spill loads")?,
        shared: number("shared")?,
        frame: number("frame").unwrap_or(0),
        ignores_setmaxnreg: line.ends_with(SETMAXNREG_IGNORED),
    })
}

/// Reads the report of `ptxas -v`, ordered by kernel.
///
/// Device functions that were not inlined have lines of their own, which name them; only kernels
/// are kept.
pub(crate) fn resources_of_log(log: &str, architecture: &str) -> Vec<Resources> {
    let mut kernels: Vec<Resources> = Vec::new();
    let mut function = String::new();
    // The note names no kernel: it counts for all that have the instruction.
    let ignores_setmaxnreg = log.contains("'setmaxnreg' ignored");
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernels.push(Resources {
                architecture: architecture.to_owned(),
                kernel: rest.split('\'').next().unwrap_or_default().to_owned(),
                registers: 0,
                spill_stores: 0,
                spill_loads: 0,
                shared: 0,
                frame: 0,
                ignores_setmaxnreg,
            });
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            function = name.trim().to_owned();
        } else if let Some(kernel) = kernels.last_mut() {
            let of_kernel = function == kernel.kernel;
            for (number, what) in line.split([',', ':']).filter_map(measured) {
                match what {
                    "registers" => kernel.registers = number,
                    "smem" => kernel.shared = number,
                    "stack frame" if of_kernel => kernel.frame = number,
                    "spill stores" if of_kernel => kernel.spill_stores = number,
                    "spill loads" if of_kernel => kernel.spill_loads = number,
                    _ => {}
                }
            }
        }
    }
    kernels.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    kernels
}

/// Reads `Used 10 registers`, `1024 bytes smem` or `ptxas  .  24 bytes stack frame` as the number
/// and what it counts.
fn measured(part: &str) -> Option<(u32, &str)> {
    let part = part.trim().trim_start_matches("Used ");
    let part = part
        .trim_start_matches("ptxas")
        .trim_start_matches([' ', '.']);
    let (number, what) = part.split_once(' ')?;
    Some((number.parse().ok()?, what.trim_start_matches("bytes ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 8 bytes gmem, 16 bytes cmem[4]
ptxas info    : Compiling entry function 'h' for 'sm_75'
ptxas info    : Function properties for h
ptxas         .     40 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 10 registers, 1024 bytes smem, 360 bytes cmem[0]
ptxas info    : Function properties for _Z1gf
ptxas         .     24 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads
ptxas info    : Compiling entry function 'f' for 'sm_75'
ptxas info    : Function properties for f
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 360 bytes cmem[0]
";

    #[test]
    fn the_report_of_ptxas_is_read_per_kernel() {
        let lines: Vec<String> = resources_of_log(LOG, "sm_75")
            .iter()
            .map(Resources::to_string)
            .collect();
        assert_eq!(
            lines,
            [
                "sm_75 f: registers 12, spill stores 0, spill loads 0, shared 0",
                "sm_75 h: registers 10, spill stores 4, spill loads 8, shared 1024, frame 40",
            ]
        );
    }

    #[test]
    fn a_header_gives_back_what_was_written() {
        let written = resources_of_log(LOG, "sm_75");
        let header: String = written
            .iter()
            .map(|resources| format!("// {resources}\n"))
            .collect();
        let text = format!(
            "// key: abc\n// file: /k/x/kernels/x.cu\n{header}//\n// Generated by\n.version 8.4\n"
        );
        assert_eq!(resources(&text), written);
        assert_eq!(key(&text), Some("abc"));
    }

    #[test]
    fn an_instruction_that_the_assembler_ignores_is_noted() {
        let note = "ptxas info    : (C7507) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register \
                    requirements.\n";
        let reports = resources_of_log(&format!("{note}{LOG}"), "sm_90a");
        let line =
            "sm_90a f: registers 12, spill stores 0, spill loads 0, shared 0, setmaxnreg ignored";
        assert_eq!(reports[0].to_string(), line);
        assert_eq!(resources(&format!("// {line}\n")), reports[..1]);
    }
}
