//! One warp: 32 threads in lock step, as far as they agree on where they are.
//!
//! Threads of a warp that are at the same instruction form a *fragment*. The fragment that is furthest back
//! in program order runs, until it reaches another (and merges) or takes a branch two ways (and splits).
//! NVRTC's program order is an order in which threads meet again after every branch.
//!
//! Three additions make this independent thread scheduling, as on Volta and later:
//! - `.sync` operations park a fragment until every thread that they name is there, or has left;
//! - a fragment that spins (many backward branches, or polling) gives way to the others;
//! - a block barrier counts the warp once all its threads are at it.

use super::isa::Handlers;
use super::memory::{self, Bytes, Memory, Thread, Trap};
use super::predicate::condition;
use super::registers::Registers;
use super::{atomic, lanes, print};
use crate::fault::FaultKind;
use crate::program::Kernel;
use crate::program::op::Op;
use crate::stats::Stats;

/// Threads of a warp at one instruction.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    pc: u32,
    mask: u32,
    /// Waits for other threads to arrive here.
    parked: bool,
    /// Has spun for long; others go first.
    tired: bool,
}

/// Why a warp stopped running.
pub(super) enum Pause {
    /// All threads have left.
    Finished,
    /// All threads are at the barrier at `pc`.
    Barrier { pc: u32 },
    /// It polls memory, waiting for another warp.
    Waiting,
}

/// A fault with the instruction and the threads that ran it.
pub(super) struct WarpFault {
    pub kind: FaultKind,
    pub pc: u32,
    pub lane: u32,
    pub mask: u32,
    /// Another instruction involved.
    pub other: Option<u32>,
}

/// Backward branches after which a fragment lets others run. Operations that poll count for many.
const PATIENCE: u32 = 1 << 16;
const POLL: u32 = 1 << 9;

#[derive(Default)]
pub(super) struct Warp {
    pub registers: Registers,
    pub local: Bytes,
    fragments: Vec<Fragment>,
    /// Threads that exist and have not left.
    live: u32,
    executed: u64,
    /// Backward branches and polls since the warp last let others run.
    effort: u32,
    /// Some of them were polls: loads, atomics or pauses by which a thread may wait for another.
    polled: bool,
    pub stats: Stats,
}

impl Warp {
    /// Makes the warp ready to run `kernel` from its start. `live` has a bit for each thread that exists.
    /// Constants and special registers stay as they are.
    pub(super) fn start(&mut self, kernel: &Kernel, live: u32) {
        self.registers
            .reset(kernel.planes, kernel.pinned_planes, kernel.predicates);
        self.local.reset(kernel.local_bytes as usize * 32, 0);
        self.fragments.clear();
        self.fragments.push(Fragment {
            pc: 0,
            mask: live,
            parked: false,
            tired: false,
        });
        self.live = live;
        self.executed = 0;
    }

    /// Threads that are at the barrier where this warp waits.
    pub(super) fn waiting(&self) -> u32 {
        self.live
    }

    /// Goes on behind the barrier.
    pub(super) fn pass_barrier(&mut self) {
        for fragment in &mut self.fragments {
            fragment.pc += 1;
            fragment.parked = false;
        }
    }

    /// Runs until the warp cannot go on by itself.
    pub(super) fn run(
        &mut self,
        kernel: &Kernel,
        memory: &mut Memory<'_>,
        handlers: &Handlers,
        budget: u64,
    ) -> Result<Pause, WarpFault> {
        self.effort = 0;
        self.polled = false;
        loop {
            let Some(fragment) = self.take_next() else {
                if self.fragments.is_empty() {
                    return Ok(Pause::Finished);
                }
                return Err(self.stuck(kernel));
            };
            match self.advance(kernel, memory, handlers, budget, fragment)? {
                Some(pause) => return Ok(pause),
                None => continue,
            }
        }
    }

