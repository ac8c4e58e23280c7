//! One block: its warps, their barriers and shared memory.

mod stuck;
mod warpgroup;

use crate::exec::checks::happens_before::NO_PC;
use crate::exec::checks::shared_memory::SharedMemoryChecks;
use crate::exec::checks::syncthreads::{OutOfStep, SyncthreadsOrder};
use crate::exec::checks::vector_clock::Past;
use crate::exec::copies_under_way::CopiesUnderWay;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{LaneFault, Missing, OtherSide, WarpFault};
use crate::exec::launch::Launch;
use crate::exec::operations::dispatch::Handlers;
use crate::exec::operations::predicate::condition;
use crate::exec::permutation;
use crate::exec::register_pool::RegisterPool;
use crate::exec::warp::{Pause, Warp};
use crate::fault::{FaultKind, MemoryKind};
use crate::program::analysis::barrier_paths::BarrierPaths;
use crate::program::op::{BarrierKind, Op, Special};
use crate::program::{Constant, Kernel};
use crate::settings::device;

/// Progress of a block.
pub(crate) enum Progress {
    Finished,
    /// Its warps poll memory, alone or between barriers: they may be waiting for another block. Or
    /// the attempt is over.
    Waiting,
    /// None of its warps can go on, unless another block of the cluster does something: the fault
    /// if none will.
    Stuck(Box<BlockFault>),
}

/// A fault with the warp where it happened.
pub(crate) struct BlockFault {
    pub fault: WarpFault,
    pub warp: u32,
    /// Number of its block, if that is not the one that runs.
    pub block: Option<u32>,
    /// Threads that did not take part in a barrier, which may be why.
    pub missing: Option<Missing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// At the barrier with this number; the instruction says what to do behind it.
    Waiting {
        id: usize,
        pc: u32,
    },
    /// At a product of its warpgroup.
    AtProduct {
        pc: u32,
    },
    Finished,
}

impl State {
    fn waits(&self) -> bool {
        matches!(self, State::Waiting { .. } | State::AtProduct { .. })
    }
}

/// A named barrier.
#[derive(Default)]
struct Barrier {
    warps: u32,
    /// Warps to wait for, if the instruction gave a count.
    expected: Option<u32>,
    /// Threads whose predicate was true, for `bar.red`.
    yes: u32,
    threads: u32,
    /// Clocks that warps which went on without waiting pass on.
    passed_on: Past,
}

/// Rounds in which warps poll memory before other blocks get a turn. A round is a turn of each
/// warp.
const POLLING_ROUNDS: u32 = 1 << 7;

/// A block that runs, or rests between two turns. Reused from block to block.
#[derive(Default)]
pub(crate) struct Block {
    warps: Vec<Warp>,
    states: Vec<State>,
    barriers: [Barrier; 16],
    /// Block index.
    pub index: [u32; 3],
    /// Shared memory while the block rests.
    pub shared: crate::exec::aligned_bytes::Bytes,
    /// Records of it, while the block rests.
    pub checks: SharedMemoryChecks,
    /// Its asynchronous copies, while it rests.
    copies: CopiesUnderWay,
    /// Its free registers, while it rests.
    registers: RegisterPool,
    /// The order in which its warps get their turn.
    turns: Vec<usize>,
    threads: u32,
    /// Threads that had left when the others passed the last barrier of the whole block.
    returned: u32,
    steps: SyncthreadsOrder,
    /// Warps that rest have been asked to go on, and have come back to where they rest.
    asked: bool,
    /// How often they have been asked.
    asks: u32,
    /// Clocks of chains of each warp, if they may have roles.
    clocks: Vec<u64>,
}

