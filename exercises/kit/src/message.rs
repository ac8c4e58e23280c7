//! Request and reply.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::frame::{Broken, Tensor};

/// The most axes of an output.
const MAX_AXES: usize = 8;

/// The most outputs of a call.
const MAX_OUTPUTS: usize = 16;

/// The most launches of a call.
const MAX_LAUNCHES: usize = 1 << 14;

/// The most source files of a kernel.
const MAX_FILES: usize = 64;

/// The most lines of a launch.
const MAX_LINES: usize = 1 << 14;

/// The most seconds of a launch: sums of as many stay finite.
const MAX_SECONDS: f64 = 1e9;

/// A number that the grader chooses for a request, by chance, and that the reply repeats. What was
/// written before the request is no reply to it.
pub type Ticket = u64;

/// A call of a method of the stage's interface. `C` is the stage's `Call`.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Request<C> {
    /// The method and its arguments.
    pub call: C,
    /// Settings of the simulator for this call.
    pub run: Run,
}

/// Settings of the simulator for a call. On the CPU none of them has a meaning.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Permutes the order of blocks and warps.
    pub seed: Option<u64>,
    /// True if races and uninitialised reads are looked for.
    pub checks: bool,
    /// True if the launches are profiled.
    pub profile: bool,
    /// True if a profile has a figure for each line.
    pub lines: bool,
    /// True if the call is captured: its launches on the given stream are not run, and all others
    /// are. The values say nothing.
    pub captured: bool,
    /// Further problems of the same shape in the modelled time of a launch, all in this launch.
    pub more: u64,
}

/// The end of a call.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Reply {
    /// The kind of end.
    pub outcome: Outcome,
    /// The outputs, as they are after the call, however it ended.
    pub outputs: Vec<Tensor>,
    /// The launches, in order, if [`Run::profile`] asks for them.
    pub launches: Vec<Launch>,
    /// Bytes that were copied from the device to the host, if [`Run::profile`] asks for them.
    pub to_host: u64,
    /// Waits for the device, copies to the host among them, if [`Run::profile`] asks for them.
    pub waits: u64,
    /// Memory in use after the call, without inputs and outputs.
    pub in_use: InUse,
}

/// The end of a call: its return, or the failure.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It returned.
    Done,
    /// It returned an error.
    Refused {
        /// The argument that the error names.
        argument: Option<String>,
        /// The error.
        text: String,
    },
    /// A kernel file does not compile.
    NotCompiled {
        /// The compiler's messages.
        text: String,
    },
    /// A kernel must be compiled, and there is no NVRTC.
    NoCompiler {
        /// The error.
        text: String,
    },
    /// A kernel did something that a device forbids, whatever the call returned.
    Fault(Fault),
    /// It panicked.
    Panicked {
        /// The message.
        text: String,
        /// File and line.
        place: String,
        /// True for a panic of `todo!`: the code is still to be written.
        to_do: bool,
    },
    /// The request could not be read or answered.
    Failed {
        /// Why not.
        text: String,
    },
    /// It goes on. The outputs are new since the last time, and another reply follows.
    GoesOn,
}

/// A fault of a kernel.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The memory of the access that is at fault, if it is an access.
    pub space: Option<Space>,
    /// The kernel.
    pub kernel: String,
    /// File and line of the instruction, if they are known.
    pub place: Option<(String, u32)>,
    /// The first line of the simulator's report.
    pub sentence: String,
    /// The other lines.
    pub report: String,
}

/// The kinds of fault that the grader tells apart.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Two accesses that nothing orders.
    Race,
    /// An access to the target of an asynchronous copy, or a change of its
    /// source, before the wait for it.
    CopyInFlight,
    /// An access outside every allocation.
    OutOfBounds,
    /// The same, at an address that is null or a small number.
    Null,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// A read of memory that nobody wrote.
    Unwritten,
    /// The same, where threads of the block had returned before its last barrier.
    UnwrittenAfterReturn,
    /// A barrier to which not all threads come.
    Barrier,
    /// More instructions of one warp than allowed.
    EndlessLoop,
    /// More instructions of all warps together than allowed.
    LongLaunch,
    /// A race with a bulk copy or a product of a warpgroup.
    AsynchronousRace,
    /// A product of a warpgroup that reads or writes a register without a fence before it.
    UnfencedProduct,
    /// An access to a register of such a product before the wait for it.
    ProductInFlight,
    /// A factor of such a product that is not all in shared memory.
    Descriptor,
    /// A phase of an mbarrier that never ends, or an operation on one that it does not allow.
    Mbarrier,
    /// Any other.
    Other,
}

/// The memories that the grader tells apart.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Shared memory of a block.
    Shared,
    /// Any other.
    Other,
}

