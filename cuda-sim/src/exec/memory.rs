//! Loads and stores.
//!
//! Every access is checked before it is made: all lanes inside one allocation is the common case and costs
//! one range test, because the range that an instruction used last is remembered. Device memory is accessed
//! by relaxed atomics, so that a kernel with races is not undefined behaviour here; shared and local memory
//! belong to one block and one thread of ours.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::registers::{FULL, Raw, Registers, lanes};
use super::spaces;
use super::vectors::Vectors;
use crate::fault::{BadAccess, FaultKind, Nearest};
use crate::memory::MemoryMap;
use crate::program::op::{Access, Address, MemorySpace, Op, R, Type};

/// The memories that one block sees.
pub(super) struct Memory<'a> {
    pub map: &'a MemoryMap,
    pub params: &'a Bytes,
    /// Shared memory of the block, static then dynamic.
    pub shared: Bytes,
    /// For each instruction, the allocation that it touched last.
    pub ranges: Vec<(u64, u64)>,
}

/// Bytes aligned to 16.
#[derive(Default)]
pub(super) struct Bytes {
    words: Vec<u128>,
    len: usize,
}

impl Bytes {
    pub(super) fn reset(&mut self, len: usize, byte: u8) {
        self.len = len;
        self.words.clear();
        self.words
            .resize(len.div_ceil(16), u128::from_ne_bytes([byte; 16]));
    }

    pub(super) fn from_slice(bytes: &[u8]) -> Bytes {
        let mut out = Bytes::default();
        out.reset(bytes.len(), 0);
        for (word, bytes) in out.words.iter_mut().zip(bytes.chunks(16)) {
            let mut whole = [0; 16];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u128::from_ne_bytes(whole);
        }
        out
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn pointer(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes are initialised, because `words` covers them.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

/// An address for each lane, aligned for vector loads.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Addresses(pub [u64; 32]);

/// A fault, and the first lane that it concerns.
pub(super) type Trap = Box<(FaultKind, u32)>;

/// A warp's side of an access: its registers and its local memory.
pub(super) struct Thread<'w> {
    pub registers: &'w mut Registers,
    /// Local memory, `local_bytes` per lane, one lane after the other.
    pub local: &'w mut Bytes,
    pub local_bytes: u32,
    pub mask: u32,
    pub pc: u32,
}

/// Runs a load or store. `thread.mask` is not empty.
#[inline(always)]
pub(super) fn execute<V: Vectors>(
    thread: &mut Thread<'_>,
    memory: &mut Memory<'_>,
    op: &Op,
) -> Result<(), Trap> {
    match *op {
        Op::Load { access, address, d } => {
            let addresses = addresses::<V>(thread.registers, &address, thread.mask);
            let (mut left, mut within) = (thread.mask, Addresses([0; 32]));
            while left != 0 {
                let part = next_part(&address, &addresses, &mut left, &mut within);
                let base = check::<V>(thread, memory, &part, &access, false)?;
                load::<V>(thread.registers, &access, d, base, &part);
            }
        }
        Op::Store { access, address, a } => {
            let addresses = addresses::<V>(thread.registers, &address, thread.mask);
            let (mut left, mut within) = (thread.mask, Addresses([0; 32]));
            while left != 0 {
                let part = next_part(&address, &addresses, &mut left, &mut within);
                let base = check::<V>(thread, memory, &part, &access, true)?;
                store(thread.registers, &access, a, base, &part);
            }
        }
        _ => unreachable!("not a load or store"),
    }
    Ok(())
}

/// The lanes of an access that lie in one state space.
#[derive(Clone, Copy)]
pub(super) struct Part<'p> {
    pub space: MemorySpace,
    /// Addresses within the space. Lanes outside the mask repeat that of one inside.
    pub addresses: &'p Addresses,
    pub mask: u32,
}

/// Takes the next part of an access from the lanes `left`: all of them, unless generic addresses lie in
/// several spaces.
#[inline(always)]
pub(super) fn next_part<'p>(
    address: &Address,
    addresses: &'p Addresses,
    left: &mut u32,
    within: &'p mut Addresses,
) -> Part<'p> {
    if address.space != MemorySpace::Generic {
        return Part {
            space: address.space,
            addresses,
            mask: std::mem::take(left),
        };
    }
    let first = addresses.0[left.trailing_zeros() as usize & 31];
    let space = spaces::of(first);
    let base = spaces::window(space);
    let mut mask = 0u32;
    for lane in 0..32 {
        let here = spaces::of(addresses.0[lane]) == space && *left >> lane & 1 != 0;
        mask |= u32::from(here) << lane;
        within.0[lane] = if here { addresses.0[lane] } else { first } - base;
    }
    *left &= !mask;
    Part {
        space,
        addresses: within,
        mask,
    }
}