impl Block {
    /// Makes the block with this index ready to run, at the time `now` or later. A block is only
    /// ever used for one launch.
    pub(crate) fn start(&mut self, launch: &Launch, index: [u32; 3], now: u32) {
        let kernel = &*launch.kernel;
        let threads: u32 = launch.block.iter().product();
        let count = threads.div_ceil(32) as usize;
        let first_use = self.warps.is_empty();
        self.index = index;
        self.threads = threads;
        self.returned = 0;
        self.warps.resize_with(count, Warp::default);
        self.states.clear();
        self.states.resize(count, State::Ready);
        self.barriers = Default::default();
        if launch.checks {
            self.checks
                .start(count, launch.shared_bytes() as usize, now);
        }
        self.copies.start(count);
        self.registers.start(kernel, count);
        self.steps.start();
        (self.asked, self.asks) = (false, 0);
        self.clocks.clear();
        self.clocks.resize(count, 0);
        self.turns.clear();
        self.turns.extend(0..count);
        if let Some(seed) = launch.seed {
            permutation::shuffle(&mut self.turns, seed ^ launch.number(index));
        }
        // Shared memory starts undefined; NaN shows in results where zero would hide.
        self.shared.reset(launch.shared_bytes() as usize, 0xff);
        for (w, warp) in self.warps.iter_mut().enumerate() {
            let first = w as u32 * 32;
            let lanes = (threads - first).min(32);
            warp.start(kernel, w, u32::MAX >> (32 - lanes));
            if first_use {
                set_constants(warp, kernel);
            }
        }
        for &(r, special) in &kernel.specials {
            let value = |thread| special_value(special, launch, index, thread);
            if special.is_of_block() {
                let value = [value(0); 32];
                let warps = self.warps.iter_mut();
                warps.for_each(|warp| warp.registers.write(r, u32::MAX, &value));
            } else if first_use {
                for (w, warp) in self.warps.iter_mut().enumerate() {
                    let values = std::array::from_fn(|lane| value((w * 32 + lane) as u32));
                    warp.registers.write::<u32>(r, u32::MAX, &values);
                }
            }
        }
    }

    /// Runs the block until it ends, or until all its warps may be waiting for another block.
    pub(crate) fn run(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        handlers: &Handlers,
        budget: u64,
    ) -> Result<Progress, BlockFault> {
        let mut polling_rounds = 0;
        loop {
            let mut moved = false;
            let mut ready = false;
            let mut polled = false;
            let changed = std::mem::take(&mut worker.changed);
            // All warps that are not at a barrier wait for phases of mbarriers, and are where they
            // were before their turn. So are those that rest, whatever the others do.
            let mut in_vain = true;
            let mut at_rest = true;
            for turn in 0..self.turns.len() {
                let w = self.turns[turn];
                if self.states[w] != State::Ready {
                    continue;
                }
                if worker.is_stopped() {
                    return Ok(Progress::Waiting);
                }
                ready = true;
                let rests = kernel.has_roles && self.warps[w].rests();
                let waits = rests || self.warps[w].phase_wait().is_some();
                let before = waits.then(|| self.warps[w].state());
                let is_traced = worker.tracer.as_ref().is_some_and(|t| t.is_of(self.index));
                let clocks = clocks_of(kernel, worker);
                let pause = self.warps[w].run(kernel, worker, handlers, budget, is_traced);
                self.clocks[w] += clocks_of(kernel, worker) - clocks;
                polled |= self.warps[w].has_polled();
                match pause.map_err(|fault| self.explain(kernel, w, fault))? {
                    Pause::Finished => {
                        self.states[w] = State::Finished;
                        moved = true;
                        let awaited = self.states.iter().any(State::waits);
                        if awaited {
                            self.miss_product(w)?;
                        }
                        if let Some(cluster) = &mut worker.cluster {
                            let checks = &mut worker.checks;
                            let clocks = checks.enabled.then_some(&mut checks.shared.clocks);
                            worker.changed |= cluster.leave(w, clocks);
                        }
                        // A barrier may have waited for this warp only.
                        if awaited {
                            (0..16).try_for_each(|id| self.release(kernel, worker, id))?;
                        }
                    }
                    Pause::Barrier { pc } => {
                        moved = true;
                        let id = self.arrive(kernel, worker, w, pc)?;
                        self.release(kernel, worker, id)?;
                    }
                    Pause::Product { pc } => {
                        moved = true;
                        self.come_to_product(kernel, worker, handlers, w, pc)?;
                    }
                    Pause::Waiting => {
                        let warp = &self.warps[w];
                        let stays = before.is_some_and(|before| before == warp.state());
                        in_vain &= stays && warp.phase_wait().is_some();
                        at_rest &= stays || !(rests || warp.rests());
                    }
                }
            }
            let idle = !moved && !worker.changed;
            in_vain &= idle;
            self.asked &= idle && at_rest;
            if self.asked {
                // They have nothing else to do.
                self.asks = 0;
            }
            worker.changed |= changed;
            if self.states.iter().all(|s| *s == State::Finished) {
                if let Some(fault) = self.ends_too_early(worker) {
                    return Err(fault);
                }
                let slowest = self.clocks.iter().max().copied();
                worker.counters.tallies.slowest_warps += slowest.unwrap_or(0);
                return Ok(Progress::Finished);
            }
            if idle && self.ask_again() {
                continue;
            }
            if !ready || in_vain {
                let fault = self.deadlock(kernel, worker);
                return match worker.cluster {
                    Some(_) => Ok(Progress::Stuck(Box::new(fault))),
                    None => Err(fault),
                };
            }
            if !moved {
                return Ok(Progress::Waiting);
            }
            polling_rounds += u32::from(polled);
            if polling_rounds > POLLING_ROUNDS {
                return Ok(Progress::Waiting);
            }
        }
    }

