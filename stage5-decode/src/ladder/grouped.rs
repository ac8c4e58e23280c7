//! Launch of `3_grouped.cu`: that of `2_split.cu`, with other blocks.

/// Heads of q that a block serves.
const HEADS: usize = 4;

/// Blocks for all heads of q of one sequence: a group of heads has sets of up to 4.
pub(super) fn sets(heads: usize, kv_heads: usize) -> usize {
    let group = heads.checked_div(kv_heads).unwrap_or(0);
    kv_heads * group.div_ceil(HEADS)
}
