//! The decoded instruction set: what the warp executor runs.
//!
//! PTX has one opcode per operation, type and modifier. Here they are folded into families, one handler
//! file each in `exec`; what remains is a flat list that is matched without a wildcard, so that a new
//! operation does not compile until every pass knows it.

/// A register: the index of its first 32-lane plane in a warp's register file. 64-bit registers own two planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct R(pub u32);

/// A predicate register: one bit per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct P(pub u32);

/// A predicate that is read, maybe negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub p: P,
    pub negate: bool,
}

/// Types of values in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Type {
    /// Size in bytes.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Type::U8 | Type::S8 => 1,
            Type::U16 | Type::S16 | Type::F16 | Type::Bf16 => 2,
            Type::U32 | Type::S32 | Type::F32 => 4,
            Type::U64 | Type::S64 | Type::F64 => 8,
        }
    }

    /// Whether a register of this type takes two planes.
    pub(crate) fn is_wide(self) -> bool {
        self.bytes() == 8
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }
}

/// Rounding of a floating-point result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

/// Modifiers of a floating-point operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FloatMode {
    pub rounding: Rounding,
    /// `.ftz`: subnormal inputs and results become zero of the same sign.
    pub ftz: bool,
    /// `.sat`: the result is clamped to [0, 1], NaN to 0.
    pub saturate: bool,
}

impl FloatMode {
    /// Round to nearest even, subnormals kept, no clamp: what the host's arithmetic does.
    pub(crate) const PLAIN: FloatMode = FloatMode {
        rounding: Rounding::Nearest,
        ftz: false,
        saturate: false,
    };
}

/// `d = op a`, same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntUnary {
    Neg,
    Abs,
    Not,
    Cnot,
    Reverse,
}

/// `d: u32 = op a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Ones,
    LeadingZeros,
    /// `bfind`: position of the highest significant bit, all ones if there is none.
    HighestBit,
    /// `bfind.shiftamt`: the left shift that would move that bit to the top.
    HighestBitShift,
}

/// `d = a op b`, same type. Shift counts are u32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntBinary {
    Add,
    AddSaturating,
    Sub,
    SubSaturating,
    MulLow,
    MulHigh,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// `d = op(a, b, c)`, same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntTernary {
    MadLow,
    MadHigh,
    MadHighSaturating,
    Sad,
}

/// 32-bit operations on bit fields and bytes: `d = op(a, b, c)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bits {
    /// `prmt`, default mode.
    Permute,
    PermuteF4e,
    PermuteB4e,
    PermuteRc8,
    PermuteEcl,
    PermuteEcr,
    PermuteRc16,
    /// `lop3` with its truth table.
    Lop3(u8),
    FunnelLeftClamp,
    FunnelLeftWrap,
    FunnelRightClamp,
    FunnelRightWrap,
    /// `dp4a`: signedness of a and of b.
    Dot4 {
        a_signed: bool,
        b_signed: bool,
    },
    /// `dp2a`, low or high half of b.
    Dot2 {
        a_signed: bool,
        b_signed: bool,
        high: bool,
    },
    /// `mul24`/`mad24` low and high halves of the 48-bit product.
    Mad24Low {
        signed: bool,
    },
    Mad24High {
        signed: bool,
    },
    /// `mad24.hi.sat.s32`: the sum is clamped to what 32 bits hold.
    Mad24HighSaturating,
    /// `bmsk`: `b` bits from position `a`.
    MaskClamp,
    MaskWrap,
    /// `fns`: position of the n-th set bit.
    FindNth,
    /// `vabsdiff2`, `vabsdiff4` on unsigned lanes of that many bits; `sum` adds them all to `c`.
    AbsoluteDifference {
        bits: u8,
        sum: bool,
    },
    /// Two 16-bit lanes: `add.u16x2`, `min.s16x2.relu` and the like.
    AddHalves,
    MinMaxHalves {
        max: bool,
        signed: bool,
        relu: bool,
    },
    /// `min.relu.s32`, `max.relu.s32`: at least zero.
    MinMaxRelu {
        max: bool,
    },
}

