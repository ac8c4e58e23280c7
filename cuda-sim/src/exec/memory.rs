//! Loads and stores.
//!
//! Every access is checked before it is made: all lanes inside one allocation is the common case and costs
//! one range test, because the range that an instruction used last is remembered. Device memory is accessed
//! by relaxed atomics, so that a kernel with races is not undefined behaviour here; shared and local memory
//! belong to one block and one thread of ours.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::registers::{FULL, Registers};
use super::spaces;
use crate::fault::{BadAccess, FaultKind, Nearest};
use crate::memory::MemoryMap;
use crate::program::op::{Access, Address, MemorySpace, Op, R, Type};

/// The memories that one block sees.
pub(super) struct Memory<'a> {
    pub map: &'a MemoryMap,
    pub params: &'a [u8],
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

/// Runs a load or store. `mask` is not empty.
#[inline(always)]
pub(super) fn execute(
    thread: &mut Thread<'_>,
    memory: &mut Memory<'_>,
    op: &Op,
) -> Result<(), Trap> {
    match *op {
        Op::Load { access, address, d } => {
            let addresses = addresses(thread.registers, &address, thread.mask);
            for_each_space(
                &address,
                &addresses,
                thread.mask,
                |space, addresses, mask| {
                    let base = check(thread, memory, space, &access, addresses, mask, false)?;
                    load(thread.registers, &access, d, base, addresses, mask);
                    Ok(())
                },
            )
        }
        Op::Store { access, address, a } => {
            let addresses = addresses(thread.registers, &address, thread.mask);
            for_each_space(
                &address,
                &addresses,
                thread.mask,
                |space, addresses, mask| {
                    let base = check(thread, memory, space, &access, addresses, mask, true)?;
                    store(thread.registers, &access, a, base, addresses, mask);
                    Ok(())
                },
            )
        }
        _ => unreachable!("not a load or store"),
    }
}

/// The address of each lane; lanes outside `mask` get that of an active lane, so that they are safe to use.
#[inline(always)]
pub(super) fn addresses(registers: &Registers, address: &Address, mask: u32) -> [u64; 32] {
    let offset = address.offset as u64;
    let mut out = [0u64; 32];
    if address.wide {
        let base: &[u64; 32] = registers.read(address.base);
        for lane in 0..32 {
            out[lane] = base[lane].wrapping_add(offset);
        }
    } else {
        let base: &[u32; 32] = registers.read(address.base);
        for lane in 0..32 {
            out[lane] = u64::from(base[lane]).wrapping_add(offset);
        }
    }
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
    out
}

/// Calls `f` with the addresses within their space. Generic addresses may lie in several spaces.
#[inline(always)]
pub(super) fn for_each_space(
    address: &Address,
    addresses: &[u64; 32],
    mask: u32,
    mut f: impl FnMut(MemorySpace, &[u64; 32], u32) -> Result<(), Trap>,
) -> Result<(), Trap> {
    if address.space != MemorySpace::Generic {
        return f(address.space, addresses, mask);
    }
    let mut left = mask;
    while left != 0 {
        let first = addresses[left.trailing_zeros() as usize & 31];
        let space = spaces::of(first);
        let base = spaces::window(space);
        let mut here = 0u32;
        for lane in 0..32 {
            here |= u32::from(spaces::of(addresses[lane]) == space) << lane;
        }
        here &= left;
        let within = std::array::from_fn(|lane| {
            if here >> lane & 1 != 0 {
                addresses[lane] - base
            } else {
                first - base
            }
        });
        f(space, &within, here)?;
        left &= !here;
    }
    Ok(())
}

/// Where address 0 of a space lies in host memory, per lane.
#[derive(Clone, Copy)]
pub(super) enum Base {
    /// Device addresses are host addresses.
    Device,
    /// Private to this block: a host address to add.
    Own(*mut u8),
    /// Local memory: a host address, and the bytes between lanes.
    Lanes(*mut u8, u32),
}

