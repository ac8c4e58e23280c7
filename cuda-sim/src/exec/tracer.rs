//! Records a trace: what one warp does at chosen lines.
//!
//! The warp calls [`Tracer::begin`] before each instruction. There it is known which lanes run it
//! and what is in memory, so that addresses and values follow. What an instruction changed in
//! shared memory is seen at the next call, or at [`Tracer::rest`], before another warp runs. The
//! other warps of the block call it too: it notes which words they write.

use crate::exec::access::address_space;
use crate::exec::access::lane_operands::{bytes_read, lane_place};
use crate::exec::access::matrix_fragment::words_of_rows;
use crate::exec::access::pattern::AccessPattern;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::block_memory::BlockMemory;
use crate::exec::lane_mask::lanes;
use crate::exec::launch::Launch;
use crate::program::op::{Access, AccessKind, Address, AsyncCopy, MemorySpace, Op, R, Type};
use crate::trace::{
    self, Array, Lane, LaunchTrace, Pass, Selection, Space, Step, TraceError, Tracing, Word,
};

/// Changed words of shared memory, lanes of accesses, and their elements that a trace may hold
/// together. With these it takes some 100 MB.
const MAX_SIZE: usize = 1 << 20;

/// Records one launch.
pub(crate) struct Tracer {
    tracing: Tracing,
    block: [u32; 3],
    warp: usize,
    max_steps: usize,
    /// By instruction: whether its line is chosen.
    chosen: Vec<bool>,
    trace: LaunchTrace,
    /// By array: where it begins, in the generic address space.
    starts: Vec<u64>,
    /// By array: whether its type is known.
    typed: Vec<bool>,
    /// By word of shared memory: whether somebody wrote it.
    written: Vec<bool>,
    /// By word of shared memory: what it held when it was last looked at, if it was written then.
    seen: Vec<Option<u32>>,
    /// Size so far, for [`MAX_SIZE`].
    size: usize,
    /// The instruction that the warp ran last, if its step may go on.
    last: Option<Last>,
    /// The last instruction belongs to the last step, and what it changed has not been looked at.
    unseen: bool,
}

struct Last {
    pc: u32,
    active: u32,
}

impl Tracer {
    /// A tracer of `launch`.
    pub(crate) fn new(launch: &Launch, tracing: &Tracing) -> Result<Tracer, TraceError> {
        let Selection {
            lines,
            block,
            warp,
            steps,
        } = tracing.selection();
        let threads: u32 = launch.block.iter().product();
        if (0..3).any(|axis| block[axis] >= launch.grid[axis]) {
            return Err(TraceError::NoSuchBlock {
                block: *block,
                grid: launch.grid,
            });
        }
        if *warp >= threads.div_ceil(32) {
            return Err(TraceError::NoSuchWarp {
                warp: *warp,
                warps: threads.div_ceil(32),
            });
        }
        let kernel = &*launch.kernel;
        let places = (0..kernel.code.len() as u32).map(|pc| kernel.source_of(pc));
        let places: Vec<_> = places.map(|s| s.map(|s| (s.file, s.line))).collect();
        for (file, line) in lines {
            let asked = (file.clone(), *line);
            if !places.iter().flatten().any(|place| *place == asked) {
                let mut available: Vec<_> = places.into_iter().flatten().collect();
                available.sort_unstable();
                available.dedup();
                return Err(TraceError::NoSuchLine {
                    kernel: kernel.name.clone(),
                    file: asked.0,
                    line: asked.1,
                    available,
                });
            }
        }
        let is_chosen = |place: &Option<_>| match place {
            Some(place) => lines.is_empty() || lines.contains(place),
            None => lines.is_empty(),
        };
        let shared_bytes = u64::from(launch.shared_bytes());
        let shared_arrays = kernel.shared_arrays.iter().map(|array| Array {
            name: array.name.clone(),
            space: Space::Shared,
            bytes: array
                .bytes
                .unwrap_or(shared_bytes.saturating_sub(array.start)),
            ty: name(Type::U32),
            start: array.start,
        });
        let arrays: Vec<Array> = shared_arrays.collect();
        let words = shared_bytes.div_ceil(4) as usize;
        let window = address_space::window(MemorySpace::Shared);
        Ok(Tracer {
            tracing: tracing.clone(),
            block: *block,
            warp: *warp as usize,
            max_steps: *steps,
            chosen: places.iter().map(is_chosen).collect(),
            starts: arrays.iter().map(|array| window + array.start).collect(),
            typed: vec![false; arrays.len()],
            written: vec![false; words],
            seen: vec![None; words],
            size: 0,
            last: None,
            unseen: false,
            trace: LaunchTrace {
                kernel: kernel.name.clone(),
                grid: launch.grid,
                threads: launch.block,
                block: *block,
                warp: *warp,
                arrays,
                steps: Vec::new(),
                left_out: 0,
            },
        })
    }

