//! Class of an operation: the part of a multiprocessor that it keeps busy, and the arithmetic that
//! it does.

use super::arithmetic::{FloatUnary, Type};
use super::half::HalfOp;
use super::matrix::{Columns, Factors};
use super::memory::MemorySpace;
use super::operation::{Op, between_lanes};
use super::warpgroup::WarpgroupProduct;

/// Defines the classes: each once, with its description and its word for tables.
macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $name:literal;)*) => {
        /// Kinds of instruction, by the part of a multiprocessor that runs them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Class { $($(#[$doc])* $class,)* }

        impl Class {
            /// All of them, in the order of [`Counters::classes`](crate::Counters::classes).
            pub const ALL: [Class; [$($name),*].len()] = [$(Class::$class),*];

            /// A word for tables.
            pub fn name(self) -> &'static str {
                match self { $(Class::$class => $name),* }
            }
        }
    };
}

classes! {
    /// Fused multiply-add on f32.
    Fma32 = "fma f32";
    /// Other f32 arithmetic: add, multiply, minimum, comparison.
    Float32 = "f32";
    /// f64 arithmetic.
    Float64 = "f64";
    /// f16 and bf16 arithmetic.
    Half = "f16";
    /// Tensor cores.
    Tensor = "tensor";
    /// Special functions: reciprocal, square root, exp2, log2, sine.
    Special = "special";
    /// Integers, bits, addresses, comparisons of integers, predicates.
    Integer = "integer";
    /// Moves, selections and conversions.
    Move = "move";
    /// Loads and stores of global memory, and atomics.
    Global = "global";
    /// Loads, stores and atomics of shared memory.
    Shared = "shared";
    /// Loads, stores and atomics of local memory.
    Local = "local";
    /// Loads of kernel parameters.
    Parameter = "parameter";
    /// Asynchronous copies to shared memory, their groups and waits.
    Copy = "async copy";
    /// Shuffles, votes, `__syncwarp`.
    Warp = "warp";
    /// Block barriers and fences.
    Barrier = "barrier";
    /// Branches, exits, calls.
    Control = "control";
    /// All other instructions.
    Other = "other";
}

/// Type of the factors of a product on the tensor cores, which decides its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorUnit {
    /// f16, bf16 and 8-bit floats.
    F16,
    Tf32,
    F64,
    Int8,
}

impl TensorUnit {
    fn of(factors: Factors) -> TensorUnit {
        match factors {
            Factors::F16 | Factors::Bf16 | Factors::E4m3 { .. } | Factors::E5m2 { .. } => {
                TensorUnit::F16
            }
            Factors::Tf32 => TensorUnit::Tf32,
            Factors::Int8 { .. } => TensorUnit::Int8,
        }
    }
}

impl Op {
    /// What of the tensor cores it runs on, if it is a product of theirs.
    pub(crate) fn tensor_unit(&self) -> Option<TensorUnit> {
        match self {
            Op::MatrixProduct(product) => Some(TensorUnit::of(product.factors)),
            Op::WarpgroupProduct(product) => Some(TensorUnit::of(product.factors)),
            Op::QuadPairProducts(_) => Some(TensorUnit::F16),
            Op::MatrixProduct64(_) => Some(TensorUnit::F64),
            _ => None,
        }
    }

    /// Its class. Generic accesses count as global.
    pub(crate) fn class(&self) -> Class {
        self.work().0
    }

    /// Floating-point operations of one lane: two for a fused multiply-add, one for other
    /// arithmetic. Comparisons and conversions are none; atomic additions are counted with their
    /// traffic.
    pub(crate) fn flops(&self) -> u64 {
        self.work().1
    }

