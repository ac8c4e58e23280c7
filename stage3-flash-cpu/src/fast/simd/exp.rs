use super::vector::Vector;

/// Here and below `e^x` is 0.
const ZERO: f32 = -87.8;

/// 1.5 · 2²³ + 127. Numbers of this size are 1 apart, so adding it rounds to an integer, which then
/// stands in the low bits; 127 more, as in the exponent of a float.
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
/// `e^x` for `x ≤ 88`, to 2 units in the last place. `e^0` is 1 and `e^−∞` is
/// 0 exactly; NaN stays NaN.
///
/// A result below 2⁻¹²⁶, the smallest normal number, may become 0. There are no branches. The idea:
/// `x = n ln 2 + r` with an integer `n` and |r| ≤ ½ ln 2, so `e^x = 2^n e^r`, where `2^n` is put
/// together from its bits and `e^r` is a polynomial.
#[inline(always)]
pub(super) fn exp<V: Vector>(x: V) -> V {
    // SAFETY: `x` exists, so the processor has the instructions.
    let constant = |c| unsafe { V::splat(c) };

    let x = constant(ZERO).max(x); // NaN stays
    let shifted = x.mul_add(constant(std::f32::consts::LOG2_E), constant(ROUND));
    let n = shifted.sub(constant(ROUND));
    let power = shifted.low_bits_as_exponent(); // 2^n; 0 if n = −127, as it is at `ZERO`

    let r = n.mul_add(constant(-LN_2[0]), x);
    let r = n.mul_add(constant(-LN_2[1]), r);
    let mut e = constant(C[4]);
    for c in [C[3], C[2], C[1], C[0], 1.0, 1.0] {
        e = e.mul_add(r, constant(c));
    }
    e.mul(power)
}
// ANCHOR_END: exp