    /// True if a block is the one whose warp is recorded.
    pub(crate) fn is_of(&self, block: [u32; 3]) -> bool {
        self.block == block
    }

    /// The warp is about to run an instruction: with `warp.mask`, of the `active` lanes that are at
    /// it. `waits`: at a barrier.
    pub(crate) fn begin(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        active: u32,
        waits: bool,
    ) {
        let op = &memory.kernel.code[warp.pc as usize].op;
        if warp.number != self.warp {
            self.note(op, warp);
            return;
        }
        self.look(memory);
        if !self.chosen[warp.pc as usize] {
            self.last = None;
        } else if !self.goes_on(warp.pc, active, memory) {
            self.start_step(warp.pc, active, memory);
        }
        self.note(op, warp);
        let recorded = self.trace.left_out == 0 && self.last.is_some();
        if recorded && let Some(step) = self.trace.steps.last_mut() {
            step.barrier |= waits;
            self.unseen = true;
            // A bulk copy accesses more than the lanes' own bytes.
            let accesses = op.accesses().filter(|_| !matches!(op, Op::BulkCopy(_)));
            for (access, address, kind) in accesses {
                self.access(op, (&access, &address, kind), warp, memory);
            }
        }
    }

    /// The warp gives way to another, or its lanes change.
    pub(crate) fn rest(&mut self, warp: usize, memory: &BlockMemory<'_>) {
        if warp == self.warp {
            self.look(memory);
            self.last = None;
        }
    }

    /// The launch has ended.
    pub(crate) fn finish(self) {
        self.tracing.keep(Ok(self.trace));
    }

    /// True if an instruction belongs to the step of the one before it. The first one for which
    /// there is no room does not: then its step is left out.
    fn goes_on(&mut self, pc: u32, active: u32, memory: &BlockMemory<'_>) -> bool {
        if self.size >= MAX_SIZE && self.trace.left_out == 0 {
            return false;
        }
        let line = |pc: u32| memory.kernel.source[pc as usize];
        match &mut self.last {
            Some(last) if last.active == active && last.pc < pc && line(last.pc) == line(pc) => {
                last.pc = pc;
                true
            }
            _ => false,
        }
    }

    fn start_step(&mut self, pc: u32, active: u32, memory: &BlockMemory<'_>) {
        self.last = Some(Last { pc, active });
        let full = self.trace.steps.len() >= self.max_steps || self.size >= MAX_SIZE;
        if full || self.trace.left_out > 0 {
            self.trace.left_out += 1;
            return;
        }
        let before = self.changes(memory);
        let source = memory.kernel.source_of(pc);
        let (file, line) = source.map_or((String::new(), 0), |s| (s.file, s.line));
        self.trace.steps.push(Step {
            file,
            line,
            active,
            barrier: false,
            accesses: Vec::new(),
            before,
            after: Vec::new(),
        });
    }

    /// Looks at what the last instruction changed.
    fn look(&mut self, memory: &BlockMemory<'_>) {
        if std::mem::take(&mut self.unseen) {
            let changes = self.changes(memory);
            if let Some(step) = self.trace.steps.last_mut() {
                step.after.extend(changes);
            }
        }
    }

    /// The words of shared memory that are not what they were when they were last looked at.
    fn changes(&mut self, memory: &BlockMemory<'_>) -> Vec<Word> {
        let bytes = memory.shared.as_slice();
        let mut changes = Vec::new();
        for (word, seen) in self.seen.iter_mut().enumerate() {
            if !self.written[word] {
                continue;
            }
            let mut held = [0; 4];
            let here = &bytes[4 * word..bytes.len().min(4 * word + 4)];
            held[..here.len()].copy_from_slice(here);
            let bits = u32::from_le_bytes(held);
            if seen.replace(bits) == Some(bits) {
                continue;
            }
            let at = 4 * word as u64;
            if let Some(array) = self.trace.arrays.iter().position(|a| holds(a, at)) {
                let index = (at - self.trace.arrays[array].start) / 4;
                changes.push(Word { array, index, bits });
            }
        }
        self.size += changes.len();
        changes
    }

