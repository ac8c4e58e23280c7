//! Decode steps as CUDA graphs.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaStream};
use stage5_decode::Workspace;

use crate::Error;

/// The most steps that a batch keeps. A graph and a workspace are memory, and a
/// batch may have many sizes.
const MOST: usize = 32;

/// The steps of a batch, by batch size and number of splits: the [`MOST`] that ran last.
#[derive(Debug)]
pub(super) struct Steps<S = Step>(
    /// The one that ran last comes last.
    Vec<((usize, usize), S)>,
);

impl<S> Steps<S> {
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes a step out, to run it.
    pub fn take(&mut self, key: (usize, usize)) -> Option<S> {
        let at = self.0.iter().position(|(other, _)| *other == key)?;
        Some(self.0.remove(at).1)
    }

    /// Keeps a step that has run, and drops the one that ran the longest time
    /// ago if there are too many.
    pub fn keep(&mut self, key: (usize, usize), step: S) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push((key, step));
    }
}

/// A decode step of some batch size and number of splits: its first run launches kernels, which
/// loads them; its second run captures a graph; all others replay it.
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
    // Other threads may go on allocating and loading for models of their own. None launches on this
    // stream: a model stays with one thread.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_that_ran_last_are_kept() {
        let mut steps = Steps::new();
        for batch in 0..MOST {
            steps.keep((batch, 1), batch);
        }
        let first = steps.take((0, 1)).unwrap();
        assert!(steps.take((0, 1)).is_none() && steps.take((0, 2)).is_none());
        steps.keep((0, 1), first);
        steps.keep((0, 2), MOST);
        assert_eq!(steps.0.len(), MOST);
        assert!(steps.take((1, 1)).is_none(), "it ran the longest time ago");
        assert_eq!(
            [(0, 1), (2, 1), (0, 2)].map(|key| steps.take(key)),
            [Some(0), Some(2), Some(MOST)]
        );
    }
}
