//! Loads and stores.
//!
//! An access is made in steps: find the place and the pattern of its addresses ([`crate::exec::access::locate`], [`crate::exec::access::pattern`]), check
//! that all lanes lie inside what they may touch, count it, have the watches look at it ([`crate::exec::checks::accesses`]), and move
//! the values. The most frequent accesses take a shorter way, [`crate::exec::access::fast_path`]. Device memory is accessed by relaxed
//! atomics, or by the processor's own vector instructions, so that a kernel with races is not undefined behaviour here;
//! shared and local memory belong to one block, which one host thread runs.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::exec::access::address_space;
use crate::exec::access::locate::{Kind, Part, Parts};
use crate::exec::checks::accesses::{check_equal, read_flags, watch_load, watch_store, watch_used};
use crate::exec::host_simd::Portable;
use crate::exec::host_thread::{Core, Thread, Trap};
use crate::exec::registers::{Raw, Registers, lanes};
use crate::program::op::{Access, MemorySpace, Op, R, Type};

/// Runs a load or store. `thread.mask` is not empty.
pub(crate) fn execute(thread: &mut Thread<'_>, core: &mut Core<'_>, op: &Op) -> Result<(), Trap> {
    let mut parts = Parts::new(thread.mask);
    match op {
        Op::Load { access, address, d } => {
            while let Some(part) = parts.next(thread, core, address, access, Kind::Load)? {
                if core.checks && access.is_partial() {
                    watch_used(thread, core, access, &part)?;
                } else if core.checks && !is_on_record(thread, core, access, &part) {
                    watch_load::<Portable>(thread, core, access, &part)?;
                }
                load(thread.registers, core, access, d, &part);
                if core.checks && access.order.is_strong() {
                    read_flags(thread, core, access, &part);
                }
            }
        }
        Op::Store { access, address, a } => {
            while let Some(part) = parts.next(thread, core, address, access, Kind::Store)? {
                if core.checks {
                    watch_store::<Portable>(thread, core, access, a, &part)?;
                }
                store(thread.registers, core, access, a, &part);
                if core.checks && core.sites[access.site as usize].overlaps {
                    check_equal(thread, core, access, a, &part)?;
                }
            }
        }
        _ => unreachable!("not a load or store"),
    }
    Ok(())
}

/// Whether the same threads have read the same words of device memory before, and nothing has changed since.
fn is_on_record(thread: &Thread<'_>, core: &Core<'_>, access: &Access, part: &Part) -> bool {
    let site = &core.sites[access.site as usize];
    matches!(part.space, MemorySpace::Generic | MemorySpace::Global)
        && core
            .global
            .has_read::<Portable>(thread.warp, site, part.first)
}

fn load(
    registers: &mut Registers,
    core: &Core<'_>,
    access: &Access,
    d: &[Option<R>; 4],
    part: &Part,
) {
    let deltas = &core.sites[access.site as usize].deltas.0;
    for (i, d) in d.iter().take(usize::from(access.count)).enumerate() {
        let Some(d) = *d else { continue };
        let part = Part {
            host: part.host + i as u64 * u64::from(access.ty.bytes()),
            ..*part
        };
        if access.is_partial() {
            load_bytes(registers, access, i, d, deltas, &part);
            continue;
        }
        match (access.ty, access.wide) {
            (Type::U32 | Type::S32 | Type::F32, false) => {
                load_one::<u32, u32>(registers, d, deltas, &part, |x| x)
            }
            (Type::U64 | Type::S64 | Type::F64, _) => {
                load_one::<u64, u64>(registers, d, deltas, &part, |x| x)
            }
            (Type::U8, false) => load_one::<u8, u32>(registers, d, deltas, &part, u32::from),
            (Type::S8, false) => {
                load_one::<u8, u32>(registers, d, deltas, &part, |x| x as i8 as u32)
            }
            (Type::S16, false) => {
                load_one::<u16, u32>(registers, d, deltas, &part, |x| x as i16 as u32)
            }
            (Type::U16 | Type::F16 | Type::Bf16, false) => {
                load_one::<u16, u32>(registers, d, deltas, &part, u32::from)
            }
            (Type::U8, true) => load_one::<u8, u64>(registers, d, deltas, &part, u64::from),
            (Type::S8, true) => {
                load_one::<u8, u64>(registers, d, deltas, &part, |x| x as i8 as u64)
            }
            (Type::S16, true) => {
                load_one::<u16, u64>(registers, d, deltas, &part, |x| x as i16 as u64)
            }
            (Type::U16 | Type::F16 | Type::Bf16, true) => {
                load_one::<u16, u64>(registers, d, deltas, &part, u64::from)
            }
            (Type::S32, true) => {
                load_one::<u32, u64>(registers, d, deltas, &part, |x| x as i32 as u64)
            }
            (Type::U32 | Type::F32, true) => {
                load_one::<u32, u64>(registers, d, deltas, &part, u64::from)
            }
        }
    }
}

