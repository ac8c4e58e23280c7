//! One launch: its blocks, shared out among threads.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};

use super::block::{Block, BlockFault, Progress};
use super::core::{Bytes, Core, OtherSide};
use super::global::{Fences, GlobalWatch, Standing};
use super::site::Site;
use super::tally::Tallies;
use super::vectors::Portable;
use super::watch::{FAR, Watch};
use super::{isa, schedule};
use crate::fault::{Fault, FaultKind};
use crate::memory::MemoryMap;
use crate::profile::Record;
use crate::program::Kernel;
use crate::shadow::{LaunchMarks, Sectors, Shadow};
use crate::sync::lock;

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
    pub(super) fn shared_bytes(&self) -> u32 {
        if self.dynamic_shared == 0 {
            self.kernel.shared_bytes
        } else {
            self.kernel.dynamic_shared_offset + self.dynamic_shared
        }
    }

    /// Number of a block in launch order.
    pub(super) fn number(&self, index: [u32; 3]) -> u64 {
        let [x, y, _] = self.grid.map(u64::from);
        let [i, j, k] = index.map(u64::from);
        (k * y + j) * x + i
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

/// Blocks that one thread keeps waiting for other blocks.
const MAX_RESTING: usize = 1024;

/// A launch that is being worked on.
pub(super) struct Grid {
    launch: Launch,
    params: Bytes,
    marks: LaunchMarks,
    /// Taken until the launch is over.
    sectors: Option<Sectors>,
    fences: Option<Fences>,
    /// The next block to start.
    next: AtomicU64,
    /// The first block known to have faulted; later ones need not run.
    faulty: AtomicU64,
    /// Threads that run a block which has not waited for another yet.
    advancing: AtomicU64,
    /// Instructions of blocks that waited, since the last progress.
    waited: AtomicU64,
    outcome: Mutex<Outcome>,
    helper_left: Condvar,
}

#[derive(Default)]
struct Outcome {
    tallies: Tallies,
    /// The fault of the first faulty block, with its number.
    fault: Option<(u64, Fault)>,
    panic: Option<Box<dyn Any + Send>>,
    helpers: u32,
    /// Nothing is left to help with.
    closed: bool,
}

impl Grid {
    pub(super) fn new(launch: Launch) -> Grid {
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).product();
        let (marks, sectors) = launch.shadow.begin_launch(blocks);
        Grid {
            params: Bytes::from_slice(&launch.params),
            marks,
            sectors: Some(sectors),
            fences: launch.kernel.has_fences.then(Fences::default),
            launch,
            next: AtomicU64::new(0),
            faulty: AtomicU64::new(u64::MAX),
            advancing: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            outcome: Mutex::default(),
            helper_left: Condvar::new(),
        }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.launch.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// Works as long as there are blocks, in a thread that did not launch.
    pub(super) fn help(&self) {
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

    pub(super) fn wait_for_helpers(&self) {
        let mut outcome = lock(&self.outcome);
        outcome.closed = true;
        while outcome.helpers > 0 {
            outcome = self
                .helper_left
                .wait(outcome)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// What came of the launch. A panic of a helper goes on in this thread.
    pub(super) fn outcome(&self) -> Result<Record, Fault> {
        let mut outcome = lock(&self.outcome);
        if let Some(panic) = outcome.panic.take() {
            drop(outcome);
            resume_unwind(panic);
        }
        match outcome.fault.take() {
            Some((_, fault)) => Err(fault),
            None => Ok(Record {
                kernel: Arc::clone(&self.launch.kernel),
                grid: self.launch.grid,
                block: self.launch.block,
                shared_bytes: self.launch.shared_bytes(),
                tallies: std::mem::take(&mut outcome.tallies),
            }),
        }
    }

    /// Runs blocks until none is left. Blocks that wait for others rest, while those run.
    pub(super) fn work(&self) {
        let kernel = &*self.launch.kernel;
        let handlers = isa::handlers();
        let all_shared = (0, u64::from(self.launch.shared_bytes()));
        let mut core = Core {
            kernel,
            map: &self.launch.memory,
            params: &self.params,
            shared: Bytes::default(),
            checks: self.launch.checks,
            watch: Watch::default(),
            global: GlobalWatch {
                shadow: &self.launch.shadow,
                marks: self.marks,
                sectors: self.sectors.as_ref(),
                fences: self.fences.as_ref(),
                serial: 0,
                standing: Standing::default(),
            },
            sites: (kernel.companions.iter().zip(&kernel.arrays))
                .map(|(companions, array)| Site::new(*companions, array.unwrap_or(all_shared)))
                .collect(),
            tallies: Tallies::new(kernel.code.len(), kernel.sites as usize),
        };
        // In boxes, because a block is large and changes hands.
        let mut resting: VecDeque<(u64, Box<Block>)> = VecDeque::new();
        let mut spare = None;
        loop {
            let fresh = self.start_next(&mut spare, resting.len());
            let is_fresh = fresh.is_some();
            let Some((number, mut block)) = fresh.or_else(|| resting.pop_front()) else {
                break;
            };
            if number > self.faulty.load(Relaxed) {
                continue;
            }
            self.advancing.fetch_add(u64::from(is_fresh), Relaxed);
            let before = block.executed();
            core.take_up(&mut block);
            let own = self.launch.number(block.index) as u32 % self.marks.blocks;
            core.global.serial = self.marks.first + own;
            let progress = block.run(kernel, &mut core, handlers, self.launch.budget);
            // Noted reads rely on what the sites know, which the next block may change.
            core.watch.record_reads::<Portable>(&core.sites);
            core.take_up(&mut block);
            let spent = block.executed() - before;
            self.advancing.fetch_sub(u64::from(is_fresh), Relaxed);
            match progress {
                Ok(Progress::Finished) => {
                    self.waited.store(0, Relaxed);
                    spare = Some(block);
                }
                // Whoever it waits for may have been the one.
                Ok(Progress::Waiting) if self.faulty.load(Relaxed) != u64::MAX => {}
                Ok(Progress::Waiting) => match self.wait(&block, spent, resting.len()) {
                    Ok(()) => resting.push_back((number, block)),
                    Err(fault) => self.report(number, block.index, fault),
                },
                Err(fault) => self.report(number, block.index, fault),
            }
        }
        let mut outcome = lock(&self.outcome);
        if outcome.tallies.instructions.is_empty() {
            outcome.tallies = core.tallies;
        } else {
            outcome.tallies += &core.tallies;
        }
    }

    fn start_next(
        &self,
        spare: &mut Option<Box<Block>>,
        resting: usize,
    ) -> Option<(u64, Box<Block>)> {
        if resting >= MAX_RESTING || self.next.load(Relaxed) >= self.blocks() {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        if number >= self.blocks() || number > self.faulty.load(Relaxed) {
            return None;
        }
        let mut block = spare.take().unwrap_or_default();
        let place = match self.launch.seed {
            Some(seed) => schedule::place(number, self.blocks(), seed),
            None => number,
        };
        block.start(&self.launch, self.launch.index(place));
        Some((number, block))
    }

    /// Counts what a block spent on waiting. A fault if all that are left have waited for longer than the budget.
    fn wait(&self, block: &Block, instructions: u64, resting: usize) -> Result<(), BlockFault> {
        let progress = self.advancing.load(Relaxed) > 0
            || (self.next.load(Relaxed) < self.blocks() && resting < MAX_RESTING);
        if progress {
            self.waited.store(0, Relaxed);
            return Ok(());
        }
        let waited = self.waited.fetch_add(instructions, Relaxed) + instructions;
        let budget = self.launch.budget;
        if waited > budget {
            Err(block.runaway(budget))
        } else {
            Ok(())
        }
    }

    /// Index of a thread within its block.
    fn thread(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [number % x, number / x % y, number / x / y]
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

    fn report(&self, number: u64, index: [u32; 3], fault: BlockFault) {
        self.faulty.fetch_min(number, Relaxed);
        let BlockFault { mut fault, warp } = fault;
        if let Some(other) = fault.other {
            self.complete(&mut fault.kind, other, index);
        }
        let kernel = &self.launch.kernel;
        let full = Fault {
            kind: fault.kind,
            kernel: kernel.name.clone(),
            source: kernel.source_of(fault.pc).map(|s| (s.file, s.line)),
            block: index,
            thread: self.thread(warp * 32 + fault.lane),
            lanes: fault.mask,
        };
        let mut outcome = lock(&self.outcome);
        if outcome
            .fault
            .as_ref()
            .is_none_or(|(first, _)| number < *first)
        {
            outcome.fault = Some((number, full));
        }
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        if let Some(sectors) = self.sectors.take() {
            self.launch.shadow.end_launch(sectors);
        }
    }
}
