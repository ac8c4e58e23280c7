//! The tile and time of each strategy, by class of device, element type and head dimension: `tiles.json`, which `tune`
//! writes.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::Strategy;

static TABLE: LazyLock<Vec<Class>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../tiles.json")).expect("a test reads the committed table")
});

/// The part of the scores that a block computes at a time, and with how many threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tile {
    /// Queries.
    pub block_q: usize,
    /// Keys.
    pub block_kv: usize,
    /// Threads.
    pub threads: usize,
}

impl Tile {
    /// So many queries × keys, on so many threads.
    pub const fn new(block_q: usize, block_kv: usize, threads: usize) -> Self {
        Self {
            block_q,
            block_kv,
            threads,
        }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (q, kv, threads) = (self.block_q, self.block_kv, self.threads);
        write!(f, "{q} queries × {kv} keys on {threads} threads")
    }
}

/// The elements of `q`, `k`, `v` and `o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit floats.
    F32,
}

/// A class of devices, and its tiles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// The least compute capability, times 10. Turing is 75, the A100 80, Ampere and Ada cards for graphics are 86 and 89, Hopper
    /// is 90.
    pub capability: u32,
    /// Shared memory that a block can have on all of them, in bytes.
    pub shared: usize,
    /// How the tiles were chosen.
    pub chosen: String,
    /// The tiles, by head dimension, ascending within each element type and strategy.
    pub tiles: Vec<Entry>,
}

/// The tile of a strategy for the head dimensions up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The elements.
    pub dtype: Dtype,
    /// The strategy.
    pub strategy: Strategy,
    /// The largest head dimension that this entry is for.
    pub up_to: usize,
    /// The tile.
    #[serde(flatten)]
    pub tile: Tile,
    /// Milliseconds at head dimension `up_to`, for the problem in [`Class::chosen`].
    pub ms: f64,
}

impl Class {
    /// The entry for elements, a strategy and a head dimension, if there is one.
    pub fn entry(&self, dtype: Dtype, strategy: Strategy, head_dim: usize) -> Option<&Entry> {
        let mut entries = self.tiles.iter();
        entries.find(|of| (of.dtype, of.strategy) == (dtype, strategy) && head_dim <= of.up_to)
    }
}

/// The committed table, by ascending capability.
pub fn table() -> &'static [Class] {
    &TABLE
}

/// The class of a device of compute capability `major.minor`, whose blocks can have `shared` bytes of shared memory: the
/// greatest that is not above it in either. (A GeForce of compute capability 12.0 has less shared memory than Hopper.)
pub fn class((major, minor): (i32, i32), shared: usize) -> Option<&'static Class> {
    let capability = u32::try_from(10 * major + minor).ok()?;
    let mut descending = table().iter().rev();
    descending.find(|class| class.capability <= capability && class.shared <= shared)
}

#[cfg(test)]
mod tests {
    use stage1_reference::Sizes;

    use super::*;
    use crate::Variant;

    #[test]
    fn every_tile_fits_its_class_at_every_head_dimension() {
        assert!(table().is_sorted_by_key(|class| class.capability));
        for class in table() {
            for head_dim in 1..=Sizes::MAX_HEAD_DIM {
                let mut fused = 0;
                for strategy in Strategy::ALL {
                    let Some(entry) = class.entry(Dtype::F32, strategy, head_dim) else {
                        continue;
                    };
                    let variant = Variant::new(strategy, head_dim, entry.tile);
                    let fits = variant.check("test", class.shared);
                    assert!(fits.is_ok(), "{}: {}", class.capability, fits.unwrap_err());
                    fused += usize::from(strategy.lacks().is_empty());
                }
                assert!(
                    fused > 0,
                    "{}: nothing for D = {head_dim}",
                    class.capability
                );
            }
        }
    }

    #[test]
    fn a_device_belongs_to_the_greatest_class_that_is_not_above_it() {
        let of = |major, minor, kib: usize| {
            class((major, minor), kib << 10).map(|class| class.capability)
        };
        assert_eq!(of(7, 0, 96), None);
        assert_eq!(of(7, 5, 64), Some(75));
        assert_eq!(of(8, 0, 163), Some(80));
        assert_eq!(of(8, 9, 99), Some(86));
        assert_eq!(of(9, 0, 227), Some(90));
        assert_eq!(of(10, 0, 227), Some(90));
        assert_eq!(of(12, 0, 99), Some(86));
        assert_eq!(of(12, 0, 48), None);
    }
}
