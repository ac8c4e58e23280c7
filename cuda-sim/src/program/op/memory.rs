//! Memory accesses: where, how much, in which order.

use super::{R, Type};

/// State space of a memory access. `Global` holds `.const` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemorySpace {
    Generic,
    Global,
    Shared,
    Local,
    /// Kernel parameters.
    Param,
}

/// Where a memory access goes: `[base + offset]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub space: MemorySpace,
    pub base: R,
    /// The base is a 64-bit register; otherwise 32-bit, as inline PTX may use for shared memory.
    pub wide: bool,
    pub offset: i64,
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
    /// Number of the memory instruction within its kernel.
    pub site: u32,
}

impl Access {
    /// Whether it is one word of 32 bits and nothing special.
    #[inline(always)]
    pub(crate) fn is_plain_word(&self) -> bool {
        matches!(self.ty, Type::U32 | Type::S32 | Type::F32)
            && self.count == 1
            && !self.wide
            && self.order == Order::Weak
    }
}

/// How an access takes part in synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Plain.
    Weak,
    /// A plain load of the value that a compare-and-swap expects; see [`crate::program::expected`].
    Expected,
    /// `.volatile`, `.relaxed`: a thread may be waiting for another's store.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

impl Order {
    /// Whether the access may be a flag that threads wait for.
    pub(crate) fn is_strong(self) -> bool {
        !matches!(self, Order::Weak | Order::Expected)
    }

    /// Whether the access does not race with atomic operations.
    pub(crate) fn is_sync(self) -> bool {
        self != Order::Weak
    }

    /// Whether it is its own fence for what came before.
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
}
