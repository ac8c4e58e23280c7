//! Report of `ptxas` on a module's kernels, in comments above the PTX text.
//!
//! The crate `gpu` writes a line for each architecture and kernel:
//!
//! ```text
//! // sm_90 transpose: registers 32, spill stores 0, spill loads 0, shared 4224, frame 64
//! ```
//!
//! No frame stands there if no local memory is left. `, setmaxnreg ignored` comes last, if the
//! assembler says so.

/// Registers and spills of a kernel, compiled by `ptxas` for one architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Architecture, as in `sm_90`.
    pub architecture: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory, per thread: arrays that are not in registers, and spilled registers.
    pub frame: u32,
    /// Bytes of registers stored to local memory, per thread.
    pub spill_stores: u32,
    /// Bytes of registers loaded back, per thread.
    pub spill_loads: u32,
    /// `setmaxnreg` has no effect, because the code needs more registers than it would leave.
    pub ignores_setmaxnreg: bool,
}

/// The report on `kernel` for the newest architecture that is not above `capability`, if there is
/// one.
pub(crate) fn find(ptx: &str, kernel: &str, capability: u32) -> Option<Resources> {
    ptx.lines()
        .map_while(|line| line.strip_prefix("//"))
        .filter_map(|line| line_of(line, kernel))
        .filter(|report| report.architecture <= capability)
        .max_by_key(|report| report.architecture)
}

/// One line's report, if it is one and on `kernel`.
fn line_of(line: &str, kernel: &str) -> Option<Resources> {
    let (architecture, rest) = line.trim().strip_prefix("sm_")?.split_once(' ')?;
    let figures = rest.strip_prefix(kernel)?.strip_prefix(": ")?;
    let mut resources = Resources {
        architecture: architecture.trim_end_matches(['a', 'f']).parse().ok()?,
        registers: 0,
        frame: 0,
        spill_stores: 0,
        spill_loads: 0,
        ignores_setmaxnreg: false,
    };
    for figure in figures.split(", ") {
        if figure == "setmaxnreg ignored" {
            resources.ignores_setmaxnreg = true;
            continue;
        }
        let (name, number) = figure.rsplit_once(' ')?;
        let number: u32 = number.parse().ok().filter(|&n| n < 1 << 24)?;
        match name {
            "registers" => resources.registers = number,
            "frame" => resources.frame = number,
            "spill stores" => resources.spill_stores = number,
            "spill loads" => resources.spill_loads = number,
            // `shared` is known from the PTX itself.
            _ => {}
        }
    }
    (1..=MAX_REGISTERS)
        .contains(&resources.registers)
        .then_some(resources)
}

/// Maximum registers per thread on every architecture: CUDA C++ Programming Guide, "Compute
/// Capabilities".
const MAX_REGISTERS: u32 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
// key: 00
// sm_75 sum: registers 60, spill stores 4, spill loads 8, shared 512, frame 24
// sm_80 sum: registers 32, spill stores 0, spill loads 0, shared 512
// sm_90a sum: registers 40, spill stores 0, spill loads 0, shared 512
// sm_80 sums: registers 9, spill stores 0, spill loads 0, shared 0
// sm_80 odd: registers 4000000000, spill stores 0, spill loads 0, shared 0
// sm_75 odd: registers -1

.version 8.4
// sm_90 late: registers 1, spill stores 0, spill loads 0, shared 0
";

    #[test]
    fn the_nearest_architecture_below_counts() {
        let registers = |capability| find(PTX, "sum", capability).map(|r| r.registers);
        assert_eq!(registers(75), Some(60));
        assert_eq!(registers(89), Some(32));
        assert_eq!(registers(90), Some(40));
        assert_eq!(registers(70), None);
        let turing = find(PTX, "sum", 75).expect("a report");
        assert_eq!((turing.spill_stores, turing.spill_loads), (4, 8));
        assert_eq!(
            (turing.frame, find(PTX, "sum", 80).map(|r| r.frame)),
            (24, Some(0))
        );
    }

    #[test]
    fn what_the_assembler_ignores_is_known() {
        let text = "// sm_90a f: registers 154, spill stores 0, spill loads 0, shared 0, setmaxnreg ignored\n";
        let report = find(text, "f", 90).expect("a report");
        assert_eq!((report.registers, report.ignores_setmaxnreg), (154, true));
        assert!(!find(PTX, "sum", 90).expect("a report").ignores_setmaxnreg);
    }

    #[test]
    fn names_are_whole_and_what_is_no_report_is_left_out() {
        assert_eq!(find(PTX, "sums", 80).map(|r| r.registers), Some(9));
        for name in ["su", "", "odd", "late"] {
            assert_eq!(find(PTX, name, 90), None, "{name}");
        }
    }
}