/// The address of each lane; lanes outside `mask` get that of an active lane, so that they are safe to use.
#[inline(always)]
pub(super) fn addresses<V: Vectors>(
    registers: &Registers,
    address: &Address,
    mask: u32,
) -> Addresses {
    let offset = address.offset as u64;
    let mut addresses = if address.wide {
        // SAFETY: the handlers of an instruction set run only where it is there.
        Addresses(unsafe { V::shifted(registers.read(address.base), offset) })
    } else {
        let base: &[u32; 32] = registers.read(address.base);
        Addresses(base.map(|base| u64::from(base.wrapping_add(offset as u32))))
    };
    let out = &mut addresses.0;
    if mask != FULL {
        let active = out[mask.trailing_zeros() as usize & 31];
        for lane in 0..32 {
            out[lane] = if mask >> lane & 1 != 0 {
                out[lane]
            } else {
                active
            };
        }
    }
    addresses
}

/// Where address 0 of a space lies in host memory: `start`, and `stride` bytes more for each lane.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub start: u64,
    pub stride: u64,
}

/// Checks bounds and alignment of all lanes.
#[inline(always)]
pub(super) fn check<V: Vectors>(
    thread: &mut Thread<'_>,
    memory: &mut Memory<'_>,
    part: &Part<'_>,
    access: &Access,
    write: bool,
) -> Result<Base, Trap> {
    let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
    // Addresses from `start` to `last` fit.
    let within = |size: u64| (0, size.wrapping_sub(bytes), size >= bytes);
    let (start, last, possible) = match part.space {
        MemorySpace::Generic | MemorySpace::Global => {
            let (start, end) = memory.ranges[thread.pc as usize];
            (start, end.wrapping_sub(bytes), end >= bytes)
        }
        MemorySpace::Shared => within(memory.shared.len() as u64),
        MemorySpace::Local => within(u64::from(thread.local_bytes)),
        MemorySpace::Param => within(if write { 0 } else { memory.params.len() as u64 }),
    };
    // SAFETY: the handlers of an instruction set run only where it is there.
    let fits = possible && unsafe { V::all_fit(&part.addresses.0, start, last, bytes - 1) };
    if fits || (part.space == MemorySpace::Global && find(thread, memory, part, bytes)) {
        Ok(match part.space {
            MemorySpace::Generic | MemorySpace::Global => Base {
                start: 0,
                stride: 0,
            },
            MemorySpace::Shared => Base {
                start: memory.shared.pointer() as u64,
                stride: 0,
            },
            MemorySpace::Param => Base {
                start: memory.params.as_slice().as_ptr() as u64,
                stride: 0,
            },
            MemorySpace::Local => Base {
                start: thread.local.pointer() as u64,
                stride: u64::from(thread.local_bytes),
            },
        })
    } else {
        Err(explain(thread, memory, part, bytes, write))
    }
}

/// Looks up each lane's allocation, and remembers the last. False if a lane has none, or is misaligned.
#[cold]
#[inline(never)]
fn find(thread: &Thread<'_>, memory: &mut Memory<'_>, part: &Part<'_>, bytes: u64) -> bool {
    for &address in &part.addresses.0 {
        match memory.map.containing(address) {
            Some(a) if a.live && address + bytes <= a.end() && address % bytes == 0 => {
                memory.ranges[thread.pc as usize] = (a.start, a.end());
            }
            _ => return false,
        }
    }
    true
}

