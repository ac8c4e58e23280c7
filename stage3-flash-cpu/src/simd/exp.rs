use super::Arithmetic;

/// Here and below `e^x` is 0.
const ZERO: f32 = -87.8;

/// 1.5 · 2²³ + 127. Numbers of this size are 1 apart, so adding it rounds to an integer, which then stands in the low
/// bits; 127 more, as in the exponent of a float.
const ROUND: f32 = 12_583_039.0;

/// ln 2 in two parts: 355/512, whose product with a small integer is exact, and the rest.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// `e^r = 1 + r + r² · (C₀ + C₁ r + …)` for |r| ≤ ½ ln 2, within 3 · 10⁻⁹ (by Remez' algorithm).
const C: [f32; 5] = [
    0.499_999_94,
    0.166_665_21,
    0.041_668_39,
    0.008_368_745,
    0.001_381_454,
];

// ANCHOR: exp
/// `e^x` for `x ≤ 88`, to 2 units in the last place. `e^0` is 1 and `e^−∞` is 0 exactly; NaN stays NaN.
///
/// What is below 2⁻¹²⁶, the smallest normal number, may become 0. There are no branches, so that the compiler computes
/// as many at once as fit in a register. The idea: `x = n ln 2 + r` with an integer `n` and |r| ≤ ½ ln 2, so
/// `e^x = 2^n e^r`, where `2^n` is put together from its bits and `e^r` is a polynomial.
#[inline(always)]
pub(super) fn exp<A: Arithmetic>(x: f32) -> f32 {
    let x = if x < ZERO { ZERO } else { x }; // NaN is not less
    let shifted = A::mul_add(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let power = f32::from_bits(shifted.to_bits() << 23); // 2^n; 0 if n = −127, as it is at `ZERO`

    let r = A::mul_add(n, -LN_2[0], x);
    let r = A::mul_add(n, -LN_2[1], r);
    let mut e = C[4];
    e = A::mul_add(e, r, C[3]);
    e = A::mul_add(e, r, C[2]);
    e = A::mul_add(e, r, C[1]);
    e = A::mul_add(e, r, C[0]);
    e = A::mul_add(e, r, 1.0);
    e = A::mul_add(e, r, 1.0);
    e * power
}
// ANCHOR_END: exp
