//! Masks of the lanes of a warp: a bit for each, lane 0 the lowest.

/// All lanes active.
pub(crate) const FULL: u32 = u32::MAX;

/// The lanes of `mask`, lowest first.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros() as usize & 31;
            left &= left - 1;
            lane
        })
    })
}