    /// Exchanges shared memory and what is known of it with the host thread: before the block runs,
    /// and after.
    pub(crate) fn swap_memory(&mut self, worker: &mut HostThread<'_>) {
        std::mem::swap(&mut worker.memory.shared, &mut self.shared);
        std::mem::swap(&mut worker.checks.shared, &mut self.checks);
        std::mem::swap(&mut worker.copies, &mut self.copies);
        std::mem::swap(&mut worker.registers, &mut self.registers);
    }

    /// Instructions that its warps have run.
    pub(crate) fn executed(&self) -> u64 {
        self.warps.iter().map(Warp::executed).sum()
    }

    /// The fault of a block whose warps wait for each other for too long, where its first warp is.
    pub(crate) fn runaway(&self, budget: u64) -> BlockFault {
        self.stopped(FaultKind::Runaway { budget })
    }

    /// The fault of a launch that has run too many instructions, of which this block's were the
    /// last.
    pub(crate) fn long_launch(&self, budget: u64) -> BlockFault {
        self.stopped(FaultKind::LongLaunch { budget })
    }

    /// The fault of a block that waits for another one for too long, while `resident` blocks are on
    /// the device and `left` have not started.
    pub(crate) fn waits_for_ever(&self, budget: u64, resident: usize, left: u64) -> BlockFault {
        self.stopped(if left == 0 {
            FaultKind::Runaway { budget }
        } else {
            FaultKind::GridDeadlock {
                resident: resident as u64,
                left,
            }
        })
    }

    fn stopped(&self, kind: FaultKind) -> BlockFault {
        let waiting = self
            .states
            .iter()
            .position(|s| *s == State::Ready)
            .unwrap_or(0);
        let (pc, mask) = self.warps[waiting].position();
        fault(waiting, pc, mask, kind, None)
    }

    /// A warp has come to the barrier at `pc`. Returns the barrier's number.
    fn arrive(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        w: usize,
        pc: u32,
    ) -> Result<usize, BlockFault> {
        let Op::Barrier { kind, id, count } = kernel.code[pc as usize].op else {
            unreachable!("a warp waits at an operation that is no barrier")
        };
        let warp = &mut self.warps[w];
        let mask = warp.waiting();
        let lane = mask.trailing_zeros() & 31;
        let id = warp.registers.read::<u32>(id)[lane as usize];
        let count = count.map(|r| warp.registers.read::<u32>(r)[lane as usize]);
        let bad = |count| fault(w, pc, mask, FaultKind::BadBarrier { id, count }, None);
        let expected = match count {
            Some(n) if n == 0 || n % 32 != 0 => return Err(bad(n)),
            count => count.map(|n| n / 32),
        };
        let Some(barrier) = self.barriers.get_mut(id as usize) else {
            return Err(bad(count.unwrap_or(0)));
        };
        if barrier.warps > 0 && barrier.expected != expected {
            return Err(bad(count.unwrap_or(0)));
        }
        barrier.expected = expected;
        barrier.warps += 1;
        barrier.threads += mask.count_ones();
        if let BarrierKind::CountTrue { p, .. }
        | BarrierKind::AllTrue { p, .. }
        | BarrierKind::AnyTrue { p, .. } = kind
        {
            barrier.yes += (condition(&warp.registers, p) & mask).count_ones();
        }
        if kind == BarrierKind::Arrive {
            warp.pass_barrier();
            if worker.checks.enabled {
                worker
                    .checks
                    .shared
                    .clocks
                    .arrive(w, &mut barrier.passed_on);
            }
        } else {
            self.states[w] = State::Waiting {
                id: id as usize,
                pc,
            };
        }
        Ok(id as usize)
    }

