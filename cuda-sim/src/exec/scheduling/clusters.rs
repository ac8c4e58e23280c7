//! Clusters that run one after the other, each with its blocks in turns.

use std::sync::Arc;

use crate::exec::access::spare_patterns;
use crate::exec::block::{Block, BlockFault, Progress};
use crate::exec::checks::device_memory::DeviceDetector;
use crate::exec::checks::device_races::RaceDetector;
use crate::exec::cluster::Cluster;
use crate::exec::host_thread::HostThread;
use crate::exec::launch::Launch;
use crate::exec::launch_attempt::LaunchAttempt;
use crate::exec::operations::dispatch::{self, Handlers};
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
    let size = launch.cluster.iter().product::<u32>() as usize;
    let mut blocks: Vec<_> = (0..size).map(|_| Some(Box::default())).collect();
    for number in 0..launch.blocks() / size as u64 {
        blocks = run.cluster(number, blocks)?;
    }
    spare_patterns::keep(&launch.kernel, run.worker.patterns);
    Ok(attempt.record(run.worker.counters.tallies))
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
    /// Runs a cluster by these blocks, and gives them back.
    fn cluster(
        &mut self,
        number: u64,
        mut blocks: Vec<Option<Box<Block>>>,
    ) -> Result<Vec<Option<Box<Block>>>, Fault> {
        let launch = &*self.attempt.launch;
        for (rank, block) in blocks.iter_mut().flatten().enumerate() {
            self.attempt
                .start_in_cluster(block, number, rank as u32, self.now);
        }
        let warps = launch.block.iter().product::<u32>().div_ceil(32) as usize;
        let mut cluster = Box::new(Cluster::new(blocks.len(), warps));
        cluster.peers = blocks;
        let mut waited = 0;
        while cluster.ended.contains(&false) {
            // The first block that cannot go on, as long as no block has done anything.
            let mut stuck = None;
            let mut moved = false;
            for rank in 0..cluster.peers.len() {
                let Some(mut block) = cluster.peers[rank].take_if(|_| !cluster.ended[rank]) else {
                    continue;
                };
                cluster.rank = rank;
                let before = block.executed();
                let (progress, back) = self.block(&mut block, cluster);
                cluster = back;
                let ran = block.executed() - before;
                self.executed += ran;
                moved |= self.worker.changed;
                waited = if self.worker.changed { 0 } else { waited + ran };
                let fault = match progress {
                    Err(fault) => Some(fault),
                    _ if self.executed > launch.launch_budget => {
                        Some(block.long_launch(launch.launch_budget))
                    }
                    Ok(Progress::Finished) => {
                        (moved, cluster.ended[rank]) = (true, true);
                        None
                    }
                    Ok(_) if waited > launch.budget => Some(block.runaway(launch.budget)),
                    Ok(Progress::Waiting) => {
                        moved = true;
                        None
                    }
                    Ok(Progress::Stuck(fault)) => {
                        stuck = stuck.or(Some((block.index, fault)));
                        None
                    }
                };
                if let Some(fault) = fault {
                    return Err(self.attempt.fault(block.index, fault));
                }
                cluster.peers[rank] = Some(block);
            }
            if let Some((index, fault)) = stuck.filter(|_| !moved) {
                return Err(self.attempt.fault(index, *fault));
            }
        }
        Ok(cluster.peers)
    }

    /// Gives a block of the cluster its turn.
    fn block(
        &mut self,
        block: &mut Block,
        cluster: Box<Cluster>,
    ) -> (Result<Progress, BlockFault>, Box<Cluster>) {
        let launch = &*self.attempt.launch;
        let worker = &mut self.worker;
        block.swap_memory(worker);
        worker.checks.shared.clocks.resume(self.now);
        self.attempt.enter(worker, block);
        worker.changed = false;
        let blocks = cluster.peers.len();
        let warps = launch.block.iter().product::<u32>().div_ceil(32) as usize;
        worker.cluster = Some(cluster);
        let progress = block.run(&launch.kernel, worker, self.handlers, launch.budget);
        worker.record_shared_reads();
        self.now = worker.checks.shared.clocks.now();
        block.swap_memory(worker);
        let cluster = worker.cluster.take();
        let cluster = cluster.unwrap_or_else(|| Box::new(Cluster::new(blocks, warps)));
        (progress, cluster)
    }
}
