//! Blocks that run one after the other, in the order that the seed gives.
//!
//! A block runs until it ends, or until all its warps poll memory. Then the next one starts, as
//! long as the device has room for it; the blocks that wait go on in turns. So what blocks do to
//! each other is the same on every run.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::exec::access::spare_patterns;
use crate::exec::block::{Block, Progress};
use crate::exec::checks::device_memory::DeviceDetector;
use crate::exec::checks::device_races::RaceDetector;
use crate::exec::launch::Launch;
use crate::exec::launch_attempt::LaunchAttempt;
use crate::exec::operations::dispatch;
use crate::exec::tracer::Tracer;
use crate::fault::Fault;
use crate::profile::Record;
use crate::settings::device;

/// Runs a launch to its end.
///
/// # Errors
/// The first fault.
pub(crate) fn run(launch: &Arc<Launch>) -> Result<Record, Fault> {
    let attempt = LaunchAttempt::new(Arc::clone(launch));
    let mut worker = attempt.worker(DeviceDetector::Races(RaceDetector::default()), None);
    worker.tracer = tracer(launch);
    let handlers = dispatch::handlers();
    let (blocks, room) = (launch.blocks(), resident_blocks(launch));
    // In boxes, because a block is large and changes hands.
    let mut resting: VecDeque<Box<Block>> = VecDeque::new();
    let mut spare: Option<Box<Block>> = None;
    let (mut started, mut now, mut waited, mut executed) = (0, 0, 0, 0);
    loop {
        let fresh = started < blocks && resting.len() < room;
        let mut block = if fresh {
            let mut block = spare.take().unwrap_or_default();
            attempt.start(&mut block, started, now);
            started += 1;
            block
        } else if let Some(block) = resting.pop_front() {
            block
        } else {
            spare_patterns::keep(&launch.kernel, worker.patterns);
            if let Some(tracer) = worker.tracer {
                tracer.finish();
            }
            return Ok(attempt.record(worker.counters.tallies));
        };
        let before = block.executed();
        let progress = attempt.turn(&mut worker, &mut block, handlers, &mut now);
        executed += block.executed() - before;
        if executed > launch.launch_budget && progress.is_ok() {
            let fault = block.long_launch(launch.launch_budget);
            return Err(attempt.fault(block.index, fault));
        }
        match progress {
            Ok(Progress::Finished) => {
                waited = 0;
                spare = Some(block);
            }
            Ok(Progress::Waiting) => {
                waited = if fresh || worker.changed {
                    0
                } else {
                    waited + block.executed() - before
                };
                if waited > launch.budget {
                    let left = blocks - started;
                    let fault = block.waits_for_ever(launch.budget, resting.len() + 1, left);
                    return Err(attempt.fault(block.index, fault));
                }
                resting.push_back(block);
            }
            Ok(Progress::Stuck(fault)) => return Err(attempt.fault(block.index, *fault)),
            Err(fault) => return Err(attempt.fault(block.index, fault)),
        }
    }
}

/// Records the launch, if that is asked for and can be done.
pub(super) fn tracer(launch: &Launch) -> Option<Box<Tracer>> {
    let tracing = launch.tracing.as_ref()?;
    match Tracer::new(launch, tracing) {
        Ok(tracer) => Some(Box::new(tracer)),
        Err(error) => {
            tracing.keep(Err(error));
            None
        }
    }
}

/// Blocks that the device can hold at the same time.
pub(super) fn resident_blocks(launch: &Launch) -> usize {
    let threads = launch.block.iter().product();
    let registers = launch.kernel.registers();
    let shared = u64::from(launch.shared_bytes());
    let fit = device().resident_blocks(threads, registers, shared);
    // A launch that does not fit is refused before it runs.
    (fit * device().multiprocessors).max(1) as usize
}
