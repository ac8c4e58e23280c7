//! A cluster of blocks: its barrier, and the shared memory of the blocks that do not run just now.
//!
//! One host thread runs the blocks of a cluster in turns ([`super::scheduling::clusters`]). The
//! address of shared memory of the block of rank r has r + 1 in its bits from [`RANK`] on; without
//! them it is the own block's. What a block does in another one's shared memory is checked there,
//! as that of a visitor ([`super::operations::peers`]).

use crate::device::MAX_CLUSTER;
use crate::exec::block::Block;
use crate::exec::checks::vector_clock::{BlockClocks, Past};
use crate::fault::FaultKind;

/// The lowest bit of the rank in an address of shared memory.
pub(crate) const RANK: u32 = 24;

/// The rank of a block in an address of shared memory, and the address without it; `None` if it
/// names no block. Only in a cluster do such addresses exist.
pub(crate) fn block_rank(address: u64) -> Option<(usize, u64)> {
    let rank = address as u32 >> RANK;
    let named = (1..=MAX_CLUSTER).contains(&rank);
    named.then(|| (rank as usize - 1, address - (u64::from(rank) << RANK)))
}

/// The blocks of a cluster, while one of them runs.
pub(crate) struct Cluster {
    /// Rank of the block that runs.
    pub rank: usize,
    /// The others, by rank.
    pub peers: Vec<Option<Box<Block>>>,
    /// True for those that have ended.
    pub ended: Vec<bool>,
    barrier: ClusterBarrier,
}

/// `barrier.cluster`.
struct ClusterBarrier {
    /// Warps of a block.
    warps: usize,
    /// Phases that are over.
    phase: u64,
    /// By rank and warp: the phase of the last arrival.
    arrivals: Vec<Option<u64>>,
    /// By rank and warp: the lanes that have waited since.
    waited: Vec<u32>,
    /// Warps that have ended.
    ended: Vec<bool>,
    /// By rank: what arrivals at the present phase pass on, and those at the last.
    present: Vec<Past>,
    over: Vec<Past>,
}

impl Cluster {
    /// A cluster of these blocks, of `warps` warps each.
    pub(crate) fn new(peers: Vec<Option<Box<Block>>>, warps: usize) -> Cluster {
        let blocks = peers.len();
        let pasts = || vec![Past::default(); blocks];
        Cluster {
            rank: 0,
            peers,
            ended: vec![false; blocks],
            barrier: ClusterBarrier {
                warps,
                phase: 0,
                arrivals: vec![None; blocks * warps],
                waited: vec![0; blocks * warps],
                ended: vec![false; blocks * warps],
                present: pasts(),
                over: pasts(),
            },
        }
    }

    /// The block of a rank, which is not the one that runs.
    ///
    /// # Errors
    /// There is none; it may not have begun, or has ended.
    pub(crate) fn peer(&mut self, rank: usize) -> Result<&mut Block, FaultKind> {
        let blocks = self.peers.len();
        let bad = |what: String| FaultKind::BadCluster { what };
        let Some(Some(peer)) = self.peers.get_mut(rank) else {
            return Err(bad(format!(
                "there is no block {rank} in a cluster of {blocks}"
            )));
        };
        if self.barrier.phase == 0 {
            return Err(bad(format!(
                "shared memory of block {rank} is accessed before a barrier of the cluster shows that it has begun"
            )));
        }
        match self.ended[rank] {
            true => Err(bad(format!(
                "shared memory of block {rank} is accessed, which has ended"
            ))),
            false => Ok(peer),
        }
    }

    /// A warp of the running block arrives at the barrier. True if the phase is over.
    pub(crate) fn arrive(
        &mut self,
        warp: usize,
        clocks: Option<&mut BlockClocks>,
    ) -> Result<bool, FaultKind> {
        let barrier = &mut self.barrier;
        let last = &mut barrier.arrivals[self.rank * barrier.warps + warp];
        if *last == Some(barrier.phase) {
            let what = "a warp arrives at the barrier of the cluster twice in a phase".to_owned();
            return Err(FaultKind::BadCluster { what });
        }
        *last = Some(barrier.phase);
        barrier.waited[self.rank * barrier.warps + warp] = 0;
        if let Some(clocks) = clocks {
            clocks.arrive(warp, &mut barrier.present[self.rank]);
        }
        Ok(barrier.end_phase())
    }

    /// Lanes of a warp of the running block wait at the barrier. False if the phase of its arrival
    /// is not over.
    pub(crate) fn wait(
        &mut self,
        (warp, lanes): (usize, u32),
        clocks: Option<&mut BlockClocks>,
    ) -> Result<bool, FaultKind> {
        let barrier = &mut self.barrier;
        let number = self.rank * barrier.warps + warp;
        let waited = &mut barrier.waited[number];
        let arrival = barrier.arrivals[number].filter(|_| *waited & lanes == 0);
        let Some(phase) = arrival else {
            let what = "a warp waits at the barrier of the cluster and has not arrived".to_owned();
            return Err(FaultKind::BadCluster { what });
        };
        let over = phase < barrier.phase;
        if over {
            *waited |= lanes;
        }
        if over && let Some(clocks) = clocks {
            clocks.pass(warp, &barrier.over[self.rank]);
        }
        Ok(over)
    }

    /// A warp of the running block has ended, which counts as its arrival. True if a phase is over,
    /// for which it was missing.
    pub(crate) fn leave(&mut self, warp: usize, clocks: Option<&mut BlockClocks>) -> bool {
        let barrier = &mut self.barrier;
        if let Some(clocks) = clocks {
            clocks.fence(warp, true);
            clocks.arrive(warp, &mut barrier.present[self.rank]);
        }
        barrier.ended[self.rank * barrier.warps + warp] = true;
        barrier.end_phase()
    }
}

impl ClusterBarrier {
    /// Ends the phase if some warp has arrived and none is missing.
    fn end_phase(&mut self) -> bool {
        let here = |arrival: &Option<u64>| *arrival == Some(self.phase);
        let mut warps = self.arrivals.iter().zip(&self.ended);
        let ends =
            self.arrivals.iter().any(here) && warps.all(|(arrival, ended)| here(arrival) || *ended);
        if ends {
            self.phase += 1;
            self.over = std::mem::take(&mut self.present);
            self.present.resize(self.over.len(), Past::default());
            Past::share_visible(&mut self.over);
        }
        ends
    }
}
