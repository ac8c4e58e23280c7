use std::ops::Range;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Dropout of the weights: `o = (p ∘ Z) v`. An element of `Z` is 0 with a probability, and else 1
/// divided by the probability of the rest. `lse` is that of the scores, without dropout.
///
/// `Z` is a function of these fields and of batch, head, query and key alone: the same on every
/// device, with every tile. A call uses the `B · H` numbers from `offset` on, so the next call of a
/// training step takes `offset + B · H`.
///
/// Query `i` and key `j` of head `h` in batch `b` take word `j % 4` of Philox 4×32-10. Its key is
/// `seed`, and its counter is `(j / 4, i, offset + b H + h)`: 32, 32 and 64 bits, modulo their
/// size, low words first. The weight is kept if the word is at least `probability · 2³²`. Source:
/// Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
///
/// ```
/// use stage1_reference::Dropout;
/// let dropout = Dropout { probability: 0.25, seed: 1, offset: 0 };
/// let z = dropout.factors(0, 0..2, 0..1000); // [2, 1000]
/// let kept = z.iter().filter(|&&z| z == 4.0 / 3.0).count();
/// assert!(kept > 1400 && z.iter().filter(|&&z| z == 0.0).count() == 2000 - kept);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dropout {
    /// The probability that a weight is dropped, at least 0 and below 1. It is rounded to a
    /// multiple of 2⁻³².
    pub probability: f32,
    /// The key of the random numbers.
    pub seed: u64,
    /// The number of the first head of the first batch.
    pub offset: u64,
}

impl Dropout {
    /// Checks the probability.
    ///
    /// # Errors
    ///
    /// [`Error::Dropout`] if it is not in `[0, 1)`. `operation` is the caller's name, for the
    /// message.
    pub fn check(&self, operation: &'static str) -> Result<(), Error> {
        let probability = self.probability;
        match (0.0..1.0).contains(&probability) {
            true => Ok(()),
            false => Err(Error::Dropout {
                operation,
                probability,
            }),
        }
    }

    /// The least word of an element that is kept: `probability · 2³²`, rounded.
    pub fn threshold(&self) -> u32 {
        (f64::from(self.probability) * WORDS).round() as u32
    }

    /// The factor of an element that is kept: `1 / (1 − threshold / 2³²)`, rounded to f32.
    pub fn scale(&self) -> f32 {
        (WORDS / (WORDS - f64::from(self.threshold()))) as f32
    }

    /// True if the weight of query `i` and key `j` is kept in a head, of number `matrix = b H + h`.
    pub fn keeps(&self, matrix: usize, i: usize, j: usize) -> bool {
        self.words(matrix, i, j / 4)[j % 4] >= self.threshold()
    }

    /// `Z` of some queries and keys of a head, of number `matrix = b H + h`: `[queries, keys]`.
    pub fn factors(&self, matrix: usize, queries: Range<usize>, keys: Range<usize>) -> Array2<f32> {
        let (threshold, scale) = (self.threshold(), self.scale());
        let mut z = Array2::zeros((queries.len(), keys.len()));
        for (i, mut row) in queries.zip(z.rows_mut()) {
            for quad in keys.start / 4..keys.end.div_ceil(4) {
                for (j, word) in (4 * quad..).zip(self.words(matrix, i, quad)) {
                    if keys.contains(&j) && word >= threshold {
                        row[j - keys.start] = scale;
                    }
                }
            }
        }
        z
    }

    /// The words of query `i` and the keys from `4 · quad` on.
    fn words(&self, matrix: usize, i: usize, quad: usize) -> [u32; 4] {
        let [low, high] = halves(self.offset.wrapping_add(matrix as u64));
        philox([quad as u32, i as u32, low, high], halves(self.seed))
    }
}

/// Number of words.
const WORDS: f64 = (1u64 << 32) as f64;

/// The low and the high half.
fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// Philox 4×32-10: four random words for a counter and a key.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let [a, b, c, d] = counter;
        let [low_a, high_a] = halves(u64::from(a) * 0xD251_1F53);
        let [low_c, high_c] = halves(u64::from(c) * 0xCD9E_8D57);
        counter = [high_c ^ b ^ key[0], low_c, high_a ^ d ^ key[1], low_a];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kat_vectors` of Random123, the authors' library.
    #[test]
    fn the_known_answers_of_the_authors() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, words) in [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                pi,
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(counter, key), words);
        }
    }

    /// Counter `pi` and its key, as head, query and keys: the carry of the offset is kept.
    #[test]
    fn a_counter_is_made_of_keys_query_and_head() {
        let dropout = Dropout {
            probability: 0.5,
            seed: 0x299f_31d0_a409_3822,
            offset: 0x0370_7343_ffff_fffe,
        };
        let (matrix, i, quad) = (0x1319_8a30, 0x85a3_08d3, 0x243f_6a88);
        let words = dropout.words(matrix, i, quad);
        assert_eq!(words[0], 0xd16c_fe09);
        let kept = [0, 1, 2, 3].map(|w| dropout.keeps(matrix, i, 4 * quad + w));
        assert_eq!(kept, [true, true, false, false]);
        let keys = 4 * quad + 1..4 * quad + 3;
        let z = dropout.factors(matrix, i..i + 1, keys);
        assert_eq!(z, ndarray::array![[2.0, 0.0]]);
        let last = Dropout {
            offset: u64::MAX,
            ..dropout
        };
        let first = Dropout {
            offset: 0,
            ..dropout
        };
        assert_eq!(last.words(1, i, quad), first.words(0, i, quad));
    }

    #[test]
    fn the_share_that_is_kept_is_what_it_should_be() {
        const DRAWS: usize = 1_000_000;
        for (probability, seed) in [(0.1, 1), (0.5, 2), (0.5, 3), (0.999, 4)] {
            let dropout = Dropout {
                probability,
                seed,
                offset: 7,
            };
            let z = dropout.factors(3, 0..1000, 0..DRAWS / 1000);
            let kept = z.iter().filter(|&&z| z != 0.0).count();
            let p = f64::from(probability);
            let sigma = (DRAWS as f64 * p * (1.0 - p)).sqrt();
            let off = (kept as f64 - DRAWS as f64 * (1.0 - p)).abs();
            assert!(off < 4.0 * sigma, "{probability}: {kept}, {sigma}");
        }
    }

    #[test]
    fn the_factor_is_one_by_the_share_that_is_kept() {
        let of = |probability| {
            let dropout = Dropout {
                probability,
                seed: 0,
                offset: 0,
            };
            (dropout.threshold(), dropout.scale())
        };
        assert_eq!(of(0.0), (0, 1.0));
        assert_eq!(of(0.25), (1 << 30, 4.0 / 3.0));
        assert_eq!(of(0.5), (1 << 31, 2.0));
        let largest = 1.0f32.next_down();
        assert_eq!(of(largest), (u32::MAX - 255, 16_777_216.0));
    }
}
