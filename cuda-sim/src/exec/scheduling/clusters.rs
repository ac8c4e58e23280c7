//! Clusters of blocks that run one after the other, in the order that the seed gives.
//!
//! The blocks of a cluster go on in turns, by rank, until all have ended, or until none can do
//! anything more alone. Then the next cluster starts, as long as the device has room for it, or
//! one that waits goes on, as blocks do without clusters ([`super::in_order`]).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::exec::access::spare_patterns;
use crate::exec::block::{Block, Progress};
use crate::exec::checks::device_memory::DeviceDetector;
use crate::exec::checks::device_races::RaceDetector;
use crate::exec::cluster::Cluster;
use crate::exec::host_thread::HostThread;
use crate::exec::launch::Launch;
use crate::exec::launch_attempt::LaunchAttempt;
use crate::exec::operations::dispatch::{self, Handlers};
use crate::exec::scheduling::in_order::{resident_blocks, tracer};
use crate::fault::Fault;
use crate::profile::Record;

/// Runs a launch to its end.
///
/// # Errors
/// The first fault.
pub(crate) fn run(launch: &Arc<Launch>) -> Result<Record, Fault> {
    let attempt = LaunchAttempt::new(Arc::clone(launch));
    let detector = DeviceDetector::Races(RaceDetector::default());
    let mut run = Run {
        attempt: &attempt,
        worker: attempt.worker(detector, None),
        handlers: dispatch::handlers(),
        now: 0,
        executed: 0,
    };
    run.worker.tracer = tracer(launch);
    let size = launch.cluster.iter().product::<u32>() as usize;
    let clusters = launch.blocks() / size as u64;
    let room = (resident_blocks(launch) / size).max(1);
    let mut resting: VecDeque<Box<Cluster>> = VecDeque::new();
    let mut spare = Vec::new();
    let (mut started, mut waited) = (0, 0);
    loop {
        let fresh = started < clusters && resting.len() < room;
        let cluster = if fresh {
            let blocks = std::mem::take(&mut spare);
            started += 1;
            run.start(started - 1, blocks)
        } else if let Some(cluster) = resting.pop_front() {
            cluster
        } else {
            spare_patterns::keep(&launch.kernel, run.worker.patterns);
            if let Some(tracer) = run.worker.tracer {
                tracer.finish();
            }
            return Ok(attempt.record(run.worker.counters.tallies));
        };
        let before = run.executed;
        match run.turn(cluster)? {
            Turn::Finished(blocks) => {
                waited = 0;
                spare = blocks;
            }
            Turn::Waiting {
                cluster,
                polls,
                changed,
            } => {
                let ran = run.executed - before;
                waited = if fresh || changed { 0 } else { waited + ran };
                if waited > launch.budget
                    && let Some(block) = &cluster.peers[polls]
                {
                    let resident = (resting.len() + 1) * size;
                    let left = (clusters - started) * size as u64;
                    let fault = block.waits_for_ever(launch.budget, resident, left);
                    return Err(attempt.fault(block.index, fault));
                }
                resting.push_back(cluster);
            }
        }
    }
}

/// What came of a cluster's turn.
enum Turn {
    /// Its blocks have ended, and can be used again.
    Finished(Vec<Option<Box<Block>>>),
    /// The block of rank `polls` may be waiting for another cluster.
    Waiting {
        cluster: Box<Cluster>,
        polls: usize,
        /// Some block has done something.
        changed: bool,
    },
}

struct Run<'a> {
    attempt: &'a LaunchAttempt,
    worker: HostThread<'a>,
    handlers: &'static Handlers,
    now: u32,
    /// Instructions of all blocks so far.
    executed: u64,
}

impl Run<'_> {
    /// Makes the cluster with this number ready to run, with these blocks; new ones if there are
    /// none.
    fn start(&self, number: u64, mut blocks: Vec<Option<Box<Block>>>) -> Box<Cluster> {
        let launch = &*self.attempt.launch;
        let size = launch.cluster.iter().product::<u32>() as usize;
        blocks.resize_with(size, || Some(Box::default()));
        for (rank, block) in blocks.iter_mut().flatten().enumerate() {
            self.attempt
                .start_in_cluster(block, number, rank as u32, self.now);
        }
        let warps = launch.block.iter().product::<u32>().div_ceil(32) as usize;
        Box::new(Cluster::new(blocks, warps))
    }

    /// Lets the blocks of a cluster run in turns, as long as they can without other clusters.
    fn turn(&mut self, mut cluster: Box<Cluster>) -> Result<Turn, Fault> {
        let budget = self.attempt.launch.launch_budget;
        let mut ever_changed = false;
        loop {
            let mut changed = false;
            let mut polls = None;
            // The first block that cannot go on unless another one does something.
            let mut stuck = None;
            for rank in 0..cluster.peers.len() {
                let Some(mut block) = cluster.peers[rank].take_if(|_| !cluster.ended[rank]) else {
                    continue;
                };
                cluster.rank = rank;
                let before = block.executed();
                self.worker.cluster = Some(cluster);
                let (worker, now) = (&mut self.worker, &mut self.now);
                let progress = self.attempt.turn(worker, &mut block, self.handlers, now);
                let Some(back) = self.worker.cluster.take() else {
                    unreachable!("a block leaves its cluster where it is")
                };
                cluster = back;
                self.executed += block.executed() - before;
                changed |= self.worker.changed;
                let fault = match progress {
                    Err(fault) => Some(fault),
                    Ok(_) if self.executed > budget => Some(block.long_launch(budget)),
                    Ok(Progress::Finished) => {
                        (changed, cluster.ended[rank]) = (true, true);
                        None
                    }
                    Ok(Progress::Waiting) => {
                        polls = polls.or(Some(rank));
                        None
                    }
                    Ok(Progress::Stuck(fault)) => {
                        match &mut stuck {
                            None => stuck = Some((block.index, fault)),
                            Some((_, first)) => first.add_waits(block.index, *fault),
                        }
                        None
                    }
                };
                if let Some(fault) = fault {
                    return Err(self.attempt.fault(block.index, fault));
                }
                cluster.peers[rank] = Some(block);
            }
            ever_changed |= changed;
            if !cluster.ended.contains(&false) {
                return Ok(Turn::Finished(cluster.peers));
            }
            match (polls, stuck) {
                _ if changed => {}
                (None, Some((index, fault))) => return Err(self.attempt.fault(index, *fault)),
                (polls, _) => {
                    return Ok(Turn::Waiting {
                        cluster,
                        polls: polls.unwrap_or(0),
                        changed: ever_changed,
                    });
                }
            }
        }
    }
}