    /// Lets the warps at barrier `id` go on, if all that it waits for are there.
    fn release(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        id: usize,
    ) -> Result<(), BlockFault> {
        let barrier = &self.barriers[id];
        if barrier.warps == 0 {
            return Ok(());
        }
        let present = || self.states.iter().filter(|s| **s != State::Finished);
        if barrier.warps < barrier.expected.unwrap_or_else(|| present().count() as u32) {
            return Ok(());
        }
        if let Some(fault) = self.out_of_step(kernel, id) {
            return Err(fault);
        }
        let barrier = std::mem::take(&mut self.barriers[id]);
        if barrier.expected.is_none() {
            self.returned = self.threads - barrier.threads;
        }
        if worker.checks.enabled {
            if worker.cluster.is_some() {
                // Other blocks may race with reads before the barrier, too.
                worker.record_shared_reads();
            }
            let waits = |s: &State| matches!(s, State::Waiting { id: other, .. } if *other == id);
            let waiting = (0..self.states.len()).filter(|&w| waits(&self.states[w]));
            // A barrier of the whole block counts those that have left as arrived.
            let gone = (0..self.states.len())
                .filter(|&w| barrier.expected.is_none() && self.states[w] == State::Finished);
            if worker
                .checks
                .shared
                .clocks
                .release(waiting, gone, &barrier.passed_on)
            {
                worker.checks.shared.pass_barrier();
                worker.checks.device.pass_barrier();
            }
        }
        for (warp, state) in self.warps.iter_mut().zip(&mut self.states) {
            let State::Waiting { id: other, pc } = *state else {
                continue;
            };
            if other != id {
                continue;
            }
            let mask = warp.waiting();
            let all_bits = |yes: bool| if yes { u32::MAX } else { 0 };
            if let Op::Barrier { kind, .. } = kernel.code[pc as usize].op {
                match kind {
                    BarrierKind::CountTrue { d, .. } => {
                        warp.registers.write(d, mask, &[barrier.yes; 32])
                    }
                    BarrierKind::AllTrue { d, .. } => {
                        warp.registers.write_predicate(
                            d,
                            mask,
                            all_bits(barrier.yes == barrier.threads),
                        );
                    }
                    BarrierKind::AnyTrue { d, .. } => {
                        warp.registers
                            .write_predicate(d, mask, all_bits(barrier.yes > 0))
                    }
                    BarrierKind::Threads | BarrierKind::Sync | BarrierKind::Arrive => {}
                }
            }
            warp.pass_barrier();
            *state = State::Ready;
        }
        Ok(())
    }

    /// The fault of a warp at barrier `id` whose `__syncthreads()` is not in step with those of the
    /// others.
    fn out_of_step(&mut self, kernel: &Kernel, id: usize) -> Option<BlockFault> {
        let at_syncthreads = self.states.iter().enumerate().filter_map(|(w, s)| match s {
            State::Waiting { id: other, pc } if *other == id => {
                let Op::Barrier { kind, .. } = kernel.code[*pc as usize].op else {
                    return None;
                };
                (kind == BarrierKind::Threads).then_some((w, *pc))
            }
            _ => None,
        });
        let OutOfStep { warp, pc, other } = self.steps.meet(kernel, at_syncthreads)?;
        let mask = self.warps[warp].waiting();
        let kind = FaultKind::DifferentBarriers { other: None };
        let other = OtherSide {
            pc: other,
            thread: None,
            block: None,
        };
        Some(fault(warp, pc, mask, kind, Some(other)))
    }

    /// A fault of a warp, with the threads that did not take part in a barrier, if that may be why.
    /// If they cannot take part any more, that is the fault.
    #[cold]
    fn explain(&self, kernel: &Kernel, w: usize, fault: WarpFault) -> BlockFault {
        let mut explained = BlockFault {
            fault,
            warp: w as u32,
            block: None,
            missing: None,
        };
        let WarpFault {
            kind,
            pc,
            lane,
            other,
            ..
        } = &explained.fault;
        let raced_with = match kind {
            FaultKind::Race(race)
                if race.within_block && !race.at_once && !race.is_asynchronous() =>
            {
                *other
            }
            FaultKind::UninitialisedRead(read) if read.access.space == MemoryKind::Shared => None,
            _ => return explained,
        };
        let Some(paths) = BarrierPaths::new(kernel) else {
            return explained;
        };
        let waits = self.warps[w].waiting_in_part(kernel);
        if let Some((barrier, mask)) = waits.filter(|&(barrier, _)| paths.misses(*pc, barrier)) {
            let here = OtherSide {
                pc: *pc,
                thread: Some(w as u32 * 32 + lane),
                block: None,
            };
            let kind = FaultKind::DivergentBarrier { other: None };
            return self::fault(w, barrier, mask, kind, Some(here));
        }
        explained.missing = match raced_with {
            Some(other) if other.pc == NO_PC => None,
            Some(other) => paths.past(*pc, other.pc).map(Missing::Past),
            None => {
                let loaded = other.map_or(*pc, |load| load.pc);
                let returned = (self.returned > 0).then_some(Missing::Returned(self.returned));
                paths.past_before(loaded).map(Missing::Past).or(returned)
            }
        };
        explained
    }
}