/// Checks bounds and alignment of all lanes in `mask`.
#[inline(always)]
pub(super) fn check(
    thread: &mut Thread<'_>,
    memory: &mut Memory<'_>,
    space: MemorySpace,
    access: &Access,
    addresses: &[u64; 32],
    mask: u32,
    write: bool,
) -> Result<Base, Trap> {
    let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
    let (mut low, mut high, mut bits) = (u64::MAX, 0, 0);
    for &address in addresses {
        low = low.min(address);
        high = high.max(address);
        bits |= address;
    }
    let bad = |kind: fn(BadAccess) -> FaultKind,
               holds: &dyn Fn(u64) -> bool,
               nearest: &dyn Fn(u64) -> Option<Nearest>| {
        let lane = (0..32)
            .find(|&lane| mask >> lane & 1 != 0 && !holds(addresses[lane as usize]))
            .unwrap_or(0);
        let address = addresses[lane as usize];
        let name = match space {
            MemorySpace::Generic | MemorySpace::Global => "global",
            MemorySpace::Shared => "shared",
            MemorySpace::Local => "local",
            MemorySpace::Param => "parameter",
        };
        let access = BadAccess {
            space: name,
            write,
            address,
            bytes: bytes as u32,
            nearest: nearest(address),
        };
        Box::new((kind(access), lane))
    };
    let size = match space {
        MemorySpace::Generic | MemorySpace::Global => None,
        MemorySpace::Shared => Some(memory.shared.len() as u64),
        MemorySpace::Local => Some(u64::from(thread.local_bytes)),
        MemorySpace::Param => Some(memory.params.len() as u64),
    };
    let nearest = |address: u64| match size {
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
    };
    match size {
        Some(size) => {
            let fits = |address: u64| address.checked_add(bytes).is_some_and(|end| end <= size);
            if !fits(high) || (write && space == MemorySpace::Param) {
                return Err(bad(
                    FaultKind::OutOfBounds,
                    &|a| fits(a) && space != MemorySpace::Param,
                    &nearest,
                ));
            }
        }
        None => {
            let range = &mut memory.ranges[thread.pc as usize];
            if low < range.0 || high.saturating_add(bytes) > range.1 {
                let fits = |address: u64| match memory.map.containing(address) {
                    Some(a) if a.live && address + bytes <= a.start + a.bytes => {
                        Some((a.start, a.start + a.bytes))
                    }
                    _ => None,
                };
                for &address in addresses {
                    match fits(address) {
                        Some(found) => *range = found,
                        None => {
                            let freed = memory.map.containing(address).is_some_and(|a| !a.live);
                            let kind = if freed {
                                FaultKind::UseAfterFree
                            } else {
                                FaultKind::OutOfBounds
                            };
                            return Err(bad(kind, &|a| fits(a).is_some(), &nearest));
                        }
                    }
                }
            }
        }
    }
    if bits & (bytes - 1) != 0 {
        return Err(bad(
            FaultKind::Misaligned,
            &|a| a & (bytes - 1) == 0,
            &nearest,
        ));
    }
    Ok(match space {
        MemorySpace::Generic | MemorySpace::Global => Base::Device,
        MemorySpace::Shared => Base::Own(memory.shared.pointer()),
        MemorySpace::Param => Base::Own(memory.params.as_ptr().cast_mut()),
        MemorySpace::Local => Base::Lanes(thread.local.pointer(), thread.local_bytes),
    })
}

#[inline(always)]
fn load(
    registers: &mut Registers,
    access: &Access,
    d: [Option<R>; 4],
    base: Base,
    addresses: &[u64; 32],
    mask: u32,
) {
    for (i, d) in d.into_iter().take(usize::from(access.count)).enumerate() {
        let Some(d) = d else { continue };
        let offset = i as u64 * u64::from(access.ty.bytes());
        match (access.ty, access.wide) {
            (Type::U32 | Type::S32 | Type::F32, false) => {
                load_one::<u32, u32>(registers, d, base, addresses, offset, mask, |x| x)
            }
            (Type::U64 | Type::S64 | Type::F64, _) => {
                load_one::<u64, u64>(registers, d, base, addresses, offset, mask, |x| x)
            }
            (Type::U8, false) => {
                load_one::<u8, u32>(registers, d, base, addresses, offset, mask, u32::from)
            }
            (Type::S8, false) => {
                load_one::<u8, u32>(registers, d, base, addresses, offset, mask, |x| {
                    x as i8 as u32
                })
            }
            (Type::S16, false) => {
                load_one::<u16, u32>(registers, d, base, addresses, offset, mask, |x| {
                    x as i16 as u32
                })
            }
            (Type::U16 | Type::F16 | Type::Bf16, false) => {
                load_one::<u16, u32>(registers, d, base, addresses, offset, mask, u32::from)
            }
            (Type::U8, true) => {
                load_one::<u8, u64>(registers, d, base, addresses, offset, mask, u64::from)
            }
            (Type::S8, true) => {
                load_one::<u8, u64>(registers, d, base, addresses, offset, mask, |x| {
                    x as i8 as u64
                })
            }
            (Type::S16, true) => {
                load_one::<u16, u64>(registers, d, base, addresses, offset, mask, |x| {
                    x as i16 as u64
                })
            }
            (Type::U16 | Type::F16 | Type::Bf16, true) => {
                load_one::<u16, u64>(registers, d, base, addresses, offset, mask, u64::from)
            }
            (Type::S32, true) => {
                load_one::<u32, u64>(registers, d, base, addresses, offset, mask, |x| {
                    x as i32 as u64
                })
            }
            (Type::U32 | Type::F32, true) => {
                load_one::<u32, u64>(registers, d, base, addresses, offset, mask, u64::from)
            }
        }
    }
}

