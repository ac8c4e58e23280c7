//! The tile of each kernel, by class of device and head dimension: `tiles.json`, which `tune` writes.

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
    /// The tiles, by head dimension, ascending within each kernel.
    pub tiles: Vec<Entry>,
}

/// The tile of a kernel for the head dimensions up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The kernel file.
    pub kernel: String,
    /// The largest head dimension that this entry is for.
    pub up_to: usize,
    /// The tile.
    #[serde(flatten)]
    pub tile: Tile,
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

/// The tile of a class for a strategy and a head dimension, if it has one.
pub fn choose_from(class: &Class, strategy: Strategy, head_dim: usize) -> Option<Tile> {
    let file = strategy.file();
    let mut entries = class.tiles.iter().filter(|entry| entry.kernel == file);
    entries
        .find(|entry| head_dim <= entry.up_to)
        .map(|entry| entry.tile)
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
                for strategy in [Strategy::Split, Strategy::RegisterTiled] {
                    let Some(tile) = choose_from(class, strategy, head_dim) else {
                        continue;
                    };
                    let variant = Variant {
                        strategy,
                        head_dim,
                        tile,
                    };
                    let fits = variant.check("test", class.shared);
                    assert!(fits.is_ok(), "{}: {}", class.capability, fits.unwrap_err());
                    fused += 1;
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
