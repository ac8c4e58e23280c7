//! The handlers of each family, compiled once per instruction set of the host and chosen at run time.
//!
//! Without this a fused multiply-add would be a library call, 30 times slower, on a portable build.

use std::sync::OnceLock;

use super::memory::{Memory, Thread, Trap};
use super::registers::Registers;
use super::vectors::*;
use super::{data, float, integer, memory, predicate};
use crate::program::op::Op;

/// Runs an operation that stays within registers.
///
/// Unsafe to call, because it may need processor features; [`handlers`] only gives what this processor has.
pub(super) type Compute = unsafe fn(&mut Registers, &Op, u32);
/// Runs a load or store; unsafe as [`Compute`] is.
pub(super) type Transfer = unsafe fn(&mut Thread<'_>, &mut Memory<'_>, &Op) -> Result<(), Trap>;

/// One compiled set.
pub(super) struct Handlers {
    pub integer: Compute,
    pub float: Compute,
    pub data: Compute,
    pub predicate: Compute,
    pub memory: Transfer,
}

macro_rules! handlers {
    ($name:ident, $vectors:ty $(, $features:literal)?) => {
        mod $name {
            use super::*;

            $(#[target_feature(enable = $features)])?
            fn integer(registers: &mut Registers, op: &Op, mask: u32) {
                super::integer::execute(registers, op, mask);
            }
            $(#[target_feature(enable = $features)])?
            fn float(registers: &mut Registers, op: &Op, mask: u32) {
                super::float::execute(registers, op, mask);
            }
            $(#[target_feature(enable = $features)])?
            fn data(registers: &mut Registers, op: &Op, mask: u32) {
                super::data::execute(registers, op, mask);
            }
            $(#[target_feature(enable = $features)])?
            fn predicate(registers: &mut Registers, op: &Op, mask: u32) {
                super::predicate::execute(registers, op, mask);
            }
            $(#[target_feature(enable = $features)])?
            fn memory(thread: &mut Thread<'_>, memory: &mut Memory<'_>, op: &Op) -> Result<(), Trap> {
                super::memory::execute::<$vectors>(thread, memory, op)
            }

            pub(super) static HANDLERS: Handlers = Handlers { integer, float, data, predicate, memory };
        }
    };
}

handlers!(portable, Portable);
#[cfg(target_arch = "x86_64")]
handlers!(avx2, Avx2, "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c");
#[cfg(target_arch = "x86_64")]
handlers!(
    avx512,
    Avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c"
);

/// The best set for this processor.
pub(super) fn handlers() -> &'static Handlers {
    static CHOICE: OnceLock<&'static Handlers> = OnceLock::new();
    CHOICE.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            let common = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("f16c");
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512cd");
            if common && wide {
                return &avx512::HANDLERS;
            }
            if common {
                return &avx2::HANDLERS;
            }
        }
        &portable::HANDLERS
    })
}
