//! Arithmetic and conversions of 16-bit floats: f16, bf16, and pairs of them in one register.
//! Conversions of 8-bit floats.

use super::arithmetic::Rounding;

/// `d = op(a, b, c)`. Operands that an operation does not have are `a` once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfOp {
    Neg,
    Abs,
    /// The approximations `ex2` and `tanh`.
    Exp2,
    Tanh,
    Add,
    Sub,
    Mul,
    Min,
    Max,
    /// `min.NaN`, `max.NaN`: NaN if either is.
    MinNan,
    MaxNan,
    Fma,
}

/// Type and modifiers of arithmetic on 16-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HalfMode {
    pub bf16: bool,
    /// `f16x2`, `bf16x2`: two values in each register, the first in the low half.
    pub pair: bool,
    /// `.ftz`: subnormal inputs and results become zero of the same sign.
    pub ftz: bool,
    pub clamp: Clamp,
}

/// Treatment of a result outside a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clamp {
    None,
    /// `.sat`: clamped to [0, 1], NaN to 0.
    Saturate,
    /// `.relu`: a negative result becomes 0.
    Relu,
}

/// Conversion of an f32 to a narrower type, in the forms that `cvt` has for such types only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Narrowing {
    pub to: NarrowType,
    pub rounding: Rounding,
    /// `.rna`: to nearest, ties away from zero.
    pub ties_away: bool,
    /// `.relu`: a negative result becomes 0.
    pub relu: bool,
    /// `.satfinite`: an infinite result becomes the largest finite value.
    pub finite: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NarrowType {
    F16,
    Bf16,
    /// An f32 with 10 bits of fraction.
    Tf32,
}

/// Conversion of two 8-bit floats, from them or to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteConversion {
    pub ty: ByteType,
    pub from: BytesFrom,
    /// `.relu`: a negative result becomes 0.
    pub relu: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteType {
    E4m3,
    E5m2,
}

/// Source of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BytesFrom {
    /// 8-bit floats, to `f16x2`.
    Bytes,
    /// `f16x2`, to 8-bit floats.
    Halves,
    /// Two f32, to 8-bit floats.
    Floats,
}

impl HalfOp {
    /// Floating-point operations on one value.
    pub(super) fn flops(self) -> u64 {
        match self {
            HalfOp::Neg | HalfOp::Abs => 0,
            HalfOp::Fma => 2,
            HalfOp::Exp2
            | HalfOp::Tanh
            | HalfOp::Add
            | HalfOp::Sub
            | HalfOp::Mul
            | HalfOp::Min
            | HalfOp::Max
            | HalfOp::MinNan
            | HalfOp::MaxNan => 1,
        }
    }
}