/// Clocks of chains of dependent instructions so far, if warps may have roles.
fn clocks_of(kernel: &Kernel, worker: &HostThread<'_>) -> u64 {
    match kernel.has_roles {
        true => worker.counters.tallies.latency_clocks(kernel),
        false => 0,
    }
}

/// The fault of the first of the threads in `mask` of warp `w`, at an instruction.
fn fault(w: usize, pc: u32, mask: u32, kind: FaultKind, other: Option<OtherSide>) -> BlockFault {
    let lane = mask.trailing_zeros() & 31;
    let fault = LaneFault { kind, lane, other };
    BlockFault {
        fault: WarpFault::new(fault, pc, mask),
        warp: w as u32,
        block: None,
        missing: None,
    }
}

fn set_constants(warp: &mut Warp, kernel: &Kernel) {
    for &(r, constant) in &kernel.constants {
        match constant {
            Constant::Narrow(value) => warp.registers.write(r, u32::MAX, &[value; 32]),
            Constant::Wide(value) => warp.registers.write(r, u32::MAX, &[value; 32]),
            // Resolved by `Module::place` and when the kernel was laid out.
            Constant::Variable { .. }
            | Constant::StaticShared { .. }
            | Constant::DynamicShared { .. } => {}
        }
    }
}

fn special_value(special: Special, launch: &Launch, index: [u32; 3], thread: u32) -> u32 {
    let [x, y, _] = launch.block;
    let lane = thread % 32;
    match special {
        Special::Tid(0) => thread % x,
        Special::Tid(1) => thread / x % y,
        Special::Tid(_) => thread / x / y,
        Special::Ntid(axis) => launch.block[usize::from(axis)],
        Special::Ctaid(axis) => index[usize::from(axis)],
        Special::Nctaid(axis) => launch.grid[usize::from(axis)],
        Special::LaneId => lane,
        Special::WarpId => thread / 32,
        Special::WarpCount => launch.block.iter().product::<u32>().div_ceil(32),
        Special::SmId => launch.number(index) as u32 % device().multiprocessors,
        Special::SmCount => device().multiprocessors,
        Special::LaneMaskEq => 1 << lane,
        Special::LaneMaskLe => u32::MAX >> (31 - lane),
        Special::LaneMaskLt => (1 << lane) - 1,
        Special::LaneMaskGe => u32::MAX << lane,
        Special::LaneMaskGt => !(u32::MAX >> (31 - lane)),
        Special::EnvReg(1) => (launch.grid_workspace >> 32) as u32,
        Special::EnvReg(2) => launch.grid_workspace as u32,
        Special::ClusterCtaid(axis) => rank_in(launch, index)[usize::from(axis)],
        Special::ClusterNctaid(axis) => launch.cluster[usize::from(axis)],
        Special::ClusterCtaRank => {
            let ([i, j, k], [x, y, _]) = (rank_in(launch, index), launch.cluster);
            (k * y + j) * x + i
        }
        Special::ClusterNctaRank => launch.cluster.iter().product(),
        Special::ClusterId(axis) => {
            let axis = usize::from(axis);
            index[axis] / launch.cluster[axis]
        }
        Special::NclusterId(axis) => {
            let axis = usize::from(axis);
            launch.grid[axis] / launch.cluster[axis]
        }
        Special::GridId | Special::EnvReg(_) => 0,
        Special::DynamicSharedSize => launch.dynamic_shared,
        Special::TotalSharedSize => {
            let grain = device().capability.shared_grain;
            launch.shared_bytes().next_multiple_of(grain)
        }
    }
}

/// The place of a block in its cluster.
fn rank_in(launch: &Launch, index: [u32; 3]) -> [u32; 3] {
    std::array::from_fn(|axis| index[axis] % launch.cluster[axis])
}
