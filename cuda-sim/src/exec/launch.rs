//! One launch of a kernel, and one attempt to run it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exec::access::pattern::Site;
use crate::exec::block::{Block, BlockFault};
use crate::exec::checks::device_memory::{Global, Judge};
use crate::exec::checks::shared_memory::{FAR, Watch};
use crate::exec::host_thread::{Bytes, Core, OtherSide};
use crate::exec::scheduling::permutation;
use crate::exec::tally::Tallies;
use crate::fault::{Fault, FaultKind};
use crate::memory::map::MemoryMap;
use crate::memory::shadow::{LaunchMarks, Sectors, Shadow};
use crate::profile::Record;
use crate::program::Kernel;

/// One launch of a kernel.
pub struct Launch {
    /// What to run.
    pub kernel: Arc<Kernel>,
    /// Blocks (x, y, z); none is zero.
    pub grid: [u32; 3],
    /// Threads per block (x, y, z); at most 1024 in all, none is zero.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The parameter block, laid out as [`Kernel::params`] says.
    pub params: Vec<u8>,
    /// Device memory that the kernel may touch.
    pub memory: Arc<MemoryMap>,
    /// What is known of that memory.
    pub shadow: Arc<Shadow>,
    /// Whether reads of uninitialised memory and races are looked for.
    pub checks: bool,
    /// Permutes the order of blocks and warps.
    pub seed: Option<u64>,
    /// Instructions that one warp may run, and that blocks may spend waiting for each other without progress.
    pub budget: u64,
}

impl Launch {
    /// Shared memory of a block, static and dynamic.
    pub(crate) fn shared_bytes(&self) -> u32 {
        if self.dynamic_shared == 0 {
            self.kernel.shared_bytes
        } else {
            self.kernel.dynamic_shared_offset + self.dynamic_shared
        }
    }

    /// Number of a block in launch order.
    pub(crate) fn number(&self, index: [u32; 3]) -> u64 {
        let [x, y, _] = self.grid.map(u64::from);
        let [i, j, k] = index.map(u64::from);
        (k * y + j) * x + i
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    fn index(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [
            (number % x) as u32,
            (number / x % y) as u32,
            (number / x / y) as u32,
        ]
    }
}

/// A launch that is being run: what its blocks share.
pub(crate) struct Attempt {
    pub launch: Arc<Launch>,
    pub marks: LaunchMarks,
    params: Bytes,
    /// Taken when it is over.
    sectors: Option<Sectors>,
}

impl Attempt {
    pub(crate) fn new(launch: Arc<Launch>) -> Attempt {
        let (marks, sectors) = launch.shadow.begin_launch(launch.blocks());
        Attempt {
            params: Bytes::from_slice(&launch.params),
            marks,
            sectors: Some(sectors),
            launch,
        }
    }

    /// What a host thread needs to run blocks.
    pub(crate) fn core<'a>(&'a self, judge: Judge, stop: Option<&'a AtomicBool>) -> Core<'a> {
        let kernel = &*self.launch.kernel;
        let all_shared = (0, u64::from(self.launch.shared_bytes()));
        Core {
            kernel,
            map: &self.launch.memory,
            params: &self.params,
            shared: Bytes::default(),
            checks: self.launch.checks,
            watch: Watch::default(),
            global: Global {
                shadow: &self.launch.shadow,
                marks: self.marks,
                sectors: self.sectors.as_ref(),
                serial: 0,
                judge,
                changed: false,
            },
            sites: (kernel.leaders.iter().zip(&kernel.arrays))
                .map(|(leader, array)| Site::new(*leader, array.unwrap_or(all_shared)))
                .collect(),
            tallies: Tallies::new(kernel.code.len(), kernel.sites as usize),
            stop,
        }
    }

    /// Makes block `number`, in the order in which blocks start, ready to run.
    pub(crate) fn start(&self, block: &mut Block, number: u64, now: u32) {
        let place = match self.launch.seed {
            Some(seed) => permutation::place(number, self.launch.blocks(), seed),
            None => number,
        };
        block.start(&self.launch, self.launch.index(place), now);
    }

    /// Serial number of a block in the records of memory.
    pub(crate) fn serial(&self, block: &Block) -> u32 {
        self.marks.first + self.launch.number(block.index) as u32 % self.marks.blocks
    }

    /// The record of the launch, once all its blocks have ended.
    pub(crate) fn record(&self, tallies: Tallies) -> Record {
        Record {
            kernel: Arc::clone(&self.launch.kernel),
            grid: self.launch.grid,
            block: self.launch.block,
            shared_bytes: self.launch.shared_bytes(),
            tallies,
        }
    }

    /// The fault of the block with this index, with all that is known of it.
    pub(crate) fn fault(&self, index: [u32; 3], fault: BlockFault) -> Fault {
        let BlockFault { mut fault, warp } = fault;
        if let Some(other) = fault.other {
            self.complete(&mut fault.kind, other, index);
        }
        let kernel = &self.launch.kernel;
        Fault {
            kind: fault.kind,
            kernel: kernel.name.clone(),
            source: kernel.source_of(fault.pc).map(|s| (s.file, s.line)),
            block: index,
            thread: self.thread(warp * 32 + fault.lane),
            lanes: fault.mask,
        }
    }

    /// Fills in what is known of the other threads of a fault.
    fn complete(&self, kind: &mut FaultKind, other: OtherSide, here: [u32; 3]) {
        let known = (other.pc != FAR).then_some(other.pc);
        let place = known.and_then(|pc| self.launch.kernel.source_of(pc));
        let source = place.map(|s| (s.file, s.line));
        match kind {
            FaultKind::DivergentBarrier { other } | FaultKind::DifferentBarriers { other } => {
                *other = source;
            }
            FaultKind::Race(race) => {
                race.other.source = source;
                race.other.thread = other.thread.map(|thread| self.thread(thread));
                race.other.block = match (race.access.space, other.block) {
                    ("global", block) => block.map(|n| self.launch.index(u64::from(n))),
                    _ => Some(here),
                };
            }
            _ => {}
        }
    }

    /// Index of a thread within its block.
    fn thread(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [number % x, number / x % y, number / x / y]
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(sectors) = self.sectors.take() {
            self.launch.shadow.end_launch(sectors);
        }
    }
}