    /// The runnable fragment that is furthest back. Tired ones only when all others are, too.
    fn take_next(&mut self) -> Option<Fragment> {
        let furthest_back = |fragments: &[Fragment], tired: bool| {
            let runnable = fragments
                .iter()
                .enumerate()
                .filter(|(_, f)| !f.parked && f.tired <= tired);
            runnable.min_by_key(|(_, f)| f.pc).map(|(i, _)| i)
        };
        let next = furthest_back(&self.fragments, false).or_else(|| {
            let any = furthest_back(&self.fragments, true);
            self.fragments.iter_mut().for_each(|f| f.tired = false);
            any
        })?;
        Some(self.fragments.swap_remove(next))
    }

    /// Puts a fragment back; threads at the same instruction become one.
    fn put(&mut self, fragment: Fragment) {
        match self.fragments.iter_mut().find(|f| f.pc == fragment.pc) {
            Some(there) => {
                there.mask |= fragment.mask;
                there.parked = false;
                there.tired = false;
            }
            None => self.fragments.push(fragment),
        }
    }

    /// The next instruction where another fragment waits.
    fn meeting_point(&self, pc: u32) -> u32 {
        self.fragments
            .iter()
            .map(|f| f.pc)
            .filter(|&other| other > pc)
            .min()
            .unwrap_or(u32::MAX)
    }

