//! Permutations of blocks and warps by a seed.

/// Puts `items` into an order that depends on the seed alone.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for i in (1..items.len()).rev() {
        items.swap(i, (next(&mut state) % (i as u64 + 1)) as usize);
    }
}

/// The place of `number` among `count` in an order that depends on the seed alone: a permutation of
/// `0..count`.
pub(crate) fn place(number: u64, count: u64, seed: u64) -> u64 {
    // A Feistel network permutes the numbers of an even number of bits; those out of range go round
    // again.
    let half = (64 - count.max(2).leading_zeros()).div_ceil(2);
    let low = (1u64 << half) - 1;
    let mut at = number;
    loop {
        let (mut left, mut right) = (at >> half, at & low);
        for round in 0..4 {
            let mut state = seed ^ (right << 8 | round);
            (left, right) = (right, left ^ (next(&mut state) & low));
        }
        at = left << half | right;
        if at < count {
            return at;
        }
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_permutation_and_differ_by_seed() {
        for count in [1, 2, 3, 4, 5, 100, 257] {
            let mut places: Vec<u64> = (0..count).map(|n| place(n, count, 7)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count), "{count}");
        }
        let order = |seed| (0..100).map(|n| place(n, 100, seed)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn a_shuffle_keeps_all_items() {
        let mut items: Vec<u32> = (0..32).collect();
        shuffle(&mut items, 3);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..32));
    }
}
