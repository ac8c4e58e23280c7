//! Runs kernels: blocks in parallel, warps of 32 lanes in lock step.

// A loop over lanes by index reads several arrays at once, and is what the compiler vectorises best.
#![allow(clippy::needless_range_loop)]

mod atomic;
mod block;
mod data;
mod float;
mod integer;
mod isa;
mod lanes;
mod memory;
mod predicate;
mod print;
mod registers;
mod rounding;
mod spaces;
mod vectors;
mod warp;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::{Fault, FaultKind};
use crate::memory::MemoryMap;
use crate::program::Kernel;
use crate::stats::Stats;

use block::{Block, BlockFault, Progress};
use memory::Memory;

/// One launch of a kernel.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What to run.
    pub kernel: &'a Kernel,
    /// Blocks (x, y, z); none is zero.
    pub grid: [u32; 3],
    /// Threads per block (x, y, z); at most 1024 in all, none is zero.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The parameter block, laid out as [`Kernel::params`] says.
    pub params: &'a [u8],
    /// Device memory that the kernel may touch.
    pub memory: &'a MemoryMap,
}

/// What one warp may spend.
#[derive(Debug, Clone, Copy)]
struct Budget {
    instructions: u64,
}

/// Instructions that one warp may run, unless `CUDA_SIM_BUDGET` says otherwise.
const DEFAULT_BUDGET: u64 = 1 << 28;

/// Blocks that one worker keeps waiting for other blocks.
const MAX_RESTING: usize = 1024;

impl Launch<'_> {
    fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// Index of a block from its number in launch order.
    fn index(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [
            (number % x) as u32,
            (number / x % y) as u32,
            (number / x / y) as u32,
        ]
    }

    fn linear(&self, index: [u32; 3]) -> u64 {
        let [x, y, _] = self.grid.map(u64::from);
        let [i, j, k] = index.map(u64::from);
        (k * y + j) * x + i
    }

    /// Shared memory of a block, static and dynamic.
    fn shared_bytes(&self) -> u32 {
        if self.dynamic_shared == 0 {
            self.kernel.shared_bytes
        } else {
            self.kernel.dynamic_shared_offset + self.dynamic_shared
        }
    }
}

/// Runs a launch to its end.
///
/// # Errors
/// The fault of the first block, in launch order, that had one.
#[allow(clippy::result_large_err)] // At most one per launch.
pub fn run(launch: &Launch<'_>) -> Result<Stats, Fault> {
    let grid = Grid {
        launch,
        budget: Budget {
            instructions: budget(),
        },
        next: AtomicU64::new(0),
        faulty: AtomicU64::new(u64::MAX),
        outcome: Mutex::new((Stats::default(), None)),
    };
    let workers = (rayon::current_num_threads() as u64).min(launch.blocks());
    if workers <= 1 {
        grid.work();
    } else {
        rayon::scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| grid.work())));
    }
    let (stats, fault) = grid
        .outcome
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    match fault {
        Some((_, fault)) => Err(fault),
        None => Ok(stats),
    }
}

thread_local! {
    static BUDGET: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Instructions that one warp may run in launches of this thread; `None` for the default: `CUDA_SIM_BUDGET`
/// if it is a number, otherwise 2^28. A warp that runs more faults as [`FaultKind::Runaway`].
pub fn set_budget(instructions: Option<u64>) {
    BUDGET.set(instructions);
}

fn budget() -> u64 {
    let asked = || std::env::var("CUDA_SIM_BUDGET").ok()?.parse().ok();
    BUDGET.get().or_else(asked).unwrap_or(DEFAULT_BUDGET)
}

/// A launch that is being worked on.
struct Grid<'a> {
    launch: &'a Launch<'a>,
    budget: Budget,
    /// The next block to start.
    next: AtomicU64,
    /// The first block known to have faulted; later ones need not run.
    faulty: AtomicU64,
    outcome: Mutex<(Stats, Option<(u64, Fault)>)>,
}

impl Grid<'_> {
    /// Runs blocks until none is left. Blocks that spin rest, while others run.
    fn work(&self) {
        let launch = self.launch;
        let handlers = isa::handlers();
        let mut memory = Memory {
            map: launch.memory,
            params: launch.params,
            shared: memory::Bytes::default(),
            ranges: vec![(0, 0); launch.kernel.code.len()],
        };
        let mut resting: VecDeque<(u64, Block)> = VecDeque::new();
        let mut spare = Block::default();
        let mut stats = Stats::default();
        loop {
            let (number, mut block) = match self.start_next(&mut spare, resting.len()) {
                Some(started) => started,
                None => match resting.pop_front() {
                    Some(rested) => rested,
                    None => break,
                },
            };
            if number > self.faulty.load(Ordering::Relaxed) {
                continue;
            }
            std::mem::swap(&mut memory.shared, &mut block.shared);
            let progress = block.run(launch.kernel, &mut memory, handlers, self.budget);
            std::mem::swap(&mut memory.shared, &mut block.shared);
            stats += block.take_stats();
            match progress {
                Ok(Progress::Finished) => spare = block,
                Ok(Progress::Spinning) => resting.push_back((number, block)),
                Err(fault) => self.report(number, block.index, fault),
            }
        }
        let mut outcome = self
            .outcome
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        outcome.0 += stats;
    }

    fn start_next(&self, spare: &mut Block, resting: usize) -> Option<(u64, Block)> {
        if resting >= MAX_RESTING || self.next.load(Ordering::Relaxed) >= self.launch.blocks() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.launch.blocks() || number > self.faulty.load(Ordering::Relaxed) {
            return None;
        }
        let mut block = std::mem::take(spare);
        block.start(self.launch, self.launch.index(number));
        Some((number, block))
    }

    fn report(&self, number: u64, index: [u32; 3], fault: BlockFault) {
        self.faulty.fetch_min(number, Ordering::Relaxed);
        let BlockFault { fault, warp } = fault;
        let [x, y, _] = self.launch.block;
        let thread = warp * 32 + fault.lane;
        let full = Fault {
            kind: self.named(fault.kind),
            kernel: self.launch.kernel.name.clone(),
            source: self
                .launch
                .kernel
                .source_of(fault.pc)
                .map(|s| (s.file, s.line)),
            block: index,
            thread: [thread % x, thread / x % y, thread / x / y],
            lanes: fault.mask,
        };
        let mut outcome = self
            .outcome
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if outcome.1.as_ref().is_none_or(|(first, _)| number < *first) {
            outcome.1 = Some((number, full));
        }
    }

    fn named(&self, kind: FaultKind) -> FaultKind {
        match kind {
            FaultKind::Assertion { message, place } => {
                let place = place
                    .strip_prefix("/k/")
                    .map(str::to_string)
                    .unwrap_or(place);
                FaultKind::Assertion { message, place }
            }
            other => other,
        }
    }
}
