//! Decode steps as CUDA graphs.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaStream};
use stage5_decode::Workspace;

use crate::Error;

/// A decode step of some batch size and number of splits: its first run launches kernels, which loads them; its second run
/// captures a graph; all others replay it.
#[derive(Debug)]
pub(super) struct Step {
    pub workspace: Workspace,
    state: State,
}

enum State {
    New,
    Launched,
    Captured(CudaGraph),
}

impl Step {
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            state: State::New,
        }
    }

    /// Runs what `launch` launches on `stream`.
    pub fn run(
        &mut self,
        stream: &Arc<CudaStream>,
        launch: impl FnOnce(&mut Workspace) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match &self.state {
            State::New => {
                launch(&mut self.workspace)?;
                self.state = State::Launched;
            }
            State::Launched => {
                let graph = capture(stream, || launch(&mut self.workspace))?;
                graph.launch()?;
                self.state = State::Captured(graph);
            }
            State::Captured(graph) => graph.launch()?,
        }
        Ok(())
    }
}

/// The graph of what `launch` launches on `stream`, which does not run.
fn capture(
    stream: &Arc<CudaStream>,
    launch: impl FnOnce() -> Result<(), Error>,
) -> Result<CudaGraph, Error> {
    // Other threads may go on allocating and loading for models of their own. None launches on this stream: a model stays with
    // one thread.
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let launched = launch();
    // Also after an error, so that the stream can be used again.
    let graph = stream.end_capture(CUgraphInstantiate_flags(0));
    launched?;
    graph?.ok_or(Error::NoGraph)
}

impl Debug for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "New",
            Self::Launched => "Launched",
            Self::Captured(_) => "Captured",
        })
    }
}
