//! Types of values, and what arithmetic, comparisons and conversions do with them.

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

    /// True if a register of this type takes two planes.
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

impl Conversion {
    /// True if it truncates or extends an integer, and nothing else.
    pub(crate) fn is_bits(&self) -> bool {
        !self.to.is_float() && !self.from.is_float() && !self.mode.saturate
    }
}
