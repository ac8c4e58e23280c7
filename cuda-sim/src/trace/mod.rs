//! Trace of one warp at chosen source lines: which lanes are active, what they access, and what
//! shared memory holds before and after.
//!
//! ```no_run
//! use cuda_sim::trace::{self, Selection};
//!
//! # fn launch() {}
//! let selection = Selection {
//!     lines: vec![("kernels/transpose.cu".into(), 27)],
//!     ..Selection::default()
//! };
//! let ((), traces) = trace::record(selection, launch);
//! for step in &traces[0].as_ref().expect("the line has code").steps {
//!     for access in &step.accesses {
//!         println!("{} wavefronts", access.wavefronts());
//!     }
//! }
//! ```
//!
//! A launch that is traced runs its blocks one after the other, so it takes longer. Its results,
//! faults and counters are those of the launch without a trace. A trace is the same on every run,
//! and has no address of device memory in it.

mod recording;

use std::sync::{Arc, Mutex};
use std::{cell::RefCell, mem};

use thiserror::Error;

use crate::sync::lock;

pub use crate::program::op::AccessKind;
pub use recording::{Access, Array, Lane, LaunchTrace, Pass, Space, Step, Word};

/// Selection of what is recorded of each launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Source lines: file, as faults and profiles name it, and number from 1. If there are none,
    /// all lines are recorded.
    pub lines: Vec<(String, u32)>,
    /// Index of the block.
    pub block: [u32; 3],
    /// Number of the warp in its block, from 0.
    pub warp: u32,
    /// Steps that are recorded at most; [`LaunchTrace::left_out`] counts the others.
    pub steps: usize,
}

impl Default for Selection {
    /// All lines, of the first warp of the first block, at most 4096 steps.
    fn default() -> Self {
        Selection {
            lines: Vec::new(),
            block: [0; 3],
            warp: 0,
            steps: 4096,
        }
    }
}

/// The reason why a launch has no trace. The launch itself has run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A line of [`Selection::lines`] has no code in this kernel.
    #[error("line {line} of {file} has no code in {kernel}; lines with code: {}", listed(.available))]
    NoSuchLine {
        /// The kernel's name in PTX.
        kernel: String,
        /// The file that was asked for.
        file: String,
        /// The line that was asked for.
        line: u32,
        /// The lines of the kernel that have code, in order.
        available: Vec<(String, u32)>,
    },
    /// [`Selection::block`] is not in the grid.
    #[error("there is no block {}: the grid is {}", triple(.block), triple(.grid))]
    NoSuchBlock {
        /// The block that was asked for.
        block: [u32; 3],
        /// Blocks (x, y, z) of the launch.
        grid: [u32; 3],
    },
    /// [`Selection::warp`] is not in the block.
    #[error("there is no warp {warp}: a block has {warps}, counted from 0")]
    NoSuchWarp {
        /// The warp that was asked for.
        warp: u32,
        /// Warps of a block.
        warps: u32,
    },
}

fn triple([x, y, z]: &[u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

/// `x.cu: 3, 5, 6; y.cuh: 1`.
fn listed(lines: &[(String, u32)]) -> String {
    if lines.is_empty() {
        return "none, because the PTX has no line information".to_owned();
    }
    let files = lines.chunk_by(|a, b| a.0 == b.0).map(|of_file| {
        let numbers: Vec<String> = of_file.iter().map(|(_, line)| line.to_string()).collect();
        format!("{}: {}", of_file[0].0, numbers.join(", "))
    });
    files.collect::<Vec<_>>().join("; ")
}

/// Runs `f` and returns what it returns, with a trace of each launch that it asked for in this
/// thread, in the order of their ends; or, for a launch without what is selected, the reason.
/// Launches that ended in a fault, or have not ended, are left out: wait for streams in `f`. Inside
/// another `record`, only the inner one gets traces.
pub fn record<T>(
    selection: Selection,
    f: impl FnOnce() -> T,
) -> (T, Vec<Result<LaunchTrace, TraceError>>) {
    let tracing = Tracing(Arc::new(Shared {
        selection,
        traces: Mutex::default(),
    }));
    let before = PRESENT.replace(Some(tracing.clone()));
    let _restore = Restore(before);
    let result = f();
    let traces = mem::take(&mut *lock(&tracing.0.traces));
    (result, traces)
}

/// Request for traces, and their destination.
#[derive(Clone)]
pub(crate) struct Tracing(Arc<Shared>);

struct Shared {
    selection: Selection,
    traces: Mutex<Vec<Result<LaunchTrace, TraceError>>>,
}

impl Tracing {
    /// Selection of what is recorded.
    pub(crate) fn selection(&self) -> &Selection {
        &self.0.selection
    }

    pub(crate) fn keep(&self, trace: Result<LaunchTrace, TraceError>) {
        lock(&self.0.traces).push(trace);
    }
}

thread_local! {
    static PRESENT: RefCell<Option<Tracing>> = const { RefCell::new(None) };
}

/// The tracing of launches that this thread asks for.
pub(crate) fn present() -> Option<Tracing> {
    PRESENT.try_with(|present| present.borrow().clone()).ok()?
}

/// Puts the tracing back that was there before, also after a panic.
struct Restore(Option<Tracing>);

impl Drop for Restore {
    fn drop(&mut self) {
        PRESENT.set(self.0.take());
    }
}
