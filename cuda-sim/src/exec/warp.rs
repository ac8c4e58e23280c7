//! One warp: 32 threads in lock step, as far as they agree on where they are.
//!
//! Threads of a warp that are at the same instruction form a *fragment*. The fragment that is furthest back
//! in program order runs, until it reaches another (and merges) or takes a branch two ways (and splits).
//! NVRTC's program order is an order in which threads meet again after every branch.
//!
//! Three additions make this independent thread scheduling, as on Volta and later:
//! - `.sync` operations park threads until every thread that they name is there and names the same ones, or has left;
//! - a fragment that spins (many backward branches, or polling) gives way to the others;
//! - a block barrier counts the warp once all its threads are at it.

mod convergence;
mod fragments;
mod unset_registers;

use self::fragments::Fragment;
use self::unset_registers::Unset;
use crate::ablation;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::aligned_bytes::Bytes;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{Trap, WarpFault};
use crate::exec::operations::dispatch::{Handlers, Transfer};
use crate::exec::operations::lanes::Members;
use crate::exec::operations::predicate::condition;
use crate::exec::operations::{async_copy, atomic, load_store, matrix_rows, mbarrier, print};
use crate::exec::registers::Registers;
use crate::fault::FaultKind;
use crate::program::Kernel;
use crate::program::op::{
    Access, MbarrierOp, MemorySpace, Op, between_lanes, of_matrices, on_registers,
};
use convergence::Disagreement;

/// Why a warp stopped running.
pub(crate) enum Pause {
    /// All threads have left.
    Finished,
    /// All threads are at the barrier at `pc`.
    Barrier { pc: u32 },
    /// It polls memory, waiting for another warp.
    Waiting,
}

/// Where a warp is, and what its registers hold.
#[derive(PartialEq)]
pub(crate) struct WarpState {
    fragments: Vec<Fragment>,
    registers: Registers,
}

/// Least number of operations of one form in a row that one call runs together.
const MANY_ALIKE: u32 = 8;

/// Backward branches after which a fragment lets others run. Operations that poll count for many.
const PATIENCE: u32 = 1 << 16;
const POLL: u32 = 1 << 9;

#[derive(Default)]
pub(crate) struct Warp {
    pub registers: Registers,
    pub local: Bytes,
    /// For each byte of local memory, 1 if it was written.
    local_written: Bytes,
    /// Number of the warp in its block.
    number: usize,
    fragments: Vec<Fragment>,
    /// Threads that exist and have not left.
    live: u32,
    /// What is unset of each of the registers that may be used unset.
    unset: Vec<Unset>,
    executed: u64,
    /// Backward branches and polls since the warp last let others run.
    effort: u32,
    /// Some of them were polls: loads, atomics or pauses by which a thread may wait for another.
    polled: bool,
    /// It has read what may change while the block waits: memory that it polls, or the clock.
    reads_outside: bool,
    /// Where the warp has last asked whether a phase of an mbarrier is over, since it last let others run.
    phase_wait: Option<u32>,
    /// A lane that waits at a `.sync` operation for another one, which has run it with a different mask.
    disagreement: Option<Disagreement>,
}