/// A launch, as the simulator counts it.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub kernel: String,
    /// The source files of its instructions, `<package>/kernels/<file>`, of an exercise
    /// `exercises/stage2/kernels/<file>`, in order.
    pub files: Vec<String>,
    /// Modelled time.
    pub seconds: f64,
    /// Floating-point operations, on f32 and on tensor cores.
    pub flops: u64,
    /// Bytes of sectors that are read, each counted once.
    pub read_bytes: u64,
    /// Bytes of sectors that are written, each counted once.
    pub write_bytes: u64,
    /// The resource that takes longest.
    pub bound: String,
    /// Resources, with the seconds that each would take alone.
    pub parts: Vec<(String, f64)>,
    /// The means by which it computes.
    pub means: Means,
    /// More of it, if [`Run::lines`] asks for it.
    pub detail: Option<Detail>,
}

/// The means by which a launch computes: those that a task may ask for.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Means {
    /// Floating-point operations on tensor cores.
    pub tensor_flops: u64,
    /// Those of them that products of a warpgroup do.
    pub wgmma_flops: u64,
    /// Warp instructions of tensor cores.
    pub tensor_instructions: u64,
    /// Those of them that ran while the block had asynchronous copies that it had not waited for.
    pub tensor_during_copies: u64,
    /// Bytes that threads load from global memory, and those of them that they copy asynchronously.
    pub loaded: [u64; 2],
    /// Warp instructions `ldmatrix`.
    pub matrix_loads: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Bytes that threads store to global memory.
    pub stored: u64,
    /// Wavefronts of shared memory without bank conflicts, and with them.
    pub shared: [u64; 2],
}

/// The figures of a launch.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Detail {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Names and values, of which less is better.
    pub figures: Vec<(String, f64)>,
    /// The lines that execute instructions, in the order of the file, under the names of headers.
    pub lines: Vec<Line>,
}

/// What the instructions of a source line do.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Line {
    /// The file, as a fault names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// Warp instructions.
    pub instructions: u64,
    /// Requests of global memory, and their sectors.
    pub global: [u64; 2],
    /// Wavefronts of shared memory without bank conflicts, and with them.
    pub shared: [u64; 2],
}

/// Memory in use.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    /// Device memory in bytes; 0 on the CPU.
    pub device: u64,
    /// Host memory in bytes.
    pub host: u64,
    /// The most host memory that the learner's code took during the call, in bytes; 0
    /// where it is not counted.
    pub peak: u64,
}

impl Launch {
    /// The file of its entry, which is no header; empty if none is known.
    pub fn file(&self) -> &str {
        let entry = self.files.iter().find(|file| !file.ends_with(".cuh"));
        entry.or(self.files.first()).map_or("", String::as_str)
    }
}

impl Reply {
    /// This reply, if it is one that an exercise's program sends: a learner's may send any.
    ///
    /// # Errors
    ///
    /// [`Broken::TooMany`] axes, outputs, launches or files; [`Broken::Seconds`] that are
    /// negative, not finite, or endless.
    pub fn checked(self) -> Result<Self, Broken> {
        at_most("outputs", self.outputs.len(), MAX_OUTPUTS)?;
        for output in &self.outputs {
            at_most("axes", output.axes(), MAX_AXES)?;
        }
        at_most("launches", self.launches.len(), MAX_LAUNCHES)?;
        for launch in &self.launches {
            at_most("source files of a kernel", launch.files.len(), MAX_FILES)?;
            at_most("parts of a time", launch.parts.len(), MAX_FILES)?;
            let detail = launch.detail.as_ref();
            at_most(
                "figures",
                detail.map_or(0, |it| it.figures.len()),
                MAX_FILES,
            )?;
            at_most("lines", detail.map_or(0, |it| it.lines.len()), MAX_LINES)?;
            let parts = launch.parts.iter().map(|(_, seconds)| *seconds);
            for seconds in parts.chain([launch.seconds]) {
                if !(0.0..=MAX_SECONDS).contains(&seconds) {
                    return Err(Broken::Seconds(seconds));
                }
            }
        }
        Ok(self)
    }

    /// The names of its launches' kernels and files, which are a learner's.
    pub fn names_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let launches = self.launches.iter_mut();
        launches.flat_map(|launch| {
            let (figures, lines) = match &mut launch.detail {
                Some(detail) => (&mut detail.figures[..], &mut detail.lines[..]),
                None => Default::default(),
            };
            let names = figures.iter_mut().chain(&mut launch.parts);
            let names = names.map(|(name, _)| name);
            let files = lines.iter_mut().map(|line| &mut line.file);
            let own = [&mut launch.kernel, &mut launch.bound];
            launch.files.iter_mut().chain(names).chain(files).chain(own)
        })
    }
}

fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), Broken> {
    if count > most {
        return Err(Broken::TooMany { what, count, most });
    }
    Ok(())
}

impl Outcome {
    /// Its texts, which are a learner's.
    pub fn texts_mut(&mut self) -> Vec<&mut String> {
        let texts = match self {
            Self::Done | Self::GoesOn => [None, None],
            Self::Refused { argument, text } => [argument.as_mut(), Some(text)],
            Self::Panicked { text, place, .. } => [Some(text), Some(place)],
            Self::Fault(fault) => {
                let place = fault.place.as_mut().map(|(file, _)| file);
                let texts = [&mut fault.kernel, &mut fault.sentence, &mut fault.report];
                return Vec::from_iter(texts.into_iter().chain(place));
            }
            Self::NotCompiled { text } | Self::NoCompiler { text } | Self::Failed { text } => {
                [Some(text), None]
            }
        };
        Vec::from_iter(texts.into_iter().flatten())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("it returned"),
            Self::GoesOn => f.write_str("it goes on"),
            Self::Refused { text, .. }
            | Self::NotCompiled { text }
            | Self::NoCompiler { text }
            | Self::Failed { text } => f.write_str(text),
            Self::Fault(fault) => fault.fmt(f),
            Self::Panicked { text, place, .. } => write!(f, "panicked at {place}: {text}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (kernel {}", self.sentence, self.kernel)?;
        if let Some((file, line)) = &self.place {
            write!(f, ", {file}:{line}")?;
        }
        write!(f, ")\n{}", self.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(outputs: Vec<Tensor>, launches: Vec<Launch>) -> Result<Reply, Broken> {
        let reply = Reply {
            outcome: Outcome::Done,
            outputs,
            launches,
            to_host: 0,
            waits: 0,
            in_use: InUse::default(),
        };
        reply.checked()
    }

    fn launch(files: usize, seconds: f64) -> Launch {
        Launch {
            kernel: "kernel".to_owned(),
            files: vec!["file".to_owned(); files],
            seconds,
            flops: u64::MAX,
            read_bytes: u64::MAX,
            write_bytes: u64::MAX,
            bound: "DRAM".to_owned(),
            parts: vec![("L2".to_owned(), 1.0)],
            means: Means::default(),
            detail: None,
        }
    }

    #[test]
    fn counts_are_bounded() {
        let tensor = |axes: usize| {
            let shape = vec![1; axes];
            Tensor::from_array(&ndarray::ArrayD::<f32>::zeros(shape))
        };
        let most = launch(MAX_FILES, 0.0);
        let largest = reply(vec![tensor(MAX_AXES); MAX_OUTPUTS], vec![most]).unwrap();
        assert_eq!(largest.outputs.len(), MAX_OUTPUTS);
        let many = [
            reply(vec![tensor(1); MAX_OUTPUTS + 1], vec![]),
            reply(vec![tensor(MAX_AXES + 1)], vec![]),
            reply(vec![], vec![launch(0, 0.0); MAX_LAUNCHES + 1]),
            reply(vec![], vec![launch(MAX_FILES + 1, 0.0)]),
        ];
        for reply in many {
            let error = reply.unwrap_err();
            assert!(matches!(error, Broken::TooMany { .. }), "{error}");
        }
    }

    #[test]
    fn the_shortest_reply_is_nine_bytes() {
        // The tests of the grader forge it.
        let ticket: Ticket = 0;
        let bytes = postcard::to_stdvec(&(ticket, reply(vec![], vec![]).unwrap())).unwrap();
        assert_eq!(bytes, [0; 9]);
    }

    #[test]
    fn seconds_are_a_time() {
        for seconds in [0.0, 1e-9, 1.0] {
            reply(vec![], vec![launch(1, seconds)]).unwrap();
        }
        for seconds in [f64::NAN, f64::INFINITY, -1e-9, f64::NEG_INFINITY, f64::MAX] {
            let error = reply(vec![], vec![launch(1, 1.0), launch(1, seconds)]).unwrap_err();
            assert!(matches!(error, Broken::Seconds(_)), "{seconds}: {error}");
        }
    }

    #[test]
    fn all_names_are_given() {
        let mut reply = reply(vec![], vec![launch(2, 0.0), launch(0, 0.0)]).unwrap();
        let names: Vec<_> = reply.names_mut().map(|name| name.clone()).collect();
        let expected = [
            "file", "file", "L2", "kernel", "DRAM", "L2", "kernel", "DRAM",
        ];
        assert_eq!(names, expected);
    }
}
