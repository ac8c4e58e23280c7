//! Random numbers that never change: a corpus must be the same with every
//! version of every dependency.

/// A SplitMix64 generator (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014).
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice whose throws depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The dice of story number `index` in the corpus of `seed`.
    pub fn for_story(seed: u64, index: u64) -> Self {
        let mut dice = Self::new(seed);
        let corpus = dice.throw();
        Self::new(corpus ^ index.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// A number in `0..sides`; 0 if `sides` is 0. The bias is below `sides / 2^64`.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        ((u128::from(self.throw()) * sides as u128) >> 64) as usize
    }

    /// 64 random bits.
    fn throw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throws_are_those_of_splitmix64() {
        // The reference implementation's first outputs for the seed 1234567.
        let mut dice = Dice::new(1_234_567);
        let throws = [dice.throw(), dice.throw(), dice.throw()];
        assert_eq!(
            throws,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn below_reaches_every_side_and_no_other() {
        let mut dice = Dice::new(7);
        let mut seen = [0; 6];
        for _ in 0..6000 {
            seen[dice.below(6)] += 1;
        }
        assert!(seen.iter().all(|&n| (900..1100).contains(&n)), "{seen:?}");
        assert_eq!(dice.below(0), 0);
    }
}