impl Warp {
    /// Makes the warp ready to run `kernel` from its start. `live` has a bit for each thread that exists.
    /// Constants and special registers stay as they are.
    pub(crate) fn start(&mut self, kernel: &Kernel, number: usize, live: u32) {
        // Where no register may be read before it is set, what the warp of an earlier block left is never seen.
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
        });
        self.live = live;
        self.unset.clear();
        self.unset.resize(kernel.tracked as usize, Unset::ALL);
        self.executed = 0;
        self.phase_wait = None;
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

    /// Runs until the warp cannot go on by itself. `TRACED`: the host thread's tracer records what it does.
    pub(crate) fn run<const TRACED: bool>(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        handlers: &Handlers,
        budget: u64,
    ) -> Result<Pause, WarpFault> {
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
            let paused = self.advance::<TRACED>(kernel, worker, handlers, budget, fragment)?;
            if TRACED && let Some(tracer) = &mut worker.tracer {
                tracer.rest(self.number, &worker.memory);
            }
            match paused {
                Some(pause) => return Ok(pause),
                None if worker.is_stopped() => return Ok(Pause::Waiting),
                None => continue,
            }
        }
    }

    /// Runs one fragment until it meets another, splits, parks, tires or ends.
    fn advance<const TRACED: bool>(
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
            if TRACED {
                self.trace(kernel, worker, fragment, mask);
            }
            if instruction.counts > 0 {
                self.executed += u64::from(instruction.counts);
                let tally = &mut worker.counters.tallies.instructions[pc as usize];
                tally.warps += 1;
                // Counting bits takes a while without an instruction for it, and most masks are full.
                tally.lanes += match mask {
                    u32::MAX => 32,
                    mask => u64::from(mask.count_ones()),
                };
            }
            let fault = |kind, lane| WarpFault {
                kind,
                pc,
                lane,
                mask,
                other: None,
            };
            if instruction.run > 0 {
                let end = pc + if TRACED { 1 } else { instruction.run };
                let mut run = &kernel.code[pc as usize..end as usize];
                let registers = &mut self.registers;
                while let [first, rest @ ..] = run {
                    let Some(form) = first.form else {
                        unreachable!("in a run, all operations have a form")
                    };
                    if TRACED || first.alike < MANY_ALIKE {
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
                fragment.pc = end;
                continue;
            }
            match op {
                on_registers!() => unreachable!("only changes registers: has a form"),
                Op::Load {
                    access, address, ..
                } => {
                    let are_words = ablation::WORD_ACCESS && access.is_plain_words();
                    let handler = match address.space {
                        MemorySpace::Shared if are_words => handlers.load_shared,
                        MemorySpace::Global if are_words => handlers.load_global,
                        MemorySpace::Param if ablation::PARAMETERS => handlers.load_param,
                        _ => load_store::execute as Transfer,
                    };
                    self.transfer(kernel, worker, handler, op, access, mask, pc)?;
                }
                Op::Store {
                    access, address, ..
                } => {
                    let are_words = ablation::WORD_ACCESS && access.is_plain_words();
                    let handler = match address.space {
                        MemorySpace::Shared if are_words => handlers.store_shared,
                        MemorySpace::Global if are_words => handlers.store_global,
                        _ => load_store::execute as Transfer,
                    };
                    self.transfer(kernel, worker, handler, op, access, mask, pc)?;
                }
                Op::Atomic { returns, .. } => {
                    if *returns {
                        self.poll_memory();
                    }
                    if mask != 0 {
                        let mut warp = self.active(kernel, mask, pc);
                        let result: Result<(), Trap> = atomic::execute(&mut warp, worker, op);
                        result.map_err(|trap| WarpFault::new(*trap, pc, mask))?;
                    }
                }
                Op::Mbarrier(op) => {
                    if let MbarrierOp::Wait { .. } = op.op {
                        self.poll();
                        self.phase_wait = Some(pc);
                    }
                    if mask != 0 {
                        let mut warp = self.active(kernel, mask, pc);
                        let result = mbarrier::execute(&mut warp, worker, op);
                        result.map_err(|trap| WarpFault::new(*trap, pc, mask))?;
                    }
                }
                Op::CopyAsync(copy) => {
                    if mask != 0 {
                        let mut warp = self.active(kernel, mask, pc);
                        let result = async_copy::execute(&mut warp, worker, copy);
                        result.map_err(|trap| WarpFault::new(*trap, pc, mask))?;
                    }
                }
                Op::CopyCommit => {
                    if worker.checks.enabled {
                        worker.checks.shared.copies.commit(self.number, mask);
                    }
                }
                Op::CopyWait { newest } => {
                    let warp = self.active(kernel, mask, pc);
                    let result = async_copy::wait(&warp, worker, *newest);
                    result.map_err(|trap| WarpFault::new(*trap, pc, mask))?;
                }
                between_lanes!() | of_matrices!() => {
                    if mask != fragment.mask {
                        self.uncount(worker, pc, mask);
                        self.split_by_guard(fragment, mask);
                        return Ok(None);
                    }
                    let members = self.members(op);
                    if let Some(lane) = members.stranger(mask) {
                        let kind = FaultKind::MissingLanes {
                            members: members.of(lane),
                            present: mask,
                        };
                        return Err(fault(kind, lane));
                    }
                    let ready = members.complete_in(mask);
                    if ready != 0 && op.accesses_matrix() {
                        self.sync(worker, ready, &members);
                        let mut warp = self.active(kernel, ready, pc);
                        matrix_rows::execute(&mut warp, worker, op)
                            .map_err(|trap| WarpFault::new(*trap, pc, ready))?;
                    } else if ready != 0 {
                        self.exchange(worker, handlers, op, ready, mask, &members)
                            .map_err(|(kind, lane)| fault(kind, lane))?;
                    }
                    if ready != mask {
                        self.hold_back(kernel, worker, op, fragment, ready, &members);
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
                Op::Fence { device } => {
                    if mask != 0 {
                        worker.checks.fence(self.number, *device);
                    }
                }
                Op::Nothing => {}
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
                    if mask == 0 {
                        fragment.pc += 1;
                        continue;
                    }
                    let rest = fragment.mask & !mask;
                    if rest != 0 {
                        worker.counters.tallies.instructions[pc as usize].splits += 1;
                        self.put(fragment.at(*target).of(mask));
                        self.put(fragment.at(pc + 1).of(rest));
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
                    if let Some((lane, index)) = self.beyond_table(mask, targets.len(), *index) {
                        let targets = targets.len() as u32;
                        return Err(fault(FaultKind::BadBranch { index, targets }, lane));
                    }
                    let jump = self.branch_by_lane(fragment, mask, targets, *index);
                    worker.counters.tallies.instructions[pc as usize].splits +=
                        u64::from(jump.splits);
                    if jump.backward && self.executed > budget {
                        let kind = FaultKind::Runaway { budget };
                        return Err(fault(kind, mask.trailing_zeros() & 31));
                    }
                    self.effort += u32::from(jump.backward);
                    return Ok(None);
                }
                Op::Exit => {
                    self.live &= !mask;
                    if let Some(fault) = self.left_behind(mask) {
                        return Err(fault);
                    }
                    // Whoever waits for these threads need not any more.
                    self.fragments.iter_mut().for_each(|f| f.parked = false);
                    fragment.mask &= !mask;
                    if fragment.mask == 0 {
                        return Ok(None);
                    }
                }
                Op::Barrier { .. } => {
                    if mask != fragment.mask {
                        self.uncount(worker, pc, mask);
                        self.split_by_guard(fragment, mask);
                        return Ok(None);
                    }
                    self.put(fragment.parked());
                    if mask == self.live {
                        return Ok(Some(Pause::Barrier { pc }));
                    }
                    self.uncount(worker, pc, mask);
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
                        let warp = self.active(kernel, mask, pc);
                        let kind = print::assertion(&warp, &worker.memory, *message, *file, *line);
                        return Err(fault(kind, mask.trailing_zeros()));
                    }
                }
                Op::Track(tracking) => {
                    if worker.checks.enabled
                        && let Some(unset) = self.track(kernel, worker, tracking, mask, pc)
                    {
                        return Err(fault(FaultKind::UninitialisedRegister, unset));
                    }
                }
                Op::Unknown { text } => {
                    if mask != 0 {
                        let kind = kernel.unsupported[*text as usize].fault();
                        return Err(fault(kind, mask.trailing_zeros()));
                    }
                }
            }
            fragment.pc += 1;
        }
    }

    /// Runs an operation between lanes for those in `mask`, whose groups are complete; `present` are all that are there.
    /// A fault with the lane that it concerns.
    #[inline(always)]
    fn exchange(
        &mut self,
        worker: &mut HostThread<'_>,
        handlers: &Handlers,
        op: &Op,
        mask: u32,
        present: u32,
        members: &Members,
    ) -> Result<(), (FaultKind, u32)> {
        if self.disagreement.is_some() {
            self.settle_disagreement(mask);
        }
        if let Op::WarpBarrier { .. } = op {
            self.sync(worker, mask, members);
            return Ok(());
        }
        // CUDA documents no memory order for these. But the lanes of a group run them together, and a GPU runs the
        // accesses of a warp to memory in order: kernels rely on it, and are not accused.
        if worker.memory.shared.len() > 0 || worker.checks.device.is_in_order() {
            self.sync(worker, mask, members);
        }
        match op {
            Op::MatrixProduct(_) | Op::MatrixProduct64(_) | Op::QuadPairProducts(_) => {
                // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
                unsafe { (handlers.product)(&mut worker.matrix_unit, &mut self.registers, op) };
                return Ok(());
            }
            Op::MatrixTranspose { d, a } => {
                matrix_rows::transpose(&mut self.registers, mask, *d, *a);
                return Ok(());
            }
            _ => {}
        }
        // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
        let inactive = unsafe { (handlers.lanes)(&mut self.registers, op, mask, members) };
        match inactive {
            Some((lane, source)) => Err(convergence::inactive(lane, source, present, members)),
            None => Ok(()),
        }
    }

    /// Runs a load or store.
    #[allow(clippy::too_many_arguments)] // Each is its own thing.
    #[inline(always)]
    fn transfer(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        handler: Transfer,
        op: &Op,
        access: &Access,
        mask: u32,
        pc: u32,
    ) -> Result<(), WarpFault> {
        if access.order.is_strong() {
            self.poll_memory();
        }
        if mask == 0 {
            return Ok(());
        }
        let mut warp = self.active(kernel, mask, pc);
        // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
        unsafe { handler(&mut warp, worker, op) }.map_err(|trap| WarpFault::new(*trap, pc, mask))
    }

    /// Tells the tracer of the instruction that a fragment is about to run, for the threads in `mask`.
    #[cold]
    fn trace(&mut self, kernel: &Kernel, worker: &mut HostThread<'_>, at: Fragment, mask: u32) {
        let is_barrier = matches!(kernel.code[at.pc as usize].op, Op::Barrier { .. });
        // Threads that are the first at a barrier will be at it again with the others.
        if is_barrier && at.mask != self.live {
            return;
        }
        if let Some(tracer) = &mut worker.tracer {
            let warp = self.active(kernel, mask, at.pc);
            tracer.begin(&warp, &worker.memory, at.mask, is_barrier);
        }
    }

    /// A thread may be waiting for another.
    fn poll(&mut self) {
        self.effort += POLL;
        self.polled = true;
    }

    fn poll_memory(&mut self) {
        self.poll();
        self.reads_outside = true;
    }

    /// Where the warp has waited in its last turn, if it has polled phases of mbarriers, and read nothing that may change meanwhile.
    pub(crate) fn phase_wait(&self) -> Option<u32> {
        self.phase_wait.filter(|_| !self.reads_outside)
    }

    /// All that decides what the warp does next, but for memory.
    pub(crate) fn state(&self) -> WarpState {
        let mut fragments = self.fragments.clone();
        fragments.sort_unstable_by_key(|fragment| fragment.pc);
        WarpState {
            fragments,
            registers: self.registers.clone(),
        }
    }

    /// Whether the warp has polled memory in its last turn.
    pub(crate) fn has_polled(&self) -> bool {
        self.polled
    }

    /// Instructions that the warp has run.
    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }

    fn active<'w>(&'w mut self, kernel: &Kernel, mask: u32, pc: u32) -> ActiveWarp<'w> {
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