    /// Notes which words of shared memory an instruction writes, and the types of shared arrays.
    fn note(&mut self, op: &Op, warp: &ActiveWarp<'_>) {
        for (access, address, kind) in op.accesses() {
            let bytes = bytes_of(op, &access, kind, warp);
            for lane in lanes(warp.mask).filter(|lane| bytes[*lane] > 0) {
                let (space, at) = lane_place(warp.registers, &address, lane);
                if space != MemorySpace::Shared {
                    continue;
                }
                if let Some(array) = self.trace.arrays.iter().position(|a| holds(a, at)) {
                    self.learn_type(array, access.ty);
                }
                let words = at / 4..(at + u64::from(access.bytes())).div_ceil(4);
                for word in words.filter(|_| kind != AccessKind::Load) {
                    if let Some(written) = self.written.get_mut(word as usize) {
                        *written = true;
                    }
                }
            }
        }
    }

    fn learn_type(&mut self, array: usize, ty: Type) {
        let known = &mut self.trace.arrays[array].ty;
        if !self.typed[array] || (ty.is_float() && !is_float(known)) {
            *known = name(ty);
            self.typed[array] = true;
        }
    }

    /// Records one of the accesses that the lanes of `warp.mask` make by `op`.
    fn access(
        &mut self,
        op: &Op,
        (access, address, kind): (&Access, &Address, AccessKind),
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
    ) {
        let bytes = bytes_of(op, access, kind, warp);
        for (space, internal) in [
            (Space::Global, MemorySpace::Global),
            (Space::Shared, MemorySpace::Shared),
            (Space::Local, MemorySpace::Local),
        ] {
            let here = |lane: &usize| {
                bytes[*lane] > 0 && lane_place(warp.registers, address, *lane).0 == internal
            };
            let mask = lanes(warp.mask)
                .filter(here)
                .fold(0, |m, lane| m | 1 << lane);
            if mask == 0 {
                continue;
            }
            let touched = lanes(mask).filter_map(|lane| {
                let (_, at) = lane_place(warp.registers, address, lane);
                let array = self.array(internal, at, warp, memory, access.ty)?;
                let offset = address_space::window(internal) + at - self.starts[array];
                let place = match space {
                    Space::Global => (self.starts[array] % 32 + offset) / 32,
                    Space::Shared => at / 4 % 32,
                    Space::Local => 0,
                };
                Some(Lane {
                    lane: lane as u32,
                    array,
                    offset,
                    place,
                    values: match (op, kind) {
                        (Op::Store { a, .. }, _) => stored(access, a, warp, lane),
                        (Op::MatrixStore(rows), _) => {
                            let words = words_of_rows(warp.registers, rows);
                            words.map(|words| words[lane].into()).to_vec()
                        }
                        (Op::CopyAsync(copy), AccessKind::Store) => {
                            copied(copy, warp, memory, lane)
                        }
                        _ => held(access, bytes[lane], warp, memory, (internal, at), lane),
                    },
                })
            });
            let touched: Vec<Lane> = touched.collect();
            self.size += touched.len() * (1 + usize::from(access.count));
            let at = |lane: usize| lane_place(warp.registers, address, lane).1;
            let (sectors, passes) = cost(access, kind, space, mask, at);
            let access = trace::Access {
                instruction: access.site,
                kind,
                space,
                ty: name(access.ty),
                elements: u32::from(access.count),
                bytes: access.bytes(),
                lanes: touched,
                sectors,
                passes,
            };
            if let Some(step) = self.trace.steps.last_mut() {
                step.accesses.push(access);
            }
        }
    }

    /// The array that holds an address; `None` outside memory, where the access faults.
    fn array(
        &mut self,
        space: MemorySpace,
        at: u64,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        ty: Type,
    ) -> Option<usize> {
        let address = address_space::window(space) + at;
        let known = self.starts.iter().zip(&self.trace.arrays);
        let mut holding = known.map(|(start, array)| *start..*start + array.bytes);
        if let Some(array) = holding.position(|range| range.contains(&address)) {
            self.learn_type(array, ty);
            return Some(array);
        }
        let (name, start, bytes, space) = match space {
            MemorySpace::Local => {
                let bytes = u64::from(warp.local_bytes);
                ("local memory".to_owned(), 0, bytes, Space::Local)
            }
            MemorySpace::Global => {
                let found = memory.map.containing(at)?;
                let name = memory.argument_within(found.start, found.end());
                let name = name.unwrap_or_else(|| format!("allocation #{}", found.id));
                (name, found.start, found.bytes, Space::Global)
            }
            MemorySpace::Shared | MemorySpace::Param | MemorySpace::Generic => return None,
        };
        self.starts.push(if space == Space::Local {
            address_space::window(MemorySpace::Local)
        } else {
            start
        });
        self.typed.push(true);
        self.trace.arrays.push(Array {
            name,
            space,
            bytes,
            ty: self::name(ty),
            start: 0,
        });
        Some(self.starts.len() - 1)
    }
}

