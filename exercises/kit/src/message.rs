//! Request and reply.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::frame::Tensor;

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
    /// An access to the target of an asynchronous copy, or a change of its source, before the wait for it.
    CopyInFlight,
    /// An access outside every allocation.
    OutOfBounds,
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
    /// The source files of its instructions, `<package>/kernels/<file>`, in order.
    pub files: Vec<String>,
    /// Modelled time.
    pub seconds: f64,
    /// Floating-point operations, on f32 and on tensor cores.
    pub flops: u64,
    /// Bytes of sectors that are read, each counted once.
    pub read_bytes: u64,
    /// Bytes of sectors that are written, each counted once.
    pub write_bytes: u64,
}

/// Memory in use.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    /// Device memory in bytes; 0 on the CPU.
    pub device: u64,
    /// Host memory in bytes.
    pub host: u64,
}

impl Outcome {
    /// Its texts, which are a learner's.
    pub fn texts_mut(&mut self) -> Vec<&mut String> {
        let texts = match self {
            Self::Done => [None, None],
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
