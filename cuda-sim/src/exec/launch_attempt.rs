//! One attempt to run a launch: what its blocks share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exec::access::loaded_lines::LoadedLines;
use crate::exec::access::spare_patterns;
use crate::exec::access::traffic::Counters;
use crate::exec::aligned_bytes::Bytes;
use crate::exec::block::{Block, BlockFault, Progress};
use crate::exec::block_memory::BlockMemory;
use crate::exec::checks::accesses::Checks;
use crate::exec::checks::device_memory::{DeviceDetector, DeviceMemoryChecks};
use crate::exec::checks::device_records::DeviceRecords;
use crate::exec::checks::happens_before::NO_PC;
use crate::exec::checks::shared_memory::SharedMemoryChecks;
use crate::exec::copies_under_way::CopiesUnderWay;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{Missing, OtherSide};
use crate::exec::launch::Launch;
use crate::exec::operations::dispatch::Handlers;
use crate::exec::operations::mma::MatrixUnit;
use crate::exec::permutation;
use crate::exec::printed::Printed;
use crate::exec::register_pool::RegisterPool;
use crate::exec::registers::Registers;
use crate::exec::tally::Tallies;
use crate::fault::{Fault, FaultKind, MemoryKind, MissingThreads};
use crate::memory::sectors::Sectors;
use crate::memory::shadow::LaunchMarks;
use crate::profile::Record;
use crate::program::analysis::update::{self, Accessor};

/// A launch that is being run: what its blocks share.
pub(crate) struct LaunchAttempt {
    pub launch: Arc<Launch>,
    pub marks: LaunchMarks,
    params: Bytes,
    printed: Printed,
    /// Taken when it is over.
    sectors: Option<Sectors>,
}

impl LaunchAttempt {
    pub(crate) fn new(launch: Arc<Launch>) -> LaunchAttempt {
        let (marks, sectors) = launch.shadow.begin_launch(launch.blocks());
        LaunchAttempt {
            params: Bytes::from_slice(&launch.params),
            printed: Printed::new(launch.printf_bytes),
            marks,
            sectors: Some(sectors),
            launch,
        }
    }

