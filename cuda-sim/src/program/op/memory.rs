//! Memory accesses: state space, address, width, memory order.

use std::ops::Range;

use super::arithmetic::Type;
use super::operands::R;

/// State space of a memory access. `Global` holds `.const` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MemorySpace {
    Generic,
    Global,
    Shared,
    Local,
    /// Kernel parameters.
    Param,
}

/// Address of a memory access: `[base + offset]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub space: MemorySpace,
    pub base: R,
    /// The base is a 64-bit register; otherwise 32-bit, as inline PTX may use for shared memory.
    pub wide: bool,
    /// In bytes. PTX has 32 bits for it.
    pub offset: i32,
}

impl Address {
    /// The address so many bytes further; `None` if PTX has no offset for it.
    pub(crate) fn plus(self, bytes: u32) -> Option<Address> {
        let offset = match self.wide {
            true => self.offset.checked_add_unsigned(bytes)?,
            false => self.offset.wrapping_add_unsigned(bytes),
        };
        Some(Address { offset, ..self })
    }

    /// The address that a wide register holds.
    pub(crate) fn in_register(space: MemorySpace, base: R) -> Address {
        Address {
            space,
            base,
            wide: true,
            offset: 0,
        }
    }
}

/// Width and form of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// Type of one element in memory.
    pub ty: Type,
    /// Elements per lane: 1, 2 or 4.
    pub count: u8,
    /// The registers of the other side are 64-bit.
    pub wide: bool,
    pub order: Order,
    /// Bytes of a lane's access that are used, a bit each, by `.pragma "used_bytes_mask"`;
    /// [`ALL_BYTES`] if it has none. A load makes the access of its full width, but the others are
    /// neither checked nor read.
    pub used: u32,
    /// The bytes of a lane are a row of a matrix (`ldmatrix`): shared memory serves eight lanes at
    /// a time, whatever their addresses.
    pub row: bool,
    /// Number of the memory instruction within its kernel.
    pub site: u32,
}

/// Every byte of an access is used.
pub(crate) const ALL_BYTES: u32 = u32::MAX;

impl Access {
    /// An access of one element, in registers of its own width.
    pub(crate) fn one(ty: Type, order: Order) -> Access {
        Access {
            ty,
            count: 1,
            wide: ty.is_wide(),
            order,
            used: ALL_BYTES,
            row: false,
            site: 0,
        }
    }

    /// An access of `count` elements, in as many registers of their width.
    pub(crate) fn vector(ty: Type, count: usize, order: Order) -> Access {
        Access {
            count: count as u8,
            ..Access::one(ty, order)
        }
    }

    /// Bytes of one lane, used or not.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u32 {
        self.ty.bytes() * u32::from(self.count)
    }

    /// True if some bytes are not used.
    #[inline(always)]
    pub(crate) fn is_partial(&self) -> bool {
        self.used != ALL_BYTES
    }

    /// The bytes from the first used one to the last.
    #[inline(always)]
    pub(crate) fn used_range(&self) -> Range<u64> {
        if self.is_partial() {
            u64::from(self.used.trailing_zeros())..u64::from(32 - self.used.leading_zeros())
        } else {
            0..u64::from(self.bytes())
        }
    }

    /// Used bytes of an element, a bit each.
    pub(crate) fn used_of(&self, element: usize) -> u32 {
        let size = self.ty.bytes();
        self.used >> (element as u32 * size) & ((1 << size) - 1)
    }

    /// The used bytes, in pieces that lie within a word each: first byte and length.
    pub(crate) fn used_pieces(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut rest = self.used;
        std::iter::from_fn(move || {
            let start = rest.trailing_zeros();
            let length = rest.checked_shr(start)?.trailing_ones().min(4 - start % 4);
            rest &= !(((1 << length) - 1) << start);
            Some((u64::from(start), u64::from(length)))
        })
    }

    /// True if it is one word of 32 bits, or a vector of them, and nothing special.
    #[inline(always)]
    pub(crate) fn is_plain_words(&self) -> bool {
        matches!(self.ty, Type::U32 | Type::S32 | Type::F32)
            && !self.wide
            && self.order == Order::Weak
            && !self.is_partial()
    }
}

/// Kind of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessKind {
    /// Reads.
    #[default]
    Load,
    /// Writes.
    Store,
    /// Reads and writes.
    Atomic,
}

/// Memory order of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Plain.
    Weak,
    /// A plain load of the value that a compare-and-swap expects; see
    /// [`crate::program::analysis::compare_and_swap_reads`].
    Expected,
    /// `.volatile`, `.relaxed`: a thread may be waiting for another's store.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

impl Order {
    /// True if the access may be a flag that threads wait for.
    pub(crate) fn is_strong(self) -> bool {
        !matches!(self, Order::Weak | Order::Expected)
    }

    /// True if the access does not race with atomic operations.
    pub(crate) fn is_sync(self) -> bool {
        self != Order::Weak
    }

    /// True if it is its own fence for what came before.
    pub(crate) fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcquireRelease)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    Increment,
    Decrement,
    /// Of a 16-bit float, or of each half of a 32-bit word.
    Half {
        op: HalfAtomic,
        bf16: bool,
    },
}

impl Atomic {
    /// Values that each lane passes.
    pub(crate) fn values(self, access: &Access) -> usize {
        match self {
            Atomic::CompareSwap => 2,
            _ => usize::from(access.count),
        }
    }
}

/// Atomic operations on 16-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfAtomic {
    Add,
    Min,
    Max,
}
