//! In how many parts a sequence is split.

/// The most parts of a sequence: threads of a block of `combine.cu`.
pub const MAX_SPLITS: usize = 128;

/// The fewest keys of a part. Fewer would not pay for the launch that merges the parts.
const MIN_KEYS: usize = 64;

/// Keys up to which a sequence is not split: merging its parts would take as long as reading it. FlashAttention-3 has 512, at
/// D = 128 [`num_splits_heuristic`].
const SHORT: usize = 256;

/// Blocks that an SM is given, so that loads of some are in flight while others compute.
const BLOCKS_PER_SM: usize = 4;

// ANCHOR: splits
/// How many parts to make of `keys` keys where one part of all sequences takes `blocks` blocks, on a device of `sms` SMs.
///
/// The device has `4 · sms` places for blocks. With `s` parts, `s · blocks` blocks run in waves, and the efficiency is the
/// share of places that are taken: `waves / ceil(waves)`, where `waves = s · blocks / places`. The result is the smallest `s`
/// whose efficiency is at least 85% of the best that is possible, as in FlashAttention-3 [Shah et al. 2024,
/// `num_splits_heuristic`]. 1 if the blocks fill 80% of the places anyway, or if there are 256 keys or fewer. A part has 64 keys
/// or more, and there are 128 parts at most.
pub fn splits(blocks: usize, keys: usize, sms: usize) -> usize {
    let places = BLOCKS_PER_SM * sms.max(1);
    if blocks == 0 || 10 * blocks >= 8 * places || keys <= SHORT {
        return 1;
    }
    let most = keys.div_ceil(MIN_KEYS).clamp(1, MAX_SPLITS);
    let efficiency = |splits: usize| {
        let waves = (splits * blocks) as f64 / places as f64;
        waves / waves.ceil()
    };
    let best = (1..=most).map(efficiency).fold(0.0, f64::max);
    let mut possible = 1..=most;
    let first = possible.find(|&splits| efficiency(splits) >= 0.85 * best);
    first.unwrap_or(1) // `best` is one of them
}
// ANCHOR_END: splits

#[cfg(test)]
mod tests {
    use super::*;

    const H100: usize = 132;

    /// A long sequence by itself takes at least one block of each SM.
    #[test]
    fn one_sequence_fills_the_device() {
        for heads in [8, 32] {
            let blocks = heads * splits(heads, 65_536, H100);
            assert!((H100..=4 * H100).contains(&blocks), "{heads}: {blocks}");
        }
        assert_eq!(splits(8, 65_536, H100), 57); // 456 of 528 places
    }

    #[test]
    fn nothing_is_split_that_fills_the_device_or_is_short() {
        assert_eq!(splits(512, 65_536, H100), 1);
        assert_eq!(splits(8, 256, H100), 1);
        assert!(splits(8, 257, H100) > 1);
        assert_eq!(splits(8, 0, H100), 1);
        assert_eq!(splits(0, 1000, H100), 1);
        assert_eq!(splits(8, 1000, 0), 1);
    }

    #[test]
    fn a_part_is_never_tiny_and_there_are_not_too_many() {
        assert_eq!(splits(1, 65_536, H100), 109); // at least 85% of 128
        assert!(splits(1, 300, H100) <= 5);
    }

    /// Two waves that are full beat one that is not.
    #[test]
    fn no_wave_is_nearly_empty() {
        for blocks in 1..512 {
            let chosen = splits(blocks, 1 << 20, H100);
            let waves = |splits: usize| (splits * blocks) as f64 / (4 * H100) as f64;
            let efficiency = |splits| waves(splits) / waves(splits).ceil();
            if chosen > 1 {
                let best = (1..=MAX_SPLITS).map(efficiency).fold(0.0, f64::max);
                assert!(efficiency(chosen) >= 0.85 * best, "{blocks}: {chosen}");
            }
        }
    }
}