    /// State with which a host thread runs blocks.
    pub(crate) fn worker<'a>(
        &'a self,
        detector: DeviceDetector,
        stop: Option<&'a AtomicBool>,
    ) -> HostThread<'a> {
        let kernel = &*self.launch.kernel;
        HostThread {
            memory: BlockMemory {
                kernel,
                map: &self.launch.memory,
                params: &self.params,
                printed: &self.printed,
                shared: Bytes::default(),
            },
            checks: Checks {
                loaded: None,
                enabled: self.launch.checks,
                shared: SharedMemoryChecks::default(),
                device: DeviceMemoryChecks {
                    records: DeviceRecords {
                        shadow: &self.launch.shadow,
                        marks: self.marks,
                        serial: 0,
                    },
                    detector,
                },
            },
            copies: CopiesUnderWay::default(),
            registers: RegisterPool::default(),
            cluster: None,
            counters: Counters {
                tallies: Tallies::new(kernel.code.len(), kernel.sites as usize),
                loaded: LoadedLines::default(),
                sectors: self.sectors.as_ref(),
            },
            patterns: spare_patterns::take(&self.launch.kernel, self.launch.shared_bytes()),
            changed: false,
            matrix_unit: MatrixUnit::new(self.launch.mma),
            matrix_rows: Registers::default(),
            stop,
            tracer: None,
        }
    }

    /// Makes block `number`, in the order in which blocks start, ready to run.
    pub(crate) fn start(&self, block: &mut Block, number: u64, now: u32) {
        let place = match self.launch.seed {
            Some(seed) => permutation::place(number, self.launch.blocks(), seed),
            None => number,
        };
        self.start_at(block, self.launch.index(place), now);
    }

    /// Makes the block of this rank ready to run, of the cluster `number` in the order in which
    /// clusters start.
    pub(crate) fn start_in_cluster(&self, block: &mut Block, number: u64, rank: u32, now: u32) {
        let (grid, cluster) = (self.launch.grid, self.launch.cluster);
        let size = u64::from(cluster.iter().product::<u32>());
        let place = match self.launch.seed {
            Some(seed) => permutation::place(number, self.launch.blocks() / size, seed),
            None => number,
        };
        let in_grid = [0, 1].map(|axis| u64::from(grid[axis] / cluster[axis]));
        let [x, y] = in_grid;
        let first = [place % x, place / x % y, place / x / y].map(|at| at as u32);
        let [i, j, _] = cluster;
        let within = [rank % i, rank / i % j, rank / i / j];
        let index = std::array::from_fn(|axis| first[axis] * cluster[axis] + within[axis]);
        self.start_at(block, index, now);
    }

    fn start_at(&self, block: &mut Block, index: [u32; 3], now: u32) {
        block.start(&self.launch, index, now);
        block.checks.clocks.serial = self.serial(block);
        block.checks.clocks.in_cluster = self.launch.cluster != [1; 3];
    }

    /// Serial number of a block in the records of memory.
    pub(crate) fn serial(&self, block: &Block) -> u32 {
        self.marks.first + self.launch.number(block.index) as u32 % self.marks.blocks
    }

    /// Gives a block its turn on a host thread, at the time `now`, which goes on.
    pub(crate) fn turn(
        &self,
        worker: &mut HostThread<'_>,
        block: &mut Block,
        handlers: &Handlers,
        now: &mut u32,
    ) -> Result<Progress, BlockFault> {
        block.swap_memory(worker);
        worker.checks.shared.clocks.resume(*now);
        self.enter(worker, block);
        worker.changed = false;
        let progress = block.run(&self.launch.kernel, worker, handlers, self.launch.budget);
        // Noted reads rely on what the patterns know, which the next block may change.
        worker.record_shared_reads();
        *now = worker.checks.shared.clocks.now();
        block.swap_memory(worker);
        progress
    }

    /// Tells a host thread which block it runs from here on.
    pub(crate) fn enter(&self, worker: &mut HostThread<'_>, block: &Block) {
        worker.checks.device.records.serial = self.serial(block);
        let number = self.launch.number(block.index);
        worker.counters.loaded.enter(number, self.launch.blocks());
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
        let BlockFault {
            mut fault,
            warp,
            block,
            missing,
        } = fault;
        let index = block.map_or(index, |number| self.launch.index(u64::from(number)));
        let thread = warp * 32 + fault.lane;
        if let Some(other) = fault.other {
            self.complete(&mut fault.kind, other, (index, thread));
            if let FaultKind::Race(race) = &mut fault.kind
                && !race.is_asynchronous()
            {
                let other = Accessor {
                    pc: other.pc,
                    is_one_of_many_reads: other.thread.is_none() && !race.other.write,
                };
                race.update = update::is_one(&self.launch.kernel, fault.pc, other);
            }
        }
        Fault {
            kind: fault.kind,
            kernel: self.launch.kernel.name.clone(),
            source: self.source(fault.pc),
            block: index,
            thread: self.thread(thread),
            lanes: fault.mask,
            missing: missing.map(|missing| match missing {
                Missing::Past(pc) => MissingThreads::Past(self.source(pc)),
                Missing::Returned(threads) => MissingThreads::Returned(threads),
            }),
        }
    }

    fn source(&self, pc: u32) -> Option<(String, u32)> {
        let place = self.launch.kernel.source_of(pc)?;
        Some((place.file, place.line))
    }

    /// Fills in what is known of the other threads of a fault of a block's thread.
    fn complete(&self, kind: &mut FaultKind, other: OtherSide, (here, thread): ([u32; 3], u32)) {
        let known = (other.pc != NO_PC).then_some(other.pc);
        let source = known.and_then(|pc| self.source(pc));
        match kind {
            FaultKind::DivergentBarrier { other }
            | FaultKind::DifferentBarriers { other }
            | FaultKind::WarpgroupOutOfStep { other, .. } => {
                *other = source;
            }
            FaultKind::UninitialisedRead(read) => read.loaded = source,
            FaultKind::ProductInFlight(register) => register.product = source,
            FaultKind::MissingProductFence { access, register } if register.is_some() => {
                *access = source;
            }
            FaultKind::UnfinishedCopy(copy) => {
                copy.source = source;
                copy.thread = other.thread.map(|thread| self.thread(thread));
            }
            FaultKind::Race(race) | FaultKind::MissingProxyFence(race) => {
                race.other.source = source;
                race.other.thread = other.thread.map(|thread| self.thread(thread));
                race.other.block = match (race.access.space, other.block) {
                    (MemoryKind::Shared, None) => race.within_block.then_some(here),
                    (_, block) => block.map(|n| self.launch.index(u64::from(n))),
                };
                let threads: u64 = self.launch.block.iter().map(|&n| u64::from(n)).product();
                let number =
                    |block, thread| self.launch.number(block) * threads + u64::from(thread);
                let both = race.other.block.zip(other.thread);
                race.adjacent = both.is_some_and(|(block, other)| {
                    number(block, other).abs_diff(number(here, thread)) == 1
                });
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

impl Drop for LaunchAttempt {
    fn drop(&mut self) {
        if let Some(sectors) = self.sectors.take() {
            self.launch.shadow.end_launch(sectors);
        }
    }
}
