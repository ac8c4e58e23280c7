//! Seeded inputs: the same numbers on every machine, in every language, and no two tensors alike.
//!
//! A value is a pure function of a seed and an index, so that any element can be had without those
//! before it. `fixtures/multi_head.py` computes the same [`uniform`] values in NumPy, bit for bit.

use ndarray::{Array, Dimension, ShapeBuilder};

/// 64 well-mixed bits from a seed and an index.
///
/// The finaliser of SplitMix64, applied to the seed and then to its sum with the index. Source:
/// Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
pub fn hash(seed: u64, index: u64) -> u64 {
    fn mix(z: u64) -> u64 {
        let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    mix(mix(seed).wrapping_add(index))
}

/// A value of [−1, 1), a multiple of 2⁻²³: exact in f32.
pub fn uniform(seed: u64, index: u64) -> f32 {
    (hash(seed, index) >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// A value of the standard normal distribution (Box–Muller, computed in f64).
pub fn normal(seed: u64, index: u64) -> f32 {
    let bits = hash(seed, index);
    let radius = ((bits >> 32) as f64 + 0.5) / (1u64 << 32) as f64; // never 0
    let angle = (bits & 0xFFFF_FFFF) as f64 / (1u64 << 32) as f64;
    ((-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()) as f32
}

/// A value of N(0, 1) + N(0, 100) · Bernoulli(0.001): normal, with rare
/// outliers of ten times the size.
///
/// Source: the numerical-error experiment of Shah et al., "FlashAttention-3", 2024, section 4.3.
pub fn outlier(seed: u64, index: u64) -> f32 {
    let rare = hash(seed ^ 0x0DD5, index).is_multiple_of(1000);
    let spike = if rare {
        10.0 * normal(seed ^ 0x5917E, index)
    } else {
        0.0
    };
    normal(seed, index) + spike
}

/// An array whose element at row-major position `i` is `value(seed, i)`.
///
/// ```
/// use conformance::inputs::{self, tensor};
/// let x = tensor((2, 3), 7, inputs::uniform);
/// assert_eq!(x[[1, 2]], inputs::uniform(7, 5));
/// ```
pub fn tensor<D: Dimension>(
    shape: impl ShapeBuilder<Dim = D>,
    seed: u64,
    value: impl Fn(u64, u64) -> f32,
) -> Array<f32, D> {
    let mut array = Array::zeros(shape);
    for (i, x) in array.iter_mut().enumerate() {
        *x = value(seed, i as u64);
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_never_change() {
        // Fixtures and committed figures rest on these numbers;
        // multi_head.py asserts the same ones.
        assert_eq!(hash(0, 0), 0xA706_DD2F_4D19_7E6F);
        assert_eq!(hash(1, 2), 0xBCD9_DBB4_9673_066B);
    }

    #[test]
    fn the_distributions_are_what_they_say() {
        let n = 100_000;
        let moments = |value: fn(u64, u64) -> f32| {
            let (mut mean, mut square) = (0.0, 0.0);
            for i in 0..n {
                let x = f64::from(value(3, i));
                mean += x / n as f64;
                square += x * x / n as f64;
            }
            (mean, square)
        };
        let (mean, square) = moments(uniform);
        assert!(
            mean.abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01,
            "{mean} {square}"
        );
        let (mean, square) = moments(normal);
        assert!(
            mean.abs() < 0.02 && (square - 1.0).abs() < 0.02,
            "{mean} {square}"
        );
        let (mean, square) = moments(outlier);
        assert!(
            mean.abs() < 0.02 && (square - 1.1).abs() < 0.05,
            "{mean} {square}"
        );
    }

    #[test]
    fn seeds_do_not_give_shifted_copies() {
        for seed in 1..50 {
            let matches = (0..1000)
                .filter(|&i| (0..64).any(|j| hash(seed, i) == hash(0, j)))
                .count();
            assert_eq!(matches, 0);
        }
    }
}