    /// Its class and its floating-point operations of one lane.
    fn work(&self) -> (Class, u64) {
        let float = |wide: bool, class: Class| if wide { Class::Float64 } else { class };
        let of_space = |space: MemorySpace| match space {
            MemorySpace::Generic | MemorySpace::Global => Class::Global,
            MemorySpace::Shared => Class::Shared,
            MemorySpace::Local => Class::Local,
            MemorySpace::Param => Class::Parameter,
        };
        // Of a product with 8 columns.
        let per_lane = |rows: usize, depth: usize| (2 * rows * 8 * depth / 32) as u64;
        let of_type = |ty: Type| match ty {
            Type::F16 | Type::Bf16 => Class::Half,
            Type::F32 => Class::Float32,
            Type::F64 => Class::Float64,
            _ => Class::Integer,
        };
        match self {
            Op::Fma { wide, .. } => (float(*wide, Class::Fma32), 2),
            Op::FloatUnary { op, wide, .. } => match op {
                FloatUnary::Neg | FloatUnary::Abs => (float(*wide, Class::Float32), 0),
                FloatUnary::Sqrt
                | FloatUnary::Reciprocal
                | FloatUnary::Exp2
                | FloatUnary::Log2
                | FloatUnary::ReciprocalSqrt
                | FloatUnary::Sin
                | FloatUnary::Cos
                | FloatUnary::Tanh => (float(*wide, Class::Special), 1),
            },
            Op::FloatBinary { wide, .. } => (float(*wide, Class::Float32), 1),
            Op::FloatTest { wide, .. } => (float(*wide, Class::Float32), 0),
            Op::Half { op, mode, .. } => {
                let flops = op.flops() * if mode.pair { 2 } else { 1 };
                match op {
                    HalfOp::Exp2 | HalfOp::Tanh => (Class::Special, flops),
                    _ => (Class::Half, flops),
                }
            }
            Op::Compare { ty, .. }
            | Op::ComparePair { ty, .. }
            | Op::ComparePairValue { ty, .. }
            | Op::CompareValue { ty, .. } => (of_type(*ty), 0),
            Op::IntUnary { .. }
            | Op::IntBinary { .. }
            | Op::IntTernary { .. }
            | Op::MadWide { .. }
            | Op::Count { .. }
            | Op::Bits { .. }
            | Op::BitExtract { .. }
            | Op::BitInsert { .. }
            | Op::SignExtend { .. }
            | Op::Carry { .. }
            | Op::Cvta { .. }
            | Op::IsSpace { .. }
            | Op::PredicateLogic { .. }
            | Op::PredicateMove { .. } => (Class::Integer, 0),
            Op::Move { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Convert { .. }
            | Op::Narrow { .. }
            | Op::ConvertPair { .. }
            | Op::ConvertBytes { .. }
            | Op::Select { .. }
            | Op::SelectSign { .. } => (Class::Move, 0),
            Op::Load { address, .. } | Op::Store { address, .. } | Op::Atomic { address, .. } => {
                (of_space(address.space), 0)
            }
            Op::CopyAsync(_)
            | Op::CopyCommit
            | Op::CopyWait { .. }
            | Op::BulkCopy(_)
            | Op::BulkCommit
            | Op::BulkWait { .. } => (Class::Copy, 0),
            Op::MatrixProduct(product) => {
                (Class::Tensor, per_lane(product.rows(), product.depth()))
            }
            Op::MatrixProduct64(product) => {
                let (rows, depth) = (product.rows.into(), product.depth.into());
                (Class::Tensor, per_lane(rows, depth))
            }
            // A warp has a quarter of the rows.
            Op::WarpgroupProduct(product) => {
                let columns = usize::from(product.columns) / 8;
                let of_a_warp = per_lane(WarpgroupProduct::ROWS / 4, product.depth());
                (Class::Tensor, of_a_warp * columns as u64)
            }
            // Of the whole instruction, which is counted at its first half.
            Op::QuadPairProducts(_) => (Class::Tensor, 4 * per_lane(8, 4)),
            Op::MatrixLoad(_) | Op::MatrixStore(_) => (Class::Shared, 0),
            between_lanes!()
            | Op::MatrixStart(_)
            | Op::MatrixTranspose { .. }
            | Op::ProductFence
            | Op::ProductCommit
            | Op::ProductWait { .. }
            | Op::ActiveMask { .. } => (Class::Warp, 0),
            Op::Barrier { .. }
            | Op::ClusterBarrier { .. }
            | Op::Fence(_)
            | Op::SetMaxRegisters { .. }
            | Op::Mbarrier(_) => (Class::Barrier, 0),
            Op::Branch { .. } | Op::BranchTable { .. } | Op::Exit | Op::Trap => (Class::Control, 0),
            Op::Nothing
            | Op::Yield
            | Op::Clock { .. }
            | Op::Print { .. }
            | Op::AssertFail { .. }
            | Op::Accumulators(_)
            | Op::Track(_)
            | Op::Unknown { .. } => (Class::Other, 0),
        }
    }

    /// True if it is counted: not if the simulator adds it, or if it goes on with an instruction
    /// that is counted before.
    pub(crate) fn is_counted(&self) -> bool {
        match self {
            Op::Track(_) | Op::Accumulators(_) => false,
            Op::MatrixProduct64(product) => product.depth > 0,
            Op::QuadPairProducts(products) => products.columns == Columns::Low,
            _ => true,
        }
    }

    /// True if the operation is a block barrier.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self, Op::Barrier { .. })
    }

    /// True if threads of a warp may take different paths here.
    pub(crate) fn is_branch(&self) -> bool {
        matches!(self, Op::Branch { .. } | Op::BranchTable { .. })
    }
}