/// Additions that read or write the carry bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarryOp {
    Add,
    Sub,
    MadLow { signed: bool },
    MadHigh { signed: bool },
}

/// `d = op a` on f32 or f64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatUnary {
    Neg,
    Abs,
    Sqrt,
    Reciprocal,
    /// The approximations: `ex2`, `lg2`, `rsqrt`, `sin`, `cos`, `tanh`.
    Exp2,
    Log2,
    ReciprocalSqrt,
    Sin,
    Cos,
    Tanh,
}

/// `d = a op b` on f32 or f64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatBinary {
    Add,
    Sub,
    Mul,
    Div,
    /// `div.approx`: a divisor above 2^126 counts as infinite.
    DivApprox,
    Min,
    Max,
    /// `min.NaN`, `max.NaN`: NaN if either is.
    MinNan,
    MaxNan,
    /// `copysign d, a, b`: the sign of a on the value of b.
    CopySign,
}

/// `testp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatTest {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Comparison of `setp` and `set`. The `U` forms are true when a value is NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    EqU,
    NeU,
    LtU,
    LeU,
    GtU,
    GeU,
    Num,
    Nan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

/// Conversion between types, with its rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub to: Type,
    pub from: Type,
    pub mode: FloatMode,
    /// Round a float to an integral value (`.rni`, `.rzi`, …), in the direction of `mode.rounding`.
    pub integral: bool,
}

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
    /// `.volatile`, `.relaxed`: a thread may be waiting for another's store.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

impl Order {
    /// Whether the access may be a flag that threads wait for.
    pub(crate) fn is_strong(self) -> bool {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// What a barrier does besides counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    /// Counts without waiting.
    Arrive,
    CountTrue {
        d: R,
        p: Condition,
    },
    AllTrue {
        d: P,
        p: Condition,
    },
    AnyTrue {
        d: P,
        p: Condition,
    },
}

/// Registers whose value does not change while a warp runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    WarpCount,
    SmId,
    SmCount,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    GridId,
    DynamicSharedSize,
    TotalSharedSize,
    EnvReg,
}

/// What is done with the bits that tell which lanes have set a register. Each such register has a slot; `None` is one
/// that is always set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tracking {
    Set {
        slot: u32,
    },
    /// A fault if a lane has not set it.
    Check {
        slot: u32,
    },
    Copy {
        d: u32,
        a: Option<u32>,
    },
    Select {
        d: u32,
        a: Option<u32>,
        b: Option<u32>,
        p: Condition,
    },
    Shuffle {
        op: Shuffle,
        d: u32,
        a: Option<u32>,
        b: R,
        c: R,
    },
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    // Integers and bits: exec/integer.rs
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

    // Floating point: exec/float.rs
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

    // Moves, conversions, selection: exec/data.rs
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
    /// `cvt.rn.f16x2.f32 d, a, b` and its bf16 form: a in the high half.
    ConvertPair {
        to: Type,
        mode: FloatMode,
        d: R,
        a: R,
        b: R,
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

    // Predicates: exec/predicate.rs
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
    /// `set`: all ones or 1.0 where true.
    CompareValue {
        op: Comparison,
        ty: Type,
        ftz: bool,
        float: bool,
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

    // Memory: exec/memory.rs and exec/atomic.rs
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
        d: Option<R>,
        b: R,
        c: R,
    },

    // Between lanes: exec/lanes.rs
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

    // Control: exec/warp.rs
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
    /// Memory here is coherent and in order; fences matter for finding races. `device`: beyond the block.
    Fence {
        device: bool,
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
    /// Keeps watch over a register that may be used unset; see [`super::unset`]. No instruction of the program.
    Track(Tracking),
    /// Not known here; the index of its text.
    Unknown {
        text: u32,
    },
}
