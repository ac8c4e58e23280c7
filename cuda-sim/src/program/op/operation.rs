//! One operation: the list that every pass and the executor match without a wildcard.

use super::arithmetic::*;
use super::async_copy::AsyncCopy;
use super::bulk_copy::BulkCopy;
use super::half::{ByteConversion, HalfMode, HalfOp, Narrowing};
use super::matrix::{MatrixProduct, MatrixProduct64, MatrixRows, MatrixStart, QuadPairProducts};
use super::mbarrier::Mbarrier;
use super::memory::{Access, Address, Atomic, MemorySpace};
use super::operands::{Condition, P, R};
use super::tracking::Tracking;
use super::warp::{BarrierKind, Fence, Reduction, Shuffle, Vote};
use super::warpgroup::{Accumulators, WarpgroupProduct};

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    // Integers: exec/operations/integer.rs
    IntUnary {
        op: IntUnary,
        ty: Type,
        d: R,
        a: R,
    },
    IntBinary {
        op: IntBinary,
        ty: Type,
        d: R,
        a: R,
        b: R,
    },
    IntTernary {
        op: IntTernary,
        ty: Type,
        d: R,
        a: R,
        b: R,
        c: R,
    },
    /// `mul.wide`, `mad.wide`: `ty` of the factors, the sum is twice as wide.
    MadWide {
        ty: Type,
        d: R,
        a: R,
        b: R,
        c: R,
    },
    Count {
        op: Count,
        ty: Type,
        d: R,
        a: R,
    },
    Carry {
        op: CarryOp,
        wide: bool,
        carry_in: bool,
        carry_out: bool,
        d: R,
        a: R,
        b: R,
        c: R,
    },

    // Bits and bytes: exec/operations/bits.rs
    Bits {
        op: Bits,
        d: R,
        a: R,
        b: R,
        c: R,
    },
    BitExtract {
        ty: Type,
        d: R,
        a: R,
        start: R,
        length: R,
    },
    BitInsert {
        wide: bool,
        d: R,
        a: R,
        b: R,
        start: R,
        length: R,
    },
    SignExtend {
        signed: bool,
        wrap: bool,
        d: R,
        a: R,
        bits: R,
    },

    // Floating point: exec/operations/float.rs
    FloatUnary {
        op: FloatUnary,
        wide: bool,
        mode: FloatMode,
        d: R,
        a: R,
    },
    FloatBinary {
        op: FloatBinary,
        wide: bool,
        mode: FloatMode,
        d: R,
        a: R,
        b: R,
    },
    Fma {
        wide: bool,
        mode: FloatMode,
        d: R,
        a: R,
        b: R,
        c: R,
    },
    FloatTest {
        op: FloatTest,
        wide: bool,
        d: P,
        a: R,
    },

    // 16-bit floats: exec/operations/half.rs
    Half {
        op: HalfOp,
        mode: HalfMode,
        d: R,
        a: R,
        b: R,
        c: R,
    },
    /// `cvt` of an f32 to tf32, or with `.relu` or `.satfinite`.
    Narrow {
        how: Narrowing,
        d: R,
        a: R,
    },
    /// `cvt.rn.f16x2.f32 d, a, b` and its bf16 form: a in the high half.
    ConvertPair {
        how: Narrowing,
        d: R,
        a: R,
        b: R,
    },
    /// `cvt` of `e4m3x2` or `e5m2x2`. `b` is `a` once more unless two f32 are converted, a to the
    /// high byte.
    ConvertBytes {
        how: ByteConversion,
        d: R,
        a: R,
        b: R,
    },

    // Moves, conversions, selection: exec/operations/data.rs
    Move {
        wide: bool,
        d: R,
        a: R,
    },
    /// `d = {parts}`, `count` parts of `bits` bits each, lowest first.
    Pack {
        bits: u8,
        count: u8,
        d: R,
        parts: [R; 4],
    },
    Unpack {
        bits: u8,
        count: u8,
        parts: [Option<R>; 4],
        a: R,
    },
    /// Registers may be wider than the types: the result is extended, the source truncated.
    Convert {
        how: Conversion,
        to_wide: bool,
        from_wide: bool,
        d: R,
        a: R,
    },
    Select {
        wide: bool,
        d: R,
        a: R,
        b: R,
        p: Condition,
    },
    /// `slct`: a if c ≥ 0, else b; `c` is s32 or f32, and `ftz` is for f32.
    SelectSign {
        wide: bool,
        float: bool,
        ftz: bool,
        d: R,
        a: R,
        b: R,
        c: R,
    },
    /// `cvta` and its inverse, as an addition to the address.
    Cvta {
        space: MemorySpace,
        to_space: bool,
        wide: bool,
        d: R,
        a: R,
    },
    IsSpace {
        space: MemorySpace,
        d: P,
        a: R,
    },

    // Predicates: exec/operations/predicate.rs
    Compare {
        op: Comparison,
        ty: Type,
        ftz: bool,
        d: P,
        q: Option<P>,
        a: R,
        b: R,
        with: Option<(Logic, Condition)>,
    },
    /// `set`: `yes`, which is all ones or 1.0, where true.
    CompareValue {
        op: Comparison,
        ty: Type,
        ftz: bool,
        yes: u32,
        d: R,
        a: R,
        b: R,
        with: Option<(Logic, Condition)>,
    },
    /// `setp` of `f16x2` or `bf16x2`: `d` for the low half, `q` for the high half.
    ComparePair {
        op: Comparison,
        ty: Type,
        ftz: bool,
        d: P,
        q: P,
        a: R,
        b: R,
        with: Option<(Logic, Condition)>,
    },
    /// `set` of `f16x2` or `bf16x2`: `yes` in each half where true.
    ComparePairValue {
        op: Comparison,
        ty: Type,
        ftz: bool,
        yes: u16,
        d: R,
        a: R,
        b: R,
        with: Option<(Logic, Condition)>,
    },
    PredicateLogic {
        op: Logic,
        d: P,
        a: Condition,
        b: Condition,
    },
    PredicateMove {
        d: P,
        a: Condition,
    },

    // Memory: exec/operations/load_store.rs and exec/operations/atomic.rs
    Load {
        access: Access,
        address: Address,
        d: [Option<R>; 4],
    },
    Store {
        access: Access,
        address: Address,
        a: [R; 4],
    },
    Atomic {
        op: Atomic,
        access: Access,
        address: Address,
        /// The old values go to `d`.
        returns: bool,
        d: [R; 4],
        /// A value for each element; of a compare-and-swap, the expected one and the new one.
        a: [R; 4],
    },

    // Asynchronous copies: exec/operations/async_copy.rs
    /// `cp.async`.
    CopyAsync(AsyncCopy),
    /// `cp.async.commit_group`: what the thread has begun since the last one is a group.
    CopyCommit,
    /// `cp.async.wait_group`: waits for all groups of the thread but the `newest` last ones.
    /// `None`, `wait_all`: for all copies.
    CopyWait {
        newest: Option<u32>,
    },

    // Copies of the tensor memory accelerator: exec/operations/bulk_copy/
    BulkCopy(BulkCopy),
    /// `cp.async.bulk.commit_group`: as [`Op::CopyCommit`], of copies to device memory.
    BulkCommit,
    /// `cp.async.bulk.wait_group`: waits for all bulk groups of the thread but the `newest` last
    /// ones, or for what they read of shared memory alone.
    BulkWait {
        newest: u32,
        only_reads: bool,
    },

    // Barriers in shared memory: exec/operations/mbarrier.rs
    Mbarrier(Mbarrier),

    // Matrices: exec/operations/mma/ and matrix_rows.rs
    MatrixProduct(MatrixProduct),
    MatrixProduct64(MatrixProduct64),
    QuadPairProducts(QuadPairProducts),
    MatrixLoad(MatrixRows),
    MatrixStore(MatrixRows),
    /// Before the loads or stores of `wmma`.
    MatrixStart(MatrixStart),
    /// `movmatrix`.
    MatrixTranspose {
        d: R,
        a: R,
    },

    // Matrices of a warpgroup: exec/block/warpgroup.rs, exec/operations/mma/warpgroup/
    WarpgroupProduct(WarpgroupProduct),
    /// No instruction: a part of the operands of the product that follows.
    Accumulators(Accumulators),
    /// `wgmma.fence`.
    ProductFence,
    /// `wgmma.commit_group`: the products that the warp has begun since the last one are a group.
    ProductCommit,
    /// `wgmma.wait_group`: waits for all groups of the warp but the `newest` last ones.
    ProductWait {
        newest: u32,
    },

    // Between lanes: exec/operations/lanes.rs
    Shuffle {
        op: Shuffle,
        d: R,
        p: Option<P>,
        a: R,
        b: R,
        c: R,
        members: R,
    },
    Vote {
        op: Vote,
        d: P,
        p: Condition,
        members: R,
    },
    Ballot {
        d: R,
        p: Condition,
        members: R,
    },
    MatchAny {
        wide: bool,
        d: R,
        a: R,
        members: R,
    },
    MatchAll {
        wide: bool,
        d: R,
        p: Option<P>,
        a: R,
        members: R,
    },
    Reduce {
        op: Reduction,
        ty: Type,
        d: R,
        a: R,
        members: R,
    },
    Elect {
        d: Option<R>,
        p: P,
        members: R,
    },
    WarpBarrier {
        members: R,
    },
    ActiveMask {
        d: R,
    },

    // Control: exec/warp/
    Branch {
        target: u32,
    },
    /// `brx.idx`: index into the program's branch tables.
    BranchTable {
        table: u32,
        index: R,
    },
    Exit,
    Barrier {
        kind: BarrierKind,
        id: R,
        count: Option<R>,
    },
    /// Memory here is coherent and in order; fences matter for finding races.
    Fence(Fence),
    /// `barrier.cluster`: arrives, or waits. An arrival that is not relaxed releases.
    ClusterBarrier {
        waits: bool,
        relaxed: bool,
    },
    /// `setmaxnreg`: the threads of the warp have so many registers from now on.
    SetMaxRegisters {
        increases: bool,
        count: u16,
    },
    /// Hints.
    Nothing,
    /// `nanosleep`: lets others run.
    Yield,
    Clock {
        wide: bool,
        d: R,
    },
    Trap,
    /// `vprintf`: generic addresses of the format and of the arguments.
    Print {
        d: Option<R>,
        format: R,
        arguments: R,
    },
    /// `__assertfail`: generic addresses of message, file and function.
    AssertFail {
        message: R,
        file: R,
        line: R,
    },
    /// Tracks a register that may be used unset; see [`crate::program::analysis::unset_registers`].
    /// No instruction of the program.
    Track(Tracking),
    /// An unknown instruction: the index of its text.
    Unknown {
        text: u32,
    },
}

