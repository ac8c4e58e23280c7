//! One compilation of a fused kernel: which file, for which head dimension, by which tile.

use crate::tiles::Tile;
use crate::{Error, Strategy};

/// Columns of `k` and `v` that [`Strategy::Split`] has in shared memory at a time, about.
const SLICE: usize = 64;

/// Queries of a thread in `2_register_tiled.cu`.
const ROWS: usize = 8;

/// Lanes of a warp.
const WARP: usize = 32;

/// Static shared memory of a block: the compiler's limit.
const MAX_STATIC: usize = 48 * 1024;

/// A fused kernel, compiled for one head dimension by one strategy with one tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The strategy.
    pub strategy: Strategy,
    /// The head dimension, `D`.
    pub head_dim: usize,
    /// The tile.
    pub tile: Tile,
}

impl Variant {
    /// The kernel file.
    pub fn file(&self) -> &'static str {
        self.strategy.file()
    }

    /// The kernel's name.
    pub(crate) fn kernel(&self) -> &'static str {
        match self.strategy {
            Strategy::Padded | Strategy::Exact | Strategy::Split => "fused",
            Strategy::RegisterTiled => "register_tiled",
        }
    }

    /// The `-D` constants, as a line of `kernels/variants.txt` has them.
    pub fn constants(&self) -> Vec<(&'static str, String)> {
        // A padded kernel is told the head dimension at run time.
        let head_dim = match self.strategy {
            Strategy::Padded => 0,
            Strategy::Exact | Strategy::Split | Strategy::RegisterTiled => self.head_dim,
        };
        let mut constants = vec![("HEAD_DIM", head_dim)];
        if let Some((columns, slice)) = self.columns() {
            constants.extend([("COLUMNS", columns), ("SLICE", slice)]);
        }
        let Tile {
            block_q,
            block_kv,
            threads,
        } = self.tile;
        constants.extend([
            ("BLOCK_Q", block_q),
            ("BLOCK_KV", block_kv),
            ("THREADS", threads),
        ]);
        (constants.into_iter())
            .map(|(name, value)| (name, value.to_string()))
            .collect()
    }

    /// For rung 1: the columns of a row, padding included, and those of a slice of `k` or `v`.
    fn columns(&self) -> Option<(usize, usize)> {
        let d = self.head_dim;
        match self.strategy {
            Strategy::Padded => {
                let columns = d.next_power_of_two().max(16);
                Some((columns, if columns > 128 { SLICE } else { columns }))
            }
            Strategy::Exact => Some((d, d)),
            Strategy::Split => {
                let least = d.div_ceil(SLICE);
                let even = (least..=2 * least).find(|slices| d.is_multiple_of(*slices));
                Some((d, d.div_ceil(even.unwrap_or(least))))
            }
            Strategy::RegisterTiled => None,
        }
    }

    /// Shared memory of a block, in bytes: static in rung 1, dynamic in rung 2.
    pub fn shared_bytes(&self) -> usize {
        let Tile {
            block_q, block_kv, ..
        } = self.tile;
        let floats = match self.columns() {
            Some((columns, slice)) => {
                let q = block_q * columns.div_ceil(slice) * slice;
                q + block_kv * (slice | 1) + block_q * block_kv
            }
            None => {
                let chunks = self.head_dim.div_ceil(4);
                let row = 4 * (chunks | 1);
                let p = block_q * (block_kv + self.threads_per_row() % 32);
                block_q * row + p.max(block_kv * row) + block_kv * 4 * chunks
            }
        };
        floats * size_of::<f32>()
    }

    /// For rung 2: threads that share a row of scores.
    fn threads_per_row(&self) -> usize {
        self.tile.threads * ROWS / self.tile.block_q.max(1)
    }

    /// Bytes of dynamic shared memory, which a launch states.
    pub(crate) fn dynamic_bytes(&self) -> usize {
        match self.strategy {
            Strategy::RegisterTiled => self.shared_bytes(),
            Strategy::Padded | Strategy::Exact | Strategy::Split => 0,
        }
    }

    /// Checks that the kernel can be compiled with this tile, and that a block has room for it on a device that gives
    /// it `available` bytes of shared memory.
    ///
    /// # Errors
    ///
    /// [`Error::Tile`], [`Error::SharedMemory`].
    pub fn check(&self, operation: &'static str, available: usize) -> Result<(), Error> {
        let Tile {
            block_q,
            block_kv,
            threads,
        } = self.tile;
        let fits = match self.strategy {
            Strategy::RegisterTiled => {
                let row = self.threads_per_row();
                block_q.is_multiple_of(ROWS)
                    && [8, 16, 32].contains(&row)
                    && row * block_q == threads * ROWS
                    && block_kv.is_multiple_of(row.max(4))
            }
            Strategy::Padded | Strategy::Exact | Strategy::Split => {
                let warps = (threads / WARP).max(1);
                threads.is_multiple_of(WARP)
                    && block_q.is_multiple_of(warps)
                    && block_q / warps <= WARP
                    && block_kv.is_multiple_of(WARP)
            }
        };
        if !fits || threads == 0 || block_q == 0 || block_kv == 0 || threads > 1024 {
            let reason = format!(
                "a tile of {block_q} queries × {block_kv} keys on {threads} threads does not suit {}",
                self.file()
            );
            return Err(Error::Tile { operation, reason });
        }
        let available = match self.strategy {
            Strategy::RegisterTiled => available,
            Strategy::Padded | Strategy::Exact | Strategy::Split => available.min(MAX_STATIC),
        };
        let needed = self.shared_bytes();
        if needed > available {
            return Err(Error::SharedMemory {
                operation,
                strategy: self.strategy,
                head_dim: self.head_dim,
                needed,
                available,
            });
        }
        Ok(())
    }
}