/// The fault of the first lane that has one.
#[cold]
#[inline(never)]
fn explain(
    thread: &Thread<'_>,
    memory: &Memory<'_>,
    part: &Part<'_>,
    bytes: u64,
    write: bool,
) -> Trap {
    let (name, size) = match part.space {
        MemorySpace::Generic | MemorySpace::Global => ("global", None),
        MemorySpace::Shared => ("shared", Some(memory.shared.len() as u64)),
        MemorySpace::Local => ("local", Some(u64::from(thread.local_bytes))),
        MemorySpace::Param => (
            "parameter",
            Some(if write { 0 } else { memory.params.len() as u64 }),
        ),
    };
    for lane in lanes(part.mask) {
        let address = part.addresses.0[lane];
        let end = address.checked_add(bytes);
        let kind: fn(BadAccess) -> FaultKind = match size {
            Some(size) if end.is_none_or(|end| end > size) => FaultKind::OutOfBounds,
            Some(_) => FaultKind::Misaligned,
            None => match memory.map.containing(address) {
                Some(a) if !a.live => FaultKind::UseAfterFree,
                Some(a) if end.is_some_and(|end| end <= a.end()) => FaultKind::Misaligned,
                _ => FaultKind::OutOfBounds,
            },
        };
        let aligned = address & (bytes - 1) == 0;
        let access = BadAccess {
            space: name,
            write,
            address,
            bytes: bytes as u32,
            nearest: match size {
                Some(bytes) => Some(Nearest {
                    id: None,
                    start: 0,
                    bytes,
                }),
                None => memory.map.nearest(address).map(|a| Nearest {
                    id: Some(a.id),
                    start: a.start,
                    bytes: a.bytes,
                }),
            },
        };
        let kind = kind(access);
        if !(aligned && matches!(kind, FaultKind::Misaligned(_))) {
            return Box::new((kind, lane as u32));
        }
    }
    unreachable!("an access was refused, but every lane of it is fine")
}

#[inline(always)]
fn load<V: Vectors>(
    registers: &mut Registers,
    access: &Access,
    d: [Option<R>; 4],
    base: Base,
    part: &Part<'_>,
) {
    for (i, d) in d.into_iter().take(usize::from(access.count)).enumerate() {
        let Some(d) = d else { continue };
        let base = Base {
            start: base.start + i as u64 * u64::from(access.ty.bytes()),
            ..base
        };
        match (access.ty, access.wide) {
            (Type::U32 | Type::S32 | Type::F32, false) if part.space == MemorySpace::Shared => {
                // SAFETY: `check` found the access in bounds and aligned for all 32 lanes, and shared memory
                // belongs to this thread while its block runs.
                let words = unsafe { V::load_words(base.start, &part.addresses.0) };
                registers.write(d, part.mask, &words);
            }
            (Type::U32 | Type::S32 | Type::F32, false) => {
                load_one::<u32, u32>(registers, d, base, part, |x| x)
            }
            (Type::U64 | Type::S64 | Type::F64, _) => {
                load_one::<u64, u64>(registers, d, base, part, |x| x)
            }
            (Type::U8, false) => load_one::<u8, u32>(registers, d, base, part, u32::from),
            (Type::S8, false) => load_one::<u8, u32>(registers, d, base, part, |x| x as i8 as u32),
            (Type::S16, false) => {
                load_one::<u16, u32>(registers, d, base, part, |x| x as i16 as u32)
            }
            (Type::U16 | Type::F16 | Type::Bf16, false) => {
                load_one::<u16, u32>(registers, d, base, part, u32::from)
            }
            (Type::U8, true) => load_one::<u8, u64>(registers, d, base, part, u64::from),
            (Type::S8, true) => load_one::<u8, u64>(registers, d, base, part, |x| x as i8 as u64),
            (Type::S16, true) => {
                load_one::<u16, u64>(registers, d, base, part, |x| x as i16 as u64)
            }
            (Type::U16 | Type::F16 | Type::Bf16, true) => {
                load_one::<u16, u64>(registers, d, base, part, u64::from)
            }
            (Type::S32, true) => {
                load_one::<u32, u64>(registers, d, base, part, |x| x as i32 as u64)
            }
            (Type::U32 | Type::F32, true) => {
                load_one::<u32, u64>(registers, d, base, part, u64::from)
            }
        }
    }
}

