//! Blocks that run at the same time, shared out among host threads.
//!
//! The outcome counts if the blocks are independent ([`crate::exec::checks::independence`]).
//! Otherwise all of it is undone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};

use crate::exec::access::spare_patterns;
use crate::exec::block::{Block, BlockFault, Progress};
use crate::exec::checks::device_memory::DeviceDetector;
use crate::exec::checks::independence::IndependenceProof;
use crate::exec::host_thread::HostThread;
use crate::exec::launch::Launch;
use crate::exec::launch_attempt::LaunchAttempt;
use crate::exec::operations::dispatch::{self, Handlers};
use crate::exec::tally::Tallies;
use crate::fault::Fault;
use crate::jitter;
use crate::memory::undo_log::UndoLog;
use crate::profile::Record;
use crate::sync::{lock, wait_while};

/// A launch that host threads work on.
pub(crate) struct ParallelLaunch {
    attempt: LaunchAttempt,
    /// The next block to start.
    next: AtomicU64,
    /// The first block known to have faulted; later ones need not run.
    faulty: AtomicU64,
    /// Instructions of blocks that have ended.
    executed: AtomicU64,
    /// The blocks may depend on each other: nothing of this counts.
    in_doubt: AtomicBool,
    outcome: Mutex<Outcome>,
    helper_left: Condvar,
}

#[derive(Default)]
struct Outcome {
    tallies: Tallies,
    /// The fault of the first faulty block, with its number.
    fault: Option<(u64, Fault)>,
    undo_logs: Vec<UndoLog>,
    panic: Option<Box<dyn Any + Send>>,
    helpers: u32,
    /// Nothing is left to help with.
    closed: bool,
}

impl ParallelLaunch {
    pub(crate) fn new(launch: Arc<Launch>) -> ParallelLaunch {
        ParallelLaunch {
            attempt: LaunchAttempt::new(launch),
            next: AtomicU64::new(0),
            faulty: AtomicU64::new(u64::MAX),
            executed: AtomicU64::new(0),
            in_doubt: AtomicBool::new(false),
            outcome: Mutex::default(),
            helper_left: Condvar::new(),
        }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.attempt.launch.blocks()
    }

    /// Works as long as there are blocks, in a thread that did not launch.
    pub(crate) fn help(&self) {
        {
            let mut outcome = lock(&self.outcome);
            if outcome.closed {
                return;
            }
            outcome.helpers += 1;
        }
        let result = catch_unwind(AssertUnwindSafe(|| self.work()));
        let mut outcome = lock(&self.outcome);
        outcome.helpers -= 1;
        if let Err(panic) = result {
            outcome.panic = Some(panic);
        }
        self.helper_left.notify_all();
    }

    pub(crate) fn wait_for_helpers(&self) {
        let mut outcome = lock(&self.outcome);
        outcome.closed = true;
        drop(wait_while(&self.helper_left, outcome, |outcome| {
            outcome.helpers > 0
        }));
    }

    /// Outcome of the launch; `None` if that is in doubt, and undone. A panic of a helper goes on
    /// in this thread.
    pub(crate) fn outcome(&self) -> Option<Result<Record, Fault>> {
        let mut outcome = lock(&self.outcome);
        if let Some(panic) = outcome.panic.take() {
            drop(outcome);
            resume_unwind(panic);
        }
        let fault = outcome.fault.take();
        // Sums of several blocks cannot be taken back for some of them.
        let launch = &self.attempt.launch;
        let in_doubt = self.in_doubt.load(Relaxed)
            || (fault.is_some() && launch.kernel.has_atomics && launch.checks);
        let undone = match &fault {
            _ if in_doubt => 0,
            Some((number, _)) => number + 1,
            None => u64::MAX,
        };
        let shadow = &launch.shadow;
        for mut undo_log in outcome.undo_logs.drain(..) {
            match undone {
                u64::MAX => undo_log.forget(),
                first => undo_log.undo(&shadow.bytes, first),
            }
            shadow.keep_undo_log(undo_log);
        }
        if in_doubt {
            return None;
        }
        let tallies = std::mem::take(&mut outcome.tallies);
        Some(match fault {
            Some((_, fault)) => Err(fault),
            None => Ok(self.attempt.record(tallies)),
        })
    }

