//! The handlers of each family, compiled once per instruction set of the host and chosen at run
//! time.
//!
//! Without this a fused multiply-add would be a library call, 30 times slower, on a portable build.

use std::hint::unreachable_unchecked;
use std::sync::OnceLock;

use crate::exec::active_warp::ActiveWarp;
use crate::exec::host_simd::*;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::operations::lanes::{self, Members};
use crate::exec::operations::mma::MatrixUnit;
use crate::exec::operations::{bits, data, float, half, integer, predicate, word_access};
use crate::exec::registers::Registers;
use crate::program::Instruction;
use crate::program::op::*;
use crate::program::op::{Form, with_forms};

/// Runs an operation that only changes registers.
///
/// Unsafe to call: the operation must have the form that the function is for, and the processor the
/// features that it needs; [`handlers`] only gives what this processor has.
pub(crate) type Compute = unsafe fn(&mut Registers, &Op, u32);
/// Runs operations of one form that follow each other; unsafe as [`Compute`] is.
pub(crate) type ComputeAlike = unsafe fn(&mut Registers, &[Instruction], u32);
/// Runs a load or store; unsafe as [`Compute`] is.
pub(crate) type Transfer =
    unsafe fn(&mut ActiveWarp<'_>, &mut HostThread<'_>, &Op) -> Result<(), Trap>;

/// Runs an operation between lanes; unsafe as [`Compute`] is. See [`lanes::execute`].
pub(crate) type Exchange = unsafe fn(&mut Registers, &Op, u32, &Members) -> Option<(u32, u32)>;

/// Runs a matrix product; unsafe as [`Compute`] is.
pub(crate) type Product = unsafe fn(&mut MatrixUnit, &mut Registers, &Op);

/// Runs a product of a warpgroup with these accumulators, whose tiles have been read; unsafe as
/// [`Compute`] is. See [`MatrixUnit::multiply_warpgroup`].
pub(crate) type WarpgroupMultiply =
    unsafe fn(&mut MatrixUnit, &mut [&mut Registers; 4], &WarpgroupProduct, &[R], bool);

/// One compiled set.
pub(crate) struct Handlers {
    /// By [`Form`].
    pub compute: [Compute; Form::COUNT],
    pub compute_alike: [ComputeAlike; Form::COUNT],
    pub lanes: Exchange,
    pub product: Product,
    pub multiply_warpgroup: WarpgroupMultiply,
    pub load_shared: Transfer,
    pub store_shared: Transfer,
    pub load_global: Transfer,
    pub store_global: Transfer,
    pub load_param: Transfer,
}

/// The function of a family; some make use of the instruction set.
macro_rules! family {
    (integer, $simd:ty) => {
        integer::execute
    };
    (bits, $simd:ty) => {
        bits::execute
    };
    (float, $simd:ty) => {
        float::execute
    };
    (half, $simd:ty) => {
        half::execute::<$simd>
    };
    (data, $simd:ty) => {
        data::execute::<$simd>
    };
    (predicate, $simd:ty) => {
        predicate::execute::<$simd>
    };
}

/// Defines the accesses to words for an instruction set.
macro_rules! transfers {
    ([$simd:ty, $features:meta] $($name:ident)*) => {$(
        #[$features]
        fn $name(warp: &mut ActiveWarp<'_>, worker: &mut HostThread<'_>, op: &Op) -> Result<(), Trap> {
            word_access::$name::<$simd>(warp, worker, op)
        }
    )*};
}

macro_rules! handlers {
    ([$module:ident, $simd:ty, $features:meta] $($pattern:pat => $family:ident::$form:ident;)*) => {
        mod $module {
            use super::*;

            $(
                #[$features]
                #[allow(non_snake_case)] // Named as the form is.
                unsafe fn $form(registers: &mut Registers, op: &Op, mask: u32) {
                    if !matches!(op, $pattern) {
                        // SAFETY: promised by the caller. With it, only the code for these
                        // operations is left.
                        unsafe { unreachable_unchecked() }
                    }
                    family!($family, $simd)(registers, op, mask);
                }
            )*

            mod alike {
                use super::*;

                $(
                    #[$features]
                    #[allow(non_snake_case)]
                    pub(super) unsafe fn $form(registers: &mut Registers, alike: &[Instruction], mask: u32) {
                        for Instruction { op, .. } in alike {
                            // SAFETY: promised by the caller.
                            unsafe { super::$form(registers, op, mask) }
                        }
                    }
                )*
            }
            transfers!([$simd, $features] load_shared store_shared load_global store_global load_param);

            #[$features]
            fn exchange(registers: &mut Registers, op: &Op, mask: u32, members: &Members) -> Option<(u32, u32)> {
                lanes::execute::<$simd>(registers, op, mask, members)
            }

            #[$features]
            fn product(unit: &mut MatrixUnit, registers: &mut Registers, op: &Op) {
                unit.execute::<$simd>(registers, op);
            }

            #[$features]
            fn multiply_warpgroup(
                unit: &mut MatrixUnit,
                warps: &mut [&mut Registers; 4],
                product: &WarpgroupProduct,
                d: &[R],
                adds: bool,
            ) {
                unit.multiply_warpgroup::<$simd>(warps, product, d, adds);
            }

            pub(crate) static HANDLERS: Handlers = Handlers {
                compute: [$($form),*],
                compute_alike: [$(alike::$form),*],
                lanes: exchange,
                product,
                multiply_warpgroup,
                load_shared,
                store_shared,
                load_global,
                store_global,
                load_param,
            };
        }
    };
}

// With an attribute that says nothing, because no feature is needed.
with_forms!(handlers [portable, Portable, cfg(all())]);
#[cfg(target_arch = "x86_64")]
with_forms!(handlers [avx2, Avx2, target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]);
#[cfg(target_arch = "x86_64")]
with_forms!(handlers [avx512, Avx512, target_feature(enable =
    "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]);

/// True if this processor has all of these features.
#[cfg(target_arch = "x86_64")]
macro_rules! detected {
    ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
}

/// The best set for this processor.
pub(crate) fn handlers() -> &'static Handlers {
    static CHOICE: OnceLock<&'static Handlers> = OnceLock::new();
    CHOICE.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            let common = detected!("avx2" "fma" "bmi1" "bmi2" "lzcnt" "popcnt" "f16c");
            let wide = detected!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512cd");
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

#[cfg(test)]
mod tests;