/// Operations that read and write general registers alone, as a pattern.
macro_rules! on_general_registers {
    () => {
        Op::IntUnary { .. }
            | Op::IntBinary { .. }
            | Op::IntTernary { .. }
            | Op::MadWide { .. }
            | Op::Count { .. }
            | Op::Carry { .. }
            | Op::Bits { .. }
            | Op::BitExtract { .. }
            | Op::BitInsert { .. }
            | Op::SignExtend { .. }
            | Op::FloatUnary { .. }
            | Op::FloatBinary { .. }
            | Op::Fma { .. }
            | Op::Move { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Convert { .. }
            | Op::Half { .. }
            | Op::Narrow { .. }
            | Op::ConvertPair { .. }
            | Op::ConvertBytes { .. }
            | Op::SelectSign { .. }
            | Op::Cvta { .. }
    };
}
pub(crate) use on_general_registers;

/// Operations on registers and predicates alone, which have a form, as a pattern.
macro_rules! on_registers {
    () => {
        $crate::program::op::on_general_registers!()
            | Op::FloatTest { .. }
            | Op::Select { .. }
            | Op::IsSpace { .. }
            | Op::Compare { .. }
            | Op::CompareValue { .. }
            | Op::ComparePair { .. }
            | Op::ComparePairValue { .. }
            | Op::PredicateLogic { .. }
            | Op::PredicateMove { .. }
    };
}
pub(crate) use on_registers;

/// Operations between the lanes that a mask names, as a pattern.
macro_rules! between_lanes {
    () => {
        Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Ballot { .. }
            | Op::MatchAny { .. }
            | Op::MatchAll { .. }
            | Op::Reduce { .. }
            | Op::Elect { .. }
            | Op::WarpBarrier { .. }
    };
}
pub(crate) use between_lanes;

/// Operations of a whole warp on matrices, as a pattern.
macro_rules! matrix_operations {
    () => {
        Op::MatrixProduct(_)
            | Op::MatrixProduct64(_)
            | Op::QuadPairProducts(_)
            | Op::MatrixLoad(_)
            | Op::MatrixStore(_)
            | Op::MatrixStart(_)
            | Op::MatrixTranspose { .. }
            | Op::ProductFence
            | Op::ProductCommit
            | Op::ProductWait { .. }
    };
}
pub(crate) use matrix_operations;

/// Operations of a warp that access no memory by address, change no other lane's registers and need
/// no other lane: control, barriers, groups of copies, output, and what the simulator adds. As a
/// pattern.
macro_rules! warp_operations {
    () => {
        Op::CopyCommit
            | Op::CopyWait { .. }
            | Op::BulkCommit
            | Op::BulkWait { .. }
            | Op::ActiveMask { .. }
            | Op::Branch { .. }
            | Op::BranchTable { .. }
            | Op::Exit
            | Op::Barrier { .. }
            | Op::Fence(_)
            | Op::ClusterBarrier { .. }
            | Op::SetMaxRegisters { .. }
            | Op::Nothing
            | Op::Yield
            | Op::Clock { .. }
            | Op::Trap
            | Op::Print { .. }
            | Op::AssertFail { .. }
            | Op::Accumulators(_)
            | Op::Track(_)
            | Op::Unknown { .. }
    };
}
pub(crate) use warp_operations;