    /// Runs blocks until none is left.
    pub(crate) fn work(&self) {
        let launch = &*self.attempt.launch;
        let handlers = dispatch::handlers();
        let detector =
            DeviceDetector::Independence(IndependenceProof::new(launch.shadow.undo_log()));
        let mut worker = self.attempt.worker(detector, Some(&self.in_doubt));
        let mut block = Box::default();
        while let Some(number) = self.start_next(&mut worker, &mut block) {
            let outcome = self.run(&mut worker, &mut block, handlers);
            let ran = block.executed();
            let executed = self.executed.fetch_add(ran, Relaxed) + ran;
            let too_long = executed > launch.launch_budget;
            let DeviceDetector::Independence(proof) = &worker.checks.device.detector else {
                unreachable!("the detector chosen above")
            };
            // In order it turns out at which block, or whether another fault comes first.
            if proof.in_doubt || (too_long && launch.checks) {
                self.in_doubt.store(true, Relaxed);
            } else if let Err(fault) = outcome {
                self.report(number, block.index, fault);
            } else if too_long {
                let fault = block.long_launch(launch.launch_budget);
                self.report(number, block.index, fault);
            }
        }
        spare_patterns::keep(&launch.kernel, worker.patterns);
        let mut outcome = lock(&self.outcome);
        if outcome.tallies.instructions.is_empty() {
            outcome.tallies = worker.counters.tallies;
        } else {
            outcome.tallies += &worker.counters.tallies;
        }
        if let DeviceDetector::Independence(proof) = worker.checks.device.detector {
            outcome.undo_logs.push(proof.undo_log);
        }
    }

    /// Makes the next block ready; `None` if no other one need run.
    fn start_next(&self, worker: &mut HostThread<'_>, block: &mut Block) -> Option<u64> {
        if self.in_doubt.load(Relaxed) || self.next.load(Relaxed) >= self.blocks() {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        if number >= self.blocks() || number > self.faulty.load(Relaxed) {
            return None;
        }
        jitter::pause();
        self.attempt.start(block, number, 0);
        self.attempt.enter(worker, block);
        if let DeviceDetector::Independence(proof) = &mut worker.checks.device.detector {
            proof.start_block(number);
        }
        Some(number)
    }

    /// Runs a block to its end. If all its warps wait, they go on: none can wait for another block
    /// here.
    fn run(
        &self,
        worker: &mut HostThread<'_>,
        block: &mut Block,
        handlers: &Handlers,
    ) -> Result<(), BlockFault> {
        let launch = &*self.attempt.launch;
        block.swap_memory(worker);
        let mut waited = 0;
        let result = loop {
            let before = block.executed();
            worker.changed = false;
            match block.run(&launch.kernel, worker, handlers, launch.budget) {
                Ok(Progress::Finished) => break Ok(()),
                Ok(Progress::Waiting) if self.in_doubt.load(Relaxed) => break Ok(()),
                Ok(Progress::Waiting) if worker.changed => waited = 0,
                Ok(Progress::Waiting) => waited += block.executed() - before,
                Ok(Progress::Stuck(fault)) => break Err(*fault),
                Err(fault) => break Err(fault),
            }
            if waited > launch.budget && launch.checks {
                // In order, others get their turn.
                worker.checks.device.doubt();
                break Ok(());
            } else if waited > launch.budget {
                break Err(block.runaway(launch.budget));
            }
        };
        // Noted reads rely on what the patterns know, which the next block may change.
        worker.record_shared_reads();
        block.swap_memory(worker);
        result
    }

    fn report(&self, number: u64, index: [u32; 3], fault: BlockFault) {
        self.faulty.fetch_min(number, Relaxed);
        let fault = self.attempt.fault(index, fault);
        let mut outcome = lock(&self.outcome);
        if outcome
            .fault
            .as_ref()
            .is_none_or(|(first, _)| number < *first)
        {
            outcome.fault = Some((number, fault));
        }
    }
}