    /// Runs one fragment until it meets another, splits, parks, tires or ends.
    fn advance(
        &mut self,
        kernel: &Kernel,
        memory: &mut Memory<'_>,
        handlers: &Handlers,
        budget: u64,
        mut fragment: Fragment,
    ) -> Result<Option<Pause>, WarpFault> {
        let mut meeting = self.meeting_point(fragment.pc);
        loop {
            let pc = fragment.pc;
            if pc == meeting {
                self.put(fragment);
                return Ok(None);
            }
            let instruction = &kernel.code[pc as usize];
            let mask = match instruction.guard {
                None => fragment.mask,
                Some(guard) => fragment.mask & condition(&self.registers, guard),
            };
            let op = &instruction.op;
            self.executed += 1;
            self.stats.warp_instructions += 1;
            self.stats.lane_instructions += u64::from(mask.count_ones());
            let fault = |kind, lane| WarpFault {
                kind,
                pc,
                lane,
                mask,
                other: None,
            };
            match op {
                Op::IntUnary { .. }
                | Op::IntBinary { .. }
                | Op::IntTernary { .. }
                | Op::MadWide { .. }
                | Op::Count { .. }
                | Op::Bits { .. }
                | Op::BitExtract { .. }
                | Op::BitInsert { .. }
                | Op::SignExtend { .. }
                | Op::Carry { .. } => {
                    // SAFETY: `isa::handlers` chose handlers that this processor can run.
                    unsafe { (handlers.integer)(&mut self.registers, op, mask) }
                }
                Op::FloatUnary { .. }
                | Op::FloatBinary { .. }
                | Op::Fma { .. }
                | Op::FloatTest { .. } => {
                    // SAFETY: as above.
                    unsafe { (handlers.float)(&mut self.registers, op, mask) }
                }
                Op::Move { .. }
                | Op::Pack { .. }
                | Op::Unpack { .. }
                | Op::Convert { .. }
                | Op::ConvertPair { .. }
                | Op::Select { .. }
                | Op::SelectSign { .. }
                | Op::Cvta { .. }
                | Op::IsSpace { .. } => {
                    // SAFETY: as above.
                    unsafe { (handlers.data)(&mut self.registers, op, mask) }
                }
                Op::Compare { .. }
                | Op::CompareValue { .. }
                | Op::PredicateLogic { .. }
                | Op::PredicateMove { .. } => {
                    // SAFETY: as above.
                    unsafe { (handlers.predicate)(&mut self.registers, op, mask) }
                }
                Op::Load { access, .. } | Op::Store { access, .. } => {
                    if access.polling {
                        self.poll();
                    }
                    if mask != 0 {
                        let mut thread = self.thread(kernel, mask, pc);
                        // SAFETY: as above.
                        let result = unsafe { (handlers.memory)(&mut thread, memory, op) };
                        result.map_err(|trap| fault(trap.0, trap.1))?;
                    }
                }
                Op::Atomic { d, .. } => {
                    if d.is_some() {
                        self.poll();
                    }
                    if mask != 0 {
                        let mut thread = self.thread(kernel, mask, pc);
                        let result: Result<(), Trap> = atomic::execute(&mut thread, memory, op);
                        result.map_err(|trap| fault(trap.0, trap.1))?;
                    }
                }
                Op::Shuffle { .. }
                | Op::Vote { .. }
                | Op::Ballot { .. }
                | Op::MatchAny { .. }
                | Op::MatchAll { .. }
                | Op::Reduce { .. }
                | Op::Elect { .. }
                | Op::WarpBarrier { .. } => {
                    if mask != fragment.mask {
                        self.uncount(mask);
                        self.split_by_guard(fragment, mask);
                        return Ok(None);
                    }
                    let members = self.members(op);
                    if let Some(lane) =
                        (0..32).find(|&l| mask >> l & 1 != 0 && members[l as usize] >> l & 1 == 0)
                    {
                        let kind = FaultKind::MissingLanes {
                            members: members[lane as usize],
                            present: mask,
                        };
                        return Err(fault(kind, lane));
                    }
                    let complete = (0..32).all(|l| mask >> l & 1 == 0 || members[l] & !mask == 0);
                    if !complete {
                        if self.meet_elsewhere(kernel, op, mask, &members) {
                            self.put(Fragment {
                                pc: pc + 1,
                                ..fragment
                            });
                        } else {
                            self.uncount(mask);
                            self.put(Fragment {
                                parked: true,
                                ..fragment
                            });
                        }
                        return Ok(None);
                    }
                    lanes::execute(&mut self.registers, op, mask, &members);
                }
                Op::ActiveMask { d } => self.registers.write(*d, mask, &[mask; 32]),
                Op::Clock { wide, d } => {
                    let now = self.executed;
                    if *wide {
                        self.registers.write(*d, mask, &[now; 32]);
                    } else {
                        self.registers.write(*d, mask, &[now as u32; 32]);
                    }
                }
                Op::Nothing => {}
                Op::Yield => self.poll(),
                Op::Print {
                    d,
                    format,
                    arguments,
                } => {
                    let (format, arguments): ([u64; 32], [u64; 32]) = (
                        *self.registers.read(*format),
                        *self.registers.read(*arguments),
                    );
                    let mut written = [0u32; 32];
                    let mut thread = self.thread(kernel, mask, pc);
                    for lane in (0..32u32).filter(|lane| mask >> lane & 1 != 0) {
                        let at = lane as usize;
                        written[at] =
                            print::print(&mut thread, memory, format[at], arguments[at], lane);
                    }
                    if let Some(d) = d {
                        self.registers.write(*d, mask, &written);
                    }
                }
                Op::Branch { target } => {
                    if mask == 0 {
                        fragment.pc += 1;
                        continue;
                    }
                    let rest = fragment.mask & !mask;
                    if rest != 0 {
                        self.put(Fragment {
                            pc: *target,
                            mask,
                            ..fragment
                        });
                        self.put(Fragment {
                            pc: pc + 1,
                            mask: rest,
                            ..fragment
                        });
                        return Ok(None);
                    }
                    fragment.pc = *target;
                    if *target <= pc {
                        if self.executed > budget {
                            let kind = FaultKind::Runaway { budget };
                            return Err(fault(kind, mask.trailing_zeros()));
                        }
                        if let Some(pause) = self.tire(fragment) {
                            return Ok(pause);
                        }
                        meeting = self.meeting_point(fragment.pc);
                    }
                    // A jump forward may go past the meeting point: then this fragment waits there.
                    if fragment.pc > meeting {
                        self.put(fragment);
                        return Ok(None);
                    }
                    continue;
                }
                Op::BranchTable { table, index } => {
                    let targets = &kernel.branch_tables[*table as usize];
                    let index: [u32; 32] = *self.registers.read(*index);
                    let rest = fragment.mask & !mask;
                    if rest != 0 {
                        self.put(Fragment {
                            pc: pc + 1,
                            mask: rest,
                            ..fragment
                        });
                    }
                    let mut backward = false;
                    for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
                        // PTX leaves an index out of range open; here it takes the last target.
                        let target = targets[(index[lane] as usize).min(targets.len() - 1)];
                        backward |= target <= pc;
                        self.put(Fragment {
                            pc: target,
                            mask: 1 << lane,
                            ..fragment
                        });
                    }
                    if backward && self.executed > budget {
                        let kind = FaultKind::Runaway { budget };
                        return Err(fault(kind, mask.trailing_zeros() & 31));
                    }
                    self.effort += u32::from(backward);
                    return Ok(None);
                }
                Op::Exit => {
                    self.live &= !mask;
                    // Whoever waits for these threads need not any more.
                    self.fragments.iter_mut().for_each(|f| f.parked = false);
                    fragment.mask &= !mask;
                    if fragment.mask == 0 {
                        return Ok(None);
                    }
                }
                Op::Barrier { .. } => {
                    if mask != fragment.mask {
                        self.uncount(mask);
                        self.split_by_guard(fragment, mask);
                        return Ok(None);
                    }
                    self.put(Fragment {
                        parked: true,
                        ..fragment
                    });
                    if mask == self.live {
                        return Ok(Some(Pause::Barrier { pc }));
                    }
                    self.uncount(mask);
                    return Ok(None);
                }
                Op::Trap => {
                    if mask != 0 {
                        return Err(fault(FaultKind::Trap, mask.trailing_zeros()));
                    }
                }
                Op::AssertFail {
                    message,
                    file,
                    line,
                } => {
                    if mask != 0 {
                        let lane = mask.trailing_zeros();
                        let at = lane as usize;
                        let (message, file): (u64, u64) = (
                            self.registers.read(*message)[at],
                            self.registers.read(*file)[at],
                        );
                        let line: u32 = self.registers.read(*line)[at];
                        let mut thread = self.thread(kernel, mask, pc);
                        let message = memory::text(&mut thread, memory, message, lane);
                        let file = memory::text(&mut thread, memory, file, lane);
                        // The virtual root of workspace files is taken off, as in a fault's source.
                        let place = format!("{}:{line}", file.strip_prefix("/k/").unwrap_or(&file));
                        return Err(fault(FaultKind::Assertion { message, place }, lane));
                    }
                }
                Op::Unknown { text } => {
                    if mask != 0 {
                        let text = kernel.texts[*text as usize].clone();
                        return Err(fault(
                            FaultKind::UnknownInstruction { text },
                            mask.trailing_zeros(),
                        ));
                    }
                }
            }
            fragment.pc += 1;
        }
    }

    /// A thread may be waiting for another.
    fn poll(&mut self) {
        self.effort += POLL;
        self.polled = true;
    }

    /// Counts a backward branch. After many, other threads get their turn: those of the warp, and, if this one may be
    /// waiting for them, those of other warps.
    fn tire(&mut self, fragment: Fragment) -> Option<Option<Pause>> {
        self.effort += 1;
        if self.effort <= PATIENCE {
            return None;
        }
        self.effort = 0;
        let alone = self.fragments.iter().all(|f| f.parked || f.tired);
        let waiting = alone && self.polled;
        self.put(Fragment {
            tired: true,
            ..fragment
        });
        Some(waiting.then_some(Pause::Waiting))
    }

    /// Where the warp is: that of its fragments which is furthest back, and its threads.
    pub(super) fn position(&self) -> (u32, u32) {
        let first = self.fragments.iter().min_by_key(|f| f.pc);
        first.map_or((0, 0), |f| (f.pc, f.mask))
    }

    fn thread<'w>(&'w mut self, kernel: &Kernel, mask: u32, pc: u32) -> Thread<'w> {
        Thread {
            registers: &mut self.registers,
            local: &mut self.local,
            local_bytes: kernel.local_bytes,
            mask,
            pc,
        }
    }

    /// An instruction that will run again did not count.
    fn uncount(&mut self, mask: u32) {
        self.executed -= 1;
        self.stats.warp_instructions -= 1;
        self.stats.lane_instructions -= u64::from(mask.count_ones());
    }

    /// Threads whose guard is false go on; the others come back to this instruction as a fragment of their own.
    fn split_by_guard(&mut self, fragment: Fragment, mask: u32) {
        let rest = fragment.mask & !mask;
        self.put(Fragment {
            pc: fragment.pc + 1,
            mask: rest,
            ..fragment
        });
        if mask != 0 {
            self.put(Fragment { mask, ..fragment });
        }
    }

    /// Each lane's member mask, without threads that have left.
    fn members(&self, op: &Op) -> [u32; 32] {
        match lanes::members_of(op) {
            Some(r) => self
                .registers
                .read::<u32>(r)
                .map(|members| members & self.live),
            None => [self.live; 32],
        }
    }

    /// Threads may meet at different `bar.warp.sync` instructions, if they name the same threads. If all of them are
    /// there now, those that wait elsewhere go on, and so may `mask`.
    fn meet_elsewhere(&mut self, kernel: &Kernel, op: &Op, mask: u32, members: &[u32; 32]) -> bool {
        let Op::WarpBarrier { .. } = op else {
            return false;
        };
        let wanted = members[mask.trailing_zeros() as usize & 31];
        let names_the_same = |mask: u32, members: &[u32; 32]| {
            (0..32).all(|l| mask >> l & 1 == 0 || members[l] == wanted)
        };
        let waits = |f: &Fragment| {
            let op = &kernel.code[f.pc as usize].op;
            let barrier = matches!(op, Op::WarpBarrier { .. });
            f.parked && barrier && names_the_same(f.mask, &self.members(op))
        };
        let there: Vec<bool> = self.fragments.iter().map(waits).collect();
        let arrived = self
            .fragments
            .iter()
            .zip(&there)
            .filter(|(_, there)| **there)
            .fold(mask, |all, (f, _)| all | f.mask);
        if wanted & !arrived != 0 || !names_the_same(mask, members) {
            return false;
        }
        for (fragment, there) in std::mem::take(&mut self.fragments).into_iter().zip(there) {
            let step = u32::from(there);
            self.put(Fragment {
                pc: fragment.pc + step,
                parked: fragment.parked && !there,
                ..fragment
            });
        }
        true
    }

    /// Every fragment waits for threads that will not come.
    fn stuck(&self, kernel: &Kernel) -> WarpFault {
        let at_barrier =
            |f: &&Fragment| matches!(kernel.code[f.pc as usize].op, Op::Barrier { .. });
        let barrier = self.fragments.iter().find(at_barrier);
        let first = self.fragments.iter().min_by_key(|f| f.pc);
        let waiting = barrier.or(first).copied().unwrap_or(Fragment {
            pc: 0,
            mask: 0,
            parked: true,
            tired: false,
        });
        let other = self
            .fragments
            .iter()
            .find(|f| f.pc != waiting.pc)
            .map(|f| f.pc);
        let lane = waiting.mask.trailing_zeros() & 31;
        let kind = if barrier.is_some() {
            FaultKind::DivergentBarrier { other: None }
        } else {
            let members = self.members(&kernel.code[waiting.pc as usize].op)[lane as usize];
            FaultKind::MissingLanes {
                members,
                present: waiting.mask,
            }
        };
        WarpFault {
            kind,
            pc: waiting.pc,
            lane,
            mask: waiting.mask,
            other,
        }
    }
}