#[inline(always)]
fn load_one<T: Word, D: Raw>(
    registers: &mut Registers,
    d: R,
    base: Base,
    part: &Part<'_>,
    extend: impl Fn(T) -> D,
) {
    let mut out = [D::default(); 32];
    for lane in 0..32 {
        let address = base.start + part.addresses.0[lane] + base.stride * lane as u64;
        // SAFETY: `check` found all of the access in bounds and aligned, for all 32 lanes: inactive ones
        // repeat the address of an active one.
        out[lane] = extend(unsafe { T::load(address) });
    }
    registers.write(d, part.mask, &out);
}

#[inline(always)]
fn store(registers: &Registers, access: &Access, a: [R; 4], base: Base, part: &Part<'_>) {
    for (i, a) in a.into_iter().take(usize::from(access.count)).enumerate() {
        let base = Base {
            start: base.start + i as u64 * u64::from(access.ty.bytes()),
            ..base
        };
        match (access.ty.bytes(), access.wide) {
            (1, false) => store_one::<u8, u32>(registers, a, base, part, |x| x as u8),
            (2, false) => store_one::<u16, u32>(registers, a, base, part, |x| x as u16),
            (4, false) => store_one::<u32, u32>(registers, a, base, part, |x| x),
            (1, true) => store_one::<u8, u64>(registers, a, base, part, |x| x as u8),
            (2, true) => store_one::<u16, u64>(registers, a, base, part, |x| x as u16),
            (4, true) => store_one::<u32, u64>(registers, a, base, part, |x| x as u32),
            _ => store_one::<u64, u64>(registers, a, base, part, |x| x),
        }
    }
}

#[inline(always)]
fn store_one<T: Word, S: Raw>(
    registers: &Registers,
    a: R,
    base: Base,
    part: &Part<'_>,
    narrow: impl Fn(S) -> T,
) {
    let values: &[S; 32] = registers.read(a);
    for lane in lanes(part.mask) {
        let address = base.start + part.addresses.0[lane] + base.stride * lane as u64;
        // SAFETY: `check` found the access in bounds and aligned for all lanes in the mask.
        unsafe { narrow(values[lane]).store(address) };
    }
}

/// A word of memory, accessed atomically: other blocks may access device memory at the same time.
pub(super) trait Word: Copy {
    /// # Safety
    /// The host address is valid for reads, and aligned.
    unsafe fn load(address: u64) -> Self;
    /// # Safety
    /// The host address is valid for writes, and aligned.
    unsafe fn store(self, address: u64);
}

macro_rules! word {
    ($($ty:ident, $atomic:ident;)*) => {$(
        impl Word for $ty {
            #[inline(always)]
            unsafe fn load(address: u64) -> Self {
                // SAFETY: promised by the caller.
                unsafe { $atomic::from_ptr(address as *mut $ty).load(Relaxed) }
            }
            #[inline(always)]
            unsafe fn store(self, address: u64) {
                // SAFETY: promised by the caller.
                unsafe { $atomic::from_ptr(address as *mut $ty).store(self, Relaxed) }
            }
        }
    )*};
}

word! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// A zero-terminated text at a generic address of one lane, for messages: at most 4096 bytes.
pub(super) fn text(
    thread: &mut Thread<'_>,
    memory: &Memory<'_>,
    address: u64,
    lane: u32,
) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < 4096 {
        match byte(
            thread,
            memory,
            address.wrapping_add(bytes.len() as u64),
            lane,
        ) {
            None | Some(0) => break,
            Some(byte) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One byte at a generic address, or `None` outside memory.
pub(super) fn byte(
    thread: &mut Thread<'_>,
    memory: &Memory<'_>,
    address: u64,
    lane: u32,
) -> Option<u8> {
    let space = spaces::of(address);
    let within = address.wrapping_sub(spaces::window(space));
    let at = usize::try_from(within).ok()?;
    match space {
        MemorySpace::Shared => memory.shared.as_slice().get(at).copied(),
        MemorySpace::Local if within < u64::from(thread.local_bytes) => thread
            .local
            .as_slice()
            .get(at + (lane * thread.local_bytes) as usize)
            .copied(),
        MemorySpace::Local => None,
        MemorySpace::Param => memory.params.as_slice().get(at).copied(),
        MemorySpace::Generic | MemorySpace::Global => {
            let live = memory.map.containing(address).is_some_and(|a| a.live);
            // SAFETY: the byte lies in a live allocation.
            live.then(|| unsafe { u8::load(address) })
        }
    }
}
