//! Request and reply.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A call of a method of the stage's interface. `C` is the stage's `Call`; the tensors follow in the frame.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Request<C> {
    /// The method, and those of its arguments that are no tensors.
    pub call: C,
    /// How it is run.
    pub run: Run,
}

/// How a call is run. On the CPU none of it has a meaning.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Permutes the order of blocks and warps.
    pub seed: Option<u64>,
    /// Whether races and uninitialised reads are looked for.
    pub checks: bool,
    /// Whether the launches are profiled.
    pub profile: bool,
    /// How many more problems of the same shape the modelled time of a launch is for, all in this launch.
    pub more: u64,
}

/// What became of a call. The outputs follow in the frame, as they are after the call, however it ended.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Reply {
    /// How it ended.
    pub outcome: Outcome,
    /// The launches, in order, if [`Run::profile`] asks for them.
    pub launches: Vec<Launch>,
    /// Memory in use after the call, without inputs and outputs.
    pub in_use: InUse,
}

/// How a call ended.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
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
    Fault {
        /// The report.
        text: String,
        /// Its kind in a word, such as `race`.
        kind: FaultKind,
    },
    /// It panicked.
    Panicked {
        /// The message.
        text: String,
        /// File and line.
        place: String,
    },
    /// The request could not be read or answered.
    Failed {
        /// Why not.
        text: String,
    },
}

/// The kinds of fault that the grader tells apart.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Two accesses that nothing orders.
    Race,
    /// More instructions than allowed.
    Runaway,
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
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let texts = match self {
            Self::Done => [None, None],
            Self::Refused { argument, text } => [argument.as_mut(), Some(text)],
            Self::Panicked { text, place } => [Some(text), Some(place)],
            Self::NotCompiled { text }
            | Self::NoCompiler { text }
            | Self::Fault { text, .. }
            | Self::Failed { text } => [Some(text), None],
        };
        texts.into_iter().flatten()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("it returned"),
            Self::Refused { text, .. }
            | Self::NotCompiled { text }
            | Self::NoCompiler { text }
            | Self::Fault { text, .. }
            | Self::Failed { text } => f.write_str(text),
            Self::Panicked { text, place } => write!(f, "panicked at {place}: {text}"),
        }
    }
}