/// True if an array is the shared one that holds a byte of shared memory.
fn holds(array: &Array, at: u64) -> bool {
    array.space == Space::Shared && (array.start..array.start + array.bytes).contains(&at)
}

/// Bytes that each lane accesses; 0 for those that take no part.
fn bytes_of(op: &Op, access: &Access, kind: AccessKind, warp: &ActiveWarp<'_>) -> [u32; 32] {
    match op {
        Op::CopyAsync(copy) if kind == AccessKind::Load => bytes_read(warp.registers, copy),
        Op::MatrixLoad(rows) | Op::MatrixStore(rows) => {
            let mask = rows.row_lanes(warp.mask);
            std::array::from_fn(|lane| (mask >> lane & 1) * access.bytes())
        }
        _ => [access.bytes(); 32],
    }
}

/// The elements that a lane stores.
fn stored(access: &Access, a: &[R; 4], warp: &ActiveWarp<'_>, lane: usize) -> Vec<u64> {
    let kept = u64::MAX >> (64 - 8 * access.ty.bytes());
    let element = |a: &R| {
        let bits = match access.wide {
            true => warp.registers.read::<u64>(*a)[lane],
            false => u64::from(warp.registers.read::<u32>(*a)[lane]),
        };
        bits & kept
    };
    a[..usize::from(access.count)].iter().map(element).collect()
}

/// The elements that a copy writes: what its source holds, then zeros.
fn copied(
    copy: &AsyncCopy,
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    lane: usize,
) -> Vec<u64> {
    let [(access, address), _] = copy.accesses();
    let bytes = bytes_read(warp.registers, copy)[lane];
    let place = lane_place(warp.registers, &address, lane);
    let mut elements = held(&access, bytes, warp, memory, place, lane);
    elements.resize(access.count.into(), 0);
    elements
}

/// The elements that memory holds in the first `bytes` bytes of a lane's place.
fn held(
    access: &Access,
    bytes: u32,
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    (space, at): (MemorySpace, u64),
    lane: usize,
) -> Vec<u64> {
    let size = access.ty.bytes();
    let element = |i: u32| {
        let first = address_space::window(space) + at + u64::from(i * size);
        (0..u64::from(size.min(bytes - i * size))).fold(0, |bits, i| {
            let byte = memory.byte(warp, first + i, lane as u32).unwrap_or(0xff);
            bits | u64::from(byte) << (8 * i)
        })
    };
    (0..bytes.div_ceil(size)).map(element).collect()
}

/// Sectors of an access, and the passes of one to shared memory.
fn cost(
    access: &Access,
    kind: AccessKind,
    space: Space,
    mask: u32,
    at: impl Fn(usize) -> u64,
) -> (u64, Vec<Pass>) {
    let (mut left, mut sectors, mut passes) = (mask, 0, Vec::new());
    while left != 0 {
        let mut pattern = AccessPattern::default();
        let first = at(left.trailing_zeros() as usize & 31);
        left &= !pattern.learn(left, access, kind, &at);
        match space {
            Space::Global => sectors += pattern.sectors(first),
            Space::Local => sectors += pattern.local_sectors(first),
            Space::Shared => {
                let groups = pattern.passes(first).into_iter();
                passes.extend(groups.map(|(lanes, wavefronts)| Pass { lanes, wavefronts }));
            }
        }
    }
    (sectors, passes)
}

/// A type's name in Rust's words.
fn name(ty: Type) -> &'static str {
    match ty {
        Type::U8 => "u8",
        Type::S8 => "i8",
        Type::U16 => "u16",
        Type::S16 => "i16",
        Type::U32 => "u32",
        Type::S32 => "i32",
        Type::U64 => "u64",
        Type::S64 => "i64",
        Type::F16 => "f16",
        Type::Bf16 => "bf16",
        Type::F32 => "f32",
        Type::F64 => "f64",
    }
}

fn is_float(name: &str) -> bool {
    name.contains('f')
}
