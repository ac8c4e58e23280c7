//! Numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014).

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Numbers where something may go wrong.
    pub fn number(&mut self) -> u64 {
        const NASTY: [u64; 18] = [
            0,
            1,
            2,
            3,
            4,
            7,
            16,
            31,
            32,
            33,
            64,
            255,
            1 << 16,
            (1 << 31) - 1,
            1 << 31,
            u32::MAX as u64,
            1 << 40,
            u64::MAX,
        ];
        match self.below(4) {
            0 => self.bits(),
            1 => self.bits() % 1000,
            _ => *self.pick(&NASTY),
        }
    }
}
