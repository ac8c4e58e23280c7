//! One warp: 32 threads in lock step, as far as they agree on where they are.
//!
//! Threads of a warp that are at the same instruction form a *fragment*. The fragment that is
//! furthest back in program order runs, until it reaches another (and merges) or takes a branch two
//! ways (and splits). NVRTC's program order is an order in which threads meet again after every
//! branch.
//!
//! Four additions make this independent thread scheduling, as on Volta and later:
//! - `.sync` operations park threads until every thread that they name is there and names the same
//!   ones, or has left;
//! - a fragment that spins (many backward branches, or polling) gives way to the others;
//! - a fragment whose `try_wait` for an mbarrier is in vain rests there until the phase is over, or
//!   until nothing else goes on in the block;
//! - a block barrier counts the warp once all its threads are at it.

mod control;
mod convergence;
mod fragments;
mod loaded_unset;
mod meeting;
mod polling;
mod products;
mod unset_registers;

use std::ops::ControlFlow;

use self::fragments::{Fragment, Rest};
use self::loaded_unset::LoadedUnset;
use self::products::Products;
use self::unset_registers::Unset;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::aligned_bytes::Bytes;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{Trap, WarpFault};
use crate::exec::operations::dispatch::{Handlers, Transfer};
use crate::exec::operations::predicate::condition;
use crate::exec::operations::{async_copy, atomic, bulk_copy, load_store, mbarrier, print};
use crate::exec::registers::Registers;
use crate::fault::FaultKind;
use crate::program::Kernel;
use crate::program::instruction::Instruction;
use crate::program::op::{
    Access, MbarrierOp, MemorySpace, Op, between_lanes, matrix_operations, on_registers,
};
use convergence::Disagreement;

/// Why a warp stopped running.
pub(crate) enum Pause {
    /// All threads have left.
    Finished,
    /// All threads are at the barrier at `pc`.
    Barrier { pc: u32 },
    /// All threads are at the product of a warpgroup at `pc`.
    Product { pc: u32 },
    /// It polls memory, waiting for another warp.
    Waiting,
}

/// Position of a warp, and its registers.
#[derive(PartialEq)]
pub(crate) struct WarpState {
    fragments: Vec<Fragment>,
    registers: Registers,
}

/// Least number of operations of one form in a row that one call runs together.
const MANY_ALIKE: u32 = 8;

/// Backward branches after which a fragment lets others run.
const PATIENCE: u32 = 1 << 16;

/// One operation, for the threads of a fragment that its guard lets run it.
#[derive(Clone, Copy)]
struct Step<'a> {
    kernel: &'a Kernel,
    handlers: &'a Handlers,
    /// Instructions that the warp may run.
    budget: u64,
    op: &'a Op,
    pc: u32,
    mask: u32,
}

