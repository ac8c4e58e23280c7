//! One compilation of a fused kernel: by which strategy, for which head dimension, with which tile.

use gpu::arguments::ArgumentError;

use crate::Strategy;
use crate::rungs::Shared;
use crate::tiles::{Dtype, Tile};

/// Static shared memory of a block: the compiler's limit.
const MAX_STATIC: usize = 48 * 1024;

/// A fused kernel, compiled for one head dimension by one strategy with one tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The strategy.
    pub strategy: Strategy,
    /// The elements of `q`, `k`, `v` and `o`.
    pub dtype: Dtype,
    /// The head dimension, `D`.
    pub head_dim: usize,
    /// The tile.
    pub tile: Tile,
}

impl Variant {
    /// A kernel for f32.
    pub const fn new(strategy: Strategy, head_dim: usize, tile: Tile) -> Self {
        let dtype = Dtype::F32;
        Self {
            strategy,
            dtype,
            head_dim,
            tile,
        }
    }

    /// The kernel file.
    pub fn file(&self) -> &'static str {
        self.strategy.rung().file()
    }

    /// The `-D` constants, as a line of `kernels/variants.txt` has them.
    pub fn constants(&self) -> Vec<(&'static str, String)> {
        let mut constants = self.strategy.rung().constants(self.head_dim);
        constants.extend([
            ("BLOCK_Q", self.tile.block_q),
            ("BLOCK_KV", self.tile.block_kv),
            ("THREADS", self.tile.threads),
        ]);
        let texts = constants
            .into_iter()
            .map(|(name, value)| (name, value.to_string()));
        texts.collect()
    }

    /// Calls `f` with the constants as [`gpu::Bundle`] takes them.
    pub fn with_constants<T>(&self, f: impl FnOnce(&[(&str, &str)]) -> T) -> T {
        let constants = self.constants();
        let borrowed = constants.iter().map(|(name, value)| (*name, &**value));
        f(&Vec::from_iter(borrowed))
    }

    /// Bytes of dynamic shared memory, which a launch states.
    pub(crate) fn dynamic_bytes(&self) -> u32 {
        match self.shared() {
            Shared::Static(_) => 0,
            Shared::Dynamic(bytes) => bytes as u32,
        }
    }

    fn shared(&self) -> Shared {
        self.strategy.rung().shared(self.head_dim, self.tile)
    }

    /// Checks that the kernel can be compiled with this tile, and that a block has room for it on a device that gives
    /// it `available` bytes of shared memory.
    ///
    /// # Errors
    ///
    /// `tile`, for `operation`.
    pub fn check(&self, operation: &'static str, available: usize) -> Result<(), ArgumentError> {
        let error = |expected, actual| ArgumentError {
            operation,
            argument: "tile",
            expected,
            actual,
        };
        let tile = self.tile;
        let is_tile = (1..=1024).contains(&tile.threads) && tile.block_q > 0 && tile.block_kv > 0;
        if !is_tile || !self.strategy.rung().suits(tile) {
            let expected = format!("one that suits {}", self.file());
            return Err(error(expected, tile.to_string()));
        }
        let (needed, available) = match self.shared() {
            Shared::Static(bytes) => (bytes, available.min(MAX_STATIC)),
            Shared::Dynamic(bytes) => (bytes, available),
        };
        if needed > available {
            let expected = format!("at most {available} bytes of shared memory");
            let (strategy, head_dim) = (self.strategy, self.head_dim);
            let actual = format!("{needed} for {strategy} at D = {head_dim}");
            return Err(error(expected, actual));
        }
        Ok(())
    }
}
