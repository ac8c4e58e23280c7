//! Tile and time of the library's kernel by class of device and head dimension:
//! `tiles.json`, which `tune` writes.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
#[cfg(doc)]
use stage1_reference::Sizes;

static TABLE: LazyLock<Vec<Class>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../tiles.json"))
        .expect("a test reads the committed table")
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

/// A class of devices, and its tiles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// The least compute capability, times 10. Turing is 75, the A100 80, Ampere and Ada cards for
    /// graphics are 86 and 89, Hopper is 90.
    pub capability: u32,
    /// Shared memory that a block can have on all of them, in bytes.
    pub shared: usize,
    /// By which measure the tiles were chosen.
    pub chosen: String,
    /// The tiles, ascending by head dimension; the last is for [`Sizes::MAX_HEAD_DIM`].
    pub tiles: Vec<Entry>,
}

/// The tile for the head dimensions up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The largest head dimension that this entry is for.
    pub up_to: usize,
    /// The tile.
    #[serde(flatten)]
    pub tile: Tile,
    /// Milliseconds at head dimension `up_to`, for the problem in [`Class::chosen`].
    pub ms: f64,
}

impl Class {
    /// The entry for a head dimension.
    pub fn entry(&self, head_dim: usize) -> &Entry {
        let entry = self.tiles.iter().find(|entry| head_dim <= entry.up_to);
        entry
            .or(self.tiles.last())
            .expect("a test reads the committed table")
    }
}

/// The committed table, by ascending capability.
pub fn table() -> &'static [Class] {
    &TABLE
}

/// The class of a device of compute capability `major.minor`, whose blocks can have `shared` bytes
/// of shared memory: the greatest that is not above it in either. (A GeForce of compute
/// capability 12.0 has less shared memory than Hopper.)
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
    use crate::library::PADDED;

    #[test]
    fn every_tile_fits_its_class_and_padded_ones_all_classes() {
        assert!(table().is_sorted_by_key(|class| class.capability));
        for class in table() {
            let largest = class.tiles.last().map(|entry| entry.up_to);
            assert_eq!(largest, Some(Sizes::MAX_HEAD_DIM));
            for head_dim in 1..=Sizes::MAX_HEAD_DIM {
                let exact = Variant::library(head_dim, class.entry(head_dim).tile);
                for variant in [exact, Variant::padded(None, head_dim)] {
                    let fits = variant.check("test", class.shared);
                    assert!(fits.is_ok(), "{}: {}", class.capability, fits.unwrap_err());
                }
                assert!(PADDED.contains(&Variant::padded(None, head_dim).head_dim));
            }
        }
    }

    #[test]
    fn a_device_belongs_to_the_greatest_class_that_is_not_above_it() {
        let capability = |major, minor, kib: usize| {
            class((major, minor), kib << 10).map(|class| class.capability)
        };
        assert_eq!(capability(7, 0, 96), None);
        assert_eq!(capability(7, 5, 64), Some(75));
        assert_eq!(capability(8, 0, 163), Some(80));
        assert_eq!(capability(8, 9, 99), Some(86));
        assert_eq!(capability(9, 0, 227), Some(90));
        assert_eq!(capability(10, 0, 227), Some(90));
        assert_eq!(capability(12, 0, 99), Some(86));
        assert_eq!(capability(12, 0, 48), None);
    }
}
