//! Task `backward` (1 point, a bonus): the launches of `kernels/recompute_dk_dv.cu` and
//! `kernels/recompute_dq.cu`.

#![allow(unused)] // remove this line when nothing is left to do

use stage4_flash_cuda::Sizes;
use stage4_flash_cuda::library::Tile;

use crate::gradients::Plan;

/// The launch of `recompute_dk_dv`, for a head dimension of 16, 64 or 128 and one key or more.
///
/// `Tile::new(queries, keys, threads)`: BLOCK_Q, BLOCK_KV and THREADS in the kernel.
pub fn keys_and_values(sizes: &Sizes) -> Plan {
    todo!("TODO, task 4/backward: tile, blocks and bytes of shared memory")
}

/// The launch of `recompute_dq`, for one query or more.
pub fn queries(sizes: &Sizes) -> Plan {
    todo!("TODO, task 4/backward: tile, blocks and bytes of shared memory")
}
