//! A launch that has been checked, and its run with the settings of the thread that asked for it.

use std::sync::Arc;

use crate::{
    exec::{self, Launch, Settings},
    memory::arena::{Arena, Kind, Owner},
    profile::Record,
    program::Kernel,
    recorder::{self, MemoryOperations, Recorder},
    status::Result,
    trace::{self, Tracing},
};

/// A launch whose arguments have been checked and copied. A graph runs it many times.
pub(crate) struct PreparedLaunch {
    /// The context of the kernel's function; 0 without a driver.
    pub(crate) context: u64,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) grid: [u32; 3],
    /// Blocks of a cluster.
    pub(crate) cluster: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u32,
    pub(crate) params: Vec<u8>,
    /// Size of the buffer of `printf`, in bytes.
    pub(crate) printf_bytes: usize,
    /// Its blocks run at the same time, and may wait for each other by `grid.sync()`.
    pub(crate) cooperative: bool,
}

/// Memory of a cooperative launch in which its blocks count arrivals: two words, zero at the start.
/// `grid.sync()` finds its address in `%envreg1` and `%envreg2`, and counts in the second word.
struct GridWorkspace<'a> {
    arena: &'a Arena,
    address: u64,
}

impl<'a> GridWorkspace<'a> {
    const BYTES: u64 = 8;
    const OWNER: Owner = Owner {
        kind: Kind::Variable,
        context: 0,
        pool: 0,
    };

    fn new(arena: &'a Arena) -> Result<GridWorkspace<'a>> {
        let address = arena.allocate(Self::BYTES, Self::OWNER)?;
        Ok(GridWorkspace { arena, address })
    }
}

impl Drop for GridWorkspace<'_> {
    fn drop(&mut self) {
        // Allocated above, and only this frees it: it cannot fail.
        let _ = self.arena.free(self.address, &[Kind::Variable]);
    }
}

impl PreparedLaunch {
    /// Runs the kernel to its end, or to its fault.
    pub(crate) fn run(&self, submission: &Submission, arena: &Arena) -> Result<Arc<Record>> {
        let workspace = match self.cooperative && self.kernel.uses_grid_workspace() {
            true => Some(GridWorkspace::new(arena)?),
            false => None,
        };
        let launch = Launch {
            kernel: Arc::clone(&self.kernel),
            grid: self.grid,
            cluster: self.cluster,
            block: self.block,
            dynamic_shared: self.dynamic_shared,
            params: self.params.clone(),
            memory: arena.map(submission.operation),
            shadow: arena.shadow(),
            checks: submission.settings.checks,
            mma: submission.settings.mma,
            seed: submission.settings.seed,
            budget: submission.settings.budget,
            launch_budget: submission.settings.launch_budget,
            grid_workspace: workspace.as_ref().map_or(0, |workspace| workspace.address),
            printf_bytes: self.printf_bytes,
            tracing: submission.tracing.clone(),
        };
        let record = Arc::new(exec::run(launch)?);
        if let Some(recorder) = &submission.recorder {
            recorder.keep(&record);
        }
        Ok(record)
    }
}

/// Submission of an operation of a device: its number, and the settings that the submitting thread
/// had at that time. Launches of a graph have the settings of the graph's launch, not of its
/// capture.
pub(crate) struct Submission {
    /// Number of the operation among all that were submitted.
    pub(crate) operation: u64,
    settings: Settings,
    recorder: Option<Recorder>,
    tracing: Option<Tracing>,
}

impl Submission {
    /// Submission of operation number `operation` by the calling thread.
    pub(crate) fn by_this_thread(operation: u64) -> Submission {
        Submission {
            operation,
            settings: exec::settings(),
            recorder: recorder::present(),
            tracing: trace::present(),
        }
    }

    /// Counts an operation on memory, for the thread that submitted it.
    pub(crate) fn count(&self, add: impl FnOnce(&mut MemoryOperations)) {
        if let Some(recorder) = &self.recorder {
            recorder.count(add);
        }
    }
}
