//! Task `backward`, solved: the launches of `kernels/recompute_dk_dv.cu` and
//! `kernels/recompute_dq.cu`.

use stage4_flash_cuda::Sizes;
use stage4_flash_cuda::library::Tile;

use crate::gradients::Plan;

/// The launch of `recompute_dk_dv`, for a head dimension of 16, 64 or 128 and one key or more.
///
/// `Tile::new(queries, keys, threads)`: BLOCK_Q, BLOCK_KV and THREADS in the kernel.
pub fn keys_and_values(sizes: &Sizes) -> Plan {
    let tile = tile(sizes.head_dim);
    let Tile {
        block_q, block_kv, ..
    } = tile;
    Plan {
        tile,
        blocks: sizes.nk.div_ceil(block_kv) * sizes.batch * sizes.heads,
        // The weights, and lse and delta of the queries.
        shared_bytes: 4 * (rows(tile, sizes.head_dim) + block_kv * (block_q | 16) + 2 * block_q),
    }
}

/// The launch of `recompute_dq`, for one query or more.
pub fn queries(sizes: &Sizes) -> Plan {
    let tile = tile(sizes.head_dim);
    let Tile {
        block_q, block_kv, ..
    } = tile;
    Plan {
        tile,
        blocks: sizes.nq.div_ceil(block_q) * sizes.batch * sizes.heads,
        shared_bytes: 4 * (rows(tile, sizes.head_dim) + block_q * (block_kv | 16)),
    }
}

/// A thread has 8 × 4 scores, and at D = 64 the gradients of 8 keys.
fn tile(head_dim: usize) -> Tile {
    match head_dim {
        65.. => Tile::new(32, 32, 64),
        _ => Tile::new(64, 64, 128),
    }
}

/// Floats of two tensors of queries and two of keys. A row is an odd number of vectors.
fn rows(tile: Tile, head_dim: usize) -> usize {
    2 * (tile.block_q + tile.block_kv) * 4 * (head_dim / 4 | 1)
}
