//! Number of splits of a sequence: the parts of its keys, each with a block of its own.

/// The most splits of a sequence: threads of a block of `combine.cu`.
pub const MAX_SPLITS: usize = 128;

/// Keys of a part are a multiple of this: a block of `library/split.cu` or `library/grouped.cu`
/// takes as many at a time at D = 128 in half precision. A part that ends within such a tile takes
/// as long as the whole tile.
const TILE: usize = 32;

/// How many blocks of a kernel an SM takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerSm {
    /// The blocks of a wave, at most as many as its registers have room for: places.
    pub places: usize,
    /// The blocks whose loads keep device memory busy.
    pub busy: usize,
}

// ANCHOR: splits
/// Number of parts to make of `keys` keys where one part of all sequences takes `blocks` blocks on
/// a device of `sms` SMs.
///
/// With `s` parts, `s · blocks` blocks run in waves on all places, and the efficiency is the share
/// of places that are taken: `waves / ceil(waves)`, where `waves = s · blocks / places`. The result
/// is the smallest `s` whose efficiency is at least 85% of the best that is possible:
/// `num_splits_heuristic` of FlashAttention's library (2023). 1 if the blocks keep the memory of
/// 80% of the SMs busy: parts have to be combined. Only such `s` are possible that parts of whole
/// tiles of 32 keys make, and 128 at most.
pub fn splits(blocks: usize, per_sm: PerSm, keys: usize, sms: usize) -> usize {
    let places = per_sm.places.saturating_mul(sms.max(1));
    let enough = blocks.saturating_mul(5) >= per_sm.busy.saturating_mul(4 * sms);
    if blocks == 0 || keys == 0 || enough {
        return 1;
    }
    let tiles = keys.div_ceil(TILE);
    let of_whole_tiles = |&splits: &usize| tiles.div_ceil(tiles.div_ceil(splits)) == splits;
    let possible = || (1..=tiles.min(MAX_SPLITS)).filter(of_whole_tiles);
    let efficiency = |splits: usize| {
        let waves = (splits * blocks) as f64 / places as f64;
        waves / waves.ceil()
    };
    let best = possible().map(efficiency).fold(0.0, f64::max);
    let first = possible().find(|&splits| efficiency(splits) >= 0.85 * best);
    first.unwrap_or(1) // `best` is one of them
}
// ANCHOR_END: splits

#[cfg(test)]
mod tests {
    use super::*;

    const H100: usize = 132;
    const SPLIT: PerSm = PerSm { places: 6, busy: 6 };
    const GROUPED: PerSm = PerSm { places: 4, busy: 1 };

    /// A long sequence by itself takes at least one block of each SM.
    #[test]
    fn one_sequence_fills_the_device() {
        for heads in [8, 32] {
            let blocks = heads * splits(heads, GROUPED, 65_536, H100);
            assert!((H100..=4 * H100).contains(&blocks), "{heads}: {blocks}");
        }
        assert_eq!(splits(8, GROUPED, 65_536, H100), 56); // 448 of 528 places
    }

    /// Measured on an H200 with as many SMs: `hardware/README.md`.
    #[test]
    fn the_measured_best_is_chosen_where_blocks_are_many() {
        assert_eq!(splits(4 * 32, SPLIT, 4096, H100), 6);
        assert_eq!(splits(16 * 32, SPLIT, 4096, H100), 3);
        assert_eq!(splits(16 * 32, SPLIT, 512, H100), 3);
    }

    #[test]
    fn nothing_is_split_that_keeps_memory_busy_or_is_short() {
        assert_eq!(splits(106, GROUPED, 65_536, H100), 1);
        assert_eq!(splits(105, GROUPED, 65_536, H100), 5);
        assert_eq!(splits(634, SPLIT, 65_536, H100), 1);
        assert_eq!(splits(633, SPLIT, 65_536, H100), 5);
        assert_eq!(splits(8, GROUPED, 32, H100), 1);
        assert_eq!(splits(8, GROUPED, 0, H100), 1);
        assert_eq!(splits(0, GROUPED, 1000, H100), 1);
        assert_eq!(splits(8, GROUPED, 1000, 0), 1);
    }

    #[test]
    fn a_part_is_never_tiny_and_there_are_not_too_many() {
        assert_eq!(splits(1, GROUPED, 65_536, H100), 114); // at least 85% of 128, of whole tiles
        assert!(splits(1, GROUPED, 100, H100) <= 4);
        assert!(splits(1, GROUPED, 1 << 30, H100) <= MAX_SPLITS);
    }

    /// 14 parts of 37 keys would take two tiles each, as 8 parts of 64 do.
    #[test]
    fn parts_are_whole_tiles() {
        assert_eq!(splits(32, GROUPED, 512, H100), 16);
        assert_eq!(splits(32, GROUPED, 513, H100), 9); // of 64 keys: 17 parts of 32 would begin a second wave
        for keys in [1usize, 31, 32, 33, 100, 1000, 4096, 5000] {
            for blocks in [1, 8, 100] {
                let splits = splits(blocks, GROUPED, keys, H100);
                let size = keys.div_ceil(splits).next_multiple_of(TILE);
                assert_eq!(keys.div_ceil(size), splits, "{keys} {blocks}");
            }
        }
    }

    /// Two waves that are full beat one that is not.
    #[test]
    fn no_wave_is_nearly_empty() {
        for blocks in 1..1024 {
            let chosen = splits(blocks, SPLIT, 1 << 20, H100);
            let waves = |splits: usize| (splits * blocks) as f64 / (6 * H100) as f64;
            let efficiency = |splits| waves(splits) / waves(splits).ceil();
            if chosen > 1 {
                let best = (1..=MAX_SPLITS).map(efficiency).fold(0.0, f64::max);
                assert!(efficiency(chosen) >= 0.85 * best, "{blocks}: {chosen}");
            }
        }
    }
}