impl Step<'_> {
    /// A fault of the first thread.
    fn fault(&self, kind: FaultKind) -> WarpFault {
        self.fault_of_lane(kind, self.mask.trailing_zeros())
    }

    fn fault_of_lane(&self, kind: FaultKind, lane: u32) -> WarpFault {
        WarpFault {
            kind,
            pc: self.pc,
            lane,
            mask: self.mask,
            other: None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Warp {
    pub registers: Registers,
    pub local: Bytes,
    /// For each byte of local memory, 1 if it was written.
    local_written: Bytes,
    /// Number of the warp in its block.
    number: usize,
    is_traced: bool,
    fragments: Vec<Fragment>,
    /// Threads that exist and have not left.
    live: u32,
    /// Unset lanes of each register that may be used unset.
    unset: Vec<Unset>,
    /// Bytes of registers that were loaded from memory that nobody wrote; `None` while there are
    /// none.
    loaded_unset: Option<Box<LoadedUnset>>,
    /// Products of its warpgroup, if accesses to their registers are checked.
    products: Products,
    executed: u64,
    /// Backward branches and polls since the warp last let others run.
    effort: u32,
    /// Some of them were polls: loads, atomics or pauses by which a thread may wait for another.
    polled: bool,
    /// It has read what may change while the block waits: memory that it polls, or the clock.
    reads_outside: bool,
    /// Instruction at which the warp has last asked whether a phase of an mbarrier is over, since
    /// it last let others run.
    phase_wait: Option<u32>,
    /// Its threads do not rest at a `try_wait` any more.
    is_restless: bool,
    /// A lane that waits at a `.sync` operation for another one, which has run it with a different
    /// mask.
    disagreement: Option<Disagreement>,
}

impl Warp {
    /// Makes the warp ready to run `kernel` from its start. `live` has a bit for each thread that
    /// exists. Constants and special registers stay as they are.
    pub(crate) fn start(&mut self, kernel: &Kernel, number: usize, live: u32) {
        // Where no register may be read before it is set, what the warp of an earlier block left is
        // never seen.
        let kept = match kernel.tracked {
            0 => kernel.planes,
            _ => kernel.pinned_planes,
        };
        self.registers.reset(kernel.planes, kept, kernel.predicates);
        self.number = number;
        self.local.reset(kernel.local_bytes as usize * 32, 0xff);
        self.local_written
            .reset(kernel.local_bytes as usize * 32, 0);
        self.fragments.clear();
        self.fragments.push(Fragment {
            pc: 0,
            mask: live,
            parked: false,
            tired: false,
            rest: Rest::No,
        });
        self.live = live;
        self.unset.clear();
        self.unset.resize(kernel.tracked as usize, Unset::ALL);
        self.loaded_unset = None;
        self.products.start();
        self.executed = 0;
        self.phase_wait = None;
        self.is_restless = false;
        self.disagreement = None;
    }

    /// Threads that are at the barrier where this warp waits.
    pub(crate) fn waiting(&self) -> u32 {
        self.live
    }

    /// Goes on behind the barrier.
    pub(crate) fn pass_barrier(&mut self) {
        for fragment in &mut self.fragments {
            fragment.pc += 1;
            fragment.parked = false;
        }
    }

    /// Runs until the warp cannot go on by itself. If it `is_traced`, the host thread's tracer
    /// records what it does.
    pub(crate) fn run(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        handlers: &Handlers,
        budget: u64,
        is_traced: bool,
    ) -> Result<Pause, WarpFault> {
        self.is_traced = is_traced;
        self.effort = 0;
        self.polled = false;
        self.reads_outside = false;
        self.phase_wait = None;
        loop {
            let Some(fragment) = self.take_next() else {
                if self.fragments.is_empty() {
                    return Ok(Pause::Finished);
                }
                return Err(self.stuck(kernel));
            };
            if self.loaded_unset.as_ref().is_some_and(|u| u.is_empty()) {
                self.loaded_unset = None;
            }
            let has_products = worker.checks.enabled && !kernel.accumulators.is_empty();
            let paused = if is_traced || self.loaded_unset.is_some() || has_products {
                self.advance::<true>(kernel, worker, handlers, budget, fragment)?
            } else {
                self.advance::<false>(kernel, worker, handlers, budget, fragment)?
            };
            if is_traced && let Some(tracer) = &mut worker.tracer {
                tracer.rest(self.number, &worker.memory);
            }
            match paused {
                Some(pause) => return Ok(pause),
                None if worker.is_stopped() => return Ok(Pause::Waiting),
                None => continue,
            }
        }
    }

    /// Runs one fragment until it meets another, splits, parks, tires or ends. `OBSERVED`: one
    /// operation at a time, because the warp is traced or has unset bytes in its registers, or,
    /// many at a time, because registers of products are kept watch over; without it, the fragment
    /// also stops behind a load that gets such bytes.
    fn advance<const OBSERVED: bool>(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
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
            if OBSERVED && self.is_traced {
                self.trace(kernel, worker, fragment, mask);
            }
            if instruction.counts > 0 {
                self.count(worker, pc, mask, instruction.counts);
            }
            let step = Step {
                kernel,
                handlers,
                budget,
                op,
                pc,
                mask,
            };
            if OBSERVED && self.loaded_unset.is_some() {
                let meets = matches!(
                    op,
                    between_lanes!() | matrix_operations!() | Op::WarpgroupProduct(_)
                );
                if !meets {
                    self.follow_unset(worker, step)?;
                }
                if let Some(guard) = instruction.guard {
                    self.follow_unset_guard(worker, step, guard, fragment.mask)?;
                }
            }
            if instruction.run > 0 {
                let one_by_one = OBSERVED && (self.is_traced || self.loaded_unset.is_some());
                let end = pc + if one_by_one { 1 } else { instruction.run };
                if OBSERVED && worker.checks.enabled && mask != 0 {
                    let concerned = |at: &u32| kernel.code[*at as usize].concerns_products;
                    for at in (pc..end).filter(concerned) {
                        self.follow_products(kernel, at, mask)?;
                    }
                }
                let run = &kernel.code[pc as usize..end as usize];
                if one_by_one {
                    self.compute::<true>(handlers, run, mask);
                } else {
                    self.compute::<false>(handlers, run, mask);
                }
                fragment.pc = end;
                continue;
            }
            if OBSERVED && instruction.concerns_products && worker.checks.enabled && mask != 0 {
                self.follow_products(kernel, pc, mask)?;
            }
            match op {
                on_registers!() => unreachable!("only changes registers: has a form"),
                Op::Load {
                    access, address, ..
                } => {
                    let handler = match address.space {
                        MemorySpace::Shared if access.is_plain_words() => handlers.load_shared,
                        MemorySpace::Global if access.is_plain_words() => handlers.load_global,
                        MemorySpace::Param => handlers.load_param,
                        _ => load_store::execute as Transfer,
                    };
                    let transferred = self.transfer(worker, step, access, handler);
                    let loaded = worker.checks.loaded.take();
                    transferred?;
                    if let Some(loaded) = loaded {
                        self.note_unset(worker, step, &loaded);
                        if !OBSERVED {
                            self.put(fragment.at(pc + 1));
                            return Ok(None);
                        }
                    }
                }
                Op::Store {
                    access, address, ..
                } => {
                    let handler = match address.space {
                        MemorySpace::Shared if access.is_plain_words() => handlers.store_shared,
                        MemorySpace::Global if access.is_plain_words() => handlers.store_global,
                        _ => load_store::execute as Transfer,
                    };
                    self.transfer(worker, step, access, handler)?;
                    if OBSERVED {
                        self.store_unset(worker, step);
                    }
                }
                Op::Atomic { returns, .. } => {
                    if *returns {
                        self.poll_memory();
                    }
                    self.access(worker, step, |warp, worker| {
                        atomic::execute(warp, worker, op)
                    })?;
                }
                Op::Mbarrier(op) => {
                    let again = fragment.rest != Rest::No;
                    if again {
                        self.uncount(worker, pc, mask);
                    }
                    if let MbarrierOp::Wait { .. } = op.op {
                        self.poll();
                        self.phase_wait = Some(pc);
                    }
                    self.access(worker, step, |warp, worker| {
                        mbarrier::execute(warp, worker, op, again)
                    })?;
                    if self.must_rest(op, mask, fragment.rest) {
                        return Ok(self.rest(fragment));
                    }
                    fragment.rest = Rest::No;
                }
                Op::CopyAsync(copy) => self.access(worker, step, |warp, worker| {
                    async_copy::execute(warp, worker, copy)
                })?,
                Op::CopyCommit => {
                    worker.copies.commit(self.number);
                    if worker.checks.enabled {
                        worker.checks.shared.copies.commit(self.number, mask);
                    }
                }
                Op::CopyWait { newest } => {
                    let warp = self.active(kernel, mask, pc);
                    let result = async_copy::wait(&warp, worker, *newest);
                    result.map_err(|trap| WarpFault::new(*trap, pc, mask))?;
                }
                Op::BulkCopy(copy) => self.access(worker, step, |warp, worker| {
                    bulk_copy::execute(warp, worker, copy)
                })?,
                Op::BulkCommit => {
                    if worker.checks.enabled {
                        worker.copies.bulk.commit(self.number, mask);
                    }
                }
                Op::BulkWait { newest, only_reads } => {
                    let warp = self.active(kernel, mask, pc);
                    bulk_copy::wait(&warp, worker, *newest, *only_reads);
                }
                Op::WarpgroupProduct(_) => return self.come_to_product(worker, step, fragment),
                between_lanes!() | matrix_operations!() => {
                    if !self.meet(worker, step, fragment)? {
                        return Ok(None);
                    }
                    if !OBSERVED && self.loaded_unset.is_some() {
                        self.put(fragment.at(pc + 1));
                        return Ok(None);
                    }
                }
                Op::ActiveMask { d } => self.registers.write(*d, mask, &[mask; 32]),
                Op::Clock { wide, d } => {
                    self.reads_outside = true;
                    let now = self.executed;
                    if *wide {
                        self.registers.write(*d, mask, &[now; 32]);
                    } else {
                        self.registers.write(*d, mask, &[now as u32; 32]);
                    }
                }
                Op::Fence(fence) => {
                    if mask != 0 {
                        worker.checks.fence(self.number, *fence);
                    }
                }
                Op::ClusterBarrier { .. } | Op::SetMaxRegisters { .. } => {
                    let met = self.come_to_resource(worker, step, fragment)?;
                    if let ControlFlow::Break(pause) = met {
                        return Ok(pause);
                    }
                }
                Op::Nothing | Op::Accumulators(_) => {}
                Op::Yield => self.poll(),
                Op::Print {
                    d,
                    format,
                    arguments,
                } => {
                    let mut warp = self.active(kernel, mask, pc);
                    print::execute(&mut warp, &worker.memory, *d, *format, *arguments);
                }
                Op::Branch { target } => {
                    match self.branch(worker, step, &mut fragment, &mut meeting, *target)? {
                        ControlFlow::Continue(()) => continue,
                        ControlFlow::Break(pause) => return Ok(pause),
                    }
                }
                Op::BranchTable { table, index } => {
                    self.branch_by_table(worker, step, fragment, *table, *index)?;
                    return Ok(None);
                }
                Op::Exit => {
                    self.leave(&mut fragment, mask)?;
                    if fragment.mask == 0 {
                        return Ok(None);
                    }
                }
                Op::Barrier { .. } => return Ok(self.come_to_barrier(worker, step, fragment)),
                Op::Trap => {
                    if mask != 0 {
                        return Err(step.fault(FaultKind::Trap));
                    }
                }
                Op::AssertFail {
                    message,
                    file,
                    line,
                } => {
                    if mask != 0 {
                        let warp = self.active(kernel, mask, pc);
                        let kind = print::assertion(&warp, &worker.memory, *message, *file, *line);
                        return Err(step.fault(kind));
                    }
                }
                Op::Track(tracking) => {
                    if worker.checks.enabled
                        && let Some(unset) = self.track(kernel, worker, tracking, mask, pc)
                    {
                        return Err(step.fault_of_lane(FaultKind::UninitialisedRegister, unset));
                    }
                }
                Op::Unknown { text } => {
                    if mask != 0 {
                        return Err(step.fault(kernel.unsupported[*text as usize].fault()));
                    }
                }
            }
            fragment.pc += 1;
        }
    }

    /// Counts the `operations` that this one counts for, for the threads in `mask`.
    #[inline(always)]
    fn count(&mut self, worker: &mut HostThread<'_>, pc: u32, mask: u32, operations: u32) {
        self.executed += u64::from(operations);
        let tally = &mut worker.counters.tallies.instructions[pc as usize];
        tally.warps += 1;
        // Counting bits takes a while without an instruction for it, and most masks are full.
        tally.lanes += match mask {
            u32::MAX => 32,
            mask => u64::from(mask.count_ones()),
        };
    }

    /// Runs operations that only change registers: one by one, or many of one form in one call.
    #[inline(always)]
    fn compute<const OBSERVED: bool>(
        &mut self,
        handlers: &Handlers,
        mut run: &[Instruction],
        mask: u32,
    ) {
        let registers = &mut self.registers;
        while let [first, rest @ ..] = run {
            let Some(form) = first.form else {
                unreachable!("in a run, all operations have a form")
            };
            if OBSERVED || first.alike < MANY_ALIKE {
                // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
                unsafe { (handlers.compute[form as usize])(registers, &first.op, mask) }
                run = rest;
            } else {
                let (alike, others) = run.split_at(first.alike as usize);
                // SAFETY: as above, and these are the operations of that form.
                unsafe { (handlers.compute_alike[form as usize])(registers, alike, mask) }
                run = others;
            }
        }
    }

    /// Runs a load or store.
    #[inline(always)]
    fn transfer(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        access: &Access,
        handler: Transfer,
    ) -> Result<(), WarpFault> {
        if access.order.is_strong() {
            self.poll_memory();
        }
        self.access(worker, step, |warp, worker| {
            // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
            unsafe { handler(warp, worker, step.op) }
        })
    }

    /// Has `execute` access memory for the threads of the step, if there are any.
    #[inline(always)]
    fn access(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        execute: impl FnOnce(&mut ActiveWarp<'_>, &mut HostThread<'_>) -> Result<(), Trap>,
    ) -> Result<(), WarpFault> {
        if step.mask == 0 {
            return Ok(());
        }
        let mut warp = self.active(step.kernel, step.mask, step.pc);
        execute(&mut warp, worker).map_err(|trap| WarpFault::new(*trap, step.pc, step.mask))
    }

    /// Tells the tracer of the instruction that a fragment is about to run, for the threads in
    /// `mask`.
    #[cold]
    fn trace(&mut self, kernel: &Kernel, worker: &mut HostThread<'_>, at: Fragment, mask: u32) {
        let op = &kernel.code[at.pc as usize].op;
        let is_barrier = matches!(
            op,
            Op::Barrier { .. }
                | Op::ClusterBarrier { .. }
                | Op::WarpgroupProduct(_)
                | Op::SetMaxRegisters { .. }
        );
        // Threads that are the first at a barrier will be at it again with the others.
        if is_barrier && at.mask != self.live {
            return;
        }
        if let Some(tracer) = &mut worker.tracer {
            let warp = self.active(kernel, mask, at.pc);
            tracer.begin(&warp, &worker.memory, at.mask, is_barrier);
        }
    }

    pub(crate) fn active<'w>(&'w mut self, kernel: &Kernel, mask: u32, pc: u32) -> ActiveWarp<'w> {
        ActiveWarp {
            registers: &mut self.registers,
            local: &mut self.local,
            local_written: &mut self.local_written,
            number: self.number,
            local_bytes: kernel.local_bytes,
            mask,
            pc,
        }
    }

    /// An instruction that will run again did not count.
    fn uncount(&mut self, worker: &mut HostThread<'_>, pc: u32, mask: u32) {
        self.executed -= 1;
        let tally = &mut worker.counters.tallies.instructions[pc as usize];
        tally.warps -= 1;
        tally.lanes -= u64::from(mask.count_ones());
    }
}