fn load_one<T: Word, D: Raw>(
    registers: &mut Registers,
    d: R,
    deltas: &[i32; 32],
    part: &Part,
    extend: impl Fn(T) -> D,
) {
    let mut out = [D::default(); 32];
    for lane in lanes(part.mask) {
        // SAFETY: `place` found all lanes in bounds and aligned.
        out[lane] = extend(unsafe { T::load(part.place(deltas[lane], lane)) });
    }
    registers.write(d, part.mask, &out);
}

/// Loads the used bytes of an element. The others, which nobody looks at, are all ones.
#[inline(never)]
fn load_bytes(
    registers: &mut Registers,
    access: &Access,
    element: usize,
    d: R,
    deltas: &[i32; 32],
    part: &Part,
) {
    let used = access.used_of(element);
    let spare = 64 - 8 * access.ty.bytes();
    let mut out = [0u64; 32];
    for lane in lanes(part.mask) {
        let place = part.place(deltas[lane], lane);
        let mut bytes = [0xff; 8];
        for (i, byte) in bytes.iter_mut().enumerate() {
            if used >> i & 1 != 0 {
                // SAFETY: `place` found the used bytes of all lanes in bounds.
                *byte = unsafe { u8::load(place + i as u64) };
            }
        }
        let high = u64::from_le_bytes(bytes) << spare;
        out[lane] = match access.ty {
            Type::S8 | Type::S16 | Type::S32 => (high as i64 >> spare) as u64,
            _ => high >> spare,
        };
    }
    if access.wide {
        registers.write(d, part.mask, &out);
    } else {
        registers.write(d, part.mask, &out.map(|x| x as u32));
    }
}

fn store(registers: &Registers, core: &Core<'_>, access: &Access, a: &[R; 4], part: &Part) {
    let deltas = &core.sites[access.site as usize].deltas.0;
    for (i, a) in a.iter().take(usize::from(access.count)).enumerate() {
        let part = Part {
            host: part.host + i as u64 * u64::from(access.ty.bytes()),
            ..*part
        };
        match (access.ty.bytes(), access.wide) {
            (1, false) => store_one::<u8, u32>(registers, *a, deltas, &part, |x| x as u8),
            (2, false) => store_one::<u16, u32>(registers, *a, deltas, &part, |x| x as u16),
            (4, false) => store_one::<u32, u32>(registers, *a, deltas, &part, |x| x),
            (1, true) => store_one::<u8, u64>(registers, *a, deltas, &part, |x| x as u8),
            (2, true) => store_one::<u16, u64>(registers, *a, deltas, &part, |x| x as u16),
            (4, true) => store_one::<u32, u64>(registers, *a, deltas, &part, |x| x as u32),
            _ => store_one::<u64, u64>(registers, *a, deltas, &part, |x| x),
        }
    }
}

fn store_one<T: Word, S: Raw>(
    registers: &Registers,
    a: R,
    deltas: &[i32; 32],
    part: &Part,
    narrow: impl Fn(S) -> T,
) {
    let values: &[S; 32] = registers.read(a);
    for lane in lanes(part.mask) {
        // SAFETY: `place` found all lanes in bounds and aligned.
        unsafe { narrow(values[lane]).store(part.place(deltas[lane], lane)) };
    }
}

/// A word of memory, accessed atomically: other blocks may access device memory at the same time.
pub(crate) trait Word: Copy {
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
pub(crate) fn text(thread: &Thread<'_>, core: &Core<'_>, address: u64, lane: u32) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < 4096 {
        match byte(thread, core, address.wrapping_add(bytes.len() as u64), lane) {
            None | Some(0) => break,
            Some(byte) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One byte at a generic address, or `None` outside memory.
pub(crate) fn byte(thread: &Thread<'_>, core: &Core<'_>, address: u64, lane: u32) -> Option<u8> {
    let space = address_space::of(address);
    let within = address.wrapping_sub(address_space::window(space));
    let at = usize::try_from(within).ok()?;
    match space {
        MemorySpace::Shared => core.shared.as_slice().get(at).copied(),
        MemorySpace::Local if within < u64::from(thread.local_bytes) => thread
            .local
            .as_slice()
            .get(at + (lane * thread.local_bytes) as usize)
            .copied(),
        MemorySpace::Local => None,
        MemorySpace::Param => core.params.as_slice().get(at).copied(),
        MemorySpace::Generic | MemorySpace::Global => {
            let live = core.map.containing(address).is_some_and(|a| a.live);
            // SAFETY: the byte lies in a live allocation.
            live.then(|| unsafe { u8::load(address) })
        }
    }
}