#[inline(always)]
fn load_one<T: Word, D: super::registers::Raw>(
    registers: &mut Registers,
    d: R,
    base: Base,
    addresses: &[u64; 32],
    offset: u64,
    mask: u32,
    extend: impl Fn(T) -> D,
) {
    let mut out = [D::default(); 32];
    for lane in 0..32 {
        // SAFETY: `check` found all of the access in bounds and aligned, for all 32 lanes: inactive ones
        // repeat the address of an active one.
        out[lane] = extend(unsafe { T::load(base, addresses[lane] + offset, lane) });
    }
    registers.write(d, mask, &out);
}

#[inline(always)]
fn store(
    registers: &Registers,
    access: &Access,
    a: [R; 4],
    base: Base,
    addresses: &[u64; 32],
    mask: u32,
) {
    for (i, a) in a.into_iter().take(usize::from(access.count)).enumerate() {
        let offset = i as u64 * u64::from(access.ty.bytes());
        match (access.ty.bytes(), access.wide) {
            (1, false) => {
                store_one::<u8, u32>(registers, a, base, addresses, offset, mask, |x| x as u8)
            }
            (2, false) => {
                store_one::<u16, u32>(registers, a, base, addresses, offset, mask, |x| x as u16)
            }
            (4, false) => store_one::<u32, u32>(registers, a, base, addresses, offset, mask, |x| x),
            (1, true) => {
                store_one::<u8, u64>(registers, a, base, addresses, offset, mask, |x| x as u8)
            }
            (2, true) => {
                store_one::<u16, u64>(registers, a, base, addresses, offset, mask, |x| x as u16)
            }
            (4, true) => {
                store_one::<u32, u64>(registers, a, base, addresses, offset, mask, |x| x as u32)
            }
            _ => store_one::<u64, u64>(registers, a, base, addresses, offset, mask, |x| x),
        }
    }
}

#[inline(always)]
fn store_one<T: Word, S: super::registers::Raw>(
    registers: &Registers,
    a: R,
    base: Base,
    addresses: &[u64; 32],
    offset: u64,
    mask: u32,
    narrow: impl Fn(S) -> T,
) {
    let values: &[S; 32] = registers.read(a);
    for lane in 0..32 {
        if mask >> lane & 1 != 0 {
            // SAFETY: `check` found the access in bounds and aligned for all lanes in the mask.
            unsafe { narrow(values[lane]).store(base, addresses[lane] + offset, lane) };
        }
    }
}

/// A word of memory.
pub(super) trait Word: Copy {
    /// # Safety
    /// `address` is in bounds of the space behind `base`, and aligned.
    unsafe fn load(base: Base, address: u64, lane: usize) -> Self;
    /// # Safety
    /// As for `load`.
    unsafe fn store(self, base: Base, address: u64, lane: usize);
}

macro_rules! word {
    ($($ty:ident, $atomic:ident;)*) => {$(
        impl Word for $ty {
            #[inline(always)]
            unsafe fn load(base: Base, address: u64, lane: usize) -> Self {
                // SAFETY: promised by the caller; own memory is not shared with another thread of ours.
                unsafe {
                    match base {
                        Base::Device => $atomic::from_ptr(address as *mut $ty).load(Relaxed),
                        Base::Own(start) => start.add(address as usize).cast::<$ty>().read(),
                        Base::Lanes(start, stride) => start.add(stride as usize * lane + address as usize).cast::<$ty>().read(),
                    }
                }
            }
            #[inline(always)]
            unsafe fn store(self, base: Base, address: u64, lane: usize) {
                // SAFETY: promised by the caller; own memory is not shared with another thread of ours.
                unsafe {
                    match base {
                        Base::Device => $atomic::from_ptr(address as *mut $ty).store(self, Relaxed),
                        Base::Own(start) => start.add(address as usize).cast::<$ty>().write(self),
                        Base::Lanes(start, stride) => start.add(stride as usize * lane + address as usize).cast::<$ty>().write(self),
                    }
                }
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
        MemorySpace::Param => memory.params.get(at).copied(),
        MemorySpace::Generic | MemorySpace::Global => {
            let live = memory.map.containing(address).is_some_and(|a| a.live);
            // SAFETY: the byte lies in a live allocation.
            live.then(|| unsafe { u8::load(Base::Device, address, 0) })
        }
    }
}
